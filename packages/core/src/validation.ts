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

/** No UTF-16 code unit takes more bytes of UTF-8 than this. */
const bytesPerUnitMax = 3

/** Whether `text` is longer than `bytesMax` bytes of UTF-8. */
export function exceedsBytes(text: string, bytesMax: number): boolean {
  if (text.length * bytesPerUnitMax <= bytesMax) return false
  return text.length > bytesMax || Buffer.byteLength(text) > bytesMax
}

/** Whether `text` may name something: no control characters (U+0000 to 001F, U+007F) and no lone surrogates. */
export function isNameText(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0x20 || unit === 0x7f) return false
  }
  return text.isWellFormed()
}
