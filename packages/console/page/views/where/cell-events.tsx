import { useState } from 'preact/hooks'
import { formatAddress } from '../../address.ts'
import { findEvent } from '../../api/find-event.ts'
import { useLoaded } from '../../api/use-api.ts'
import { formatCountOf, formatTimeMs } from '../../format.ts'
import type { ListedEvent, Selection } from '../../heat/heat-events.ts'
import type { Box } from '../../heat/viewport.ts'
import { EventDetail } from '../../parts/event-detail.tsx'
import { Content, Notice } from '../../parts/notice.tsx'
import { Time } from '../../parts/time.tsx'
import { Value } from '../../parts/value.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { SampleQuery } from '../../worker/samples.ts'
import './cell-events.css'
import { formatBounds, formatUnits, nameOf } from './format-units.ts'
import { useLatest } from './use-latest.ts'

const listedMax = 100

interface CellEventsProps {
  call: CallWorker
  queries: readonly SampleQuery[]
  /** The builds of the samples. */
  names: readonly string[]
  selection: Selection
  cell: Box
  /** `event` or `sampled event`. */
  noun: string
  /** Number of events read so far. */
  events: number
  onClose(): void
}

/** The counted events in a cell, newest first; each can be opened. */
export function CellEvents({ call, queries, names, selection, cell, noun, events, onClose }: CellEventsProps) {
  const { across, down } = selection
  const lists = useLatest(
    () => call('whereList', { queries, selection, box: cell, limit: listedMax }),
    [queries, selection, Object.values(cell).join(), events],
  )
  return (
    <section aria-labelledby="cell-events">
      <div class="titled">
        <h2 id="cell-events">
          Events at <Value text={nameOf(across)} /> {formatBounds(cell.left, cell.right)}, <Value text={nameOf(down)} />{' '}
          {formatBounds(cell.top, cell.bottom)}
        </h2>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
      {lists?.map((list, i) => (
        <CellList key={names[i]} {...{ list, noun }} name={lists.length > 1 ? names[i] : undefined} />
      ))}
    </section>
  )
}

interface CellListProps extends Pick<CellEventsProps, 'noun'> {
  list: readonly ListedEvent[]
  /** The build, if there are two. */
  name: string | undefined
}

function CellList({ list, name, noun }: CellListProps) {
  const [opened, setOpened] = useState<string>()
  const prefix = name !== undefined && (
    <>
      <Value text={name} />:{' '}
    </>
  )
  if (list.length === 0) return <p class="muted">{prefix}No events in this cell.</p>
  return (
    <>
      <p class="muted">
        {prefix}
        {list.length === listedMax ? `The newest ${listedMax} ${noun}s` : formatCountOf(list.length, noun)}.
      </p>
      <ul class="cell-list">
        {list.map((event) => (
          <li key={event.eventId}>
            <button
              type="button"
              aria-expanded={opened === event.eventId}
              onClick={() => setOpened(opened === event.eventId ? undefined : event.eventId)}
            >
              <Time at={event.receivedAt} format={formatTimeMs} />{' '}
              <strong>
                <Value text={event.type || 'no type'} />
              </strong>{' '}
              <span class="muted">
                {formatUnits(event.across)}, {formatUnits(event.down)}
              </span>{' '}
              <code>
                <Value text={event.eventId} />
              </code>
            </button>
            {opened === event.eventId && <CellEvent eventId={event.eventId} />}
          </li>
        ))}
      </ul>
    </>
  )
}

/** An opened event with its bytes, which are not part of the sample. */
function CellEvent({ eventId }: { eventId: string }) {
  const loaded = useLoaded((api, signal) => findEvent(api, eventId, signal), [eventId])
  return (
    <Content loaded={loaded} what="find events by their id">
      {(line) =>
        line ? (
          <>
            <p>
              <a href={formatAddress(['find'], { id: eventId })}>Link to this event</a>
            </p>
            <EventDetail line={line} />
          </>
        ) : (
          <Notice kind="empty">The event is no longer stored.</Notice>
        )
      }
    </Content>
  )
}
