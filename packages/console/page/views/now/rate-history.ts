/** How many events a project had at a time, in milliseconds since 1970. */
export interface Sample {
  at: number
  events: number
}

/** The rate since the point before. */
export interface RatePoint {
  at: number
  /** Null for a gap: what happened since the point before is not known. */
  perSecond: number | null
}

export interface RateHistory {
  last: Sample | undefined
  /** Oldest first. */
  points: readonly RatePoint[]
}

export const emptyHistory: RateHistory = { last: undefined, points: [] }

/** How far back points are kept. */
export const historyMs = 600_000
/** Samples closer than this say little of a rate. */
const sampleMsMin = 500
/** After a longer time without a sample, as of a hidden tab, a rate would be a mean over what was not seen. */
const sampleMsMax = 6_000

/** The history with a further sample. A counter that falls, as after a restore, makes a gap. */
export function addSample({ last, points }: RateHistory, sample: Sample): RateHistory {
  // the clock was set back
  if (sample.at < (last?.at ?? points.at(-1)?.at ?? 0)) return { last: sample, points: [] }
  if (!last) return { last: sample, points }
  const elapsedMs = sample.at - last.at
  if (elapsedMs < sampleMsMin) return { last, points }
  const isGap = elapsedMs > sampleMsMax || sample.events < last.events
  const perSecond = isGap ? null : (1000 * (sample.events - last.events)) / elapsedMs
  return { last: sample, points: withPoint(points, { at: sample.at, perSecond }) }
}

/** The history when no sample could be taken: a gap until there are two samples again. */
export function addGap({ last, points }: RateHistory, at: number): RateHistory {
  return { last: undefined, points: last ? withPoint(points, { at, perSecond: null }) : points }
}

function withPoint(points: RateHistory['points'], point: RatePoint): RatePoint[] {
  return [...points.filter(({ at }) => at > point.at - historyMs), point]
}

export interface RateSummary {
  last: number
  mean: number
  peak: RatePoint & { perSecond: number }
}

/** Undefined without a rate. */
export function summarizeRates({ points }: RateHistory): RateSummary | undefined {
  const known = points.filter((point): point is RateSummary['peak'] => point.perSecond !== null)
  const [first] = known
  if (!first) return undefined
  return {
    last: known.at(-1)?.perSecond ?? 0,
    mean: meanOf(known.map(({ perSecond }) => perSecond)),
    peak: known.reduce((peak, point) => (point.perSecond > peak.perSecond ? point : peak), first),
  }
}

/** The rates measured in one minute of the clock. */
export interface MinuteRates {
  /** When it begins, in milliseconds since 1970. */
  at: number
  mean: number
  peak: number
}

/** Oldest first; minutes without a rate are left out. */
export function ratesByMinute({ points }: RateHistory): MinuteRates[] {
  const rates = new Map<number, number[]>()
  for (const { at, perSecond } of points) {
    const minute = Math.floor(at / 60_000) * 60_000
    if (perSecond !== null) rates.set(minute, [...(rates.get(minute) ?? []), perSecond])
  }
  return [...rates].map(([at, each]) => ({ at, mean: meanOf(each), peak: Math.max(...each) }))
}

function meanOf(rates: readonly number[]): number {
  return rates.reduce((sum, rate) => sum + rate, 0) / rates.length
}
