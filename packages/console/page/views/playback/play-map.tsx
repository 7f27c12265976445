import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Pair } from '../../heat/pairs.ts'
import { around, fit, type Size, type Viewport } from '../../heat/viewport.ts'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { FoundParts } from '../../worker/where-calls.ts'
import { drawHeat, margins, pixelsOf, plotOf, type Theme } from '../where/draw-heat.ts'
import { MapFrame } from '../where/map-frame.tsx'
import { useLatest } from '../where/use-latest.ts'
import { useSize } from '../where/use-size.ts'
import { partColors, useTheme } from '../where/use-theme.ts'
import '../where/where.css'
import { boxOfPath, type PathPoint, pointAt } from './path.ts'

export interface PlayMapProps {
  call: CallWorker
  path: readonly PathPoint[]
  pair: Pair
  parts: FoundParts | undefined
  at: number
  label: string
}

/** The path over the map; the part up to a time has a strong colour. */
export function PlayMap({ call, path, pair, parts, at, label }: PlayMapProps) {
  const frame = useRef<HTMLDivElement | null>(null)
  const size = useSize(frame)
  const plot = useMemo(() => size && plotOf(size), [size])
  const [moved, setMoved] = useState<Viewport>()
  const box = useMemo(() => around(boxOfPath(path), parts?.box), [path, parts])
  const fitted = useMemo(() => plot && box && fit(box, plot), [plot, box])
  const viewport = moved ?? fitted
  return (
    <MapFrame
      frame={frame}
      label="Path over the map"
      keys="Keys: + and − zoom, arrows move the map, 0 shows everything."
      onMove={(action) => setMoved(viewport && plot && action(viewport, plot))}
      onFit={() => setMoved(undefined)}
    >
      {size && viewport && <Picture {...{ call, size, viewport, path, pair, parts, at, label }} />}
    </MapFrame>
  )
}

type PictureProps = PlayMapProps & { size: Size; viewport: Viewport }

function Picture({ call, size, viewport, path, pair, parts, at, label }: PictureProps) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const theme = useTheme()
  const pixelRatio = Math.min(3, devicePixelRatio)
  const drawn = useLatest(async () => {
    const view = { ...viewport, ...plotOf(size) }
    const image = parts && (await call('whereDrawParts', { ...view, pixelRatio, colors: partColors(theme) }))
    return image && { view, image }
  }, [viewport, size, parts, theme])
  useEffect(() => () => drawn?.image.close(), [drawn])
  useLayoutEffect(() => {
    const context = canvas.current?.getContext('2d')
    if (!context || !canvas.current) return
    canvas.current.width = Math.round(size.width * pixelRatio)
    canvas.current.height = Math.round(size.height * pixelRatio)
    context.setTransform(pixelRatio, 0, 0, pixelRatio, 0, 0)
    const picture = { size, viewport, heat: undefined, parts: drawn, cells: [], names: pair, theme }
    drawHeat(context, picture)
    drawPath(context, { size, viewport, path, at, theme })
  })
  return <canvas ref={canvas} role="img" aria-label={label} style={{ width: size.width, height: size.height }} />
}

interface PathPicture {
  size: Size
  viewport: Viewport
  path: readonly PathPoint[]
  at: number
  theme: Theme
}

function drawPath(context: CanvasRenderingContext2D, { size, viewport, path, at, theme }: PathPicture): void {
  const plot = plotOf(size)
  const toPixels = pixelsOf({ size, viewport })
  const end = path.findLastIndex((point) => point.at <= at)
  const here = pointAt(path, at)
  const color = getComputedStyle(document.documentElement).getPropertyValue('--link').trim()
  context.save()
  context.beginPath()
  context.rect(margins.left, margins.top, plot.width, plot.height)
  context.clip()
  context.lineJoin = 'round'
  context.lineCap = 'round'
  drawLine(path.length, theme.muted, 1)
  drawLine(end + 1, color, 2.5)
  if (here) {
    context.beginPath()
    context.arc(...toPixels(here.x, here.y), 7, 0, 2 * Math.PI)
    context.fillStyle = color
    context.fill()
    context.strokeStyle = theme.background
    context.stroke()
  }
  context.restore()

  /** Draws the first `length` points, and the line to `here` if these are not all. */
  function drawLine(length: number, color: string, width: number): void {
    context.beginPath()
    for (const { x, y, isStart } of path.slice(0, length)) {
      context[isStart ? 'moveTo' : 'lineTo'](...toPixels(x, y))
      // makes a single point visible
      if (isStart) context.lineTo(...toPixels(x, y))
    }
    if (here && length < path.length && length > 0) context.lineTo(...toPixels(here.x, here.y))
    context.strokeStyle = color
    context.lineWidth = width
    context.stroke()
  }
}
