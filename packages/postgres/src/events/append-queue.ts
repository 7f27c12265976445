import { type AppendBatch, type AppendEvent, type AppendResult, decodeEvents, IngestError } from '@ingest/core'
import { byteaArray, int2Array, int4Array, int8Array, textArray, utf8Array } from '../connection/binary-arrays.ts'
import type { Database } from '../connection/database.ts'
import type { ProjectNumbers } from '../projects/project-numbers.ts'
import { joinEvents } from './batch-body.ts'
import { eventKey } from './event-key.ts'

/** Appends of one project that run at once: a second one prepares while the first one commits; more gain nothing. */
const inFlightMax = 2
/** Batches that share a statement, and with it a commit. */
const groupBatchesMax = 10
const groupEventsMax = 1000
/** Batches of one project that wait. */
const waitingMax = 1000
/** The ids of a block: the increment of the sequence. */
const blockSize = 100_000
/** Raised by `append_1` for a number that no project has. */
const unknownProject = 'IG001'

interface WaitingBatch {
  /** In the time of `performance.now()`. */
  deadline: number
  batch: AppendBatch
  events: AppendEvent[]
  resolve: (result: AppendResult) => void
  reject: (error: unknown) => void
}

interface ProjectQueue {
  waiting: WaitingBatch[]
  inFlight: number
}

/**
 * Appends batches. Those of one project that come while others are being stored go together into the next statement.
 */
export function createAppendQueue(database: Database, numbers: ProjectNumbers) {
  const queues = new Map<string, ProjectQueue>()
  const batchIds = createBatchIds(database)

  function startNext(projectId: string, queue: ProjectQueue): void {
    while (queue.waiting.length > 0 && queue.inFlight < inFlightMax) {
      const group = takeGroup(queue.waiting)
      queue.inFlight++
      void appendGroup(projectId, group).finally(() => {
        queue.inFlight--
        if (queue.waiting.length > 0) startNext(projectId, queue)
        else if (queue.inFlight === 0) queues.delete(projectId)
      })
    }
  }

  async function appendGroup(projectId: string, group: WaitingBatch[]): Promise<void> {
    try {
      const firstId = await batchIds.take(group.length)
      const encoded = encodeGroup(group)
      const { deadline } = group[0] as WaitingBatch
      const { fresh, conflicts } = await appendTo(projectId, [firstId, ...encoded.values], deadline)
      const results = toResults(group, encoded.keys, fresh, conflicts)
      for (const [i, { resolve }] of group.entries()) resolve(results[i] as AppendResult)
    } catch (error) {
      for (const { reject } of group) reject(error)
    }
  }

  async function appendTo(projectId: string, values: unknown[], deadline: number): Promise<AppendRow> {
    for (let attempt = 0; ; attempt++) {
      const project = await numbers.create(projectId)
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

  return {
    append(projectId: string, batch: AppendBatch): Promise<AppendResult> {
      const queue = queues.get(projectId) ?? { waiting: [], inFlight: 0 }
      queues.set(projectId, queue)
      if (queue.waiting.length >= waitingMax) {
        throw new IngestError('overloaded', 'Too many batches of the project wait.', { retryAfterSeconds: 1 })
      }
      const events = decodeEvents(batch.body, batch.events)
      return new Promise((resolve, reject) => {
        queue.waiting.push({ deadline: database.deadline(), batch, events, resolve, reject })
        startNext(projectId, queue)
      })
    },
  }
}

interface AppendRow {
  /** The numbers, from 1, of the stored events; null if all were stored. */
  fresh: number[] | null
  /** By batch. */
  conflicts: number[] | null
}

function takeGroup(waiting: WaitingBatch[]): WaitingBatch[] {
  let events = 0
  const end = waiting.findIndex((each, i) => {
    events += each.events.length
    return i > 0 && (i === groupBatchesMax || events > groupEventsMax)
  })
  return waiting.splice(0, end === -1 ? waiting.length : end)
}

/** The values of `append` behind the project and the first id, and the keys of all events. */
function encodeGroup(group: readonly WaitingBatch[]): { keys: Buffer[]; values: unknown[] } {
  const keys: Buffer[] = []
  const batchNumbers: number[] = []
  const indexes: number[] = []
  const buildNumbers: number[] = []
  const builds = new Map<string, number>()
  for (const [number, { events }] of group.entries()) {
    for (const [index, { eventId, buildId }] of events.entries()) {
      keys.push(eventKey(eventId))
      batchNumbers.push(number)
      indexes.push(index)
      buildNumbers.push(buildId === undefined ? 0 : numberIn(builds, buildId))
    }
  }
  const values = [
    int8Array(group.map(({ batch }) => batch.receivedAt)),
    utf8Array(group.map(({ batch, events }) => joinEvents(batch.body, events))),
    byteaArray(keys),
    int4Array(batchNumbers),
    int2Array(indexes),
    int4Array(buildNumbers),
    textArray([...builds.keys()]),
  ]
  return { keys, values }
}

/** The number of a name, from 1 in the order of first use. */
function numberIn(numbers: Map<string, number>, name: string): number {
  const known = numbers.get(name)
  if (known !== undefined) return known
  numbers.set(name, numbers.size + 1)
  return numbers.size
}

function toResults(
  group: readonly WaitingBatch[],
  keys: readonly Buffer[],
  fresh: number[] | null,
  conflicts: number[] | null,
): AppendResult[] {
  if (fresh === null) return group.map(({ events }) => ({ stored: events.map(() => true), conflicts: 0 }))
  const stored = keys.map(() => false)
  for (const number of fresh) stored[number - 1] = true
  const inGroup = group.length > 1 ? conflictsInGroup(group, keys, stored) : []
  let at = 0
  return group.map(({ events }, i) => {
    const ofBatch = stored.slice(at, at + events.length)
    at += events.length
    return { stored: ofBatch, conflicts: (conflicts?.[i] ?? 0) + (inGroup[i] ?? 0) }
  })
}

/** By batch, the events that differ from the one that an earlier batch of the group stored under their key. */
function conflictsInGroup(
  group: readonly WaitingBatch[],
  keys: readonly Buffer[],
  stored: readonly boolean[],
): number[] {
  const storedBytes = new Map<string, Uint8Array>()
  let at = 0
  return group.map(({ batch: { body }, events }) => {
    let conflicts = 0
    for (const { start, end } of events) {
      const key = (keys[at] as Buffer).toString('latin1')
      const bytes = body.subarray(start, end)
      const other = storedBytes.get(key)
      if (stored[at]) storedBytes.set(key, bytes)
      else if (other && Buffer.compare(other, bytes) !== 0) conflicts++
      at++
    }
    return conflicts
  })
}

/** Ids of batches, from blocks that the database gives out. */
function createBatchIds(database: Database) {
  let next = 0
  let left = 0
  let refill: Promise<void> | undefined

  async function takeBlock(): Promise<void> {
    const [row] = await database.query<{ id: number }>('next-batch-ids')
    next = (row as { id: number }).id
    left = blockSize
  }

  return {
    /** The first of `count` ids. */
    async take(count: number): Promise<number> {
      while (left < count) {
        refill ??= takeBlock().finally(() => {
          refill = undefined
        })
        await refill
      }
      left -= count
      next += count
      return next - count
    },
  }
}
