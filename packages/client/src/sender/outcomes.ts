import type { BatchResult, Issue, RejectedEvent } from '@ingest/core'
import type { JsonObject } from '@ingest/core/internal'

/**
 * Why an event was dropped: the queue was full (`queue_overflow`); the server rejected it (`rejected`); it is larger
 * than a batch, or its batch got a 413 (`too_large`) or a 400 (`bad_request`); the sender was closed before the event
 * was stored, without a spool (`closed`); its line in the spool is damaged (`damaged`); the spool was full
 * (`spool_overflow`).
 */
export type DropReason =
  | 'bad_request'
  | 'closed'
  | 'damaged'
  | 'queue_overflow'
  | 'rejected'
  | 'spool_overflow'
  | 'too_large'

/** A rejected event and the reasons. */
export interface Rejection {
  event: JsonObject
  issues: readonly Issue[]
}

export interface SenderCallbacks {
  /** Called for each batch with rejected events. They are not sent again. */
  onRejected?: ((rejections: Rejection[]) => void) | undefined
  /** Called for all dropped events, including rejected ones, with the events as they would have been sent. */
  onDrop?: ((reason: DropReason, events: JsonObject[]) => void) | undefined
  /** Called before a batch is sent again in `pauseMs`, including the five minutes after a 401. */
  onRetry?: ((error: unknown, pauseMs: number) => void) | undefined
}

export interface OutcomeCounts {
  /** Newly stored events. */
  accepted: number
  /** Events that were already stored, by another sender or by an attempt whose response was lost. */
  duplicates: number
  dropped: Readonly<Record<DropReason, number>>
}

type Events = readonly { bytes: Buffer }[]

/** Counts the outcomes of events, and calls the callbacks for them. */
export interface Outcomes {
  counts(): OutcomeCounts
  /** `count` exceeds the number of events if some cannot be read. */
  drop(reason: DropReason, events: Events, count?: number): void
  /** Counts the result of a batch of these events. */
  settle(result: BatchResult, events: Events): void
  retry(error: unknown, pauseMs: number): void
}

export function createOutcomes({ onDrop, onRejected, onRetry }: SenderCallbacks): Outcomes {
  const dropped: Record<DropReason, number> = {
    bad_request: 0,
    closed: 0,
    damaged: 0,
    queue_overflow: 0,
    rejected: 0,
    spool_overflow: 0,
    too_large: 0,
  }
  let accepted = 0
  let duplicates = 0

  function drop(reason: DropReason, events: Events, count = events.length): void {
    if (count === 0) return
    dropped[reason] += count
    notify(onDrop, reason, events.map(parseEvent))
  }

  return {
    counts: () => ({ accepted, duplicates, dropped: { ...dropped } }),
    drop,

    settle(result, events) {
      accepted += result.accepted
      duplicates += result.duplicates
      if (result.rejected.length === 0) return
      const eventOf = ({ index }: RejectedEvent) => events[index] as Events[number]
      const rejections = result.rejected.map((each) => ({ event: parseEvent(eventOf(each)), issues: each.issues }))
      notify(onRejected, rejections)
      drop('rejected', result.rejected.map(eventOf))
    },

    retry: (error, pauseMs) => notify(onRetry, error, pauseMs),
  }
}

function parseEvent({ bytes }: { bytes: Buffer }): JsonObject {
  return JSON.parse(bytes.toString())
}

/** Calls a callback; its errors become process warnings. */
function notify<Args extends unknown[]>(callback: ((...args: Args) => void) | undefined, ...args: Args): void {
  if (!callback) return
  const call = async () => callback(...args)
  call().catch((error) => process.emitWarning(`A callback of the sender failed: ${error}`))
}
