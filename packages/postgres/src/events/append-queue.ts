import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { type AppendBatch, type AppendResult, decodeEvents, IngestError, type StoreCommit } from '@ingest/core'
import { column, countEvents, wordsPerEvent } from '@ingest/core/internal'
import type { Database } from '../connection/database.ts'
import type { ProjectNumbers } from '../projects/project-numbers.ts'
import { appendValues } from './append-values.ts'
import { isTombstone } from './batch-body.ts'

/**
 * Concurrent appends of one project: the second prepares while the first commits. More help only in the case of
 * `inFlightMax`.
 */
const inFlightUsual = 2
/** The limit while appends wait for the disk in the index of ids: these waits overlap. */
const inFlightMax = 16
/** Shorter pauses are skipped, because timers are not exact. */
const pauseMsMin = 2
const pauseMsMax = 100
/** If an id, or all ids of a statement, take at least this long, they were read from disk. */
const slowIdMs = 0.2
const slowIdsMs = 5
/** Batches share a statement, and so a commit, up to these limits; a single batch may exceed them. */
const groupEventsMax = 1000
const groupBytesMax = 2 ** 20
/** Connections reserved for the first {@link inFlightUsual} statements of each project. */
const reservedConnections = 4
/** Limits of unsettled appends over all projects. */
const queueEventsMax = 100_000
const queueBytesMax = 64 * 2 ** 20
/** Maximum number of projects that are remembered for sending known events. */
const repeatingMax = 10_000
/** Of a positive `bigint`, the other 43 bits are random. */
const blockBits = 20n
/** Raised by `append_1` if no project has the number. */
const unknownProject = 'IG001'

interface WaitingBatch {
  /** A time of `performance.now()`. */
  deadline: number
  batch: AppendBatch
  resolve: (result: AppendResult) => void
  reject: (error: unknown) => void
}

interface ProjectQueue {
  waiting: WaitingBatch[]
  inFlight: number
  slots: Pace['slots']
}

/** The appends of this process. */
export interface AppendQueue {
  /** Appends a batch. @throws {IngestError} the codes of `EventStore.append` */
  append(projectId: string, batch: AppendBatch): Promise<AppendResult>
  /** Calls `onCommit` after each statement of appends. Returns a function that ends it. */
  watchCommits(onCommit: (commit: StoreCommit) => void): () => void
  size(): Readonly<QueueSize>
}

