import { IngestError, type Issue } from './error.ts'

/** A JSON object with unknown members. */
export type JsonObject = Record<string, unknown>

/** Maximum number of issues that are reported for one event or publication. */
export const issuesMax = 20

/** `path` with one more reference token, escaped as in RFC 6901 section 3. */
export function pointer(path: string, token: string | number): string {
  return `${path}/${escapeToken(token)}`
}

/**
 * The JSON Pointer of these reference tokens. Joined, because V8 keeps a concatenated string as a tree of its parts.
 */
export function pointerOf(tokens: readonly (string | number)[]): string {
  return ['', ...tokens.map(escapeToken)].join('/')
}

function escapeToken(token: string | number): string {
  return String(token).replaceAll('~', '~0').replaceAll('/', '~1')
}

/** Whether `value` is a JSON object: neither an array nor null. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export const projectIdPattern = /^[A-Za-z0-9._-]{1,64}$/

/** Whether `value` is a valid project id: 1 to 64 of `A-Z a-z 0-9 . _ -`. */
export function isProjectId(value: unknown): value is string {
  return typeof value === 'string' && projectIdPattern.test(value)
}

/** @throws {IngestError} `invalid-argument` for an invalid project id */
export function checkProjectId(projectId: string): void {
  if (!isProjectId(projectId)) {
    throw new IngestError('invalid-argument', 'A project id is 1 to 64 of A-Z a-z 0-9 . _ -')
  }
}

/** The issue of a value that is not a string of `bytesMin` to `bytesMax` bytes of UTF-8; undefined for a valid one. */
export function textIssue(value: unknown, path: string, bytesMin: number, bytesMax: number): Issue | undefined {
  if (typeof value !== 'string') return { code: 'invalid_type', path, message: 'Expected a string.' }
  if (value.length < bytesMin) return { code: 'too_short', path, message: `Expected at least ${bytesMin} byte.` }
  if (exceedsBytes(value, bytesMax)) {
    return { code: 'too_long', path, message: `Expected at most ${bytesMax} bytes of UTF-8.` }
  }
  return undefined
}

/** The issue of a value that is not a name: 1 to `bytesMax` bytes without control characters and lone surrogates. */
export function nameIssue(value: unknown, path: string, bytesMax: number): Issue | undefined {
  const issue = textIssue(value, path, 1, bytesMax)
  if (issue || isName(value as string)) return issue
  return { code: 'invalid_format', path, message: 'Expected no control characters and no lone surrogates.' }
}

/** Like {@link textIssue}, but any safe integer is valid too. */
export function textOrIntegerIssue(
  value: unknown,
  path: string,
  bytesMin: number,
  bytesMax: number,
): Issue | undefined {
  if (typeof value === 'string') return textIssue(value, path, bytesMin, bytesMax)
  if (typeof value !== 'number') return { code: 'invalid_type', path, message: 'Expected a string or an integer.' }
  return integerIssue(value, path, Number.MIN_SAFE_INTEGER)
}

/** The issue of a value that is not an integer from `min` to `max`. */
export function integerIssue(
  value: unknown,
  path: string,
  min: number,
  max: number = Number.MAX_SAFE_INTEGER,
): Issue | undefined {
  if (!Number.isInteger(value)) return { code: 'invalid_type', path, message: 'Expected an integer.' }
  if ((value as number) >= min && (value as number) <= max) return undefined
  return { code: 'out_of_range', path, message: `Expected an integer from ${min} to ${max}.` }
}

/**
 * Checks that the limit of a page is 1 to `max` items.
 *
 * @throws {IngestError} `invalid-argument`
 */
export function checkLimit(limit: number, max: number, items: string): void {
  if (Number.isInteger(limit) && limit >= 1 && limit <= max) return
  throw new IngestError('invalid-argument', `limit must be a number of ${items} from 1 to ${max}.`)
}

/** A UTF-16 code unit takes at most 3 bytes of UTF-8. */
const bytesPerUnitMax = 3

/** Whether `text` is longer than `bytesMax` bytes of UTF-8. */
export function exceedsBytes(text: string, bytesMax: number): boolean {
  if (text.length * bytesPerUnitMax <= bytesMax) return false
  return text.length > bytesMax || Buffer.byteLength(text) > bytesMax
}

/** Whether `text` has no control characters (U+0000 to 001F, U+007F) and no lone surrogates. */
export function isName(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0x20 || unit === 0x7f) return false
  }
  return text.isWellFormed()
}

// RFC 3339 section 5.6 with the ranges of section 5.7; leap seconds are not checked against the announced dates
const rfc3339 =
  /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/i

/** Whether `text` is an RFC 3339 time with a zone. */
export function isTimestamp(text: string): boolean {
  return rfc3339.test(text) && isDayOfMonth(text)
}

/** Whether the day of an RFC 3339 time, from 1 to 31, exists in its month. */
function isDayOfMonth(time: string): boolean {
  const day = time.slice(8, 10)
  if (day <= '28') return true
  const [year, month] = [Number(time.slice(0, 4)), Number(time.slice(5, 7))]
  if (month === 2) return day === '29' && ((year % 4 === 0 && year % 100 !== 0) || year % 400 === 0)
  return day !== '31' || !(month === 4 || month === 6 || month === 9 || month === 11)
}

/**
 * Milliseconds since 1970 of an RFC 3339 time with a zone, such as `2026-11-20T17:51:00.250Z`, or of that number in
 * digits. Undefined for anything else, and for a leap second.
 */
export function parseTime(text: string): number | undefined {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  const time = isTimestamp(text) ? Date.parse(text.toUpperCase()) : Number.NaN
  return Number.isNaN(time) ? undefined : time
}
