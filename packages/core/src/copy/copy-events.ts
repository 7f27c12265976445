import { createHash, type Hash } from 'node:crypto'
import { IngestError } from '../error.ts'
import type { IngestEvent } from '../events/event.ts'
import type { AppendBatch, StoredEvent } from '../events/event-store.ts'
import type { Cursor } from '../json/cursor.ts'
import { parseJson } from '../json/parse-json.ts'
import { settleAll } from '../projects/map-projects.ts'
import type { Store } from '../store.ts'
import { eachBuild } from './each-build.ts'
import { groupEvents, toBatch } from './event-batches.ts'

/** The stores of a copy. */
export interface CopyStores {
  source: Store
  target: Store
  /** Aborts the copy between two steps. */
  signal: AbortSignal
}

/** The events of one project, between the steps of a copy. */
export interface EventCopy {
  projectId: string
  /** How many events the target had before. */
  begin: number
  /** How many events the source had: those that it stores later are left to another run. */
  end: number
  /** The last event that both have, in each of them. */
  sourceAfter?: Cursor
  targetAfter?: Cursor
  /** Over the events that were read from each. */
  sourceHash: Hash
  targetHash: Hash
}

/** Called with the number of events that a step has dealt with. */
export type OnEvents = (count: number) => void

/**
 * Compares the events of the target with the first ones of the source.
 *
 * @throws {IngestError} `precondition-failed` if the target has any others
 */
export async function compareEvents(
  { source, target, signal }: CopyStores,
  projectId: string,
  onEvents: OnEvents,
): Promise<EventCopy> {
  const [{ events: end }, { events: begin }] = await Promise.all([source.totals(projectId), target.totals(projectId)])
  const differs = (event: string) => {
    const message = `The project ${projectId} has other events in the target: ${event} differs from the source's.`
    return new IngestError('precondition-failed', message)
  }
  if (begin > end) throw differs(`number ${end + 1}`)
  const sourceHash = createHash('sha256')
  const copy: EventCopy = { projectId, begin, end, sourceHash, targetHash: sourceHash }
  if (begin > 0) {
    const copied = target.read(projectId, { limit: begin, erased: true })[Symbol.asyncIterator]()
    let count = 0
    for await (const event of source.read(projectId, { limit: begin, erased: true })) {
      signal.throwIfAborted()
      const { value: own } = await copied.next()
      count++
      if (!own || !isSameEvent(event, own)) throw differs(`number ${count}`)
      if (event.erased !== undefined && own.erased === undefined) await target.erase(projectId, [event.erased])
      hashEvent(sourceHash, event)
      copy.sourceAfter = event.cursor
      copy.targetAfter = own.cursor
      onEvents(1)
    }
  }
  return { ...copy, targetHash: sourceHash.copy() }
}

/** An event that was erased in the source since an earlier copy is the same, and is erased in the target. */
function isSameEvent(event: StoredEvent, own: StoredEvent): boolean {
  if (event.receivedAt !== own.receivedAt) return false
  if (event.erased === undefined) return own.erased === undefined && Buffer.compare(event.bytes, own.bytes) === 0
  return event.erased === (own.erased ?? (parseJson(own.bytes) as IngestEvent).eventId)
}

/** A line of `ingest export` without its cursor, but with the exact bytes of the event. */
function hashEvent(hash: Hash, { receivedAt, bytes, erased }: StoredEvent): void {
  if (erased !== undefined) {
    hash.update(`${JSON.stringify({ receivedAt, erased })}\n`)
    return
  }
  hash.update(`{"receivedAt":${receivedAt},"event":`)
  hash.update(bytes)
  hash.update('}\n')
}

/** The events of the source that the target lacks. */
async function* readMissing({ source }: Pick<CopyStores, 'source'>, copy: EventCopy): AsyncGenerator<StoredEvent> {
  const { projectId, begin, end, sourceAfter } = copy
  if (begin < end) yield* source.read(projectId, { limit: end - begin, erased: true, after: sourceAfter })
}

/** The first event of the source that the target lacks. */
export async function firstMissing(stores: CopyStores, copy: EventCopy): Promise<StoredEvent | undefined> {
  for await (const event of readMissing(stores, copy)) return event
  return undefined
}

/** What is left of a project, of which `group` is next. */
interface Head {
  copy: EventCopy
  groups: AsyncIterator<StoredEvent[]>
  group: StoredEvent[]
}

