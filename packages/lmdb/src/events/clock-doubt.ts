import type { ClockDoubt } from '@ingest/core'
import type { EventLog } from '../log/event-log.ts'
import { readLogEnd } from '../log/log-end.ts'
import type { SlicedReads } from '../log/snapshot-reader.ts'

/*
 * A clock that is ahead makes all events old, and its times stay in the log, as they never decrease. So the clock is
 * compared with the log: time has passed if records were stored throughout it, or if this process has run throughout
 * it, by the monotonic clock.
 */

/**
 * How long a store may be idle. A longer time without records, and without this process running, may not have passed.
 */
const quietMsMax = 7 * 86_400_000
/** After a longer time without records the clock is doubted, even if nothing is to be erased. */
const idleMsMax = 365 * 86_400_000
/** How far a correction may set a clock back without a doubt. */
const backwardsMsMax = 60_000

export interface ClockQuestion {
  since: number
  now: number
  /** How long this process has run, by the monotonic clock, in milliseconds. */
  upMs: number
}

/**
 * Looks for time between `since` and `now` that may not have passed, and for records with times in the future. There is
 * no doubt about an age that no record has.
 *
 * @throws {IngestError} `store-damaged`
 */
export async function findClockDoubt(
  log: EventLog,
  { readSnapshot, nextStep }: SlicedReads,
  { since, now, upMs }: ClockQuestion,
): Promise<ClockDoubt | undefined> {
  const upSince = now - upMs
  const { sequence, receivedAt: newestAt } = readSnapshot(() => readLogEnd(log))
  if (sequence === 0) return undefined
  if (newestAt > now + backwardsMsMax) return futureTimes(newestAt)
  if (upSince - newestAt > idleMsMax) return unknownTime(newestAt, upSince)

  /**
   * When the last record before a time and the first one after it were received. The absence of an earlier record is no
   * reason for doubt.
   */
  function timesAround(time: number): { beforeAt: number; afterAt: number } {
    const next = log.firstSince(time)
    return {
      beforeAt: next > 1 ? log.header(next - 1).receivedAt : Number.POSITIVE_INFINITY,
      afterAt: next > log.lastSequence() ? upSince : log.header(next).receivedAt,
    }
  }

  for (let from = since; from < upSince; ) {
    await nextStep()
    const { beforeAt, afterAt } = readSnapshot(() => timesAround(from + quietMsMax))
    const until = Math.min(afterAt, upSince)
    if (until - beforeAt > quietMsMax) return unknownTime(beforeAt, until)
    if (afterAt >= upSince) return undefined
    from = afterAt
  }
  return undefined
}

function futureTimes(newestAt: number): ClockDoubt {
  return {
    message: `The newest event was received at ${iso(newestAt)}, which is in the future: the clock was ahead then, or is behind now. Until that time, all events get it, and are not erased by age. If the clock is right now, copy the store to a new directory with \`ingest copy --latest\` and the time when it was set right, and serve the copy.`,
    mayBeAhead: false,
  }
}

function unknownTime(from: number, to: number): ClockDoubt {
  return {
    message: `Only the clock says that the time from ${iso(from)} to ${iso(to)} has passed: no event was received then. The clock may be ahead. If it is wrong, stop the server before it stores more events, and set it. If it is right, \`ingest erase --older-than\` erases what was received before a time that you name.`,
    mayBeAhead: true,
  }
}

function iso(time: number): string {
  return new Date(time).toISOString()
}
