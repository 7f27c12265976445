import { useEffect, useMemo, useState } from 'preact/hooks'
import { type Address, replaceQuery } from '../address.ts'
import type { MapPage } from '../api/bodies.ts'
import { useLoaded } from '../api/use-api.ts'
import { type EventFilter, parseEventFilter } from '../event-filter.ts'
import { formatCount, formatCountOf } from '../format.ts'
import { Failure, Notice } from '../parts/notice.tsx'
import { RangePicker } from '../parts/range-picker.tsx'
import { Time } from '../parts/time.tsx'
import { formatRange, parseRange } from '../range.ts'
import { useWorker } from '../worker/use-worker.ts'
import { Filters } from './live/filters.tsx'
import { createSeenValues } from './live/held-events.ts'
import { OpenedEvent } from './live/opened-event.tsx'
import { mostFrequent, pathOf } from './playback/path.ts'
import { PlayMap } from './playback/play-map.tsx'
import { eventsMax } from './playback/play-reader.ts'
import { PlayedEvents } from './playback/played-events.tsx'
import './playback/playback.css'
import { type Play, useLastActivity, usePlay } from './playback/use-play.ts'
import { MapPartsLine, useMapParts } from './where/map-parts.tsx'

/** `#/playback?session=…` or `player=…`: the events in order, and their path over the map. */
export function PlaybackView({ address: { query } }: { address: Address }) {
  const filter = parseEventFilter(query)
  const seen = useMemo(createSeenValues, [])
  const key = JSON.stringify(filter)
  return (
    <>
      <Filters filter={filter} seen={seen} first="player" />
      {filter.player === undefined && filter.session === undefined ? (
        <Notice kind="empty">Choose a player or a session above, or “Play this session” of an event.</Notice>
      ) : query.has('range') || query.has('from') ? (
        <PlayedRange key={key} filter={filter} query={query} />
      ) : (
        <LastActivityOf key={key} filter={filter} />
      )}
    </>
  )
}

const lastActivityMs = 3_600_000

/** If the address has no range, uses the hour before the last event. */
function LastActivityOf({ filter }: { filter: EventFilter }) {
  const { at, searchedFrom, isComplete, error, searchFurther } = useLastActivity(filter)
  useEffect(() => {
    if (typeof at === 'number') replaceQuery(formatRange({ from: at - lastActivityMs, to: at + 1 }))
  }, [at])
  if (error) return <Failure error={error} what="return events" />
  if (at !== null) {
    return (
      <Notice kind="loading">
        Searching the last event…{searchedFrom !== undefined && <> Back to {<Time at={searchedFrom} />}.</>}
      </Notice>
    )
  }
  return (
    <Notice kind="empty">
      No event matches{isComplete || searchedFrom === undefined ? '.' : <> since {<Time at={searchedFrom} />}. </>}
      {!isComplete && (
        <button type="button" onClick={searchFurther}>
          Search further back
        </button>
      )}
    </Notice>
  )
}

function PlayedRange({ filter, query }: { filter: EventFilter; query: URLSearchParams }) {
  const range = useMemo(() => parseRange(query, Date.now()), [query.get('range'), query.get('from'), query.get('to')])
  return (
    <>
      <div class="controls">
        <RangePicker range={range} />
      </div>
      <Played key={`${range.from} ${range.to}`} {...{ filter, range, query }} />
    </>
  )
}

interface PlayedProps {
  filter: EventFilter
  range: { from: number; to: number }
  query: URLSearchParams
}

function Played({ filter, range, query }: PlayedProps) {
  const play = usePlay(filter, range)
  const { events, error } = play
  const id = query.get('event')
  const opened = events.find(({ cursor }) => cursor === query.get('cursor'))
  function close(): void {
    replaceQuery({ event: undefined, cursor: undefined })
    document.getElementById('events')?.focus()
  }
  return (
    <>
      {error && error.kind !== 'limited' && <Failure error={error} what="return events" />}
      <Progress play={play} />
      {events.length > 0 && <PlayOver play={play} filter={filter} opened={opened?.cursor} />}
      {id !== null && <OpenedEvent key={id} {...{ id, filter, event: opened }} onClose={close} />}
    </>
  )
}

/** Shows how much of the range was read, and whether it has more events. */
function Progress({ play: { reader, events, isReading, error } }: { play: Play }) {
  const withTimestamp = events.filter(({ hasTimestamp }) => hasTimestamp).length
  return (
    <div class="line play-progress">
      {isReading && <progress aria-label="Part of the range that was read" value={reader.share()} />}
      <p role="status">
        {isReading && (error?.kind === 'limited' ? 'Waiting for the read rate limit. ' : 'Reading… ')}
        {formatCountOf(events.length, 'event')}
        {reader.isCut() && `, the first of the range: ${formatCount(eventsMax)} or 8 MiB are shown at most`}.{' '}
        {events.length > 0 && withTimestamp === 0 && 'They have no timestamp: their times are when they were received.'}
        {withTimestamp > 0 &&
          (withTimestamp === events.length
            ? 'Their times are their timestamps.'
            : 'Their times are their timestamps, or when they were received.')}
      </p>
    </div>
  )
}

interface PlayOverProps {
  play: Play
  filter: EventFilter
  opened: string | undefined
}

/** The path over the map, for the most frequent place and build, and the events. */
function PlayOver({ play: { events, reader, pair }, filter, opened }: PlayOverProps) {
  const call = useWorker()
  const buildId = filter.build ?? mostFrequent(events.map(({ buildId }) => buildId))
  const places = new Set(events.map(({ placeId }) => placeId))
  places.delete('')
  const placeId = filter.place ?? mostFrequent(events.map(({ placeId }) => placeId))
  const maps = useLoaded(
    async (api, signal) =>
      buildId === '' ? [] : (await api.json<MapPage>('v1/maps', { query: { buildId, limit: 1_000 }, signal })).maps,
    [buildId],
  )
  const map = maps.data?.find((map) => map.placeId === placeId)
  const parts = useMapParts(call, map, pair ?? { across: '', down: '' })
  const path = useMemo(
    () => pathOf(events, reader.columns, { pair, placeId }),
    [events, pair?.across, pair?.down, placeId],
  )
  const [moved, setMoved] = useState<number>()
  // a link starts at its event
  const at = moved ?? events.find(({ cursor }) => cursor === opened)?.at ?? events[0]?.at ?? 0
  return (
    <>
      {path.length > 0 && pair ? (
        <PlayMap
          {...{ call, path, pair }}
          parts={parts.found}
          at={at}
          label={`The path of ${formatCountOf(path.length, 'event')} with coordinates.`}
        />
      ) : (
        <Notice kind="empty">These events have no coordinates, so there is no path to show.</Notice>
      )}
      {path.length > 0 && <MapPartsLine parts={parts} placeId={placeId || undefined} />}
      {places.size > 1 && (
        <p class="hint">The events are of {places.size} places, the path of one. Filter by a place to show another.</p>
      )}
      <PlayedEvents {...{ events, opened, at }} onMove={setMoved} />
    </>
  )
}
