import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { formatCountOf } from '../../format.ts'
import { cellAt, gridOf } from '../../heat/grid.ts'
import type { CountedEvents, Selection } from '../../heat/heat-events.ts'
import type { ScaleKind } from '../../heat/scale.ts'
import { type Box, boxOf, type Viewport } from '../../heat/viewport.ts'
import { Value } from '../../parts/value.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { SampleAsk } from '../../worker/samples.ts'
import type { FoundParts } from '../../worker/where-calls.ts'
import { cellUnder, plotOf } from './draw-heat.ts'
import { formatBounds, formatShare, nameOf } from './format-units.ts'
import { HeatPicture, type ShownCounts } from './heat-picture.tsx'
import { arrows, MapFrame } from './map-frame.tsx'
import { useLatest } from './use-latest.ts'
import { useSize } from './use-size.ts'
import { useViewport } from './use-viewport.ts'

interface HeatMapProps {
  call: CallWorker
  /** One sample, or two to compare. */
  asks: readonly SampleAsk[]
  selection: Selection
  /** Number of events read so far: a change triggers a recount. */
  events: number
  parts: FoundParts | undefined
  scale: ScaleKind
  label: string
  /** From the address: the visible part of the map, and the cell whose events are listed. */
  view: Viewport | undefined
  chosen: Box | undefined
  onView(view: Viewport | undefined): void
  onChoose(cell: Box | undefined): void
  onCounts(counts: ShownCounts): void
}

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

  const cellOf = (at: { x: number; y: number } | undefined) =>
    at && counts && viewport && size && cellUnder(counts.a, viewport, size, at)
  const cell = pointed ?? chosen
  const cells = [chosen, pointed].filter((each) => each !== undefined)

  function press(event: KeyboardEvent): boolean {
    const arrow = arrows[event.key]
    if (arrow && event.shiftKey) point(counts && viewport && nextCell(counts.a, cell, viewport, arrow))
    else if (event.key === 'Enter' && cell) onChoose(cell)
    else if (event.key === 'Escape') {
      point(undefined)
      onChoose(undefined)
    } else return false
    return true
  }

  return (
    <MapFrame
      frame={frame}
      label="Heat map"
      keys="Keys: + and − zoom, arrows move the map, Shift with arrows picks a cell, Enter lists its events, 0 shows everything."
      onMove={(action) => setViewport((before) => before && plot && action(before, plot))}
      onFit={fitAll}
      onPoint={(at) => point(cellOf(at))}
      onClick={(at) => onChoose(cellOf(at))}
      onKey={press}
      readout={
        <p class="heat-readout" aria-live="polite">
          {cell && counts ? (
            describeCell(cell, counts, selection)
          ) : (
            <span class="muted">Point at a cell for its count, click for its events.</span>
          )}
        </p>
      }
    >
      {size && viewport && <HeatPicture {...props} {...{ size, viewport, counts, cells }} />}
    </MapFrame>
  )
}

function nextCell(
  counts: CountedEvents,
  cell: Box | undefined,
  viewport: Viewport,
  [dx, dy]: readonly [number, number],
): Box | undefined {
  if (!cell) return cellAt(counts, viewport.x, viewport.y)
  // from the middle of the cell, which may be from a grid with another cell size
  const x = (cell.left + cell.right) / 2 + dx * counts.cell
  const y = (cell.top + cell.bottom) / 2 + dy * counts.cell
  return cellAt(counts, x, y) ?? cell
}

/** Describes a cell. If it is from an earlier grid, its counts are those of the current cell at its middle. */
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
