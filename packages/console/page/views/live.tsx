import { useMemo, useRef, useState } from 'preact/hooks'
import { type Address, replaceQuery } from '../address.ts'
import type { EventLine } from '../api/event-lines.ts'
import { findEvent } from '../api/find-event.ts'
import { useLoaded } from '../api/use-api.ts'
import { type EventFilter, parseEventFilter } from '../event-filter.ts'
import { NoEvents } from '../parts/no-events.tsx'
import { Content, Failure, Notice } from '../parts/notice.tsx'
import { EventList } from './live/event-list.tsx'
import { Filters } from './live/filters.tsx'
import { createSeenValues, eventsWith, type HeldEvent, type SeenValues } from './live/held-events.ts'
import { ListedLine } from './live/listed-line.tsx'
import './live/live.css'
import { closeEvent, OpenedEvent } from './live/opened-event.tsx'
import { StreamState } from './live/stream-state.tsx'
import { useFollow } from './live/use-follow.ts'

/** `#/live?player=…&event=…`: the matching events as they are stored, newest first, and the opened one. */
export function LiveView({ address }: { address: Address }) {
  const filter = useMemo(() => parseEventFilter(address.query), [address])
  const seen = useMemo(createSeenValues, [])
  const key = JSON.stringify(filter)
  return (
    <>
      <Filters filter={filter} seen={seen} />
      <Linked key={key} {...{ filter, seen, query: address.query }} />
    </>
  )
}

interface StreamProps {
  filter: EventFilter
  seen: SeenValues
  query: URLSearchParams
  /** The event that the address named initially; null if it is not stored. */
  linked?: { id: string; line: EventLine | null } | undefined
}

/** Starts at the event that the address opens initially, or at the newest. */
function Linked(props: StreamProps) {
  const [id] = useState(() => props.query.get('event'))
  const loaded = useLoaded(async (api, signal) => id && { id, line: await findEvent(api, id, signal) }, [id])
  if (!id) return <Stream {...props} />
  return (
    <Content loaded={loaded} what="find events by their id">
      {(linked) => <Stream {...props} linked={linked || undefined} />}
    </Content>
  )
}

function Stream({ filter, seen, query, linked }: StreamProps) {
  const id = query.get('event')
  const cursor = query.get('cursor')
  const text = query.get('text') ?? ''
  const [isStopped, setStopped] = useState(false)
  const isMissing = linked?.id === id && linked.line === null
  const isPaused = isStopped || (id !== null && !isMissing)
  const isPast = useRef(Boolean(linked?.line))
  if (!isPaused) isPast.current = false
  const following = useFollow({ filter, seen, beginAt: linked?.line?.receivedAt, isPaused, isPast: isPast.current })
  const { held, error, version, status } = following
  const isFiltered = Object.keys(filter).length > 0
  const events = useMemo(() => eventsWith(text, held.events), [held, held.events, text])
  const opened = events.find((event) => event.cursor === cursor) ?? (linked?.id === id ? linked.line : undefined)
  // the banner shows that the server does not respond
  const isFailed = error !== undefined && error.kind !== 'offline'

  return (
    <>
      <StreamState
        {...{ following, isPaused, isFiltered }}
        isPast={isPast.current}
        onPause={() => setStopped(true)}
        onResume={() => {
          setStopped(false)
          if (id !== null) closeEvent()
        }}
      />
      {isFailed && <Failure error={error} what="return events" />}
      {version === 0 && !error && <Notice kind="loading">Loading…</Notice>}
      <ListedLine {...{ following, text, isFiltered, isPaused }} shownCount={events.length} />
      {held.events.length > 0 && <EventList events={events} opened={opened?.cursor} onOpen={open} />}
      {status === 'following' && held.events.length === 0 && !following.history && <NoEvents />}
      {id !== null && <OpenedEvent key={id} {...{ id, filter, event: opened }} />}
    </>
  )
}

function open({ eventId, cursor }: HeldEvent): void {
  replaceQuery({ event: eventId, cursor })
}
