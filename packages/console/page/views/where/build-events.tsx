import type { ComponentChildren } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import type { MapStatus } from '../../api/bodies.ts'
import { formatCountOf } from '../../format.ts'
import type { Cell } from '../../heat/grid.ts'
import type { CountedEvents, Selection } from '../../heat/heat-events.ts'
import type { ScaleKind } from '../../heat/scale.ts'
import { Combobox } from '../../parts/combobox.tsx'
import { Notice } from '../../parts/notice.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { ReadProgress } from '../../worker/where-calls.ts'
import { DensestCells, describeCounts } from './densest.tsx'
import { NoCoordinates, PairFilter, type PointerChoice, TypeFilter } from './filters.tsx'
import { HeatMap } from './heat-map.tsx'
import { Legend } from './legend.tsx'
import { MapPartsLine, useMapParts } from './map-parts.tsx'
import { ReadingLine, useReading } from './reading.tsx'
import { type TimeChoice, TimeRange } from './time-range.tsx'
import type { WhereAddress } from './where-address.ts'

export interface BuildEventsProps {
  call: CallWorker
  buildId: string
  frozenAt: string | undefined
  maps: readonly MapStatus[]
  where: WhereAddress
  /** Stands before the other choices. */
  buildChoice: ComponentChildren
  change(changes: Partial<WhereAddress>): void
}

/** Reads the events of a build, and shows them as soon as there are any. */
export function BuildEvents(props: BuildEventsProps) {
  const { call, buildId, frozenAt, maps, where, buildChoice, change } = props
  const named = [where.across, where.down].filter((pointer) => pointer !== undefined)
  // a pointer that is kept is not read again
  const [wanted, setWanted] = useState<readonly string[]>(named)
  const reading = useReading(call, { buildId, from: frozenAt, wanted })
  const { progress } = reading
  const pair = pairOf(where, progress)
  const placeId = choosePlace(where.placeId, maps)

  function choosePair({ across, down }: PointerChoice): void {
    const isKept = [across, down].every((pointer) => progress?.pointers.includes(pointer))
    if (!isKept) setWanted([across, down])
    change({ across, down })
  }

  return (
    <>
      <div class="controls">
        {buildChoice}
        {progress && pair && (
          <>
            <PlaceChoice {...{ maps, placeId, places: progress.places }} onChoose={(placeId) => change({ placeId })} />
            <PairFilter summary={progress} chosen={pair} onChoose={choosePair} />
          </>
        )}
      </div>
      <ReadingLine reading={reading} />
      {progress?.events === 0 && reading.status === 'end' && (
        <Notice kind="empty">No events of this build are stored.</Notice>
      )}
      {progress && progress.events > 0 && !pair && (
        <NoCoordinates progress={progress} isReading={reading.status === 'reading'} onChoose={choosePair} />
      )}
      {progress && pair && <Events {...props} {...{ progress, pair, placeId }} />}
    </>
  )
}

/** The pair in the address, else the pair that most events have. */
function pairOf({ across, down }: WhereAddress, progress: ReadProgress | undefined): PointerChoice | undefined {
  return across && down ? { across, down } : progress?.pairs[0]
}

type EventsProps = BuildEventsProps & {
  progress: ReadProgress
  pair: PointerChoice
  placeId: string | undefined
}

function Events({ call, maps, where, change, progress, pair, placeId }: EventsProps) {
  const [time, setTime] = useState<TimeChoice>({})
  const [scale, setScale] = useState<ScaleKind>('log')
  const [cell, setCell] = useState<Cell>()
  const [counts, setCounts] = useState<CountedEvents>()
  const parts = useMapParts(
    call,
    maps.find((map) => map.placeId === placeId),
    pair,
  )
  const { across, down } = pair
  const types = where.types.join('\n')
  const selection = useMemo<Selection>(
    () => ({
      across,
      down,
      placeId,
      types: where.types.length > 0 ? where.types : undefined,
      from: time.from ?? Number.NEGATIVE_INFINITY,
      to: time.to ?? Number.POSITIVE_INFINITY,
    }),
    [across, down, placeId, types, time],
  )
  const label = counts ? describeCounts(counts, selection) : 'Counting events.'
  return (
    <>
      <div class="where">
        <HeatMap
          {...{ call, selection, scale, label, cell }}
          events={progress.events}
          parts={parts.found}
          onCell={setCell}
          onCounts={setCounts}
        />
        <div class="where-filters">
          {counts && <Legend max={counts.max} cell={counts.cell} scale={scale} onScale={setScale} />}
          <TypeFilter types={progress.types} chosen={where.types} onChoose={(types) => change({ types })} />
          <TimeRange {...progress} chosen={time} onChoose={setTime} />
          <MapPartsLine parts={parts} placeId={placeId} />
        </div>
      </div>
      <p>{label}</p>
      {counts && <DensestCells counts={counts} selection={selection} onCell={setCell} />}
    </>
  )
}

/** The place that the address names, else the first with a complete map; undefined for all. */
function choosePlace(named: string | undefined, maps: readonly MapStatus[]): string | undefined {
  if (named !== undefined) return named || undefined
  return maps.find(({ state }) => state === 'complete')?.placeId
}

function PlaceChoice({
  maps,
  places,
  placeId,
  onChoose,
}: {
  maps: readonly MapStatus[]
  places: ReadProgress['places']
  placeId: string | undefined
  onChoose(placeId: string): void
}) {
  const ids = new Set([...maps.map((map) => map.placeId), ...places.map(({ name }) => name)])
  if (placeId !== undefined) ids.add(placeId)
  const describe = (id: string) =>
    formatCountOf(places.find(({ name }) => name === id)?.count ?? 0, 'event') +
    (maps.some((map) => map.placeId === id) ? '' : ', no map')
  return (
    <Combobox
      label="Place"
      value={placeId ?? ''}
      options={[{ value: '', label: 'All places' }, ...[...ids].map((id) => ({ value: id, detail: describe(id) }))]}
      onChoose={onChoose}
    />
  )
}
