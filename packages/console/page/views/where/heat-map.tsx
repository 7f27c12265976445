import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { formatCountOf } from '../../format.ts'
import { type Cell, cellAt, gridOf } from '../../heat/grid.ts'
import type { CountedEvents, Selection } from '../../heat/heat-events.ts'
import type { ScaleKind } from '../../heat/scale.ts'
import { around, type Box, boxOf, fit, pan, type Size, type Viewport, zoom } from '../../heat/viewport.ts'
import { Value } from '../../parts/value.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { FoundParts } from '../../worker/where-calls.ts'
import { cellUnder, drawHeat, heatImage, plotOf, toPlot } from './draw-heat.ts'
import { formatBounds, nameOf } from './format-units.ts'
import { useGestures } from './use-gestures.ts'
import { useLatest } from './use-latest.ts'
import { partColors, useTheme } from './use-theme.ts'

export interface HeatMapProps {
  call: CallWorker
  selection: Selection
  /** How many events were read: more are counted again. */
  events: number
  parts: FoundParts | undefined
  scale: ScaleKind
  /** Describes the map for screen readers. */
  label: string
  /** A cell to point at. */
  cell: Cell | undefined
  onCell(cell: Cell | undefined): void
  onCounts(counts: CountedEvents): void
}

const panPixels = 60
const zoomStep = 1.4

/** Events by cell on a canvas, over the parts of the map. */
export function HeatMap(props: HeatMapProps) {
  const { call, selection, events, parts, scale, cell, onCell, onCounts } = props
  const frame = useRef<HTMLDivElement | null>(null)
  const size = useSize(frame)
  const plot = useMemo(() => size && plotOf(size), [size])
  const { viewport, setViewport, fitAll } = useViewport(props, plot)
  const counts = useLatest<CountedEvents | undefined>(
    async () =>
      viewport &&
      plot &&
      call('whereCount', { selection, grid: gridOf(boxOf(viewport, plot), viewport.unitsPerPixel) }),
    [viewport, plot, selection, events],
  )
  useEffect(() => counts && onCounts(counts), [counts])

  const change = (action: (viewport: Viewport, plot: Size) => Viewport) =>
    setViewport((before) => before && plot && action(before, plot))
  const point = (at: { x: number; y: number } | undefined) =>
    onCell(at && counts && viewport && size && cellUnder(counts, viewport, size, at))
  useGestures(frame, {
    onPan: (dx, dy) => change((viewport) => pan(viewport, dx, dy)),
    onZoom: (factor, at) => change((viewport, plot) => zoom(viewport, factor, plot, toPlot(at))),
    onPoint: point,
  })

  function press(event: KeyboardEvent): void {
    const direction = directions[event.key]
    if (event.ctrlKey || event.altKey || event.metaKey) return
    if (direction && event.shiftKey) onCell(counts && viewport && nextCell(counts, cell, viewport, direction))
    else if (direction) change((viewport) => pan(viewport, -direction[0] * panPixels, -direction[1] * panPixels))
    else if (event.key === '+' || event.key === '=') change((viewport, plot) => zoom(viewport, zoomStep, plot))
    else if (event.key === '-') change((viewport, plot) => zoom(viewport, 1 / zoomStep, plot))
    else if (event.key === '0') fitAll()
    else if (event.key === 'Escape') onCell(undefined)
    else return
    event.preventDefault()
  }

  return (
    <div class="heat-map">
      <div
        ref={frame}
        class="heat-frame"
        id="heat"
        role="application"
        aria-label="Heat map"
        aria-describedby="heat-keys"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: an application takes keys
        tabIndex={0}
        onKeyDown={press}
      >
        {size && viewport && <Picture {...{ ...props, size, viewport, counts, scale, parts }} />}
      </div>
      <div class="heat-buttons">
        <Button name="Zoom in" sign="+" onClick={() => change((v, plot) => zoom(v, zoomStep, plot))} />
        <Button name="Zoom out" sign="−" onClick={() => change((v, plot) => zoom(v, 1 / zoomStep, plot))} />
        <Button name="Show everything" sign="⤢" onClick={fitAll} />
      </div>
      <p class="heat-readout" aria-live="polite">
        {cell ? describeCell(cell, selection) : <span class="muted">Point at a cell for its count.</span>}
      </p>
      <p class="hint" id="heat-keys">
        Keys: + and − zoom, arrows move the map, Shift with arrows picks a cell, 0 shows everything.
      </p>
    </div>
  )
}

