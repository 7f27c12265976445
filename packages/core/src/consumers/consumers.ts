import { IngestError } from '../error.ts'
import type { Cursor } from '../json/cursor.ts'
import { mapProjects } from '../projects/map-projects.ts'
import { nextReadStep } from '../read-steps.ts'
import type { EntryStore, EventStore } from '../store.ts'
import type { ConsumerRecord, EntryDecision } from '../store-types.ts'

/** Events that a consumer has not read. Events erased by retention are not counted. */
export interface ConsumerLag {
  /** Number of events; a lower bound if `exact` is false. Events erased by `eraseEvents` are counted. */
  events: number
  /** False beyond 1,000 batches, in a list 10,000 of all consumers: each further batch is counted as one event. */
  exact: boolean
  /** Age of the oldest unread event, in seconds; 0 if all events are read. Always exact. */
  seconds: number
}

/** A named position in the events of a project. */
export interface Consumer extends ConsumerRecord {
  /** Null if the cursor is refused with `invalid-cursor`, as after a backup was restored. */
  lag: ConsumerLag | null
}

/** Moves or creates a consumer. */
export interface PutConsumerOptions {
  /** The last event that the consumer has read. */
  cursor: Cursor
  /** The cursor that it replaces; null to create the consumer. */
  replaces: Cursor | null
}

/** The result of `putConsumer`. */
export interface PutConsumerResult extends ConsumerRecord {
  /** `unchanged`: the consumer already has this cursor. `replaces` is not checked then, so that a retry succeeds. */
  outcome: 'created' | 'updated' | 'unchanged'
}

/** Named positions of readers in the store, for readers that cannot store them together with their results. */
export interface Consumers {
  /** All consumers of the project, at most 100, by name. With more than 10, fewer than 1,000 batches count for each. */
  listConsumers(): Promise<readonly Consumer[]>
  /**
   * The consumer of this name; undefined if it does not exist.
   *
   * @throws {IngestError} `invalid-argument` for a name that is not 1 to 64 of `A-Z a-z 0-9 . _ -`, the first a letter
   *   or digit; as the operations below do
   */
  getConsumer(name: string): Promise<Consumer | undefined>
  /**
   * Moves a consumer, forwards or backwards, if its cursor is still `replaces`; creates it if `replaces` is null. Of
   * concurrent calls in any process that replace the same cursor, one succeeds.
   *
   * @throws {IngestError} `consumer-conflict` with the current `cursor` if that is not `replaces`; `invalid-cursor`;
   *   `consumer-quota-exceeded`
   */
  putConsumer(name: string, options: PutConsumerOptions): Promise<PutConsumerResult>
  /**
   * Deletes a consumer and resolves with its last position.
   *
   * @throws {IngestError} `consumer-not-found`
   */
  deleteConsumer(name: string): Promise<ConsumerRecord>
}

/** Maximum number of consumers of a project; they are written together. */
export const consumersMax = 100
/** Maximum number of batches counted for the lag of one consumer. */
export const lagBatchesMax = 1_000
/** Maximum number of batches counted for all consumers of a project together. */
const listBatchesMax = 10_000

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

type Store = EntryStore & Pick<EventStore, 'count'>

/** Consumers by project; `now` returns milliseconds since 1970. */
export function createConsumers(store: Store, now: () => number): (projectId: string) => Consumers {
  return (projectId) => {
    const withLag = async (record: ConsumerRecord, batchesMax: number) => ({
      ...record,
      lag: await readLag(store, projectId, record, { now: now(), batchesMax }),
    })
    return {
      async listConsumers() {
        const records = (await store.entry('consumers', projectId)) ?? []
        const batchesMax = shareOf(listBatchesMax, records)
        const consumers: Consumer[] = []
        for (const record of records) consumers.push(await withLag(record, batchesMax))
        return consumers
      },

      async getConsumer(name) {
        checkConsumerName(name)
        const record = find((await store.entry('consumers', projectId)) ?? [], name)
        return record && withLag(record, lagBatchesMax)
      },

      async putConsumer(name, options) {
        checkConsumerName(name)
        checkPutConsumer(options)
        const { cursor, replaces } = options
        await store.count(projectId, { after: cursor }, 0)
        const record = { name, cursor, updatedAt: now() }
        return store.updateEntry('consumers', projectId, (consumers = []) => decidePut(consumers, record, replaces))
      },

      async deleteConsumer(name) {
        checkConsumerName(name)
        return store.updateEntry('consumers', projectId, (consumers = []) => {
          const found = find(consumers, name)
          if (!found) throw new IngestError('consumer-not-found', `There is no consumer ${name}.`)
          const others = consumers.filter((each) => each !== found)
          return { entry: others.length > 0 ? others : null, result: found }
        })
      },
    }
  }
}

function decidePut(
  consumers: readonly ConsumerRecord[],
  record: ConsumerRecord,
  replaces: Cursor | null,
): EntryDecision<'consumers', PutConsumerResult> {
  const { name, cursor } = record
  const found = find(consumers, name)
  if (found?.cursor === cursor) return { result: { ...found, outcome: 'unchanged' } }
  if ((found?.cursor ?? null) !== replaces) throw conflict(name, found)
  if (!found && consumers.length >= consumersMax) {
    throw new IngestError('consumer-quota-exceeded', `A project has at most ${consumersMax} consumers: delete one.`, {
      limit: consumersMax,
      actual: consumers.length + 1,
    })
  }
  const others = consumers.filter((each) => each !== found)
  // names are ASCII: code unit order is byte order
  const sorted = [...others, record].sort((a, b) => (a.name < b.name ? -1 : 1))
  return { entry: sorted, result: { ...record, outcome: found ? 'updated' : 'created' } }
}