/** Appends batches. Batches of a project that arrive while others are being stored share the next statement. */
export function createAppendQueue(database: Database, numbers: ProjectNumbers): AppendQueue {
  const queues = new Map<string, ProjectQueue>()
  const append = createAppender(database, numbers)
  const watchers = new Set<(commit: StoreCommit) => void>()
  const size: QueueSize = { requests: 0, events: 0, bytes: 0, statements: 0 }

  function startNext(projectId: string, queue: ProjectQueue): void {
    for (let free = freeSlots(queue); queue.waiting.length > 0 && free > 0; free = freeSlots(queue)) {
      const group = takeGroup(queue.waiting, Math.ceil(queue.waiting.length / free))
      queue.inFlight++
      size.statements++
      void appendGroup(projectId, queue, group).then(async (pauseMs) => {
        size.statements--
        for (const { batch } of group) charge(size, batch, -1)
        if (queue.inFlight > 1 && pauseMs >= pauseMsMin) await sleep(Math.min(pauseMs, pauseMsMax))
        queue.inFlight--
        if (queue.waiting.length > 0) startNext(projectId, queue)
        else if (queue.inFlight === 0) queues.delete(projectId)
      })
    }
  }

  /** Statements beyond the first ones leave connections to other projects and to reads. */
  function freeSlots({ inFlight, slots }: ProjectQueue): number {
    const more = Math.max(inFlightUsual - inFlight, database.connectionsMax - reservedConnections - size.statements)
    return Math.min(slots - inFlight, more)
  }

  /** Returns how long to wait before the next statement. */
  async function appendGroup(projectId: string, queue: ProjectQueue, group: WaitingBatch[]): Promise<number> {
    try {
      const batches = group.map(({ batch }) => batch)
      const { row, durationMs } = await append(projectId, batches, (group[0] as WaitingBatch).deadline)
      const results = toResults(batches, row)
      const commit = { requests: group.length, durationMs }
      for (const [i, { batch, resolve }] of group.entries()) {
        batch.onCommit?.(commit)
        resolve(results[i] as AppendResult)
      }
      for (const onCommit of watchers) onCommit(commit)
      const { slots, pauseMs } = paceAfter(row, durationMs, countAll(batches))
      // a single statement may have been delayed while it held the lock
      queue.slots = Math.max(slots, queue.slots - 1)
      return pauseMs
    } catch (error) {
      for (const { reject } of group) reject(error)
      return 0
    }
  }

  return {
    append(projectId, batch) {
      if (size.events >= queueEventsMax || size.bytes >= queueBytesMax) {
        throw new IngestError('overloaded', 'Too many batches wait for the database.', { retryAfterSeconds: 1 })
      }
      charge(size, batch, 1)
      const queue = queues.get(projectId) ?? { waiting: [], inFlight: 0, slots: inFlightUsual }
      queues.set(projectId, queue)
      return new Promise((resolve, reject) => {
        queue.waiting.push({ deadline: database.deadline(), batch, resolve, reject })
        startNext(projectId, queue)
      })
    },

    watchCommits(onCommit) {
      watchers.add(onCommit)
      return () => watchers.delete(onCommit)
    },

    size: () => size,
  }
}

/** The number of unsettled appends and of running statements. */
interface QueueSize {
  requests: number
  events: number
  bytes: number
  statements: number
}

function charge(size: QueueSize, { body, events }: AppendBatch, sign: 1 | -1): void {
  size.requests += sign
  size.events += sign * countEvents(events)
  size.bytes += sign * body.length
}

interface AppendRow {
  /** The numbers, from 1, of the stored events; null if all were stored. */
  fresh: number[] | null
  /** The number of conflicts of each batch; null if there are none. */
  conflicts: number[] | null
  frozen: string[] | null
  /** The time for the ids, and then for waiting for other appends of the project, in milliseconds. */
  keys_ms: number
  head_ms: number
}

/** Returns a function that stores batches of a project with one statement. */
function createAppender(database: Database, numbers: ProjectNumbers) {
  /** Projects whose last append contained a known event: the next one probably will too. */
  const repeating = new Set<string>()
  const batchIds = createBatchIds()

  async function run(projectId: string, values: unknown[], deadline: number): Promise<AppendRow> {
    for (let attempt = 0; ; attempt++) {
      const project = await numbers.create(projectId, deadline)
      try {
        const [row] = await database.query<AppendRow>('append', [project, ...values], deadline)
        return row as AppendRow
      } catch (error) {
        // a failover to a standby may have lost a project that is cached
        if ((error as { code?: string }).code !== unknownProject || attempt > 0) throw error
        numbers.forget(projectId)
      }
    }
  }

  return async (projectId: string, batches: readonly AppendBatch[], deadline: number) => {
    const values = [batchIds.take(batches.length), !repeating.has(projectId), ...appendValues(batches)]
    const startedAt = performance.now()
    const row = await run(projectId, values, deadline)
    const durationMs = performance.now() - startedAt
    if (row.fresh === null) repeating.delete(projectId)
    else if (repeating.size < repeatingMax) repeating.add(projectId)
    return { row, durationMs }
  }
}

function countAll(batches: readonly AppendBatch[]): number {
  return batches.reduce((sum, { events }) => sum + countEvents(events), 0)
}

function takeGroup(waiting: WaitingBatch[], batchesMax: number): WaitingBatch[] {
  let events = 0
  let bytes = 0
  const end = waiting.findIndex(({ batch }, i) => {
    events += countEvents(batch.events)
    bytes += batch.body.length
    return i > 0 && (i === batchesMax || events > groupEventsMax || bytes > groupBytesMax)
  })
  return waiting.splice(0, end === -1 ? waiting.length : end)
}

