import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import type { CountedEvents, Selection } from '../../heat/heat-events.ts'
import type { Box, Size, Viewport } from '../../heat/viewport.ts'
import { Value } from '../../parts/value.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { FoundParts } from '../../worker/where-calls.ts'
import { drawHeat, plotOf } from './draw-heat.ts'
import { heatImage } from './heat-image.ts'
import { useLatest } from './use-latest.ts'
import { partColors, useTheme } from './use-theme.ts'

export interface HeatPictureProps {
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

/** The canvas. Parts and counts may be those of the previous viewport until the worker has computed new ones. */
export function HeatPicture(props: HeatPictureProps) {
  const { call, size, viewport, counts, max, parts, cells, selection, name, label } = props
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
    const image = document.createElement('canvas')
    image.width = counts.columns
    image.height = counts.rows
    image.getContext('2d')?.putImageData(heatImage(counts, max, theme), 0, 0)
    return { image, grid: counts }
  }, [counts, max, theme])

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
  return (
    <figure class="heat-picture">
      <canvas ref={canvas} role="img" aria-label={label} style={{ width: size.width, height: size.height }} />
      {name !== undefined && (
        <figcaption>
          <Value text={name} />
        </figcaption>
      )}
    </figure>
  )
}
