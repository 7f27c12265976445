import { isUtc } from './time-zone.ts'

const locale = 'en-US'
const integer = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 })
const decimal = new Intl.NumberFormat(locale, { maximumSignificantDigits: 3 })

/** `12,345`. */
export function formatCount(count: number): string {
  return integer.format(count)
}

/** `1 event`, `12,345 events`. */
export function formatCountOf(count: number, singular: string, plural = `${singular}s`): string {
  return `${formatCount(count)} ${count === 1 ? singular : plural}`
}

/** `4.6 %`, or `< 0.1 %`, so that a share above 0 is never shown as 0. */
export function formatShare(part: number, whole: number): string {
  if (part === 0 || whole === 0) return '0 %'
  const percent = (100 * part) / whole
  if (percent < 0.1) return '< 0.1 %'
  return `${percent.toFixed(percent < 10 ? 1 : 0)} %`
}

/** `0.25`, `12.3`, `1,234`: at most three significant digits below 1,000. */
export function formatRate(perSecond: number): string {
  return perSecond < 1000 ? decimal.format(perSecond) : integer.format(perSecond)
}

const compact = new Intl.NumberFormat(locale, { notation: 'compact', maximumSignificantDigits: 3 })

/** `12.3K`: for axes. */
export function formatCompact(count: number): string {
  return compact.format(count)
}

const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

/** `512 bytes`, `1.5 MiB`. */
export function formatBytes(bytes: number): string {
  if (bytes === 1) return '1 byte'
  const power = bytes < 1024 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10))
  return `${decimal.format(bytes / 1024 ** power)} ${units[power]}`
}

/** Formats in the time zone of the page. */
function timeFormat(options: Intl.DateTimeFormatOptions): (at: number) => string {
  const local = new Intl.DateTimeFormat('sv-SE', options)
  const utc = new Intl.DateTimeFormat('sv-SE', { ...options, timeZone: 'UTC' })
  return (at) => (isUtc() ? utc : local).format(at)
}

const date = timeFormat({ dateStyle: 'short' })
const time = timeFormat({ timeStyle: 'medium' })
const dateTime = timeFormat({ dateStyle: 'short', timeStyle: 'medium' })

/** `17:51:00` today, else `2026-11-20 17:51:00`: in the time zone of the page. */
export function formatTime(at: number, now = Date.now()): string {
  return date(at) === date(now) ? time(at) : dateTime(at)
}

const minute = timeFormat({ timeStyle: 'short' })

/** `17:51` today, else `2026-11-20 17:51`. */
export function formatMinute(at: number, now = Date.now()): string {
  return date(at) === date(now) ? minute(at) : `${date(at)} ${minute(at)}`
}

/** `17:00–18:00`, with the date as `formatMinute`. */
export function formatHour(at: number, now?: number): string {
  return `${formatMinute(at, now)}–${minute(at + 3_600_000)}`
}

const spans = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
  [1, 's'],
] as const

/** `0 s`, `5 min`, `3 d`: in the largest unit, rounded down. */
export function formatSpan(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000))
  const [unit, name] = spans.find(([unit]) => seconds >= unit) ?? [1, 's']
  return `${formatCount(Math.floor(seconds / unit))} ${name}`
}

/** `17:51:00.250` today, else with the date as `formatTime`. */
export function formatTimeMs(at: number, now?: number): string {
  return `${formatTime(at, now)}.${String(at % 1000).padStart(3, '0')}`
}

/** The value of a `datetime-local` field, `2026-11-20T17:51:00`: in the time zone of the page. */
export function formatLocal(at: number): string {
  return dateTime(at).replace(' ', 'T')
}

/** The inverse of `formatLocal`; NaN for an invalid time. */
export function parseLocal(text: string): number {
  return Date.parse(isUtc() ? `${text}Z` : text)
}
