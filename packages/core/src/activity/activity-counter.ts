import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { IngestError } from '../error.ts'
import type { BatchCounter } from '../events/submit-batch.ts'
import { hourMs, minuteMs } from './activity.ts'
import {
  type ActivityRow,
  type ActivitySpan,
  type ActivityStore,
  type ActivityToPut,
  activityRowsMax,
} from './activity-store.ts'
import { addCounts, type Counts, countBatch, createCounts, sampleTextBytesMax } from './counts.ts'
import { encodeRow } from './row-body.ts'

/** Counts the outcomes of batches by minute and hour, and puts them into the store. */
export interface ActivityCounter extends BatchCounter {
  /** What the store may not have yet, or has with fewer events. */
  unputRows(projectId: string, span: ActivitySpan): ActivityRow[]
  /** Puts rows and expires old ones from now on, also if nothing is counted. */
  start(): void
  /** Puts all rows; resolves once the store has them, or one put has failed. */
  close(): Promise<void>
}

export interface ActivityCounterOptions {
  store: Pick<ActivityStore, 'putActivity' | 'expireActivity'>
  /** In milliseconds since 1970. */
  now: () => number
  /** The name of this server in the rows. */
  server: string
  keepMs: number
  /** Whether to keep the text of rejected events. */
  keepEvents: boolean
  /** Called when putting or expiring fails for the first time since it worked. */
  onError: (error: unknown) => void
  bounds?: ActivityBounds
}

/** How much of all projects is in memory. */
export interface ActivityBounds {
  /** Of the open counts. Beyond, projects without a batch in this minute are evicted first, and rows are put early. */
  countsBytesMax: number
  /** Of the rows to put: beyond, the oldest are dropped. */
  rowsBytesMax: number
}

const defaultBounds: ActivityBounds = { countsBytesMax: 33_554_432, rowsBytesMax: 33_554_432 }

/** The most bytes of one put. */
const putBytesMax = 1_048_576
/** How many projects end their minute in one turn of the event loop, or for one batch. */
const projectsPerTurn = 16
/** A batch that was received in the minute before may be counted in the current one. */
const lateMs = minuteMs
/** A timer may fire early by a millisecond. */
const timerSlackMs = 100

interface OpenSpan {
  at: number
  counts: Counts
}

/** The hour has what was counted before the minute began. */
interface OpenSpans {
  writer: string
  epoch: number
  minute: OpenSpan
  hour: OpenSpan
}

