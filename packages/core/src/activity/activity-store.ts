/** What one process counted for a project in one minute or hour. */
export interface ActivityRow {
  /** When the span began, in milliseconds since 1970: a multiple of its length. */
  at: number
  /** A random id of the process for this project, which it may change at any time: 16 lower-case hexadecimal digits. */
  writer: string
  /** JSON that only core reads, at most {@link activityBodyBytesMax} bytes of UTF-8. */
  body: string
}

export type ActivitySpan = 'minute' | 'hour'

/** A row to write, with the rest of its key. */
export interface ActivityToPut extends ActivityRow {
  projectId: string
  span: ActivitySpan
}

/** The rows of a project with `from <= at < to`. */
export interface ActivityRange {
  span: ActivitySpan
  from: number
  to: number
}

/** The most rows of one `putActivity`. */
export const activityRowsMax = 256
export const activityBodyBytesMax = 65_536

/**
 * The part of a store that keeps what each process counted; {@link Store} says what holds for all of its operations.
 */
export interface ActivityStore {
  /**
   * Writes at most {@link activityRowsMax} rows, those of each project in one transaction; one with the same project,
   * span, time and writer is replaced. No two of them have the same. Rows alone make no project: `projects` does not
   * list it.
   */
  putActivity(rows: readonly ActivityToPut[]): Promise<void>
  /**
   * The rows of a range, in the order of `at`, then `writer`. Those that are written or expire meanwhile may be
   * missing.
   */
  activity(projectId: string, range: ActivityRange): AsyncIterable<ActivityRow>
  /**
   * Erases the rows of all projects and both spans that began before a time, in milliseconds since 1970, in small
   * transactions that delay concurrent appends little. Resolves to their number. Of concurrent expiries exactly one
   * counts a row.
   */
  expireActivity(before: number): Promise<number>
}
