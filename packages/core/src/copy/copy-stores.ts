import { isDeepStrictEqual } from 'node:util'
import { IngestError } from '../error.ts'
import { aheadMsMax } from '../events/event-store.ts'
import type { BuildEntry } from '../maps/map-store.ts'
import { mapProjects } from '../projects/map-projects.ts'
import type { Store } from '../store.ts'
import {
  appendMissing,
  type CopyStores,
  compareEvents,
  type EventCopy,
  firstMissing,
  verifyEvents,
} from './copy-events.ts'
import { copyMaps, verifyMaps } from './copy-maps.ts'
import { eachBuild } from './each-build.ts'

/** A project that was copied and verified. */
export interface CopiedProject {
  projectId: string
  events: number
  /** Events that this run stored; the target had the others. */
  copied: number
  /** SHA-256 over the lines of `ingest export` without cursors. */
  digest: string
  /** The frozen builds. */
  builds: number
  maps: number
  mapBytes: number
  keys: number
}

export interface CopyOptions {
  /** Default: all projects of the source. */
  projectIds?: readonly string[]
  /** Whether the target has the events of all projects in one order of receipt, as an LMDB store does. */
  hasOneOrder: boolean
  /** Later times of receipt, and of freezes, are copied as this one, in milliseconds since 1970. Default: none are. */
  latestAt?: number
  onProgress?: (progress: CopyProgress) => void
  /** Aborts the copy between two steps. */
  signal?: AbortSignal
}

/** The progress of one step, in events or in bytes of maps. */
export interface CopyProgress {
  step: 'comparing' | 'copying' | 'verifying' | 'maps'
  done: number
  total: number
}

/**
 * Copies projects from one open store to another: their events with bytes, order and times, the freezes that follow from them,
 * maps, and keys; then compares both. A run that was interrupted is continued by another one. Keys are written last, so
 * that no server accepts events for a project that is not complete.
 *
 * @throws {IngestError} `precondition-failed`, with nothing of these projects written if the events in the target are not
 *   the first ones of the source; `digest-mismatch`; `source-changed`
 */
export async function copyStores(from: Store, target: Store, options: CopyOptions): Promise<CopiedProject[]> {
  const { hasOneOrder, latestAt, onProgress = () => {}, signal = new AbortController().signal } = options
  const source = latestAt === undefined ? from : withTimesUpTo(from, latestAt)
  const { projectIds = await source.projects() } = options
  const stores = { source, target, signal }
  const startStep = (step: CopyProgress['step'], begun: number, total: number) =>
    createCounter(begun, (done) => onProgress({ step, done, total }))

  const found = await sumEvents(stores.target, projectIds)
  const onCompared = startStep('comparing', 0, found)
  const copies = await mapProjects(projectIds, async (projectId) => {
    await checkKeys(stores, projectId)
    return compareEvents(stores, projectId, onCompared)
  })
  await checkTimes(stores, copies, hasOneOrder)

  const total = copies.reduce((sum, { end }) => sum + end, 0)
  const onCopied = startStep('copying', found, total)
  await mapProjects(hasOneOrder ? [copies] : copies.map((copy) => [copy]), (together) =>
    appendMissing(stores, together, hasOneOrder, onCopied),
  )

  const onVerified = startStep('verifying', found, total)
  return mapProjects(copies, async (copy) => {
    const digest = await verifyEvents(stores, copy, onVerified)
    return { ...(await copyRest(stores, copy, onProgress)), digest }
  })
}

/** Reads of a store in which no event was received, and no build frozen, after a time. */
function withTimesUpTo(store: Store, latestAt: number): Store {
  return {
    ...store,
    async *read(projectId, options) {
      for await (const event of store.read(projectId, options)) {
        yield event.receivedAt > latestAt ? { ...event, receivedAt: latestAt } : event
      }
    },
    async totals(projectId) {
      const { firstAt, lastAt, ...totals } = await store.totals(projectId)
      return {
        ...totals,
        ...(firstAt !== undefined && { firstAt: Math.min(firstAt, latestAt) }),
        ...(lastAt !== undefined && { lastAt: Math.min(lastAt, latestAt) }),
      }
    },
    async builds(projectId, selection) {
      const { builds } = await store.builds(projectId, selection)
      const atLatest = (build: BuildEntry) =>
        build.frozenAt === undefined ? build : { ...build, frozenAt: Math.min(build.frozenAt, latestAt) }
      return { builds: builds.map(atLatest) }
    },
  }
}

function createCounter(begun: number, onCount: (done: number) => void): (count: number) => void {
  let done = begun
  return (count) => {
    done += count
    onCount(done)
  }
}

