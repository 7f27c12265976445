import { randomBytes } from 'node:crypto'
import { IngestError } from '../error.ts'
import { nextReadStep } from '../read-steps.ts'
import type { ActivityStore } from '../store.ts'
import type { ActivityRow, ActivitySpan } from '../store-types.ts'
import type { BatchCounter } from '../submit/submit-batch.ts'
import { hourMs } from './activity.ts'
import { addCounts, bytesOfCounts, type Counts, countDetails, countTotals, createCounts } from './counts.ts'
import { createMinuteClock, startOf } from './minute-clock.ts'
import { encodeOutcomes, encodeRejected } from './row-body.ts'
import { createRowQueue } from './row-queue.ts'

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
  /** Called when a put fails, unless the one before failed too, and when counts are first lost. */
  onError: (error: unknown) => void
  /**
   * The most bytes of counts and of rows to put, of all projects together. Beyond, only totals are counted; beyond twice
   * as much, no project begins another minute.
   */
  bytesMax?: number
}

/** The key of the turns of a put in the queue of read steps: no project has this id. */
const allProjects = ''

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
  const clock = createMinuteClock({ now, onMinute: put, onError })
  let countsBytes = 0
  let putting: Promise<void> | undefined
  let hasFailed = false
  let hasLost = false

  function isMemoryShort(max = bytesMax): boolean {
    return countsBytes + unput.bytes() >= max
  }

  /** The counts of the current minute; undefined if they would take too much memory. */
  function currentMinute(projectId: string): Counts | undefined {
    const found = projects.get(projectId)
    if (found?.minute?.at === clock.at()) return found.minute.counts
    if (found) endMinute(projectId, found)
    if (isMemoryShort(2 * bytesMax)) {
      if (!hasLost) onError(new IngestError('overloaded', 'Activity is lost: its counts take too much memory.'))
      hasLost = true
      return undefined
    }
    const hourAt = startOf(clock.at(), hourMs)
    const known = projects.get(projectId)
    const spans = { minute: createSpan(clock.at()), hour: known?.hour.at === hourAt ? known.hour : createSpan(hourAt) }
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
    if (hour.at !== startOf(clock.at(), hourMs) || isMemoryShort()) projects.delete(projectId)
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
        at = clock.at()
        await endMinutes()
        while (!unput.isEmpty()) await unput.putSome()
        // a minute that has ended meanwhile is put too
      } while (at !== clock.at())
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
      if (spans.minute?.at === clock.at()) continue
      endMinute(projectId, spans)
      if (unput.isFull()) await unput.putSome()
      else await nextReadStep(allProjects)
    }
  }

  return {
    keepEvents,

    count(projectId, batch) {
      if (batch.accepted + batch.duplicates + batch.rejections.length === 0) return
      clock.tick(batch.receivedAt)
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
      // ends all minutes
      clock.stop()
      await putting
      await put()
    },
  }
}

function createSpan(at: number): Span {
  return { at, writer: randomBytes(8).toString('hex'), counts: createCounts() }
}

function bytesOfSpans({ minute, hour }: ProjectSpans): number {
  return bytesOfCounts(hour.counts) + (minute ? bytesOfCounts(minute.counts) : 0)
}
