import { IngestError } from '../error.ts'
import { settleAll } from '../projects/map-projects.ts'
import type { MapStore, Store } from '../store.ts'
import type { AppendBatch, BuildEntry, BuildPosition, FoundBuilds, StoredEvent } from '../store-types.ts'
import { decodeEvents } from '../submit/batch-events.ts'
import { groupEvents, toBatch } from './event-batches.ts'

/** The stores of a copy. */
export interface CopyStores {
  source: Store
  target: Store
  /** Aborts the copy between two steps. */
  signal: AbortSignal
}

/** The copy of the events of one project. */
export interface EventCopy {
  projectId: string
  /** The number of events of the source when the copy began. Later ones are left to another run. */
  events: number
  /** The number of events that the target has stored in this run. */
  copied: number
  /** When the newest event was received that precedes the copied events in the order of the target. */
  newestAt: number
}

export interface EventCopyOptions {
  hasOneOrder: boolean
  /** Times of receipt later than this are copied as this time. */
  latestAt: number
  /** Called with the number of events that the target has confirmed. */
  onEvents: (count: number) => void
}

/** How much later a target may set the time of an event because it has stored later ones, in milliseconds. */
const laterMsMax = 60_000

/**
 * Appends events of the source in the order of their receipt, while it reads the next ones. Events that the target
 * already has are duplicates. A target with one order appends many batches in one commit; other targets append one batch
 * after another, because only this keeps their order.
 *
 * @throws {IngestError} `precondition-failed` for an id under which the target has another event, and for events that
 *   the target would store with a much later time
 */
export async function copyEvents(
  stores: CopyStores,
  copies: readonly EventCopy[],
  { hasOneOrder, latestAt, onEvents }: EventCopyOptions,
): Promise<void> {
  const { source, target, signal } = stores
  const freezes = new Map<string, Map<number, string[]>>()
  let inFlight: Promise<void> = Promise.resolve()

  async function prepare({ copy, group }: Group): Promise<AppendBatch> {
    const { projectId, newestAt } = copy
    const hasErased = group.some(({ erased }) => erased !== undefined)
    const builds = hasErased ? await frozenAt(projectId, receivedAtOf(group)) : []
    const batch = toBatch(group, target.hashKey, builds)
    if (batch.receivedAt < newestAt - laterMsMax) {
      const ids = decodeEvents(batch.body, batch.events).map(({ eventId }) => eventId)
      const known = await target.known(projectId, ids)
      if (!known.every(Boolean)) throw isTooOld(projectId, batch.receivedAt)
    }
    return batch
  }

  async function append({ copy, group }: Group, batch: AppendBatch): Promise<void> {
    const { projectId } = copy
    const { stored, conflicts } = await target.append(projectId, batch)
    if (conflicts > 0) throw hasOtherEvent(projectId)
    // the target may still have these as events: they were erased since an earlier run
    const erased = group.flatMap(({ erased }, i) => (erased !== undefined && !stored[i] ? [erased] : []))
    if (erased.length > 0) await target.erase(projectId, erased)
    copy.copied += stored.filter(Boolean).length
    onEvents(stored.length)
  }

  async function appendAll(together: readonly Group[]): Promise<void> {
    const batches: AppendBatch[] = []
    for (const group of together) batches.push(await prepare(group))
    // called in one turn, so that a store with one order stores the batches in the order of these calls
    await settleAll(together.map((group, i) => append(group, batches[i] as AppendBatch)))
  }

  /** The builds that froze at this time, as the event that froze them may be erased. */
  async function frozenAt(projectId: string, time: number): Promise<string[]> {
    const builds = freezes.get(projectId) ?? (await listFreezes(source, projectId, latestAt))
    freezes.set(projectId, builds)
    return builds.get(time) ?? []
  }

  for await (const together of collectGroups(mergeByTime(source, copies, latestAt), hasOneOrder)) {
    await inFlight
    signal.throwIfAborted()
    inFlight = appendAll(together)
    // the error is thrown by the next await
    inFlight.catch(() => {})
  }
  await inFlight
}