async function sumEvents(store: Store, projectIds: readonly string[]): Promise<number> {
  let sum = 0
  for (const projectId of projectIds) sum += (await store.totals(projectId)).events
  return sum
}

/** Copies and verifies what a project has besides events. */
async function copyRest(
  stores: CopyStores,
  { projectId, begin, end }: EventCopy,
  onProgress: (progress: CopyProgress) => void,
): Promise<Omit<CopiedProject, 'digest'>> {
  const builds = await compareBuilds(stores, projectId, end)
  const { maps, bytes } = await copyMaps(stores, projectId)
  const onVerified = createCounter(0, (done) => onProgress({ step: 'maps', done, total: bytes }))
  await verifyMaps(stores, projectId, onVerified)
  const keys = await copyKeys(stores, projectId)
  return { projectId, events: end, copied: end - begin, builds, maps, mapBytes: bytes, keys }
}

/**
 * Checks that the target will keep the times of the source: no store takes times that are ahead of its clock by more than
 * {@link aheadMsMax}, and one with one order none before those that it has.
 *
 * @throws {IngestError} `precondition-failed`
 */
async function checkTimes(stores: CopyStores, copies: readonly EventCopy[], hasOneOrder: boolean): Promise<void> {
  const { source, target } = stores
  const newest = await newestOf(
    source,
    copies.map(({ projectId }) => projectId),
  )
  if (newest > Date.now() + aheadMsMax) throw isInFuture(newest)
  if (!hasOneOrder) return
  const newestInTarget = await newestOf(target, await target.projects())
  for (const copy of copies) {
    const first = await firstMissing(stores, copy)
    if (first && first.receivedAt < newestInTarget) throw isTooOld(copy.projectId, first.receivedAt)
  }
}

function isInFuture(newest: number): Error {
  return new IngestError(
    'precondition-failed',
    `The source has events that were received at ${new Date(newest).toISOString()}, which is in the future, and no store takes such times. Check the clock; if it is right, copy these events with an earlier time (--latest).`,
  )
}

function isTooOld(projectId: string, receivedAt: number): Error {
  return new IngestError(
    'precondition-failed',
    `The project ${projectId} has events of ${new Date(receivedAt).toISOString()}, and the target has later ones: a directory keeps the events of all projects in the order of their receipt, so copy all projects at once to an empty directory.`,
  )
}

/** When the newest event of these projects was received, in milliseconds since 1970. */
async function newestOf(store: Store, projectIds: readonly string[]): Promise<number> {
  let newest = Number.NEGATIVE_INFINITY
  for (const projectId of projectIds) newest = Math.max(newest, (await store.totals(projectId)).lastAt ?? newest)
  return newest
}

/**
 * Compares the frozen builds of both stores, and returns how many there are. A build that froze in the source after the
 * copied events is left to another run.
 *
 * @throws {IngestError} `digest-mismatch`
 */
async function compareBuilds({ source, target }: CopyStores, projectId: string, end: number): Promise<number> {
  const frozen = new Map<string, number>()
  for await (const { buildId, frozenAt } of eachBuild(source, projectId)) {
    if (frozenAt !== undefined) frozen.set(buildId, frozenAt)
  }
  const differs = (buildId: string, what: string) =>
    new IngestError('digest-mismatch', `The build "${buildId}" of the project ${projectId} ${what}.`)
  let count = 0
  for await (const { buildId, frozenAt } of eachBuild(target, projectId)) {
    if (frozenAt === undefined) continue
    count++
    if (frozen.get(buildId) !== frozenAt) throw differs(buildId, 'differs')
    frozen.delete(buildId)
  }
  const [left] = frozen.keys()
  if (left === undefined || (await source.totals(projectId)).events > end) return count
  throw differs(left, 'is not frozen in the target')
}

/** @throws {IngestError} `precondition-failed` for a key that was created in the target: copying would lose it */
async function checkKeys({ source, target }: CopyStores, projectId: string): Promise<void> {
  const [project, found] = await Promise.all([source.entry('project', projectId), target.entry('project', projectId)])
  const own = found?.keys.find(({ keyId }) => !project?.keys.some((each) => each.keyId === keyId))
  if (!own) return
  const message = `The project ${projectId} has the key ${own.keyId} in the target, which the source does not have.`
  throw new IngestError('precondition-failed', message)
}

/** Returns how many keys there are. */
async function copyKeys({ source, target }: CopyStores, projectId: string): Promise<number> {
  const project = await source.entry('project', projectId)
  if (!project) return 0
  await target.updateEntry('project', projectId, (found) => ({
    ...(!isDeepStrictEqual(found, project) && { entry: project }),
    result: undefined,
  }))
  return project.keys.length
}
