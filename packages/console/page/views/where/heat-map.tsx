import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { formatCountOf } from '../../format.ts'
import { cellAt, gridOf } from '../../heat/grid.ts'
import type { CountedEvents, Selection } from '../../heat/heat-events.ts'
import type { ScaleKind } from '../../heat/scale.ts'
import { type Box, boxOf, pan, type Size, type Viewport, zoom } from '../../heat/viewport.ts'
import { Value } from '../../parts/value.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { SampleAsk } from '../../worker/samples.ts'
import type { FoundParts } from '../../worker/where-calls.ts'
import { cellUnder, plotOf, toPlot } from './draw-heat.ts'
import { formatBounds, formatShare, nameOf } from './format-units.ts'
import { HeatPicture, type ShownCounts } from './heat-picture.tsx'
import { useGestures } from './use-gestures.ts'
import { useLatest } from './use-latest.ts'
import { useSize } from './use-size.ts'
import { useViewport } from './use-viewport.ts'

export interface HeatMapProps {
  call: CallWorker
  /** One, or two that are compared. */
  asks: readonly SampleAsk[]
  selection: Selection
  /** How many events were read: more are counted again. */
  events: number
  parts: FoundParts | undefined
  scale: ScaleKind
  label: string
  /** In the address: the part of the map that is shown, and the cell whose events are listed. */
  view: Viewport | undefined
  chosen: Box | undefined
  onView(view: Viewport | undefined): void
  onChoose(cell: Box | undefined): void
  onCounts(counts: ShownCounts): void
}

const panPixels = 60
const zoomStep = 1.4

/** Events by cell on a canvas, over the parts of the map. */
export function HeatMap(props: HeatMapProps) {
  const { call, asks, selection, events, chosen, onChoose, onCounts } = props
  const frame = useRef<HTMLDivElement | null>(null)
  const [pointed, point] = useState<Box>()
  const size = useSize(frame)
  const plot = useMemo(() => size && plotOf(size), [size])
  const { viewport, setViewport, fitAll } = useViewport({ ...props, plot })
  const counts = useLatest<ShownCounts | undefined>(async () => {
    if (!viewport || !plot) return undefined
    const grid = gridOf(boxOf(viewport, plot), viewport.unitsPerPixel)
    const [a, b] = await Promise.all(asks.map((ask) => call('whereCount', { ask, selection, grid })))
    return a && { a, b }
  }, [viewport, plot, asks, selection, events])
  useEffect(() => counts && onCounts(counts), [counts])

  const change = (action: (viewport: Viewport, plot: Size) => Viewport) =>
    setViewport((before) => before && plot && action(before, plot))
  const cellOf = (at: { x: number; y: number } | undefined) =>
    at && counts && viewport && size && cellUnder(counts.a, viewport, size, at)
  useGestures(frame, {
    onPan: (dx, dy) => change((viewport) => pan(viewport, dx, dy)),
    onZoom: (factor, at) => change((viewport, plot) => zoom(viewport, factor, plot, toPlot(at))),
    onPoint: (at) => point(cellOf(at)),
    onClick: (at) => onChoose(cellOf(at)),
  })
  const cell = pointed ?? chosen
  const cells = [chosen, pointed].filter((each) => each !== undefined)

  function press(event: KeyboardEvent): void {
    const direction = directions[event.key]
    if (event.ctrlKey || event.altKey || event.metaKey) return
    if (direction && event.shiftKey) point(counts && viewport && nextCell(counts.a, cell, viewport, direction))
    else if (direction) change((viewport) => pan(viewport, -direction[0] * panPixels, -direction[1] * panPixels))
    else if (event.key === '+' || event.key === '=') change((viewport, plot) => zoom(viewport, zoomStep, plot))
    else if (event.key === '-') change((viewport, plot) => zoom(viewport, 1 / zoomStep, plot))
    else if (event.key === '0') fitAll()
    else if (event.key === 'Enter' && cell) onChoose(cell)
    else if (event.key === 'Escape') {
      point(undefined)
      onChoose(undefined)
    } else return
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
        {size && viewport && <HeatPicture {...props} {...{ size, viewport, counts, cells }} />}
      </div>
      <div class="heat-buttons">
        <Button name="Zoom in" sign="+" onClick={() => change((v, plot) => zoom(v, zoomStep, plot))} />
        <Button name="Zoom out" sign="−" onClick={() => change((v, plot) => zoom(v, 1 / zoomStep, plot))} />
        <Button name="Show everything" sign="⤢" onClick={fitAll} />
      </div>
      <p class="heat-readout" aria-live="polite">
        {cell && counts ? (
          describeCell(cell, counts, selection)
        ) : (
          <span class="muted">Point at a cell for its count, click for its events.</span>
        )}
      </p>
      <p class="hint" id="heat-keys">
        Keys: + and − zoom, arrows move the map, Shift with arrows picks a cell, Enter lists its events, 0 shows
        everything.
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

const directions: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
}

function nextCell(
  counts: CountedEvents,
  cell: Box | undefined,
  viewport: Viewport,
  [dx, dy]: readonly [number, number],
): Box | undefined {
  if (!cell) return cellAt(counts, viewport.x, viewport.y)
  // from the middle of the cell, which may be of another size than those now
  const x = (cell.left + cell.right) / 2 + dx * counts.cell
  const y = (cell.top + cell.bottom) / 2 + dy * counts.cell
  return cellAt(counts, x, y) ?? cell
}

/** A cell may be of a grid before: its counts are those of the cell in its middle now. */
function describeCell(cell: Box, { a, b }: ShownCounts, { across, down }: Selection) {
  const [x, y] = [(cell.left + cell.right) / 2, (cell.top + cell.bottom) / 2]
  const inA = cellAt(a, x, y)?.count ?? 0
  const inB = b && (cellAt(b, x, y)?.count ?? 0)
  return (
    <>
      <strong>
        {b === undefined || inB === undefined
          ? formatCountOf(inA, 'event')
          : `${formatShare(inA, a.located)} against ${formatShare(inB, b.located)}`}
      </strong>{' '}
      at <Value text={nameOf(across)} /> {formatBounds(cell.left, cell.right)}, <Value text={nameOf(down)} />{' '}
      {formatBounds(cell.top, cell.bottom)}
    </>
  )
}
