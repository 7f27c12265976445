import { useMemo } from 'preact/hooks'
import type { Counts } from '../../heat/grid.ts'
import type { CountedEvents, Selection } from '../../heat/heat-events.ts'
import { colorAt, fraction } from '../../heat/scale.ts'
import type { Box, Size, Viewport } from '../../heat/viewport.ts'
import { Value } from '../../parts/value.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { FoundParts } from '../../worker/where-calls.ts'
import { PartsPicture } from './parts-map.tsx'
import { useTheme } from './use-theme.ts'

interface HeatPictureProps {
  call: CallWorker
  size: Size
  viewport: Viewport
  counts: CountedEvents | undefined
  /** The count with the last colour. */
  max: number
  parts: FoundParts | undefined
  /** Cells to outline. */
  cells: readonly Box[]
  selection: Selection
  /** The name of its build, if there are two pictures. */
  name: string | undefined
  /** Description for screen readers. */
  label: string
}

/** Counts over the parts of a map. They may be those of the previous viewport until the worker has new ones. */
export function HeatPicture(props: HeatPictureProps) {
  const { call, size, viewport, counts, max, parts, cells, selection, name, label } = props
  const theme = useTheme()
  const heat = useMemo(() => {
    if (!counts) return undefined
    const image = document.createElement('canvas')
    image.width = counts.columns
    image.height = counts.rows
    image.getContext('2d')?.putImageData(heatImage(counts, max, theme), 0, 0)
    return { image, grid: counts }
  }, [counts, max, theme])
  return (
    <figure class="heat-picture">
      <PartsPicture {...{ call, size, viewport, heat, parts, cells, label }} names={selection} />
      {name !== undefined && (
        <figcaption>
          <Value text={name} />
        </figcaption>
      )}
    </figure>
  )
}

const opacity = 0.88

/** Counts as an image with one pixel per cell, transparent where there are no events. `max` has the last colour. */
function heatImage(counts: Counts, max: number, { isDark }: { isDark: boolean }): ImageData {
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
