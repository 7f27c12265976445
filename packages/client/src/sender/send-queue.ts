import { eventBytesMax, type FilledBatch, fillBatch, isBatchFull } from '../batch/fill-batch.ts'
import type { Spool, SpooledEvent } from './spool.ts'

export interface SendQueueOptions {
  /** The most events, and bytes of events. */
  eventsMax: number
  bytesMax: number
  spool: Spool
}

/** The unsent events of a sender, oldest first, in memory and in its spool. */
export interface SendQueue {
  events(): number
  bytes(): number
  /** Appends an event; otherwise returns why not. */
  add(bytes: Buffer): 'queue_overflow' | 'too_large' | undefined
  /** Whether the events fill a batch. */
  isFull(): boolean
  /** Whether a batch is due: a full one, or events from before the last `makeDue`. */
  isDue(): boolean
  /** Makes all present events due. */
  makeDue(): void
  /** Resolves when all present events are removed, or the queue is closed. */
  whenRemoved(): Promise<void>
  firstBatch(): FilledBatch
  /** The first events. */
  first(count: number): SpooledEvent[]
  /** How many events the spool keeps for the next process, and how many are in memory only. */
  unsent(): { kept: number; lost: number }
  /** Removes the first events, which are stored or dropped. */
  remove(count: number): void
  /** Closes the spool; returns the events that are not in it, which are lost. */
  close(): SpooledEvent[]
}

export function createSendQueue({ eventsMax, bytesMax, spool }: SendQueueOptions): SendQueue {
  let queue = [...spool.left]
  let queuedBytes = totalBytes(queue)
  // events are numbered in their order, so that one number marks what a flush covers
  let added = queue.length
  let removed = 0
  let dueUntil = added
  let flushes: { until: number; resolve: () => void }[] = []

  const isFull = () => isBatchFull(queue.length, queuedBytes)
  return {
    events: () => queue.length,
    bytes: () => queuedBytes,

    add(bytes) {
      if (bytes.length > eventBytesMax) return 'too_large'
      if (queue.length >= eventsMax || queuedBytes + bytes.length > bytesMax) return 'queue_overflow'
      queue.push({ bytes, spooledTo: spool.append(bytes) })
      queuedBytes += bytes.length
      added++
      return undefined
    },

    isFull,
    isDue: () => removed < dueUntil || isFull(),

    makeDue() {
      dueUntil = added
    },

    async whenRemoved() {
      const until = added
      if (removed < until) await new Promise<void>((resolve) => flushes.push({ until, resolve }))
    },

    firstBatch: () => fillBatch(queue),
    first: (count) => queue.slice(0, count),

    unsent() {
      const kept = queue.filter(({ spooledTo }) => spooledTo).length
      return { kept, lost: queue.length - kept }
    },

    remove(count) {
      const events = queue.splice(0, count)
      removed += events.length
      queuedBytes -= totalBytes(events)
      const last = events.findLast(({ spooledTo }) => spooledTo)?.spooledTo
      if (last) spool.settle(last)
      for (const { until, resolve } of flushes) if (until <= removed) resolve()
      flushes = flushes.filter(({ until }) => until > removed)
    },

    close() {
      const lost = queue.filter(({ spooledTo }) => !spooledTo)
      queue = queue.filter(({ spooledTo }) => spooledTo)
      queuedBytes = totalBytes(queue)
      spool.close()
      for (const { resolve } of flushes) resolve()
      return lost
    },
  }
}

function totalBytes(events: readonly { bytes: Buffer }[]): number {
  return events.reduce((sum, { bytes }) => sum + bytes.length, 0)
}
