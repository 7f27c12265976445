/** The closed set of what can be wrong with a part of an event or of a publication. */
export type IssueCode =
  | 'digest_mismatch'
  | 'invalid_format'
  | 'invalid_type'
  | 'not_allowed'
  | 'not_object'
  | 'out_of_range'
  | 'project_mismatch'
  | 'required'
  | 'too_deep'
  | 'too_long'
  | 'too_short'
  | 'undeclared'

/** One fault: `{ code: 'invalid_type', path: '/buildId', message: 'Expected a string.' }`. */
export interface Issue {
  code: IssueCode
  /** A JSON Pointer (RFC 6901) inside the event, publication or chunk; the empty string is that itself. */
  path: string
  /** A sentence for people; it never repeats the value. */
  message: string
}

/** At most so many issues are reported for one event or publication; one with more of them has something else wrong with it. */
export const issuesMax = 20

/** `path` with one more step, escaped as RFC 6901 section 3 says. */
export function pointer(path: string, step: string | number): string {
  return `${path}/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`
}
