import { isDeepStrictEqual } from 'node:util'
import { IngestError } from '../error.ts'
import { mapProjects } from '../projects/map-projects.ts'
import type { Store } from '../store.ts'
import { aheadMsMax } from '../store-types.ts'
import { type CopyStores, copyEvents, type EventCopy } from './copy-events.ts'
import { copyMaps } from './copy-maps.ts'

/** A project that was copied. */
export interface CopiedProject {
  projectId: string
  /** Events of the source when the run began. */
  events: number
  /** Events that this run stored; the target had the others. */
  copied: number
  /** Complete maps of the source. */
  maps: number
  keys: number
}

export interface CopyOptions {
  /** Default: all projects of the source. */
  projectIds?: readonly string[]
  /** Whether the target has the events of all projects in one order of receipt, as an LMDB store does. */
  hasOneOrder: boolean
  /**
   * Times of receipt and of freezes later than this are copied as this time, in milliseconds since 1970. Default: no
   * limit.
   */
  latestAt?: number
  onProgress?: (progress: CopyProgress) => void
  /** Aborts the copy between two steps. */
  signal?: AbortSignal
}

/** The progress of a copy, in events. */
export interface CopyProgress {
  done: number
  total: number
}

/**
 * Copies projects from one open store to another: their events, erased ones too, with bytes, order and times, the
 * freezes that follow from them, complete maps, and keys. Data that the target already has is not copied again, so
 * another run continues an interrupted one, or copies what was added to the source. Keys are written last, so that no
 * server accepts events for an incomplete project.
 *
 * Not copied: unfinished uploads of maps, positions of consumers, activity. Events of the target are compared by id and
 * bytes, not by order and time, and the target may have events that the source lacks: compare exports of both to prove
 * that they are equal. A store with one order may give events a time of receipt up to a minute later if the source
 * stored them during an earlier run.
 *
 * @throws {IngestError} `precondition-failed` for an id under which the target has another event, a newer map, or a key
 *   that was created in the target, or for times that the target would change; `source-changed`
 */
export async function copyStores(source: Store, target: Store, options: CopyOptions): Promise<CopiedProject[]> {
  const { hasOneOrder, latestAt = Number.POSITIVE_INFINITY, onProgress = () => {} } = options
  const { signal = new AbortController().signal, projectIds = await source.projects() } = options
  const stores = { source, target, signal }
  const newestInTarget = hasOneOrder ? await newestOf(target, await target.projects()) : undefined
  const copies = await mapProjects(projectIds, async (projectId): Promise<EventCopy> => {
    await checkKeys(stores, projectId)
    const { events, lastAt } = await source.totals(projectId)
    if (lastAt !== undefined) checkTime(Math.min(lastAt, latestAt))
    return { projectId, events, copied: 0, newestAt: newestInTarget ?? (await newestOf(target, [projectId])) }
  })

  let done = 0
  const total = copies.reduce((sum, { events }) => sum + events, 0)
  const onEvents = (count: number) => {
    done += count
    onProgress({ done, total })
  }
  await mapProjects(hasOneOrder ? [copies] : copies.map((copy) => [copy]), (together) =>
    copyEvents(stores, together, { hasOneOrder, latestAt, onEvents }),
  )
  return mapProjects(copies, async ({ projectId, events, copied }) => {
    const maps = await copyMaps(stores, projectId)
    return { projectId, events, copied, maps, keys: await copyKeys(stores, projectId) }
  })
}

/** When the newest event of these projects was received, in milliseconds since 1970; -Infinity without events. */
async function newestOf(store: Store, projectIds: readonly string[]): Promise<number> {
  let newest = Number.NEGATIVE_INFINITY
  for (const projectId of projectIds) newest = Math.max(newest, (await store.totals(projectId)).lastAt ?? newest)
  return newest
}

/** Checks the time of the newest event. @throws {IngestError} `precondition-failed` for a time that no store accepts */
function checkTime(newest: number): void {
  if (newest <= Date.now() + aheadMsMax) return
  throw new IngestError(
    'precondition-failed',
    `The source has events that were received at ${new Date(newest).toISOString()}, which is in the future, and no store takes such times. Check the clock; if it is right, copy these events with an earlier time (--latest).`,
  )
}

/** @throws {IngestError} `precondition-failed` if the target has a key of its own, which copying would lose */
async function checkKeys({ source, target }: CopyStores, projectId: string): Promise<void> {
  const [project, found] = await Promise.all([source.entry('project', projectId), target.entry('project', projectId)])
  const own = found?.keys.find(({ keyId }) => !project?.keys.some((each) => each.keyId === keyId))
  if (!own) return
  const message = `The project ${projectId} has the key ${own.keyId} in the target, which the source does not have: copy to another store.`
  throw new IngestError('precondition-failed', message)
}

/** Returns the number of keys. */
async function copyKeys({ source, target }: CopyStores, projectId: string): Promise<number> {
  const project = await source.entry('project', projectId)
  if (!project) return 0
  await target.updateEntry('project', projectId, (found) => ({
    ...(!isDeepStrictEqual(found, project) && { entry: project }),
    result: undefined,
  }))
  return project.keys.length
}
