import { useEffect } from 'preact/hooks'
import { formatAddress, replaceQuery } from '../../address.ts'
import type { EventLine } from '../../api/event-lines.ts'
import { findEvent } from '../../api/find-event.ts'
import { useLoaded } from '../../api/use-api.ts'
import type { EventFilter } from '../../event-filter.ts'
import { CopyButton } from '../../parts/copy-button.tsx'
import { EventDetail } from '../../parts/event-detail.tsx'
import { Content, Notice } from '../../parts/notice.tsx'
import { Value } from '../../parts/value.tsx'

interface OpenedEventProps {
  id: string
  /** The event; null if it is not stored; undefined to look it up. */
  event: EventLine | null | undefined
  filter: EventFilter
}

/** Closes the opened event, and moves the focus to the list. */
export function closeEvent(): void {
  replaceQuery({ event: undefined, cursor: undefined })
  document.getElementById('events')?.focus()
}

/** The event with its exact bytes. Escape closes it. */
export function OpenedEvent({ id, event, filter }: OpenedEventProps) {
  useEffect(() => {
    const closeOnEscape = ({ key }: KeyboardEvent) => key === 'Escape' && closeEvent()
    document.addEventListener('keydown', closeOnEscape)
    return () => document.removeEventListener('keydown', closeOnEscape)
  }, [])
  return (
    <section class="opened-event" aria-label="Opened event">
      <div class="opened-title line">
        <h2 class="mono">
          <Value text={id} />
        </h2>
        <CopyButton text={id} what="event id" />
        <a href={formatAddress(['find'], { id })}>Find</a>
        <button type="button" onClick={closeEvent}>
          Close
        </button>
      </div>
      {event === undefined ? <LookedUp id={id} filter={filter} /> : <Found line={event} filter={filter} />}
    </section>
  )
}

function LookedUp({ id, filter }: Pick<OpenedEventProps, 'id' | 'filter'>) {
  const loaded = useLoaded(async (api, signal) => ({ line: await findEvent(api, id, signal) }), [id])
  return (
    <Content loaded={loaded} what="find events by their id">
      {({ line }) => <Found line={line} filter={filter} />}
    </Content>
  )
}

function Found({ line, filter }: { line: EventLine | null; filter: EventFilter }) {
  if (line) return <EventDetail line={line} filter={filter} />
  return <Notice kind="empty">No event with this id is stored.</Notice>
}
