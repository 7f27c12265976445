/** The smallest of 1, 2 or 5 × 10ⁿ that is at least `least`. */
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least))
  // tolerance: 0.002 gives 2.0000000000000004
  const factor = [1, 2, 5, 10].find((factor) => factor * power >= least * (1 - 1e-9)) ?? 10
  return Number((factor * power).toPrecision(12))
}

/** About `number` round numbers from `from` to `to`. */
export function ticks(from: number, to: number, number: number): number[] {
  if (!(to > from)) return [from]
  const step = niceStep((to - from) / Math.max(1, number))
  const first = Math.ceil(from / step - 1e-9)
  const last = Math.floor(to / step + 1e-9)
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)))
}

/** The position of a count from 1 to `max` on the logarithmic scale, from 0 to 1. */
export function fraction(count: number, max: number): number {
  return max <= 1 ? 1 : Math.log(count) / Math.log(max)
}

/** The counts shown in a legend: 1, the maximum, and powers of ten between them with enough space. */
export function legendCounts(max: number): number[] {
  if (max <= 1) return [1]
  const between = Array.from({ length: Math.ceil(Math.log10(max)) }, (_, i) => 10 ** i)
  const roomy = between.filter((count) => {
    const at = fraction(count, max)
    return at > 0.12 && at < 0.85
  })
  return [1, ...roomy, max]
}

/** Viridis: its lightness rises evenly, so it is readable without hues. */
const viridis = [
  [68, 1, 84],
  [72, 36, 117],
  [65, 68, 135],
  [53, 95, 141],
  [42, 120, 142],
  [33, 145, 140],
  [34, 168, 132],
  [68, 191, 112],
  [122, 209, 81],
  [189, 223, 38],
  [253, 231, 37],
] as const

/** Low counts are close to the background, high counts stand out: light on dark, dark on light. */
export function colorAt(at: number, isDark: boolean): [number, number, number] {
  const place = (isDark ? 0.14 + 0.86 * at : 0.9 - 0.9 * at) * (viridis.length - 1)
  const low = Math.min(viridis.length - 2, Math.max(0, Math.floor(place)))
  const share = place - low
  const [from, to] = [viridis[low], viridis[low + 1]] as [readonly number[], readonly number[]]
  const mix = (i: number) => Math.round((from[i] as number) * (1 - share) + (to[i] as number) * share)
  return [mix(0), mix(1), mix(2)]
}
