import { minuteMs } from './activity.ts'

/** Follows the minutes by the times of batches and, between them, by a timer. */
export interface MinuteClock {
  /** When the current minute began, in milliseconds since 1970. */
  at(): number
  /** Begins the minute of a time, and sets the timer for the next one. */
  tick(time: number): void
  /** Ends the current minute and stops the timer. */
  stop(): void
}

export interface MinuteClockOptions {
  /** In milliseconds since 1970. */
  now: () => number
  onMinute: () => void
  /** Called with an error of `now`. */
  onError: (error: unknown) => void
}

/** A time at most this long before the current minute does not set the clock back: it belongs to the current minute. */
const lateMs = minuteMs
/** A timer may fire a millisecond early. */
const timerSlackMs = 100

export function createMinuteClock({ now, onMinute, onError }: MinuteClockOptions): MinuteClock {
  let minuteAt = Number.NEGATIVE_INFINITY
  let timer: NodeJS.Timeout | undefined

  function tick(time: number): void {
    const at = startOf(time, minuteMs)
    const isCurrent = at === minuteAt || (at < minuteAt && time >= minuteAt - lateMs)
    if (!isCurrent) {
      minuteAt = at
      onMinute()
    }
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
    at: () => minuteAt,
    tick,
    stop() {
      clearTimeout(timer)
      minuteAt = Number.NEGATIVE_INFINITY
    },
  }
}

/** When the minute or hour of a time begins. */
export function startOf(time: number, spanMs: number): number {
  return Math.floor(time / spanMs) * spanMs
}