function conflict(name: string, found: ConsumerRecord | undefined): IngestError {
  const message = found
    ? `Consumer ${name} has another cursor than the one to replace: another reader moved it.`
    : `There is no consumer ${name}: create it by replacing null.`
  return new IngestError('consumer-conflict', message, { cursor: found?.cursor ?? null })
}

function find(consumers: readonly ConsumerRecord[], name: string): ConsumerRecord | undefined {
  return consumers.find((each) => each.name === name)
}

/** The batches that are counted for each consumer of a list. */
function shareOf(batchesMax: number, { length }: readonly unknown[]): number {
  return Math.min(lagBatchesMax, Math.floor(batchesMax / length))
}

/** Null if the store refuses the cursor. */
async function readLag(
  store: Store,
  projectId: string,
  { cursor }: ConsumerRecord,
  { now, batchesMax }: { now: number; batchesMax: number },
): Promise<ConsumerLag | null> {
  const unread = await orRefused(store.count(projectId, { after: cursor }, batchesMax))
  if (!unread) return null
  const { events, batchesLeft, firstAt } = unread
  const seconds = firstAt === undefined ? 0 : Math.max(0, now - firstAt) / 1000
  return { events: events + batchesLeft, exact: batchesLeft === 0, seconds }
}

/** @throws {IngestError} `invalid-argument` */
export function checkConsumerName(name: string): void {
  if (typeof name === 'string' && namePattern.test(name)) return
  throw new IngestError(
    'invalid-argument',
    'The name of a consumer must be 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit.',
  )
}

/**
 * Checks options from JavaScript: a forgotten `replaces` must not move a consumer.
 *
 * @throws {IngestError} `invalid-argument`
 */
export function checkPutConsumer({ cursor, replaces }: PutConsumerOptions): void {
  if (typeof cursor !== 'string') throw new IngestError('invalid-argument', 'cursor must be a string.')
  if (typeof replaces === 'string' || replaces === null) return
  throw new IngestError('invalid-argument', 'replaces must be the cursor of the consumer, or null to create it.')
}

/** A consumer of any project. */
export interface ProjectConsumer extends Consumer {
  projectId: string
}

/** A bounded number of the consumers of all projects. */
export interface AllConsumers {
  /**
   * At most 1,000, taken from the projects in turn. With more than 100, fewer than 1,000 batches are counted for each.
   */
  consumers: readonly ProjectConsumer[]
  /** How many consumers are left out. Each project beyond the first 1,000 counts as one. */
  hidden: number
}

/** Maximum number of consumers that are measured together, and of projects that are read for it. */
export const measuredConsumersMax = 1_000
/** Maximum number of batches counted for all consumers together. */
const measuredBatchesMax = 100_000

/**
 * Reads at most {@link measuredConsumersMax} consumers and {@link measuredBatchesMax} batches, over several turns of
 * the event loop.
 */
export async function listAllConsumers(store: Store, now: () => number): Promise<AllConsumers> {
  const projectIds = await store.projects('consumers')
  const read = projectIds.slice(0, measuredConsumersMax)
  const stored = await mapProjects(read, async (projectId) => {
    await nextReadStep(projectId)
    return ((await store.entry('consumers', projectId)) ?? []).map((record) => ({ projectId, record }))
  })
  const inTurn = takeInTurn(stored)
  const measured = inTurn.slice(0, measuredConsumersMax)
  const batchesMax = shareOf(measuredBatchesMax, measured)
  const consumers = await mapProjects(measured, async ({ projectId, record }) => ({
    projectId,
    ...record,
    lag: await readLag(store, projectId, record, { now: now(), batchesMax }),
  }))
  return { consumers, hidden: inTurn.length - measured.length + projectIds.length - read.length }
}

/** Takes the first item of each list, then the second of each, and so on. */
function takeInTurn<T>(lists: readonly (readonly T[])[]): T[] {
  const longest = Math.max(0, ...lists.map(({ length }) => length))
  return Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list.slice(i, i + 1))).flat()
}

/**
 * The consumers that have not read all events received before a time, and when the oldest unread event was received: 0
 * if the store refuses a cursor.
 */
export async function findUnread(
  store: Store,
  projectId: string,
  before: number,
): Promise<{ names: string[]; firstAt: number }> {
  const names: string[] = []
  let oldest = Number.POSITIVE_INFINITY
  for (const { name, cursor } of (await store.entry('consumers', projectId)) ?? []) {
    const unread = await orRefused(store.count(projectId, { after: cursor }, 0))
    const firstAt = unread ? (unread.firstAt ?? Number.POSITIVE_INFINITY) : 0
    if (firstAt < before) names.push(name)
    oldest = Math.min(oldest, firstAt)
  }
  return { names, firstAt: oldest }
}

/** Resolves to undefined if the store refuses the cursor. */
async function orRefused<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading
  } catch (error) {
    if (error instanceof IngestError && error.code === 'invalid-cursor') return undefined
    throw error
  }
}
