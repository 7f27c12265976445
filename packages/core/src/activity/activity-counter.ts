import { randomBytes } from 'node:crypto'
import { IngestError } from '../error.ts'
import { nextReadStep } from '../read-steps.ts'
import type { ActivityStore } from '../store.ts'
import { type ActivityRow, type ActivitySpan, type ActivityToPut, activityRowsMax } from '../store-types.ts'
import type { BatchCounter } from '../submit/submit-batch.ts'
import { hourMs, minuteMs } from './activity.ts'
import { addCounts, bytesOfCounts, type Counts, countDetails, countTotals, createCounts } from './counts.ts'
import { encodeOutcomes, encodeRejected } from './row-body.ts'

/**
 * Counts the outcomes of batches by minute and hour. When a minute has ended, it puts a row of the minute and one of the
 * hour so far. Its memory is bounded: when it runs short, totals alone are counted, and then nothing.
 */
export interface ActivityCounter extends BatchCounter {
  /** The rows that the store may not have yet, or only with fewer events. */
  unputRows(projectId: string, span: ActivitySpan): ActivityRow[]
  /** Puts all rows; resolves once the store has them, or one put has failed. */
  close(): Promise<void>
}

export interface ActivityCounterOptions {
  store: Pick<ActivityStore, 'putActivity'>
  /** In milliseconds since 1970. */
  now: () => number
  /** The name of this server in the rows. */
  server: string
  /** Whether to keep the text of rejected events. */
  keepEvents: boolean
  /** Called when putting fails for the first time since it worked, and when counts are first lost. */
  onError: (error: unknown) => void
  /**
   * The most bytes of counts and of rows to put, of all projects together. Beyond, only totals are counted; beyond twice
   * as much, no project begins another minute.
   */
  bytesMax?: number
}

/** The most bytes of one put. */
const putBytesMax = 1_048_576
/** The key of the turns of a put in the queue of read steps: no project has this id. */
const allProjects = ''
/** A batch that was received in the previous minute may be counted in the current one. */
const lateMs = minuteMs
/** A timer may fire a millisecond early. */
const timerSlackMs = 100

/** A minute or an hour of a project. */
interface Span {
  at: number
  /** Of this span alone: if the clock comes back to the same time, its row replaces no other. */
  writer: string
  counts: Counts
}

interface ProjectSpans {
  /** Undefined once its row is to be put. */
  minute: Span | undefined
  /** The hour before the current minute. */
  hour: Span
}