/** Groups of events of several projects in the order of their receipt. */
async function* mergeByTime(stores: Pick<CopyStores, 'source'>, copies: readonly EventCopy[]) {
  // a binary heap: with many projects, a search of all heads for each group would take most of the time
  const heads: Head[] = []
  for (const copy of copies) {
    const groups = groupEvents(readMissing(stores, copy))
    const { value: group } = await groups.next()
    if (group) heads.push({ copy, groups, group })
  }
  for (let at = heads.length >> 1; at >= 0; at--) moveDown(heads, at)
  for (let head = heads[0]; head; head = heads[0]) {
    for (const event of head.group) hashEvent(head.copy.sourceHash, event)
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

/** Moves a head of a heap below those that come before it. */
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

/** A group of events that is to be appended. */
interface Missing {
  copy: EventCopy
  group: StoredEvent[]
}

/** What is appended together: so much fits into one commit of a directory. */
const togetherGroupsMax = 4096
const togetherBytesMax = 2 ** 20

/** Groups that may be appended at once: a store with one order appends in the order of the calls. */
async function* collectGroups(groups: AsyncIterable<Missing>, hasOneOrder: boolean): AsyncGenerator<Missing[]> {
  let together: Missing[] = []
  let bytes = 0
  for await (const missing of groups) {
    const isFull = together.length === togetherGroupsMax || bytes > togetherBytesMax
    if (together.length > 0 && (!hasOneOrder || isFull)) {
      yield together
      together = []
      bytes = 0
    }
    together.push(missing)
    bytes += missing.group.reduce((sum, event) => sum + event.bytes.length, 0)
  }
  if (together.length > 0) yield together
}

/**
 * Appends what the target lacks, in the order of its receipt; more is read meanwhile. A target with one order appends
 * many batches in one commit, others one batch after another, which alone keeps their order.
 *
 * @throws {IngestError} `precondition-failed` for an event that the target has meanwhile
 */
export async function appendMissing(
  stores: CopyStores,
  copies: readonly EventCopy[],
  hasOneOrder: boolean,
  onEvents: OnEvents,
): Promise<void> {
  const { source, target, signal } = stores
  const freezes = new Map<string, Map<number, string[]>>()
  let inFlight: Promise<void> = Promise.resolve()

  async function toAppend({ copy: { projectId }, group }: Missing): Promise<[string, AppendBatch]> {
    const builds = group.some(({ erased }) => erased !== undefined)
      ? await frozenAt(projectId, receivedAtOf(group))
      : []
    return [projectId, toBatch(group, target.hashKey, builds)]
  }

  /** Called in one turn for all batches of a commit. */
  async function append([projectId, batch]: [string, AppendBatch]): Promise<void> {
    const { stored } = await target.append(projectId, batch)
    if (!stored.every(Boolean)) throw writtenMeanwhile(projectId)
    onEvents(stored.length)
  }

  async function appendAll(together: readonly Missing[]): Promise<void> {
    const batches: [string, AppendBatch][] = []
    for (const missing of together) batches.push(await toAppend(missing))
    await settleAll(batches.map(append))
  }

  /** The builds that froze at this time: the event that froze them may be erased. */
  async function frozenAt(projectId: string, time: number): Promise<string[]> {
    const builds = freezes.get(projectId) ?? (await listFreezes(source, projectId))
    freezes.set(projectId, builds)
    return builds.get(time) ?? []
  }

  for await (const together of collectGroups(mergeByTime(stores, copies), hasOneOrder)) {
    await inFlight
    signal.throwIfAborted()
    inFlight = appendAll(together)
    // thrown by the next await
    inFlight.catch(() => {})
  }
  await inFlight
}

/** The builds that froze at each time. */
async function listFreezes(source: Store, projectId: string): Promise<Map<number, string[]>> {
  const builds = new Map<number, string[]>()
  for await (const { buildId, frozenAt } of eachBuild(source, projectId)) {
    if (frozenAt !== undefined) builds.set(frozenAt, [...(builds.get(frozenAt) ?? []), buildId])
  }
  return builds
}

function writtenMeanwhile(projectId: string): Error {
  const message = `Another process stores events of the project ${projectId} in the target: stop it.`
  return new IngestError('precondition-failed', message)
}

/**
 * Reads what was appended back. Returns the digest of all events of the project, which is that of both stores.
 *
 * @throws {IngestError} `digest-mismatch`
 */
export async function verifyEvents(
  { target, signal }: CopyStores,
  copy: EventCopy,
  onEvents: OnEvents,
): Promise<string> {
  const { projectId, begin, end, targetAfter, sourceHash, targetHash } = copy
  const { events } = await target.totals(projectId)
  if (events > end) throw writtenMeanwhile(projectId)
  let count = begin
  if (begin < end) {
    for await (const event of target.read(projectId, { erased: true, after: targetAfter })) {
      signal.throwIfAborted()
      hashEvent(targetHash, event)
      count++
      onEvents(1)
    }
  }
  const digest = `sha256:${sourceHash.digest('hex')}`
  if (events !== end || count !== end || digest !== `sha256:${targetHash.digest('hex')}`) {
    const message = `The events of the project ${projectId} differ: ${count} of ${end} events are in the target.`
    throw new IngestError('digest-mismatch', message)
  }
  return digest
}
