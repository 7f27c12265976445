import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { IngestError } from '../error.ts'
import type { BatchCounter } from '../events/submit-batch.ts'
import type { ActivityStore } from '../store.ts'
import { type ActivityRow, type ActivitySpan, type ActivityToPut, activityRowsMax } from '../store-types.ts'
import { hourMs, minuteMs } from './activity.ts'
import { addCounts, type Counts, countBatch, createCounts, sampleTextBytesMax } from './counts.ts'
import { encodeOutcomes, encodeRejected } from './row-body.ts'

/**
 * Counts the outcomes of batches by minute and hour, and puts them into the store when a minute has ended. Its memory
 * is bounded: when it runs short, projects are counted without names, causes and samples, and then not at all.
 */
export interface ActivityCounter extends BatchCounter {
  /** The rows that the store may not have yet, or only with fewer events. */
  unputRows(projectId: string, span: ActivitySpan): ActivityRow[]
  /** Puts rows periodically from now on, even if nothing is counted. */
  start(): void
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
  bounds?: ActivityBounds
}

/** The limits of memory for all projects together. */
export interface ActivityBounds {
  /**
   * The most bytes of open counts. Beyond, only totals are counted; beyond twice as much, projects that are new in a
   * minute are not counted.
   */
  countsBytesMax: number
  /** The most bytes of rows to put. Beyond, the oldest rows are dropped. */
  rowsBytesMax: number
}

const defaultBounds: ActivityBounds = { countsBytesMax: 33_554_432, rowsBytesMax: 33_554_432 }

/** The most bytes of one put. */
const putBytesMax = 1_048_576
/** The number of projects whose minute ends in one turn of the event loop. */
const projectsPerTurn = 16
/** A batch that was received in the previous minute may be counted in the current one. */
const lateMs = minuteMs
/** A timer may fire a millisecond early. */
const timerSlackMs = 100

/** The open counts of a project. */
interface OpenSpans {
  /**
   * The writer of its rows. A project that was forgotten gets a new writer, so that it does not replace its earlier
   * rows.
   */
  writer: string
  minuteAt: number
  /** Undefined once its row is to be put. */
  minute: Counts | undefined
  hourAt: number
  /** The counts of the hour before the current minute. */
  hour: Counts
}

