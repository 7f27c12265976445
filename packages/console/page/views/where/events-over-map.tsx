import { useMemo, useState } from 'preact/hooks'
import type { MapStatus } from '../../api/bodies.ts'
import type { Selection } from '../../heat/heat-events.ts'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { ShownSample } from './asks.ts'
import { CellEvents } from './cell-events.tsx'
import { DensestCells, DifferentCells, describeCounts, describeDifference } from './densest.tsx'
import { type PointerChoice, TypeFilter } from './filters.tsx'
import { HeatMap } from './heat-map.tsx'
import type { ShownCounts } from './heat-picture.tsx'
import { HeightSlice, heightOf } from './height-slice.tsx'
import { DifferenceLegend, Legend, ScaleChoice } from './legend.tsx'
import { MapPartsLine, useMapParts } from './map-parts.tsx'
import type { WhereAddress } from './where-address.ts'

interface EventsOverMapProps {
  call: CallWorker
  maps: readonly MapStatus[]
  where: WhereAddress
  change(changes: Partial<WhereAddress>): void
  pair: PointerChoice
  placeId: string | undefined
  a: ShownSample
  /** The sample to compare `a` with. */
  b: ShownSample | undefined
}

/** The heat map, its filters, and a description in words. */
export function EventsOverMap({ call, maps, where, change, pair, placeId, a, b }: EventsOverMapProps) {
  const [counts, setCounts] = useState<ShownCounts>()
  const parts = useMapParts(
    call,
    maps.find((map) => map.placeId === placeId),
    pair,
  )
  const { across, down } = pair
  const { types, heights, scale, view, cell } = where
  const height = heightOf(pair, a.progress.pointers)
  const selection = useMemo<Selection>(
    () => ({
      across,
      down,
      placeId,
      types: types.length > 0 ? types : undefined,
      slice: height && heights ? { pointer: height, ...heights } : undefined,
    }),
    [across, down, placeId, types.join('\n'), height, heights?.min, heights?.max],
  )
  const asks = useMemo(() => (b ? [a.ask, b.ask] : [a.ask]), [a.ask, b?.ask])
  const samples = b ? [a, b] : [a]
  const events = samples.reduce((sum, { progress }) => sum + progress.events, 0)
  // keep showing the counts of both until those of one are loaded
  const both = b && counts?.b && { a: counts.a, b: counts.b, nameOfA: a.name, nameOfB: b.name }
  const label = !counts ? 'Counting events.' : both ? describeDifference(both) : describeCounts(counts.a, selection)
  return (
    <>
      <div class="where">
        <HeatMap
          {...{ call, asks, selection, events, scale, label, view }}
          chosen={cell}
          parts={parts.found}
          onView={(view) => change({ view })}
          onChoose={(cell) => change({ cell })}
          onCounts={setCounts}
        />
        <div class="where-filters">
          <div>
            {both ? <DifferenceLegend {...both} scale={scale} /> : counts && <Legend counts={counts.a} scale={scale} />}
            <ScaleChoice scale={scale} onScale={(scale) => change({ scale })} />
          </div>
          <TypeFilter types={a.progress.types} chosen={types} onChoose={(types) => change({ types })} />
          {height && (
            <HeightSlice
              {...{ call, ask: a.ask, selection, events, pointer: height, chosen: heights }}
              onChoose={(heights) => change({ heights })}
            />
          )}
          <MapPartsLine parts={parts} placeId={placeId} />
        </div>
      </div>
      <p>{label}</p>
      {cell && (
        <CellEvents {...{ call, samples, selection, cell, events }} onClose={() => change({ cell: undefined })} />
      )}
      {both ? (
        <DifferentCells {...both} selection={selection} onCell={(cell) => change({ cell })} />
      ) : (
        counts && <DensestCells counts={counts.a} selection={selection} onCell={(cell) => change({ cell })} />
      )}
    </>
  )
}
