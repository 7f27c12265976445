import { IngestError, type Issue } from '../error.ts'

/** Outcomes of the events of a project in one step. */
export interface ActivityStep {
  /** When the step begins, in milliseconds since 1970. */
  at: number
  accepted: number
  duplicates: number
  rejected: number
}

/** The events of one type or one build. */
export interface ActivityGroup {
  /** Null for events without a name, and for names beyond the most frequent ones of a row. */
  name: string | null
  accepted: number
  rejected: number
  /** When the first and the last row with such an event begin: the minute or hour, in milliseconds since 1970. */
  firstAt: number
  lastAt: number
  /** The accepted events in each of `steps`. */
  counts: number[]
}

/** The events that all processes counted for a project in a range of time. */
export interface Activity {
  /** The range, widened to whole steps: milliseconds since 1970. */
  from: number
  to: number
  /** 60 for ranges of up to 6 hours, 600 up to a day, 3,600 beyond. */
  stepSeconds: number
  /** The servers that counted something, by name. */
  servers: number
  /** Every step of the range, oldest first. */
  steps: ActivityStep[]
  /** With `by`: at most 100 names, most events first, and null last. */
  groups?: ActivityGroup[]
}

/** A range of at most `activityRangeMsMax`. */
export interface ActivityRangeOptions {
  /** In milliseconds since 1970. Default: an hour before `to`. */
  from?: number
  /** In milliseconds since 1970. Default: now. */
  to?: number
  /** Called with the bytes of each row that is read, for rate limits. Only by an embedded Ingest. */
  onScan?: (bytes: number) => void
}

export interface ActivityOptions extends ActivityRangeOptions {
  /** The names to group by, which adds `groups`. */
  by?: 'type' | 'build'
}

/** One of the rejected events of a group. */
export interface RejectionSample {
  /** In milliseconds since 1970. */
  receivedAt: number
  /** Null if the event has no valid id. */
  eventId: string | null
  /** Long paths and messages are truncated. */
  issues: Issue[]
  /** The exact text of the event, if rejected events are kept; left out beyond 524,288 bytes of texts together. */
  event?: string
}

/** Rejected events with the same first issue, build, type and key. */
export interface RejectionGroup {
  code: Issue['code']
  /** The JSON Pointer of the issue, with `*` in place of array indexes. */
  path: string
  message: string
  /** Null without a valid build; `type` likewise. */
  buildId: string | null
  type: string | null
  /** Null if unknown, as for embedded calls without a key. */
  keyId: string | null
  /** The name that the key was given; null without one. */
  keyName: string | null
  count: number
  /**
   * At most 8 game servers, most events first, with null for events without a valid `serverId`. The counts are exact if
   * they add up to `count`, and lower bounds if not: events of too many servers are counted without their server.
   */
  serverIds: { serverId: string | null; count: number }[]
  /** When the first and the last of them were received, in milliseconds since 1970. */
  firstAt: number
  lastAt: number
  /** The events in each of `steps`. */
  counts: number[]
  /** At most 3 of them, newest first. */
  samples: RejectionSample[]
}

/**
 * The events that all processes rejected for a project in a range of time. `total` is the sum of the groups' counts and
 * `other`.
 */
export interface Rejections extends Pick<Activity, 'from' | 'to' | 'stepSeconds'> {
  total: number
  /** Every step of the range, oldest first. */
  steps: Pick<ActivityStep, 'at' | 'rejected'>[]
  /** At most 100, most events first. */
  groups: RejectionGroup[]
  /** Events in none of the groups. */
  other: number
}

/**
 * Reads the counts of one project from all processes that share the store.
 *
 * @experimental
 */
export interface ActivityReader {
  /**
   * Outcomes by time, and on request by type or build.
   *
   * @throws {IngestError} `invalid-argument` for an invalid range or one of more than 31 days
   */
  getActivity(options?: ActivityOptions): Promise<Activity>
  /**
   * Rejected events by cause.
   *
   * @throws {IngestError} the codes of `getActivity`
   */
  listRejected(options?: ActivityRangeOptions): Promise<Rejections>
}

export const minuteMs = 60_000
export const hourMs = 3_600_000
/** The longest range of one call. */
export const activityRangeMsMax = 31 * 24 * hourMs

/** A range in whole steps. */
export interface StepRange {
  from: number
  to: number
  stepMs: number
}

/** @throws {IngestError} `invalid-argument` */
export function parseActivityRange({ from, to }: ActivityRangeOptions, now: () => number): StepRange {
  // includes events received now
  const latest = to ?? now() + 1
  const earliest = from ?? latest - hourMs
  for (const [name, time] of Object.entries({ from: earliest, to: latest })) {
    if (!Number.isFinite(time)) {
      throw new IngestError('invalid-argument', `${name} must be a time in milliseconds since 1970.`)
    }
  }
  const [start, end] = [Math.max(earliest, timeMin), Math.min(latest, timeMax)]
  if (start >= end) throw new IngestError('invalid-argument', 'from must be before to.')
  if (end - start > activityRangeMsMax + hourMs) {
    throw new IngestError('invalid-argument', 'A range is at most 31 days: choose a later from or an earlier to.')
  }
  const stepMs = stepMsOf(end - start)
  return { from: Math.floor(start / stepMs) * stepMs, to: Math.ceil(end / stepMs) * stepMs, stepMs }
}

/** The first and the last whole hour of RFC 3339; no counts exist outside of them. */
const [timeMin, timeMax] = [Date.parse('0000-01-01T00:00:00Z'), Date.parse('9999-12-31T23:00:00Z')]

/** Tolerates that a range up to now has grown a little by the time it arrives, as `to` is later. */
function stepMsOf(rangeMs: number): number {
  if (rangeMs <= 6 * hourMs + minuteMs) return minuteMs
  return rangeMs <= 24 * hourMs + 10 * minuteMs ? 10 * minuteMs : hourMs
}
