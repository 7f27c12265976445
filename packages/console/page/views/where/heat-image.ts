import type { Counts } from '../../heat/grid.ts'
import { colorAt, fraction } from '../../heat/scale.ts'

const opacity = 0.88

/** Counts as an image with one pixel per cell, transparent where there are no events. `max` has the last colour. */
export function heatImage(counts: Counts, max: number, { isDark }: { isDark: boolean }): ImageData {
  const image = new ImageData(counts.columns, counts.rows)
  const pixels = new Uint32Array(image.data.buffer)
  const colors = new Map<number, number>()
  for (const [i, count] of counts.counts.entries()) {
    if (count === 0) continue
    let color = colors.get(count)
    if (color === undefined) {
      color = pixelOf(colorAt(fraction(count, max), isDark))
      colors.set(count, color)
    }
    pixels[i] = color
  }
  return image
}

/** The byte order of canvas pixels, red in the lowest byte. */
function pixelOf([red, green, blue]: readonly [number, number, number]): number {
  return ((Math.round(opacity * 255) << 24) | (blue << 16) | (green << 8) | red) >>> 0
}