/** The builds that froze at each time. */
async function listFreezes(source: Store, projectId: string, latestAt: number): Promise<Map<number, string[]>> {
  const builds = new Map<number, string[]>()
  for await (const { buildId, frozenAt } of eachBuild(source, projectId)) {
    if (frozenAt === undefined) continue
    const time = Math.min(frozenAt, latestAt)
    builds.set(time, [...(builds.get(time) ?? []), buildId])
  }
  return builds
}

/** Events of a project that are appended as one batch. */
interface Group {
  copy: EventCopy
  group: StoredEvent[]
}

/** The remaining events of a project; `group` is next. */
interface Head extends Group {
  groups: AsyncIterator<StoredEvent[]>
}

/** The events of the source; those received after `latestAt` get that time. */
async function* readSource(source: Store, { projectId, events }: EventCopy, latestAt: number) {
  if (events === 0) return
  for await (const page of source.read(projectId, { limit: events, erased: true })) {
    yield page.map((event) => (event.receivedAt > latestAt ? { ...event, receivedAt: latestAt } : event))
  }
}

/** Groups of events of several projects in the order of their receipt. */
async function* mergeByTime(source: Store, copies: readonly EventCopy[], latestAt: number): AsyncGenerator<Group> {
  // a binary heap: with many projects, a search of all heads for each group would take most of the time
  const heads: Head[] = []
  for (const copy of copies) {
    const groups = groupEvents(readSource(source, copy, latestAt))
    const { value: group } = await groups.next()
    if (group) heads.push({ copy, groups, group })
  }
  for (let at = heads.length >> 1; at >= 0; at--) moveDown(heads, at)
  for (let head = heads[0]; head; head = heads[0]) {
    yield { copy: head.copy, group: head.group }
    const { value: group } = await head.groups.next()
    if (group) head.group = group
    else {
      const last = heads.pop() as Head
      if (last !== head) heads[0] = last
    }
    moveDown(heads, 0)
  }
}

/** Moves a head down the heap, below those that come before it. */
function moveDown(heads: Head[], from: number): void {
  const timeAt = (at: number) => receivedAtOf((heads[at] as Head).group)
  for (let at = from; ; ) {
    let first = at
    for (const child of [2 * at + 1, 2 * at + 2]) {
      if (child < heads.length && timeAt(child) < timeAt(first)) first = child
    }
    if (first === at) return
    const moved = heads[at] as Head
    heads[at] = heads[first] as Head
    heads[first] = moved
    at = first
  }
}

function receivedAtOf(group: readonly StoredEvent[]): number {
  return (group[0] as StoredEvent).receivedAt
}

/** Maximum number of groups that are appended together: as many as fit into one commit of an LMDB store. */
const togetherGroupsMax = 4096
const togetherBytesMax = 2 ** 20

/** Groups that may be appended at once. */
async function* collectGroups(groups: AsyncIterable<Group>, hasOneOrder: boolean): AsyncGenerator<Group[]> {
  let together: Group[] = []
  let bytes = 0
  for await (const each of groups) {
    const isFull = together.length === togetherGroupsMax || bytes > togetherBytesMax
    if (together.length > 0 && (!hasOneOrder || isFull)) {
      yield together
      together = []
      bytes = 0
    }
    together.push(each)
    bytes += each.group.reduce((sum, event) => sum + event.bytes.length, 0)
  }
  if (together.length > 0) yield together
}

function hasOtherEvent(projectId: string): Error {
  const message = `The target has another event of the project ${projectId} under an id of the source: copy to another store.`
  return new IngestError('precondition-failed', message)
}

function isTooOld(projectId: string, receivedAt: number): Error {
  const time = new Date(receivedAt).toISOString()
  const message = `The project ${projectId} has events of ${time}, and the target has later ones, whose time they would get: copy to an empty store, all projects of a directory at once.`
  return new IngestError('precondition-failed', message)
}

const pageBuilds = 1_000

/** All builds of a project. */
async function* eachBuild(store: Pick<MapStore, 'builds'>, projectId: string): AsyncGenerator<BuildEntry> {
  let after: BuildPosition | undefined
  do {
    const { builds, last }: FoundBuilds = await store.builds(projectId, { after, limit: pageBuilds })
    yield* builds
    after = last ?? (builds.length === pageBuilds ? builds.at(-1) : undefined)
  } while (after)
}
