import type { Difference } from '../../heat/compare.ts'
import type { Counts } from '../../heat/grid.ts'
import { colorAt, divergingColorAt, fraction, type ScaleKind, signedFraction } from '../../heat/scale.ts'

const opacity = 0.88
/** Opacity of a difference that may be chance. */
const faintOpacity = 0.3

/** Counts as an image with one pixel per cell, transparent where there are no events. */
export function heatImage(counts: Counts, kind: ScaleKind, { isDark }: { isDark: boolean }): ImageData {
  const image = new ImageData(counts.columns, counts.rows)
  const pixels = new Uint32Array(image.data.buffer)
  const colors = new Map<number, number>()
  for (const [i, count] of counts.counts.entries()) {
    if (count === 0) continue
    let color = colors.get(count)
    if (color === undefined) {
      color = pixelOf(colorAt(fraction(count, counts.max, kind), isDark), opacity)
      colors.set(count, color)
    }
    pixels[i] = color
  }
  return image
}

/** Differences as an image; differences that may be chance are faint. */
export function differenceImage(difference: Difference, kind: ScaleKind, { isDark }: { isDark: boolean }): ImageData {
  const { columns, rows, values, isClear, max } = difference
  const image = new ImageData(columns, rows)
  const pixels = new Uint32Array(image.data.buffer)
  const chance = pixelOf(divergingColorAt(0, isDark), faintOpacity)
  for (const [i, value] of values.entries()) {
    if (isClear[i] === 1) pixels[i] = pixelOf(divergingColorAt(signedFraction(value, max, kind), isDark), opacity)
    else if (value !== 0) pixels[i] = chance
  }
  return image
}

/** The byte order of canvas pixels, red in the lowest byte. */
function pixelOf([red, green, blue]: readonly [number, number, number], alpha: number): number {
  return ((Math.round(alpha * 255) << 24) | (blue << 16) | (green << 8) | red) >>> 0
}