function Button({ name, sign, onClick }: { name: string; sign: string; onClick(): void }) {
  return (
    <button type="button" aria-label={name} title={name} onClick={onClick}>
      {sign}
    </button>
  )
}

type PictureProps = HeatMapProps & { size: Size; viewport: Viewport; counts: CountedEvents | undefined }

/** The canvas: the parts and the counts may be of the viewport before, until the worker has those of this one. */
function Picture({ call, size, viewport, counts, scale, parts, cell, selection, label }: PictureProps) {
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
    image.getContext('2d')?.putImageData(heatImage(counts, scale, theme.isDark), 0, 0)
    return { image, counts }
  }, [counts, scale, theme])

  useLayoutEffect(() => {
    const context = canvas.current?.getContext('2d')
    if (!context || !canvas.current) return
    const width = Math.round(size.width * pixelRatio)
    const height = Math.round(size.height * pixelRatio)
    // setting them clears the canvas even if they are the same
    if (canvas.current.width !== width) canvas.current.width = width
    if (canvas.current.height !== height) canvas.current.height = height
    context.setTransform(pixelRatio, 0, 0, pixelRatio, 0, 0)
    drawHeat(context, {
      size,
      viewport,
      heat,
      parts: partsPicture?.image && { image: partsPicture.image, view: partsPicture.view },
      cell,
      names: selection,
      theme,
    })
  })
  return <canvas ref={canvas} role="img" aria-label={label} />
}

/** Fits events and parts until a person moves the map, and again on request. */
function useViewport({ call, selection, events, parts }: HeatMapProps, plot: Size | undefined) {
  const [moved, setMoved] = useState<Viewport>()
  const { across, down, placeId } = selection
  const everything = { across, down, placeId, from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY }
  const extent = useLatest(
    async () => ({ box: await call('whereExtent', everything) }),
    [across, down, placeId, events],
  )
  // other members have other coordinates
  useEffect(() => setMoved(undefined), [across, down])
  const box = extent && boxToShow(extent.box, parts?.box)
  const fitted = useMemo(() => plot && extent && fit(box ?? emptyBox, plot), [plot, box && Object.values(box).join()])
  return {
    viewport: moved ?? fitted,
    setViewport: (action: (before: Viewport | undefined) => Viewport | undefined) =>
      setMoved((before) => action(before ?? fitted)),
    fitAll: () => setMoved(undefined),
  }
}

const emptyBox = { left: 0, top: 0, right: 100, bottom: 100 }

/** Events and parts, unless the parts are so far that the events would be a dot. */
function boxToShow(events: Box | undefined, parts: Box | undefined): Box | undefined {
  const both = around(events, parts)
  if (!events || !both) return both
  const isFar =
    both.right - both.left > 4 * Math.max(1, events.right - events.left) &&
    both.bottom - both.top > 4 * Math.max(1, events.bottom - events.top)
  return isFar ? events : both
}

const directions: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
}

function nextCell(
  counts: CountedEvents,
  cell: Cell | undefined,
  viewport: Viewport,
  [dx, dy]: readonly [number, number],
): Cell | undefined {
  if (!cell) return cellAt(counts, viewport.x, viewport.y)
  // from the middle of the cell, which may be of another size than those now
  const x = (cell.left + cell.right) / 2 + dx * counts.cell
  const y = (cell.top + cell.bottom) / 2 + dy * counts.cell
  return cellAt(counts, x, y) ?? cell
}

function describeCell({ left, right, top, bottom, count }: Cell, { across, down }: Selection) {
  return (
    <>
      <strong>{formatCountOf(count, 'event')}</strong> at <Value text={nameOf(across)} /> {formatBounds(left, right)},{' '}
      <Value text={nameOf(down)} /> {formatBounds(top, bottom)}
    </>
  )
}

function useSize(frame: { current: HTMLElement | null }): Size | undefined {
  const [size, setSize] = useState<Size>()
  useEffect(() => {
    const element = frame.current
    if (!element) return
    const observer = new ResizeObserver(() => {
      const { clientWidth: width, clientHeight: height } = element
      // nothing is seen meanwhile
      if (width > 0 && height > 0) setSize({ width, height })
    })
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  return size
}