interface Pace {
  /** Maximum number of concurrent statements: they read ids while one, which holds the lock of the project, commits. */
  slots: number
  /** How long to delay the next statement: it would only wait for the running one, and more batches can join it. */
  pauseMs: number
}

function paceAfter({ keys_ms: idsMs, head_ms: headMs }: AppendRow, durationMs: number, events: number): Pace {
  const lockedMs = Math.max(1, durationMs - idsMs - headMs)
  const isSlow = idsMs >= Math.max(slowIdsMs, slowIdMs * events)
  return {
    slots: isSlow ? Math.min(inFlightMax, Math.ceil(idsMs / lockedMs) + 1) : inFlightUsual,
    pauseMs: lockedMs / 2 - idsMs,
  }
}

function toResults(batches: readonly AppendBatch[], { fresh, conflicts, frozen }: AppendRow): AppendResult[] {
  const isFresh = fresh && new Set(fresh)
  let number = 0
  const stored = batches.map(({ events }) =>
    isFresh
      ? Array.from({ length: countEvents(events) }, () => isFresh.has(++number))
      : Array<boolean>(countEvents(events)).fill(true),
  )
  const inGroup = batches.length > 1 && fresh && fresh.length > 0 ? conflictsInGroup(batches, stored) : []
  const frozenBy = frozen ? freezesInGroup(batches, stored, frozen) : []
  return stored.map((ofBatch, i) => ({
    stored: ofBatch,
    conflicts: (conflicts?.[i] ?? 0) + (inGroup[i] ?? 0),
    frozen: frozenBy[i] ?? [],
  }))
}

/** For each batch, the builds frozen by the group whose first event was in this batch. */
function freezesInGroup(
  batches: readonly AppendBatch[],
  stored: readonly boolean[][],
  frozen: readonly string[],
): string[][] {
  const left = new Set(frozen)
  return batches.map(({ events: { rows, builds } }, i) => {
    const isStored = (_: unknown, index: number) => stored[i]?.[index]
    const referenced = new Set(
      buildsOf(rows)
        .filter(isStored)
        .map((build) => builds[build]),
    )
    // this batch has the first event; later batches do not count
    return builds.filter((build) => referenced.has(build) && left.delete(build))
  })
}

/** For each event, the index of its build. */
function buildsOf(rows: Uint32Array): number[] {
  return Array.from({ length: rows.length / wordsPerEvent }, (_, i) => rows[i * wordsPerEvent + column.build] as number)
}

/** For each batch, the number of events that differ from an event with the same id in an earlier batch of the group. */
function conflictsInGroup(batches: readonly AppendBatch[], stored: readonly boolean[][]): number[] {
  const storedBytes = new Map<string, Uint8Array>()
  return batches.map(({ body, events }, i) => {
    let conflicts = 0
    for (const [index, { eventId, start, end }] of decodeEvents(body, events).entries()) {
      const bytes = body.subarray(start, end)
      const other = storedBytes.get(eventId)
      if (stored[i]?.[index]) storedBytes.set(eventId, bytes)
      else if (other && !isTombstone(other) && !isTombstone(bytes) && Buffer.compare(other, bytes) !== 0) conflicts++
    }
    return conflicts
  })
}

/**
 * Ids of batches, in random blocks. From a sequence, two servers could get the same block if a failover loses its last
 * value.
 */
function createBatchIds() {
  let next = 0n
  let left = 0
  return {
    /** The first of `count` ids. */
    take(count: number): bigint {
      if (left < count) {
        next = (randomBytes(8).readBigUInt64BE() >> (blockBits + 1n)) << blockBits
        left = 2 ** Number(blockBits)
      }
      left -= count
      next += BigInt(count)
      return next - BigInt(count)
    },
  }
}
