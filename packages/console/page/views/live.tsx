import { useMemo, useState } from 'preact/hooks'
import { formatAddress } from '../address.ts'
import { CopyButton } from '../parts/copy-button.tsx'
import { EventDetail } from '../parts/event-detail.tsx'
import { Failure, Notice } from '../parts/notice.tsx'
import { Value } from '../parts/value.tsx'
import { EventList } from './live/event-list.tsx'
import { Filters } from './live/filters.tsx'
import { type EventFilter, filterEvents, type HeldEvent } from './live/held-events.ts'
import './live/live.css'
import { StreamState } from './live/stream-state.tsx'
import { useFollow } from './live/use-follow.ts'

/** The events of the project as they are stored, newest first. */
export function LiveView() {
  const following = useFollow()
  const { held, error, version } = following
  const [filter, setFilter] = useState<EventFilter>({ text: '' })
  const events = useMemo(() => filterEvents(held.events, filter), [held, version, filter])
  const [opened, setOpened] = useState<HeldEvent>()
  // the banner says so when the server does not respond
  const isFailed = error !== undefined && error.kind !== 'offline'
  return (
    <>
      <StreamState following={following} />
      {isFailed && <Failure error={error} what="return events" />}
      {version === 0 && !isFailed && <Notice kind="loading">Loading…</Notice>}
      {version > 0 && held.events.length === 0 && (
        <Notice kind="empty">
          No events yet. They appear here as they are stored: <a href={formatAddress(['try'])}>send one</a>.
        </Notice>
      )}
      {held.events.length > 0 && (
        <>
          <Filters held={held} filter={filter} shownCount={events.length} onChange={setFilter} />
          <EventList key={JSON.stringify(filter)} events={events} opened={opened} onOpen={setOpened} />
          {opened && <OpenedEvent event={opened} onClose={() => setOpened(undefined)} />}
        </>
      )}
    </>
  )
}

function OpenedEvent({ event, onClose }: { event: HeldEvent; onClose(): void }) {
  return (
    <section class="opened-event" aria-label="Opened event">
      <div class="opened-title line">
        <h2 class="mono">
          <Value text={event.eventId} />
        </h2>
        <CopyButton key={event.eventId} text={event.eventId} what="event id" />
        <a href={formatAddress(['find'], { id: event.eventId })}>Link to this event</a>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
      <EventDetail line={event} />
    </section>
  )
}