export function createActivityCounter(options: ActivityCounterOptions): ActivityCounter {
  const { store, now, server, keepEvents, onError, bounds = defaultBounds } = options
  const rows = createRowQueue(bounds.rowsBytesMax, () => reportLoss('the store is too slow'))
  const projects = new Map<string, OpenSpans>()
  let countsBytes = 0
  /** When the current minute began. */
  let minuteAt = Number.NEGATIVE_INFINITY
  let putting: Promise<void> | undefined
  let hasFailed = false
  let hasLost = false
  let isClosed = false
  let timer: NodeJS.Timeout | undefined

  function reportLoss(reason: string): void {
    if (!hasLost) onError(new IngestError('overloaded', `Activity is lost: ${reason}.`))
    hasLost = true
  }

  /** Updates the current minute; returns whether a new one has begun. */
  function advance(time: number): boolean {
    const at = Math.floor(time / minuteMs) * minuteMs
    if (at === minuteAt || (at < minuteAt && time >= minuteAt - lateMs)) return false
    minuteAt = at
    return true
  }

  /** The counts of the current minute; undefined if there is no room for another project. */
  function minuteOf(projectId: string): Counts | undefined {
    const found = projects.get(projectId)
    if (found?.minute && found.minuteAt === minuteAt) return found.minute
    if (found) endMinute(projectId, found)
    if (countsBytes >= 2 * bounds.countsBytesMax) {
      reportLoss('too many projects are counted')
      return undefined
    }
    const open = projects.get(projectId) ?? openSpans()
    projects.set(projectId, open)
    open.minuteAt = minuteAt
    open.minute = createCounts()
    countsBytes += open.minute.bytes
    return open.minute
  }

  function openSpans(): OpenSpans {
    const hour = createCounts()
    countsBytes += hour.bytes
    const writer = randomBytes(8).toString('hex')
    return { writer, minuteAt, minute: undefined, hourAt: Math.floor(minuteAt / hourMs) * hourMs, hour }
  }

  /**
   * Queues the rows of a minute and of its hour. Forgets the project at the end of its hour, or when memory is short.
   */
  function endMinute(projectId: string, open: OpenSpans): void {
    const { writer, minuteAt: at, minute, hourAt, hour } = open
    const hasClockGoneBack = minuteAt <= at
    const hasHourEnded = minuteAt >= hourAt + hourMs
    countsBytes -= bytesOf(open)
    if (minute) {
      addCounts(hour, minute)
      open.minute = undefined
      queueRows({ projectId, span: 'minute', at, writer }, minute)
      queueRows({ projectId, span: 'hour', at: hourAt, writer }, hour)
    }
    if (hasClockGoneBack || hasHourEnded || isClosed || countsBytes >= bounds.countsBytesMax) projects.delete(projectId)
    else countsBytes += bytesOf(open)
  }

  function queueRows(key: Omit<ActivityToPut, 'body'> & { span: 'minute' | 'hour' }, counts: Counts): void {
    rows.add({ ...key, body: encodeOutcomes(server, counts) })
    if (counts.rejected > 0) rows.add({ ...key, span: `rejected-${key.span}`, body: encodeRejected(counts) })
  }

  /** Queues the rows of all projects whose minute has ended. */
  async function endMinutes(): Promise<void> {
    let ended = 0
    for (const [projectId, open] of projects) {
      if (open.minuteAt === minuteAt && !isClosed) continue
      endMinute(projectId, open)
      if (rows.isFull()) await rows.put(store)
      else if (++ended % projectsPerTurn === 0) await nextTurn()
    }
  }

  async function putRows(): Promise<void> {
    await endMinutes()
    // rows queued meanwhile wait for the next put
    for (let left = rows.size(); left > 0 && rows.size() > 0; ) left -= await rows.put(store)
  }

  /** Runs one put at a time; a failed put is tried again with the next minute. */
  function put(): Promise<void> {
    const at = minuteAt
    putting ??= putRows()
      .then(
        () => {
          hasFailed = false
        },
        (error) => {
          if (!hasFailed) onError(error)
          hasFailed = true
        },
      )
      .finally(() => {
        putting = undefined
        if (minuteAt !== at && !hasFailed && !isClosed) put()
      })
    return putting
  }

  function start(time: number): void {
    if (timer || isClosed) return
    timer = setTimeout(onTimer, minuteMs - (time % minuteMs) + timerSlackMs)
    timer.unref()
  }

  function onTimer(): void {
    let time = Math.max(0, minuteAt)
    timer = undefined
    try {
      time = now()
      advance(time)
      put()
    } catch (error) {
      onError(error)
    }
    start(time)
  }

  return {
    copyTexts(body, slices) {
      if (!keepEvents) return []
      // copied, as a small part of a shared memory pool would retain the whole pool
      return slices.map(({ start, end }) =>
        end - start <= sampleTextBytesMax ? new Uint8Array(body.subarray(start, end)) : undefined,
      )
    },

    count(projectId, batch) {
      if (batch.accepted + batch.duplicates + batch.rejections.length === 0) return
      if (advance(batch.receivedAt)) {
        start(batch.receivedAt)
        put()
      }
      const counts = minuteOf(projectId)
      if (!counts) return
      const bytesBefore = counts.bytes
      countBatch(counts, batch, { inDetail: countsBytes < bounds.countsBytesMax })
      countsBytes += counts.bytes - bytesBefore
    },

    unputRows(projectId, span) {
      const queued = rows.of(projectId, span)
      const open = projects.get(projectId)
      if (!open?.minute) return queued
      const { writer, minute, hour } = open
      const isMinute = span === 'minute' || span === 'rejected-minute'
      const at = isMinute ? open.minuteAt : open.hourAt
      const counts = isMinute ? minute : sumOf(hour, minute)
      const body = span === 'minute' || span === 'hour' ? encodeOutcomes(server, counts) : encodeRejected(counts)
      return [...queued.filter((row) => row.at !== at || row.writer !== writer), { at, writer, body }]
    },

    start: () => start(now()),

    async close() {
      isClosed = true
      clearTimeout(timer)
      await putting
      await put()
    },
  }
}

function bytesOf({ minute, hour }: OpenSpans): number {
  return hour.bytes + (minute?.bytes ?? 0)
}

function sumOf(hour: Counts, minute: Counts): Counts {
  const sum = createCounts()
  addCounts(sum, hour)
  addCounts(sum, minute)
  return sum
}

/** The rows to put, oldest first. A new row replaces one with the same key. */
function createRowQueue(bytesMax: number, onDrop: () => void) {
  const queue = new Map<string, ActivityToPut>()
  let bytes = 0

  const keyOf = ({ projectId, span, at, writer }: ActivityToPut) => `${projectId}/${span}/${at}/${writer}`

  function remove(key: string): void {
    bytes -= queue.get(key)?.body.length ?? 0
    queue.delete(key)
  }

  return {
    size: () => queue.size,
    /** Whether the rows fill one put. */
    isFull: () => queue.size >= activityRowsMax || bytes >= putBytesMax,

    add(row: ActivityToPut): void {
      const key = keyOf(row)
      remove(key)
      queue.set(key, row)
      bytes += row.body.length
      for (const oldest of queue.keys()) {
        if (bytes <= bytesMax) return
        remove(oldest)
        onDrop()
      }
    },

    of: (projectId: string, span: ActivitySpan): ActivityRow[] =>
      Array.from(queue.values()).filter((row) => row.projectId === projectId && row.span === span),

    /** Puts the first rows; resolves with their number. They stay in the queue until the store has them. */
    async put(store: Pick<ActivityStore, 'putActivity'>): Promise<number> {
      const slice: ActivityToPut[] = []
      let sliceBytes = 0
      for (const row of queue.values()) {
        if (slice.length === activityRowsMax || sliceBytes > putBytesMax) break
        slice.push(row)
        sliceBytes += row.body.length
      }
      await store.putActivity(slice)
      for (const row of slice) {
        const key = keyOf(row)
        // the row may have been replaced meanwhile
        if (queue.get(key) === row) remove(key)
      }
      return slice.length
    },
  }
}
