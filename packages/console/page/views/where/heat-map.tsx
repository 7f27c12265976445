import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { formatCountOf } from '../../format.ts'
import { cellAt, gridOf } from '../../heat/grid.ts'
import type { CountedEvents, Selection } from '../../heat/heat-events.ts'
import { type Box, boxOf, type Size, type Viewport } from '../../heat/viewport.ts'
import { Value } from '../../parts/value.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { SampleQuery } from '../../worker/samples.ts'
import type { FoundParts } from '../../worker/where-calls.ts'
import { countIn } from './densest.tsx'
import { cellUnder, plotOf } from './draw-heat.ts'
import { formatBounds, nameOf } from './format-units.ts'
import { HeatPicture } from './heat-picture.tsx'
import { maxOf } from './legend.tsx'
import { arrows, MapFrame, type ToPicture } from './map-frame.tsx'
import { useLatest } from './use-latest.ts'
import { useSize } from './use-size.ts'
import { useViewport } from './use-viewport.ts'

interface HeatMapProps {
  call: CallWorker
  /** One sample, or two to show side by side. */
  queries: readonly SampleQuery[]
  selection: Selection
  /** Number of events read so far: a change triggers a recount. */
  events: number
  parts: FoundParts | undefined
  /** `event` or `sampled event`. */
  noun: string
  /** The builds of the pictures, and the descriptions of the pictures for screen readers. */
  names: readonly string[]
  labels: readonly string[]
  /** From the address: the visible part of the map, and the cell whose events are listed. */
  view: Viewport | undefined
  chosen: Box | undefined
  onView(view: Viewport | undefined): void
  onChoose(cell: Box | undefined): void
  onCounts(counts: readonly CountedEvents[]): void
}

/** Events by cell on a canvas, over the parts of the map; of two builds on two canvases, which show the same area. */
export function HeatMap(props: HeatMapProps) {
  const { call, queries, selection, events, noun, names, labels, chosen, onChoose, onCounts } = props
  const frame = useRef<HTMLDivElement | null>(null)
  const [pointed, point] = useState<Box>()
  const frameSize = useSize(frame)
  const size = useMemo(() => frameSize && sizeOfPictures(frameSize, names.length), [frameSize, names.length])
  const plot = useMemo(() => size && plotOf(size), [size])
  const { viewport, setViewport, fitAll } = useViewport({ ...props, plot })
  const counts = useLatest(async () => {
    if (!viewport || !plot) return undefined
    const grid = gridOf(boxOf(viewport, plot), viewport.unitsPerPixel)
    return call('whereCount', { queries, selection, grid })
  }, [viewport, plot, queries, selection, events])
  const first = counts?.[0]
  useEffect(() => counts && onCounts(counts), [counts])

  const toPicture: ToPicture = ({ x, y }) =>
    size ? { x: x % (size.width + gap), y: y % (size.height + gap) } : { x, y }
  const cellOf = (at: { x: number; y: number } | undefined) =>
    at && first && viewport && size && cellUnder(first, viewport, size, toPicture(at))
  const cell = pointed ?? chosen
  const cells = [chosen, pointed].filter((each) => each !== undefined)

  function press(event: KeyboardEvent): boolean {
    const arrow = arrows[event.key]
    if (arrow && event.shiftKey) point(first && viewport && nextCell(first, cell, viewport, arrow))
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
      toPicture={toPicture}
      onMove={(action) => setViewport((before) => before && plot && action(before, plot))}
      onFit={fitAll}
      onPoint={(at) => point(cellOf(at))}
      onClick={(at) => onChoose(cellOf(at))}
      onKey={press}
      readout={
        <p class="heat-readout" aria-live="polite">
          {cell && counts ? (
            describeCell(cell, { counts, names, selection, noun })
          ) : (
            <span class="muted">Point at a cell for its count, click for its events.</span>
          )}
        </p>
      }
    >
      {size &&
        viewport &&
        names.map((name, i) => (
          <HeatPicture
            key={name}
            {...props}
            {...{ size, viewport, cells }}
            counts={counts?.[i]}
            max={maxOf(counts ?? [])}
            name={names.length > 1 ? name : undefined}
            label={labels[i] ?? ''}
          />
        ))}
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
function describeCell(
  cell: Box,
  {
    counts,
    names,
    selection: { across, down },
    noun,
  }: Pick<HeatMapProps, 'names' | 'selection' | 'noun'> & { counts: readonly CountedEvents[] },
) {
  return (
    <>
      {counts.map((each, i) => (
        <>
          <strong>{formatCountOf(countIn(each, cell), noun)}</strong>{' '}
          {counts.length > 1 && (
            <>
              of <Value text={names[i] ?? ''} />
              {i === 0 ? ', ' : ' '}
            </>
          )}
        </>
      ))}
      at <Value text={nameOf(across)} /> {formatBounds(cell.left, cell.right)}, <Value text={nameOf(down)} />{' '}
      {formatBounds(cell.top, cell.bottom)}
    </>
  )
}

/** Between two pictures, in CSS pixels; also in where.css. */
const gap = 8
/** Narrower frames have one picture below the other. */
const besideMin = 560

/** The size of each picture in a frame. */
function sizeOfPictures({ width, height }: Size, pictures: number): Size {
  if (pictures === 1) return { width, height }
  return width < besideMin
    ? { width, height: Math.floor((height - gap) / 2) }
    : { width: Math.floor((width - gap) / 2), height }
}
