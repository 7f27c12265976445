import { isTimestampText } from './event.ts'

/**
 * A time as people write it, in milliseconds since 1970: an RFC 3339 time with a zone, such as
 * `2026-11-20T17:51:00.250Z`, or that number itself. Undefined for anything else, and for a leap second.
 */
export function parseTime(text: string): number | undefined {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  const time = isTimestampText(text) ? Date.parse(text.toUpperCase()) : Number.NaN
  return Number.isNaN(time) ? undefined : time
}
