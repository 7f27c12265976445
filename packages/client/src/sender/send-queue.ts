import { eventBytesMax, type FilledBatch, fillBatch, isBatchFull } from '../batch/fill-batch.ts'
import type { Spool, SpoolPosition } from './spool.ts'

export interface SendQueueOptions {
  /** Maximum number of events in memory, and their maximum bytes. */
  eventsMax: number
  bytesMax: number
  spool: Spool
  /** Called with the number of events that can no longer be read from the spool: they leave the queue. */
  onUnreadable(count: number): void
}

/** An event in memory. */
export interface QueuedEvent {
  bytes: Buffer
  /** Undefined if the event is not in the spool. Changes when a lost spool is replaced. */
  spooledTo: SpoolPosition | undefined
}

/**
 * The unsent events of a sender, oldest first. The first ones are in memory; with a spool, events that do not fit into
 * memory are read from it in order.
 */
export interface SendQueue {
  events(): number
  bytes(): number
  /** Appends an event, or returns the reason why it cannot. */
  add(bytes: Buffer): 'queue_overflow' | 'spool_overflow' | 'too_large' | undefined
  /** Whether the events fill a batch. */
  isFull(): boolean
  /** Whether a batch is due: a full one, or events added before the last `makeDue`. */
  isDue(): boolean
  /** Makes all current events due. */
  makeDue(): void
  /** Resolves when all current events are removed, or the queue is closed. */
  whenRemoved(): Promise<void>
  /** @throws an error of the file system if the first events cannot be read from the spool now */
  firstBatch(): FilledBatch
  /** The first events, at most `count`, that are in memory. */
  first(count: number): QueuedEvent[]
  /** How many events the spool keeps for the next process, and how many are only in memory. */
  unsent(): { kept: number; lost: number }
  /** Removes the first events, which are stored or dropped. */
  remove(count: number): void
  /** Closes the spool; returns the events that are not in it, which are lost. */
  close(): QueuedEvent[]
}

export function createSendQueue({ eventsMax, bytesMax, onUnreadable, ...options }: SendQueueOptions): SendQueue {
  let { spool } = options
  let queue: QueuedEvent[] = []
  let queueBytes = 0
  /** The events after those of `queue`, which are only in the spool. */
  let unread = spool.left
  /** The last event in the spool that is or was in `queue`. */
  let readTo: SpoolPosition = { segment: 0, offset: 0 }
  const flushes = createFlushes(unread.events)

  const isFull = () => isBatchFull(queue.length, queueBytes)

  function enqueue(event: QueuedEvent): void {
    queue.push(event)
    queueBytes += event.bytes.length
    readTo = event.spooledTo ?? readTo
  }

  /**
   * Reads events of the spool until there is a batch in memory. @throws an error of the file system; the events stay
   * unread
   */
  function readAhead(): void {
    while (unread.events > 0 && !isFull()) {
      const events = spool.readAfter(readTo)
      for (const event of events) enqueue(event)
      unread = { events: unread.events - events.length, bytes: unread.bytes - totalBytes(events) }
      if (events.length === 0) skipUnread()
    }
  }

  /** Ignores errors, because `firstBatch` reads again. */
  function tryReadAhead(): void {
    try {
      readAhead()
    } catch {}
  }

  function skipUnread(): void {
    const count = unread.events
    unread = { events: 0, bytes: 0 }
    flushes.remove(count)
    onUnreadable(count)
  }

  /**
   * Replaces a lost spool, and writes the events in memory to the new one. Events that were only in the spool are lost.
   */
  function renew(): void {
    const renewed = spool.renew()
    if (renewed === undefined) return
    spool = renewed
    readTo = { segment: 0, offset: 0 }
    for (const event of queue) {
      event.spooledTo = spool.isFull(event.bytes.length) ? undefined : spool.append(event.bytes)
      readTo = event.spooledTo ?? readTo
    }
    if (unread.events > 0) skipUnread()
  }

  tryReadAhead()
  return {
    events: () => queue.length + unread.events,
    bytes: () => queueBytes + unread.bytes,

    add(bytes) {
      if (bytes.length > eventBytesMax) return 'too_large'
      renew()
      if (spool.isFull(bytes.length)) return 'spool_overflow'
      // to keep the order, new events go to the spool while older ones are only there
      const fitsInMemory = unread.events === 0 && queue.length < eventsMax && queueBytes + bytes.length <= bytesMax
      const spooledTo = spool.append(bytes)
      if (fitsInMemory) enqueue({ bytes, spooledTo })
      else if (spooledTo) unread = { events: unread.events + 1, bytes: unread.bytes + bytes.length }
      else return 'queue_overflow'
      flushes.add()
      return undefined
    },

    isFull,
    // if there are unread events, a whole batch is in memory
    isDue: () => flushes.isDue() || isFull() || unread.events > 0,
    makeDue: flushes.makeDue,
    whenRemoved: flushes.whenRemoved,

    firstBatch() {
      renew()
      if (queue.length === 0) readAhead()
      return fillBatch(queue)
    },
    first: (count) => queue.slice(0, count),

    unsent() {
      renew()
      const lost = queue.filter(({ spooledTo }) => !spooledTo).length
      return { kept: queue.length - lost + unread.events, lost }
    },

    remove(count) {
      renew()
      const events = queue.splice(0, count)
      queueBytes -= totalBytes(events)
      const last = events.findLast(({ spooledTo }) => spooledTo)?.spooledTo
      if (last) spool.settle(last)
      flushes.remove(events.length)
      tryReadAhead()
    },

    close() {
      renew()
      const lost = queue.filter(({ spooledTo }) => !spooledTo)
      queue = queue.filter(({ spooledTo }) => spooledTo)
      queueBytes = totalBytes(queue)
      spool.close()
      flushes.close()
      return lost
    },
  }
}

/** Which events each flush covers. They are numbered in order, so that one number marks them. */
function createFlushes(events: number) {
  let added = events
  let removed = 0
  let dueUntil = events
  let waiting: { until: number; resolve: () => void }[] = []

  return {
    add(): void {
      added++
    },

    remove(count: number): void {
      removed += count
      for (const { until, resolve } of waiting) if (until <= removed) resolve()
      waiting = waiting.filter(({ until }) => until > removed)
    },

    isDue: () => removed < dueUntil,

    makeDue(): void {
      dueUntil = added
    },

    async whenRemoved(): Promise<void> {
      const until = added
      if (removed < until) await new Promise<void>((resolve) => waiting.push({ until, resolve }))
    },

    close(): void {
      for (const { resolve } of waiting) resolve()
    },
  }
}

function totalBytes(events: readonly { bytes: Buffer }[]): number {
  return events.reduce((sum, { bytes }) => sum + bytes.length, 0)
}
