import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { Activity, MapStatus } from '../../api/bodies.ts'
import { useLoaded } from '../../api/use-api.ts'
import { formatCountOf } from '../../format.ts'
import type { Pair } from '../../heat/pairs.ts'
import { Notice } from '../../parts/notice.tsx'
import { type Range, spans } from '../../range.ts'
import { visibleText } from '../../visible-text.ts'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { SampleProgress, SampleQuery } from '../../worker/samples.ts'
import { EventsOverMap } from './events-over-map.tsx'
import { IdFilters, NoCoordinates, PairChoice, TypeFilter } from './filters.tsx'
import { type Reading, ReadingLine, useReading } from './reading.tsx'
import { type FrozenSince, nounOf, useSampleQuery } from './sample-query.ts'
import type { WhereAddress } from './where-address.ts'

interface BuildEventsProps {
  call: CallWorker
  build: FrozenSince
  /** The build to show beside it. */
  versus: FrozenSince | undefined
  range: Range
  maps: readonly MapStatus[]
  where: WhereAddress
  /** Shown before the other choices. */
  choices: ComponentChildren
  change(changes: Partial<WhereAddress>): void
}

/** Reads samples of the events of one or two builds, and shows them as soon as there are any. */
export function BuildEvents(props: BuildEventsProps) {
  const { call, build, versus, range, maps, where, choices, change } = props
  const [isPlaceless, setPlaceless] = useState(false)
  const options = { range, where, isPlaceless }
  const query = useSampleQuery(build, options)
  const queryB = useSampleQuery(versus, options)
  const reading = useReading(call, query, range.isLive)
  const countedOf = useCounted(range)
  const readingB = useReading(call, queryB, range.isLive)
  const { progress } = reading
  const pair = pairOf(where, progress) ?? pairOf(where, readingB.progress)
  const placeId = choosePlace(where.placeId, maps)
  // events need not name a place
  const isNoneOfPlace = query?.filter.placeId !== undefined && reading.status !== 'reading' && progress?.events === 0
  useEffect(() => {
    if (isNoneOfPlace) setPlaceless(true)
  }, [isNoneOfPlace])

  const choosePair = ({ across, down }: Pair) => change({ across, down, view: undefined, cell: undefined })

  return (
    <>
      <div class="controls">
        {choices}
        {progress && pair && (
          <>
            <PlaceChoice {...{ maps, placeId, progress }} onChoose={(placeId) => change({ placeId })} />
            <PairChoice pairs={progress.pairs} chosen={pair} onChoose={choosePair} />
          </>
        )}
      </div>
      <IdFilters where={where} onChoose={change} />
      <ReadingLine reading={reading} name={versus && build.buildId} counted={countedOf(query)} />
      {versus && <ReadingLine reading={readingB} name={versus.buildId} counted={countedOf(queryB)} />}
      {progress?.events === 0 && reading.status === 'end' && (
        <Notice kind="empty">No matching events in this time: choose another time, build or filter.</Notice>
      )}
      {progress && progress.events > 0 && !pair && (
        <>
          <TypeFilter
            types={progress.types}
            chosen={where.types}
            noun={nounOf(progress.share < 1)}
            onChoose={(types) => change({ types })}
          />
          <NoCoordinates progress={progress} isReading={reading.status === 'reading'} />
        </>
      )}
      {query && progress && pair && (
        <EventsOverMap
          {...{ call, maps, where, change, pair, placeId, progress }}
          a={{ name: build.buildId, query, progress }}
          b={versusOf(versus, queryB, readingB)}
        />
      )}
    </>
  )
}

function versusOf(versus: FrozenSince | undefined, query: ReturnType<typeof useSampleQuery>, { progress }: Reading) {
  return versus && query && progress && { name: versus.buildId, query, progress }
}

/** The pair in the address, if events have it, or else the most frequent pair. */
function pairOf({ across, down }: WhereAddress, { pairs = [] }: Partial<SampleProgress> = {}): Pair | undefined {
  return pairs.find((pair) => pair.across === across && pair.down === down) ?? pairs[0]
}

/** The place named by the address, or else the first with a complete map; undefined for all. */
function choosePlace(named: string | undefined, maps: readonly MapStatus[]): string | undefined {
  if (named !== undefined) return named || undefined
  return maps.find(({ state }) => state === 'complete')?.placeId
}

function PlaceChoice({
  maps,
  progress: { places, share },
  placeId,
  onChoose,
}: {
  maps: readonly MapStatus[]
  progress: SampleProgress
  placeId: string | undefined
  onChoose(placeId: string): void
}) {
  const ids = new Set([...maps.map((map) => map.placeId), ...places.map(({ name }) => name)])
  if (placeId !== undefined) ids.add(placeId)
  const describe = (id: string) =>
    formatCountOf(places.find(({ name }) => name === id)?.count ?? 0, nounOf(share < 1)) +
    (maps.some((map) => map.placeId === id) ? '' : ', no map')
  return (
    <label>
      Place
      <select name="place" value={placeId ?? ''} onChange={({ currentTarget }) => onChoose(currentTarget.value)}>
        <option value="">All places</option>
        {[...ids].map((id) => (
          <option key={id} value={id}>
            {visibleText(id)} ({describe(id)})
          </option>
        ))}
      </select>
    </label>
  )
}

/** Returns a function for the server's count of the events of a query in a range. */
function useCounted({ from, to }: Range): (query: SampleQuery | undefined) => number | undefined {
  const { data } = useLoaded<Activity | undefined>(
    async (api, signal) =>
      to - from > spans['14d'] ? undefined : api.json('v1/activity', { query: { from, to, by: 'build' }, signal }),
    [from, to],
  )
  return (query) => data && query && countOf(data, query)
}

/** Undefined if there are further filters, or some events are counted without a build. */
function countOf({ groups = [] }: Activity, { filter: { buildId, ...others } }: SampleQuery): number | undefined {
  const isFiltered = Object.values(others).some((value) => value !== undefined)
  if (isFiltered || groups.some(({ name }) => name === null)) return undefined
  return groups.find(({ name }) => name === buildId)?.accepted
}
