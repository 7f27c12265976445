import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { around, type Box, fit, type Size, type Viewport } from '../../heat/viewport.ts'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { FoundParts } from '../../worker/where-calls.ts'
import { drawHeat, type HeatPicture, margins, pixelsOf, plotOf, type Theme, type ToPixels } from './draw-heat.ts'
import { MapFrame } from './map-frame.tsx'
import { useLatest } from './use-latest.ts'
import { useSize } from './use-size.ts'
import { partColors, useTheme } from './use-theme.ts'
import './where.css'

/** Draws over a map, within its axes. */
export type DrawOver = (context: CanvasRenderingContext2D, toPixels: ToPixels, theme: Theme) => void

interface PartsMapProps extends Pick<PartsPictureProps, 'call' | 'parts' | 'names' | 'label' | 'drawOver'> {
  /** The name of the map for screen readers; `label` describes its picture. */
  title: string
  /** What to show besides the parts. */
  box?: Box | undefined
}

/** The parts of a map, which can be moved and zoomed. */
export function PartsMap({ title, box, parts, ...picture }: PartsMapProps) {
  const frame = useRef<HTMLDivElement | null>(null)
  const size = useSize(frame)
  const plot = useMemo(() => size && plotOf(size), [size])
  const [moved, setMoved] = useState<Viewport>()
  const shown = useMemo(() => around(box, parts?.box), [box, parts])
  const fitted = useMemo(() => plot && shown && fit(shown, plot), [plot, shown])
  const viewport = moved ?? fitted
  return (
    <MapFrame
      frame={frame}
      label={title}
      keys="Keys: + and − zoom, arrows move the map, 0 shows everything."
      onMove={(action) => setMoved(viewport && plot && action(viewport, plot))}
      onFit={() => setMoved(undefined)}
    >
      {size && viewport && <PartsPicture {...{ ...picture, parts, size, viewport }} />}
    </MapFrame>
  )
}

interface PartsPictureProps extends Pick<HeatPicture, 'size' | 'viewport' | 'names'> {
  call: CallWorker
  parts: FoundParts | undefined
  heat?: HeatPicture['heat']
  /** Cells to outline. Default: none. */
  cells?: readonly Box[]
  drawOver?: DrawOver
  /** Description for screen readers. */
  label: string
}

/** The canvas of a map. Its parts may be those of the previous viewport until the worker has drawn new ones. */
export function PartsPicture(props: PartsPictureProps) {
  const { call, parts, size, viewport, names, heat, cells = [], drawOver, label } = props
  const canvas = useRef<HTMLCanvasElement>(null)
  const theme = useTheme()
  const pixelRatio = Math.min(3, devicePixelRatio)
  const drawn = useLatest(async () => {
    const view = { ...viewport, ...plotOf(size) }
    const image = parts && (await call('whereDrawParts', { ...view, pixelRatio, colors: partColors(theme) }))
    return { view, image }
  }, [viewport, size, parts, theme])
  useEffect(() => () => drawn?.image?.close(), [drawn])
  useLayoutEffect(() => {
    const context = canvas.current?.getContext('2d')
    if (!context || !canvas.current) return
    resize(canvas.current, Math.round(size.width * pixelRatio), Math.round(size.height * pixelRatio))
    context.setTransform(pixelRatio, 0, 0, pixelRatio, 0, 0)
    const image = drawn?.image && { image: drawn.image, view: drawn.view }
    drawHeat(context, { size, viewport, heat, parts: image, cells, names, theme })
    if (drawOver) drawWithin(context, size, () => drawOver(context, pixelsOf({ size, viewport }), theme))
  })
  return <canvas ref={canvas} role="img" aria-label={label} style={{ width: size.width, height: size.height }} />
}

/** Setting the size clears a canvas even if it is unchanged. */
function resize(canvas: HTMLCanvasElement, width: number, height: number): void {
  if (canvas.width !== width) canvas.width = width
  if (canvas.height !== height) canvas.height = height
}

function drawWithin(context: CanvasRenderingContext2D, size: Size, draw: () => void): void {
  const { width, height } = plotOf(size)
  context.save()
  context.beginPath()
  context.rect(margins.left, margins.top, width, height)
  context.clip()
  draw()
  context.restore()
}