export function createActivityCounter(options: ActivityCounterOptions): ActivityCounter {
  const { store, now, server, keepEvents, onError, bytesMax = 33_554_432 } = options
  const projects = new Map<string, ProjectSpans>()
  const unput = createRowQueue(store)
  let countsBytes = 0
  /** When the current minute began. */
  let minuteAt = Number.NEGATIVE_INFINITY
  let putting: Promise<void> | undefined
  let hasFailed = false
  let hasLost = false
  let timer: NodeJS.Timeout | undefined

  function isMemoryShort(max = bytesMax): boolean {
    return countsBytes + unput.bytes() >= max
  }

  /** Updates the current minute; returns whether a new one has begun. */
  function advance(time: number): boolean {
    const at = startOf(time, minuteMs)
    if (at === minuteAt || (at < minuteAt && time >= minuteAt - lateMs)) return false
    minuteAt = at
    return true
  }

  /** The counts of the current minute; undefined if there is no room for them. */
  function currentMinute(projectId: string): Counts | undefined {
    const found = projects.get(projectId)
    if (found?.minute?.at === minuteAt) return found.minute.counts
    if (found) endMinute(projectId, found)
    if (isMemoryShort(2 * bytesMax)) {
      if (!hasLost) onError(new IngestError('overloaded', 'Activity is lost: its counts take too much memory.'))
      hasLost = true
      return undefined
    }
    const hourAt = startOf(minuteAt, hourMs)
    const known = projects.get(projectId)
    const spans = { minute: createSpan(minuteAt), hour: known?.hour.at === hourAt ? known.hour : createSpan(hourAt) }
    countsBytes += bytesOfSpans(spans) - (known ? bytesOfSpans(known) : 0)
    projects.set(projectId, spans)
    return spans.minute.counts
  }

  /** Queues the rows of a minute and of its hour. Forgets the project after its hour, or when memory is short. */
  function endMinute(projectId: string, spans: ProjectSpans): void {
    const { minute, hour } = spans
    countsBytes -= bytesOfSpans(spans)
    if (minute) {
      addCounts(hour.counts, minute.counts)
      spans.minute = undefined
      queueRows(projectId, 'minute', minute)
      queueRows(projectId, 'hour', hour)
    }
    if (hour.at !== startOf(minuteAt, hourMs) || isMemoryShort()) projects.delete(projectId)
    else countsBytes += bytesOfSpans(spans)
  }

  function queueRows(projectId: string, span: 'minute' | 'hour', from: Span): void {
    unput.add({ projectId, span, ...toRow(span, from) })
    const rejected = `rejected-${span}` as const
    if (from.counts.rejected > 0) unput.add({ projectId, span: rejected, ...toRow(rejected, from) })
  }

  function toRow(span: ActivitySpan, { at, writer, counts }: Span): ActivityRow {
    const isOutcomes = span === 'minute' || span === 'hour'
    return { at, writer, body: isOutcomes ? encodeOutcomes(server, counts) : encodeRejected(counts) }
  }

  /** Runs one put at a time. */
  function put(): Promise<void> {
    putting ??= putEnded()
    return putting
  }

  /** Puts the rows of all minutes that have ended. What fails is put with the next minute. */
  async function putEnded(): Promise<void> {
    await nextReadStep(allProjects)
    try {
      let at: number
      do {
        at = minuteAt
        await endMinutes()
        while (!unput.isEmpty()) await unput.putSome()
        // a minute that has ended meanwhile is put too
      } while (at !== minuteAt)
      hasFailed = false
    } catch (error) {
      if (!hasFailed) onError(error)
      hasFailed = true
    } finally {
      putting = undefined
    }
  }

  async function endMinutes(): Promise<void> {
    for (const [projectId, spans] of projects) {
      if (spans.minute?.at === minuteAt) continue
      endMinute(projectId, spans)
      if (unput.isFull()) await unput.putSome()
      else await nextReadStep(allProjects)
    }
  }

  /** Begins the minute of a time, and the next ones even if nothing is counted in them. */
  function tick(time: number): void {
    if (advance(time)) put()
    timer ??= setTimeout(onTimer, minuteMs - (time % minuteMs) + timerSlackMs).unref()
  }

  function onTimer(): void {
    timer = undefined
    try {
      tick(now())
    } catch (error) {
      // the clock is that of the embedder; the next batch starts the timer again
      onError(error)
    }
  }

  return {
    keepEvents,

    count(projectId, batch) {
      if (batch.accepted + batch.duplicates + batch.rejections.length === 0) return
      tick(batch.receivedAt)
      const counts = currentMinute(projectId)
      if (!counts) return
      const bytesBefore = bytesOfCounts(counts)
      countTotals(counts, batch)
      if (!isMemoryShort()) countDetails(counts, batch)
      countsBytes += bytesOfCounts(counts) - bytesBefore
    },

    unputRows(projectId, span) {
      const queued = unput.rowsOf(projectId, span)
      const { minute, hour } = projects.get(projectId) ?? {}
      if (!minute || !hour) return queued
      if (span === 'minute' || span === 'rejected-minute') return [...queued, toRow(span, minute)]
      // its row in the store may soon have the current minute too
      const others = queued.filter(({ writer }) => writer !== hour.writer)
      return [...others, toRow(span, hour), { ...toRow(span, minute), at: hour.at }]
    },

    async close() {
      clearTimeout(timer)
      // ends all minutes
      minuteAt = Number.NEGATIVE_INFINITY
      await putting
      await put()
    },
  }
}

/** The rows to put, oldest first. A row stays until the store has it, or a newer one of its hour. */
function createRowQueue(store: ActivityCounterOptions['store']) {
  const rows = new Map<string, ActivityToPut>()
  let bytes = 0

  function remove(row: ActivityToPut): void {
    bytes -= rows.get(keyOf(row))?.body.length ?? 0
    rows.delete(keyOf(row))
  }

  return {
    bytes: () => bytes,
    isEmpty: () => rows.size === 0,
    /** Whether there are enough rows for a put. */
    isFull: () => rows.size >= activityRowsMax || bytes >= putBytesMax,
    rowsOf: (projectId: string, span: ActivitySpan): ActivityRow[] =>
      [...rows.values()].filter((row) => row.projectId === projectId && row.span === span),

    add(row: ActivityToPut): void {
      remove(row)
      rows.set(keyOf(row), row)
      bytes += row.body.length
    },

    /** Puts the oldest rows, as many as one put may have. */
    async putSome(): Promise<void> {
      const some: ActivityToPut[] = []
      let someBytes = 0
      for (const row of rows.values()) {
        if (some.length === activityRowsMax || someBytes > putBytesMax) break
        some.push(row)
        someBytes += row.body.length
      }
      await store.putActivity(some)
      // a row of an hour may have been replaced meanwhile
      for (const row of some) if (rows.get(keyOf(row)) === row) remove(row)
    },
  }
}

/** When the minute or hour of a time begins. */
function startOf(time: number, spanMs: number): number {
  return Math.floor(time / spanMs) * spanMs
}

function keyOf({ span, writer }: ActivityToPut): string {
  return `${span}/${writer}`
}

function createSpan(at: number): Span {
  return { at, writer: randomBytes(8).toString('hex'), counts: createCounts() }
}

function bytesOfSpans({ minute, hour }: ProjectSpans): number {
  return bytesOfCounts(hour.counts) + (minute ? bytesOfCounts(minute.counts) : 0)
}
