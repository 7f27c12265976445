import { pushQuery } from './address.ts'

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

/** The selectable spans up to now, in milliseconds. */
export const spans = {
  '15m': 15 * minute,
  '1h': hour,
  '6h': 6 * hour,
  '24h': day,
  '3d': 3 * day,
  '7d': 7 * day,
  '14d': 14 * day,
} as const

export type SpanName = keyof typeof spans

/** A chosen time range: a span that ends now, or fixed times. */
export type RangeChoice = SpanName | { from: number; to: number }

/** The range of the address, in milliseconds since 1970: `from <= at < to`. */
export interface Range {
  choice: RangeChoice
  from: number
  to: number
  /** The span before the zoom, which the address has in addition to fixed times. */
  zoomedFrom: SpanName | undefined
  /** Whether the range ends now, and so moves each time it is parsed. */
  isLive: boolean
  /** Explains why the range in the address was ignored. */
  note: string | undefined
}

/** Parses `range`, or `from` and `to` in RFC 3339, from the query of an address. Never throws. */
export function parseRange(query: URLSearchParams, now: number, fallback: SpanName = '1h'): Range {
  const [name, from, to] = [query.get('range'), query.get('from'), query.get('to')]
  if (from !== null || to !== null) {
    const choice = { from: parseTime(from), to: parseTime(to) }
    const zoomedFrom = isSpan(name) ? name : undefined
    if (choice.from < choice.to) return { choice, ...choice, zoomedFrom, isLive: false, note: undefined }
    return spanUntil(fallback, now, 'The times in the address are not a range')
  }
  if (name === null) return spanUntil(fallback, now)
  return isSpan(name) ? spanUntil(name, now) : spanUntil(fallback, now, 'The range in the address is unknown')
}

function isSpan(name: string | null): name is SpanName {
  return name !== null && Object.hasOwn(spans, name)
}

function spanUntil(name: SpanName, now: number, problem?: string): Range {
  const note = problem && `${problem}: showing the last ${spanTitles[name]}.`
  return { choice: name, from: now - spans[name], to: now, zoomedFrom: undefined, isLive: true, note }
}

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/i

/** NaN for anything else. */
function parseTime(text: string | null): number {
  return text !== null && rfc3339.test(text) ? Date.parse(text) : Number.NaN
}

/** The members of the query that hold a choice: the inverse of `parseRange`. */
export function formatRange(choice: RangeChoice): Record<'range' | 'from' | 'to', string | undefined> {
  if (typeof choice === 'string') return { range: choice, from: undefined, to: undefined }
  return { range: undefined, from: formatUtc(choice.from), to: formatUtc(choice.to) }
}

/** Zooms the page in to a part of its range. The back button and the button of the RangePicker zoom out. */
export function zoomTo({ choice, zoomedFrom }: Range, part: { from: number; to: number }): void {
  pushQuery({ ...formatRange(part), range: typeof choice === 'string' ? choice : zoomedFrom })
}

/** RFC 3339 in UTC, without fractions for whole seconds. */
function formatUtc(at: number): string {
  return new Date(at).toISOString().replace('.000Z', 'Z')
}

/** Completes "the last …". */
export const spanTitles: Readonly<Record<SpanName, string>> = {
  '15m': '15 minutes',
  '1h': 'hour',
  '6h': '6 hours',
  '24h': '24 hours',
  '3d': '3 days',
  '7d': '7 days',
  '14d': '14 days',
}

/** The members of a query that hold its range, for a link to another view. */
export function keepRange(query: URLSearchParams): Record<string, string> {
  return Object.fromEntries([...query].filter(([name]) => ['range', 'from', 'to'].includes(name)))
}
