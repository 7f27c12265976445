import { setImmediate as nextTurn } from 'node:timers/promises'
import { IngestError } from '../error.ts'
import type { Cursor, EventStore } from '../events/event-store.ts'
import { mapProjects } from '../projects/map-projects.ts'
import type { ConsumerRecord, ConsumerStore, ConsumersDecision } from './consumer-store.ts'

/** The events that a consumer has not read, without those that a retention erased. */
export interface ConsumerLag {
  /** How many there are, or at least how many: see `exact`. Events that were erased one by one count too. */
  events: number
  /** False if there are more than 1,000 batches of them: the others are counted as one event each. */
  exact: boolean
  /** How long the oldest of them has been stored; 0 without any. Always exact. */
  seconds: number
}

/** A named position in the events of a project. */
export interface Consumer extends ConsumerRecord {
  /** Null if the cursor is refused with `invalid-cursor`, as after a backup was restored. */
  lag: ConsumerLag | null
}

export interface PutConsumerOptions {
  /** The last event that was read. */
  cursor: Cursor
  /** The cursor that it replaces; null to create the consumer. */
  replaces: Cursor | null
}

export interface PutConsumerResult extends ConsumerRecord {
  /** `unchanged`: it has this cursor already, whatever `replaces` says, so that a retry succeeds. */
  outcome: 'created' | 'updated' | 'unchanged'
}

/** Positions of readers, kept in the store by name, for readers that cannot keep them with what they write. */
export interface Consumers {
  /** All consumers of the project, at most 100, by name. */
  listConsumers(): Promise<readonly Consumer[]>
  /**
   * Undefined without a consumer of this name.
   *
   * @throws {IngestError} `invalid-argument` for a name that is not 1 to 64 of `A-Z a-z 0-9 . _ -`, the first a letter or
   *   digit, as the operations below
   */
  getConsumer(name: string): Promise<Consumer | undefined>
  /**
   * Moves a consumer, forwards or backwards, if its cursor is `replaces`; creates it if that is null. Of concurrent calls
   * that replace the same cursor, over all processes, one succeeds.
   *
   * @throws {IngestError} `consumer-conflict` if its cursor is another, with that `cursor`; `invalid-cursor`;
   *   `consumer-quota-exceeded`
   */
  putConsumer(name: string, options: PutConsumerOptions): Promise<PutConsumerResult>
  /**
   * Resolves with its last cursor.
   *
   * @throws {IngestError} `consumer-not-found`
   */
  deleteConsumer(name: string): Promise<ConsumerRecord>
}

/** The most consumers of a project, which are written together. */
export const consumersMax = 100
/** The most batches that are counted for the lag of one consumer. */
export const lagBatchesMax = 1_000

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/

type Store = ConsumerStore & Pick<EventStore, 'countAfter'>

/** Consumers by project; `now` returns milliseconds since 1970. */
export function createConsumers(store: Store, now: () => number): (projectId: string) => Consumers {
  return (projectId) => {
    const withLag = async (record: ConsumerRecord) => ({
      ...record,
      lag: await readLag(store, projectId, record, { now: now(), batchesMax: lagBatchesMax }),
    })
    return {
      async listConsumers() {
        const consumers: Consumer[] = []
        for (const record of await store.consumers(projectId)) consumers.push(await withLag(record))
        return consumers
      },

      async getConsumer(name) {
        checkConsumerName(name)
        const record = find(await store.consumers(projectId), name)
        return record && withLag(record)
      },

      async putConsumer(name, options) {
        checkConsumerName(name)
        checkPutConsumer(options)
        const { cursor, replaces } = options
        await store.countAfter(projectId, cursor, 0)
        const record = { name, cursor, updatedAt: now() }
        return store.updateConsumers(projectId, (consumers) => decidePut(consumers, record, replaces))
      },

      async deleteConsumer(name) {
        checkConsumerName(name)
        return store.updateConsumers(projectId, (consumers) => {
          const found = find(consumers, name)
          if (!found) throw new IngestError('consumer-not-found', `There is no consumer ${name}.`)
          return { consumers: consumers.filter((each) => each !== found), result: found }
        })
      },
    }
  }
}

function decidePut(
  consumers: readonly ConsumerRecord[],
  record: ConsumerRecord,
  replaces: Cursor | null,
): ConsumersDecision<PutConsumerResult> {
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
  // names are ASCII, so that the order of their code units is that of their bytes
  const sorted = [...others, record].sort((a, b) => (a.name < b.name ? -1 : 1))
  return { consumers: sorted, result: { ...record, outcome: found ? 'updated' : 'created' } }
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

/** Null for a cursor that the store refuses. */
async function readLag(
  store: Store,
  projectId: string,
  { cursor }: ConsumerRecord,
  { now, batchesMax }: { now: number; batchesMax: number },
): Promise<ConsumerLag | null> {
  const unread = await orRefused(store.countAfter(projectId, cursor, batchesMax))
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

/** The consumers of all projects, up to a limit. */
export interface AllConsumers {
  /** At most 1,000, taken from the projects in turn. With more than 100, fewer than 1,000 batches are counted for each. */
  consumers: readonly ProjectConsumer[]
  /** How many others there are; each project beyond the first 1,000 counts as one. */
  hidden: number
}

/** The most consumers that are measured together, and the most projects that are read for it. */
export const measuredConsumersMax = 1_000
/** The most batches that are counted for all of them together. */
const measuredBatchesMax = 100_000

/**
 * Reads at most {@link measuredConsumersMax} consumers and {@link measuredBatchesMax} batches, over several turns of the
 * event loop.
 */
export async function listAllConsumers(store: Store, now: () => number): Promise<AllConsumers> {
  const projectIds = await store.consumerProjects()
  const read = projectIds.slice(0, measuredConsumersMax)
  const stored = await mapProjects(read, async (projectId) => {
    await nextTurn()
    return (await store.consumers(projectId)).map((record) => ({ projectId, record }))
  })
  const inTurn = takeInTurn(stored)
  const measured = inTurn.slice(0, measuredConsumersMax)
  const batchesMax = Math.min(lagBatchesMax, Math.floor(measuredBatchesMax / measured.length))
  const consumers = await mapProjects(measured, async ({ projectId, record }) => {
    await nextTurn()
    return { projectId, ...record, lag: await readLag(store, projectId, record, { now: now(), batchesMax }) }
  })
  return { consumers, hidden: inTurn.length - measured.length + projectIds.length - read.length }
}

/** The first of each list, then the second of each, and so on. */
function takeInTurn<T>(lists: readonly (readonly T[])[]): T[] {
  const longest = Math.max(0, ...lists.map(({ length }) => length))
  return Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list.slice(i, i + 1))).flat()
}

/**
 * The consumers that have not read all events received before a time, and when the oldest unread event was received: 0 if
 * the store refuses the cursor of one.
 */
export async function findUnread(
  store: Store,
  projectId: string,
  before: number,
): Promise<{ names: string[]; firstAt: number }> {
  const names: string[] = []
  let oldest = Number.POSITIVE_INFINITY
  for (const { name, cursor } of await store.consumers(projectId)) {
    const unread = await orRefused(store.countAfter(projectId, cursor, 0))
    const firstAt = unread ? (unread.firstAt ?? Number.POSITIVE_INFINITY) : 0
    if (firstAt < before) names.push(name)
    oldest = Math.min(oldest, firstAt)
  }
  return { names, firstAt: oldest }
}

/** Undefined for a cursor that the store refuses. */
async function orRefused<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading
  } catch (error) {
    if (error instanceof IngestError && error.code === 'invalid-cursor') return undefined
    throw error
  }
}