export function createActivityCounter(options: ActivityCounterOptions): ActivityCounter {
  const { store, now, server, keepMs, keepEvents, onError, bounds = defaultBounds } = options
  const rows = createRowQueue(bounds.rowsBytesMax, (dropped) => {
    if (!hasDropped)
      onError(new IngestError('overloaded', `Activity of ${dropped.projectId} is lost: the store is too slow.`))
    hasDropped = true
  })
  /** Projects without a batch in the current minute come first. */
  const projects = new Map<string, OpenSpans>()
  let countsBytes = 0
  /** The writer of projects that begin counting: under a former one, their rows would replace those that were put. */
  let writer = newWriter()
  /** Spans of an earlier epoch have ended. */
  let epoch = 0
  /** The current minute, which begins at this time. */
  let minuteAt = Number.NEGATIVE_INFINITY
  let expiredAt = Number.NEGATIVE_INFINITY
  let putting: Promise<void> | undefined
  /** The minute in which `putting` began. */
  let puttingAt = minuteAt
  let hasFailed = false
  let hasDropped = false
  let isClosed = false
  let timer: NodeJS.Timeout | undefined

  const openSpan = (at: number): OpenSpan => ({ at, counts: createCounts() })
  const hourOf = (at: number) => Math.floor(at / hourMs) * hourMs
  const isMinuteCurrent = (open: OpenSpans) => open.minute.at === minuteAt && open.epoch === epoch
  const isHourCurrent = (open: OpenSpans) => open.hour.at === hourOf(minuteAt) && open.epoch === epoch
  const isActive = (open: OpenSpans) => isMinuteCurrent(open) && hasEvents(open.minute.counts)

  function endAll(): void {
    epoch++
    writer = newWriter()
  }

  /**
   * Takes note of the time; returns whether another minute has begun. After a clock went backwards, rows have another
   * writer, so that they replace none of before.
   */
  function advance(time: number): boolean {
    const at = Math.floor(time / minuteMs) * minuteMs
    if (at === minuteAt || (at < minuteAt && time >= minuteAt - lateMs)) return false
    if (at < minuteAt) {
      endAll()
      expiredAt = Math.min(expiredAt, at)
    }
    minuteAt = at
    return true
  }

  function spansOf(projectId: string): OpenSpans {
    const open = projects.get(projectId)
    if (open && isActive(open)) return open
    const hour = open && closeMinute(projectId, open)
    const next = {
      writer: open && hour ? open.writer : writer,
      epoch,
      minute: openSpan(minuteAt),
      hour: hour ?? openSpan(hourOf(minuteAt)),
    }
    projects.delete(projectId)
    projects.set(projectId, next)
    countsBytes += next.minute.counts.bytes + (hour ? 0 : next.hour.counts.bytes)
    return next
  }

  /** Queues the rows of a minute and of its hour; returns the hour if it goes on. */
  function closeMinute(projectId: string, open: OpenSpans): OpenSpan | undefined {
    const { writer, minute, hour } = open
    countsBytes -= minute.counts.bytes + hour.counts.bytes
    addCounts(hour.counts, minute.counts)
    if (hasEvents(minute.counts)) {
      rows.add({ projectId, span: 'minute', ...toRow(writer, minute) })
      rows.add({ projectId, span: 'hour', ...toRow(writer, hour) })
    }
    if (!isHourCurrent(open)) return undefined
    countsBytes += hour.counts.bytes
    return hour
  }

  const toRow = (writer: string, { at, counts }: OpenSpan) => {
    return { at, writer, body: encodeRow(server, counts) }
  }

  /** Queues the rows of a project, if it has been counted in its minute, and forgets it. */
  function evict(projectId: string, open: OpenSpans): void {
    const hour = closeMinute(projectId, open)
    if (hour) countsBytes -= hour.counts.bytes
    projects.delete(projectId)
    writer = newWriter()
  }

  /**
   * Evicts some projects without a batch in this minute, whose rows have been put or are due; then the one that was
   * counted last, which frees what its batch took. So a batch costs two rows at most, which are put with others or when
   * the minute ends.
   */
  function evictToBound(counted: string): void {
    const isFull = () => countsBytes > bounds.countsBytesMax
    let evicted = 0
    for (const [projectId, open] of projects) {
      if (!isFull() || isActive(open) || ++evicted > projectsPerTurn) break
      evict(projectId, open)
    }
    if (isFull()) evict(counted, projects.get(counted) as OpenSpans)
    if (rows.isFull()) put()
  }

  /** Queues the rows of every project whose minute has ended. */
  async function closeMinutes(): Promise<void> {
    let closed = 0
    for (const [projectId, open] of projects) {
      // and so are all projects behind it
      if (isActive(open)) return
      if (isMinuteCurrent(open)) continue
      const hour = closeMinute(projectId, open)
      if (hour) {
        // empty, so that only the hour is kept
        open.minute = openSpan(minuteAt)
        countsBytes += open.minute.counts.bytes
      } else projects.delete(projectId)
      if (rows.isFull()) await rows.put(store)
      else if (++closed % projectsPerTurn === 0) await nextTurn()
    }
  }

  async function putRows(): Promise<void> {
    puttingAt = minuteAt
    await closeMinutes()
    // rows that are queued meanwhile wait for the next put
    for (let left = rows.size(); left > 0 && rows.size() > 0; ) left -= await rows.put(store)
    if (isClosed || minuteAt - expiredAt < hourMs) return
    const at = minuteAt
    await store.expireActivity(at - keepMs)
    expiredAt = at
  }

  /** One at a time; what fails is tried again with the next minute. */
  function put(): Promise<void> {
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
        const hasMinuteEnded = puttingAt !== minuteAt && rows.size() > 0
        if (!hasFailed && !isClosed && (hasMinuteEnded || rows.isFull())) put()
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
      // in memory of their own: a small part of a shared pool would keep all of the pool
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
      const { counts } = spansOf(projectId).minute
      const bytesBefore = counts.bytes
      countBatch(counts, batch)
      countsBytes += counts.bytes - bytesBefore
      if (countsBytes > bounds.countsBytesMax) evictToBound(projectId)
    },

    unputRows(projectId, span) {
      const queued = rows.of(projectId, span)
      const open = projects.get(projectId)
      if (!open || !hasEvents(open.minute.counts)) return queued
      const row = toRow(open.writer, span === 'minute' ? open.minute : { ...open.hour, counts: sumOf(open) })
      return [...queued.filter(({ at, writer }) => at !== row.at || writer !== row.writer), row]
    },

    start: () => start(now()),

    async close() {
      isClosed = true
      clearTimeout(timer)
      endAll()
      await putting
      await put()
    },
  }
}

function newWriter(): string {
  return randomBytes(8).toString('hex')
}

function hasEvents({ accepted, duplicates, rejected }: Counts): boolean {
  return accepted + duplicates + rejected > 0
}

function sumOf({ minute, hour }: OpenSpans): Counts {
  const sum = createCounts()
  addCounts(sum, hour.counts)
  addCounts(sum, minute.counts)
  return sum
}

/** The rows to put, oldest first. One with the key of another replaces it. */
function createRowQueue(bytesMax: number, onDrop: (row: ActivityToPut) => void) {
  const queue = new Map<string, ActivityToPut>()
  const keysByProject = new Map<string, Set<string>>()
  let bytes = 0

  const keyOf = ({ projectId, span, at, writer }: ActivityToPut) => `${projectId}/${span}/${at}/${writer}`

  function remove(key: string): void {
    const row = queue.get(key)
    if (!row) return
    queue.delete(key)
    bytes -= row.body.length
    const keys = keysByProject.get(row.projectId)
    keys?.delete(key)
    if (keys?.size === 0) keysByProject.delete(row.projectId)
  }

  return {
    size: () => queue.size,
    /** Whether the rows fill a put, or half of the memory bound. */
    isFull: () => queue.size >= activityRowsMax || bytes >= Math.min(putBytesMax, bytesMax / 2),

    add(row: ActivityToPut): void {
      const key = keyOf(row)
      remove(key)
      queue.set(key, row)
      bytes += row.body.length
      const keys = keysByProject.get(row.projectId)
      if (keys) keys.add(key)
      else keysByProject.set(row.projectId, new Set([key]))
      for (const [oldest, dropped] of queue) {
        if (bytes <= bytesMax) return
        remove(oldest)
        onDrop(dropped)
      }
    },

    of(projectId: string, span: ActivitySpan): ActivityRow[] {
      const found = [...(keysByProject.get(projectId) ?? [])].map((key) => queue.get(key) as ActivityToPut)
      return found.filter((row) => row.span === span)
    },

    /** Puts the first rows, and resolves with their number; they stay in the queue until the store has them. */
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
        // not one that has replaced it meanwhile
        if (queue.get(key) === row) remove(key)
      }
      return slice.length
    },
  }
}
