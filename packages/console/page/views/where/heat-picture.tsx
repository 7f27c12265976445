import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import { compareCounts } from '../../heat/compare.ts'
import type { CountedEvents, Selection } from '../../heat/heat-events.ts'
import type { ScaleKind } from '../../heat/scale.ts'
import type { Box, Size, Viewport } from '../../heat/viewport.ts'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { FoundParts } from '../../worker/where-calls.ts'
import { drawHeat, plotOf } from './draw-heat.ts'
import { differenceImage, heatImage } from './heat-image.ts'
import { useLatest } from './use-latest.ts'
import { partColors, useTheme } from './use-theme.ts'

/** Counts of one sample, or of two in the same cells. */
export interface ShownCounts {
  a: CountedEvents
  b: CountedEvents | undefined
}

export interface HeatPictureProps {
  call: CallWorker
  size: Size
  viewport: Viewport
  counts: ShownCounts | undefined
  scale: ScaleKind
  parts: FoundParts | undefined
  /** Cells to outline. */
  cells: readonly Box[]
  selection: Selection
  /** Description for screen readers. */
  label: string
}

/** The canvas. Parts and counts may be those of the previous viewport until the worker has computed new ones. */
export function HeatPicture(props: HeatPictureProps) {
  const { call, size, viewport, counts, scale, parts, cells, selection, label } = props
  const canvas = useRef<HTMLCanvasElement>(null)
  const theme = useTheme()
  const pixelRatio = Math.min(3, devicePixelRatio)
  const partsPicture = useLatest(async () => {
    const view = { ...viewport, ...plotOf(size) }
    const image = parts && (await call('whereDrawParts', { ...view, pixelRatio, colors: partColors(theme) }))
    return { view, image }
  }, [viewport, size, parts, theme])
  useEffect(() => () => partsPicture?.image?.close(), [partsPicture])
  const heat = useMemo(() => {
    if (!counts) return undefined
    const { a, b } = counts
    const image = document.createElement('canvas')
    image.width = a.columns
    image.height = a.rows
    const pixels = b ? differenceImage(compareCounts(a, b), scale, theme) : heatImage(a, scale, theme)
    image.getContext('2d')?.putImageData(pixels, 0, 0)
    return { image, grid: a }
  }, [counts, scale, theme])

  useLayoutEffect(() => {
    const context = canvas.current?.getContext('2d')
    if (!context || !canvas.current) return
    const width = Math.round(size.width * pixelRatio)
    const height = Math.round(size.height * pixelRatio)
    // setting them clears the canvas even if they are unchanged
    if (canvas.current.width !== width) canvas.current.width = width
    if (canvas.current.height !== height) canvas.current.height = height
    context.setTransform(pixelRatio, 0, 0, pixelRatio, 0, 0)
    drawHeat(context, {
      size,
      viewport,
      heat,
      parts: partsPicture?.image && { image: partsPicture.image, view: partsPicture.view },
      cells,
      names: selection,
      theme,
    })
  })
  return <canvas ref={canvas} role="img" aria-label={label} />
}
