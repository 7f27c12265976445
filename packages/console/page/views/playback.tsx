import { Fragment } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { type Address, formatAddress, replaceQuery } from '../address.ts'
import { useLoaded } from '../api/use-api.ts'
import { type EventFilter, parseEventFilter } from '../event-filter.ts'
import { formatCount, formatCountOf } from '../format.ts'
import { Failure, Notice } from '../parts/notice.tsx'
import { RangePicker } from '../parts/range-picker.tsx'
import { Time } from '../parts/time.tsx'
import { Value } from '../parts/value.tsx'
import { formatRange, parseRange } from '../range.ts'
import { useWorker } from '../worker/use-worker.ts'
import { Filters } from './live/filters.tsx'
import { createSeenValues } from './live/held-events.ts'
import { OpenedEvent } from './live/opened-event.tsx'
import { loadStatus } from './maps/load-status.ts'
import { boxOfPath, drawPath, type Path, pathOf } from './playback/path.ts'
import { eventsMax, type PlayEvent } from './playback/play-reader.ts'
import { PlayedEvents } from './playback/played-events.tsx'
import './playback/playback.css'
import { type Play, useLastActivity, usePlay } from './playback/use-play.ts'
import { MapPartsLine, useMapParts } from './where/map-parts.tsx'
import { PartsMap } from './where/parts-map.tsx'

/** `#/playback?session=…` or `player=…`: the events in order, and their path over the map. */
export function PlaybackView({ address: { query } }: { address: Address }) {
  const filter = parseEventFilter(query)
  const seen = useMemo(createSeenValues, [])
  const key = JSON.stringify(filter)
  return (
    <>
      <Filters filter={filter} seen={seen} first="player" />
      {filter.player === undefined && filter.session === undefined ? (
        <Notice kind="empty">Filter by a player or a session, or open an event and choose “Play this session”.</Notice>
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
        Searching for the last event{searchedFrom !== undefined && <>, so far back to {<Time at={searchedFrom} />}</>}…
      </Notice>
    )
  }
  return (
    <Notice kind="empty">
      No matching event
      {isComplete || searchedFrom === undefined ? (
        ': check the value of the filter.'
      ) : (
        <>
          {' '}
          since <Time at={searchedFrom} />.{' '}
        </>
      )}
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
  return (
    <>
      {error && error.kind !== 'limited' && <Failure error={error} what="return events" />}
      <Progress play={play} />
      {events.length === 0 && !play.isReading && !error && (
        <Notice kind="empty">
          No matching event was received in this time: choose another one, or{' '}
          <a href={formatAddress(['playback'], filter)}>find the last event</a>.
        </Notice>
      )}
      {events.length > 0 && <PlayOver play={play} filter={filter} opened={opened?.cursor} />}
      {id !== null && <OpenedEvent key={id} {...{ id, filter, event: opened }} />}
    </>
  )
}

/** Shows how much of the range was read, and whether it has more events. */
function Progress({ play: { reader, events, isReading, error } }: { play: Play }) {
  return (
    <div class="line play-progress">
      {isReading && <progress aria-label="Range read so far" value={reader.share()} />}
      <p role="status">
        {isReading && (error?.kind === 'limited' ? 'Waiting for the read rate limit. ' : 'Reading… ')}
        {formatCountOf(events.length, 'event')}
        {describeTimes(events)}.
        {reader.isCut() &&
          ` Only the start of the range was read: a playback has at most ${formatCount(eventsMax)} events or 8 MiB.`}
      </p>
    </div>
  )
}

function describeTimes(events: readonly PlayEvent[]): string {
  const count = (wanted: PlayEvent['timestamp']) => events.filter(({ timestamp }) => timestamp === wanted).length
  const [missing, far] = [count('missing'), count('far')]
  const atReceipt = [
    missing > 0 && `${formatCount(missing)} without a valid timestamp`,
    far > 0 && `${formatCount(far)} with a timestamp more than a day off`,
  ].filter(Boolean)
  if (events.length === 0) return ''
  if (missing + far === events.length) return `, played by time of receipt: ${atReceipt.join(', ')}`
  return `, played by timestamp${atReceipt.length > 0 ? `. By time of receipt: ${atReceipt.join(', ')}` : ''}`
}

interface PlayOverProps {
  play: Play
  filter: EventFilter
  opened: string | undefined
}

/** The path over its map, and the events. */
function PlayOver({ play: { events, reader, pair }, filter, opened }: PlayOverProps) {
  const call = useWorker()
  const path = useMemo(() => pathOf(events, reader.columns, pair), [events, pair?.across, pair?.down])
  const { points, placeId, buildId } = path
  const box = useMemo(() => boxOfPath(points), [points])
  const map = useLoaded(
    async (api, signal) => (placeId && buildId ? loadStatus(api, { placeId, buildId }, signal) : null),
    [placeId, buildId],
  )
  const parts = useMapParts(call, map.data ?? undefined, pair ?? { across: '', down: '' })
  const [moved, setMoved] = useState<number>()
  // a link starts at its event
  const at = moved ?? events.find(({ cursor }) => cursor === opened)?.at ?? events[0]?.at ?? 0
  return (
    <>
      {points.length > 0 && pair ? (
        <>
          <PartsMap
            call={call}
            title="Path over the map"
            names={pair}
            parts={parts.found}
            box={box}
            drawOver={drawPath(points, at)}
            label={`The path of ${formatCountOf(points.length, 'event')} with coordinates.`}
          />
          <PathLine {...{ path, events, filter }} />
          {map.error && <Failure error={map.error} what="return maps" />}
          {map.data !== undefined && placeId && buildId && <MapPartsLine parts={parts} placeId={placeId} />}
        </>
      ) : (
        <Notice kind="empty">These events have no coordinates, so there is no path to show.</Notice>
      )}
      <PlayedEvents {...{ events, opened, at }} onMove={setMoved} />
    </>
  )
}

interface PathLineProps {
  path: Path
  events: readonly PlayEvent[]
  filter: EventFilter
}

/** Names the session, player, place and build of the path. */
function PathLine({ path: { points, playerId, placeId, buildId }, events, filter: { session } }: PathLineProps) {
  const names = Object.entries({ session, player: playerId, place: placeId, build: buildId })
  const others = (['player', 'place'] as const).flatMap((name) => {
    const { size } = new Set(events.map((event) => event[`${name}Id`]).filter(Boolean))
    return size > 1 ? [formatCountOf(size, name)] : []
  })
  const missing = [!placeId && 'place', !buildId && 'build'].filter(Boolean)
  return (
    <p class="hint path-line">
      Path of{' '}
      {names
        .filter(([, id]) => id)
        .map(([name, id = ''], i) => (
          <Fragment key={name}>
            {i > 0 && ', '}
            {name} <Value text={id} />
          </Fragment>
        ))}
      : {formatCount(points.length)} of {formatCountOf(events.length, 'event')}.
      {others.length > 0 && ` These events span ${others.join(' and ')}: filter by another to see its path.`}
      {missing.length > 0 && ` The path has no ${missing.join(' and no ')}, so there is no map to draw.`}
    </p>
  )
}
