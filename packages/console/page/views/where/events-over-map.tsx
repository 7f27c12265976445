import { useMemo, useState } from 'preact/hooks'
import type { MapStatus } from '../../api/bodies.ts'
import { formatCount } from '../../format.ts'
import type { CountedEvents, Selection } from '../../heat/heat-events.ts'
import type { Pair } from '../../heat/pairs.ts'
import type { CallWorker } from '../../worker/call-worker.ts'
import { CellEvents } from './cell-events.tsx'
import { DensestCells, describePicture } from './densest.tsx'
import { TypeFilter } from './filters.tsx'
import { HeatMap } from './heat-map.tsx'
import { Legend } from './legend.tsx'
import { MapPartsLine, useMapParts } from './map-parts.tsx'
import { nounOf, type ShownSample } from './sample-query.ts'
import type { WhereAddress } from './where-address.ts'

interface EventsOverMapProps {
  call: CallWorker
  maps: readonly MapStatus[]
  where: WhereAddress
  change(changes: Partial<WhereAddress>): void
  pair: Pair
  placeId: string | undefined
  a: ShownSample
  /** The sample to show beside `a`. */
  b: ShownSample | undefined
}

/** The heat map, its filters, and a description in words. */
export function EventsOverMap({ call, maps, where, change, pair, placeId, a, b }: EventsOverMapProps) {
  const [counts, setCounts] = useState<readonly CountedEvents[]>([])
  const parts = useMapParts(
    call,
    maps.find((map) => map.placeId === placeId),
    pair,
  )
  const { across, down } = pair
  const { types, view, cell } = where
  const selection = useMemo<Selection>(
    () => ({ across, down, placeId, types: types.length > 0 ? types : undefined }),
    [across, down, placeId, types.join('\n')],
  )
  const queries = useMemo(() => (b ? [a.query, b.query] : [a.query]), [a.query, b?.query])
  const samples = b ? [a, b] : [a]
  const events = samples.reduce((sum, { progress }) => sum + progress.events, 0)
  // until those of both are counted, the counts of one stay
  const names = samples.slice(0, Math.max(1, counts.length)).map(({ name }) => name)
  const isSample = samples.some(({ progress }) => progress.share < 1)
  const readNoun = nounOf(isSample)
  const noun = nounOf(isSample || counts.some(({ shown, located }) => shown < located))
  const labels = names.map((name, i) =>
    describePicture({ counts: counts[i], selection, name: names.length > 1 ? name : undefined, noun: readNoun }),
  )
  const shown = counts[0]?.shown ?? 0
  return (
    <>
      <div class="where">
        <HeatMap
          {...{ call, queries, selection, events, noun, names, labels, view }}
          chosen={cell}
          parts={parts.found}
          onView={(view) => change({ view })}
          onChoose={(cell) => change({ cell })}
          onCounts={setCounts}
        />
        <div class="where-filters">
          <Legend {...{ counts, noun }} />
          <TypeFilter types={a.progress.types} chosen={types} noun={readNoun} onChoose={(types) => change({ types })} />
          <MapPartsLine parts={parts} placeId={placeId} />
        </div>
      </div>
      {names.length > 1 && <p>Both pictures show {formatCount(shown)} events, in the same area and colours.</p>}
      {labels.map((label, i) => (
        <p key={names[i]}>{label}</p>
      ))}
      {cell && (
        <CellEvents
          {...{ call, queries, names, selection, cell, noun, events }}
          onClose={() => change({ cell: undefined })}
        />
      )}
      <DensestCells {...{ counts, names, selection, noun }} onCell={(cell) => change({ cell })} />
    </>
  )
}
