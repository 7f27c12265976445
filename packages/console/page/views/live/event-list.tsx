import type { RefObject } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { formatTimeMs } from '../../format.ts'
import { summarizeMembers } from '../../json-text.ts'
import { Value } from '../../parts/value.tsx'
import { rowAfterKey, scrollToRow, visibleRows } from '../../parts/visible-rows.ts'
import { timeZone } from '../../time-zone.ts'
import type { HeldEvent } from './held-events.ts'

/** Must match live.css. */
const rowHeight = 32
const summaryCharsMax = 300
/** Members that are shown elsewhere in the row, or are the same in all rows. */
const shownMembers = new Set(['projectId', 'eventId', 'type', 'playerId', 'buildId', 'placeId', 'timestamp'])

/** An event of the list; missing members are empty. */
export type ListedEvent = Omit<HeldEvent, 'isAfterGap'> & { isAfterGap?: boolean }

interface EventListProps<Event extends ListedEvent> {
  /** Newest first; in a playback, oldest first. */
  events: readonly Event[]
  playback?: {
    /** Shown instead of the times of receipt. */
    times: readonly string[]
    /** The row to keep visible; -1 for none. */
    current: number
  }
  /** The cursor of the opened event. */
  opened: string | undefined
  onOpen(event: Event): void
}

/** A list that renders only its visible rows, and keeps its scroll position while events are added above. */
export function EventList<Event extends ListedEvent>({ events, playback, opened, onOpen }: EventListProps<Event>) {
  const list = useRef<HTMLDivElement>(null)
  const { scrollTop, height, update } = useScroll(list)
  const openedRow = opened === undefined ? -1 : events.findIndex(({ cursor }) => cursor === opened)
  useAnchor(list, events, update)
  const current = playback?.current ?? -1
  useEffect(() => {
    if (current >= 0 && list.current) list.current.scrollTop = scrollToRow({ scrollTop, height, rowHeight }, current)
  }, [current, height])
  const { first, end } = visibleRows({ scrollTop, height, rowHeight }, events.length)

  function move(key: string): boolean {
    const row = rowAfterKey(key, openedRow, events.length, Math.floor(height / rowHeight) - 1)
    const event = row !== undefined && events[row]
    if (!event || !list.current) return false
    list.current.scrollTop = scrollToRow({ scrollTop, height, rowHeight }, row)
    onOpen(event)
    return true
  }

  function open(target: EventTarget | null): void {
    const row = target instanceof Element ? target.closest<HTMLElement>('[data-cursor]') : null
    const event = events.find(({ cursor }) => cursor === row?.dataset.cursor)
    if (event) onOpen(event)
  }

  return (
    <div class={playback ? 'event-list played' : 'event-list'}>
      <Head isPlayback={playback !== undefined} />
      {scrollTop > 0 && !playback && (
        <button type="button" class="newer" onClick={() => list.current?.scrollTo({ top: 0 })}>
          ↑ Newest
        </button>
      )}
      <div
        ref={list}
        class="rows"
        id="events"
        role="listbox"
        aria-label={playback ? 'Events in order' : 'Events, newest first'}
        tabIndex={0}
        aria-activedescendant={openedRow >= first && openedRow < end ? idOf(opened) : undefined}
        // a mouse press opens the event: the row may have moved before the button is released
        onPointerDown={({ button, pointerType, target }) => {
          if (pointerType === 'mouse' && button === 0) open(target)
        }}
        onClick={({ target }) => open(target)}
        onKeyDown={(event) => {
          if (!event.ctrlKey && !event.metaKey && !event.altKey && move(event.key)) event.preventDefault()
        }}
      >
        <div class="all-rows" style={{ height: `${events.length * rowHeight}px` }}>
          {events.slice(first, end).map((event, index) => (
            <EventRow
              key={event.cursor}
              event={event}
              row={first + index}
              count={events.length}
              isOpened={first + index === openedRow}
              isCurrent={first + index === current}
              time={playback?.times[first + index]}
            />
          ))}
        </div>
      </div>
    </div>
  )
}

function Head({ isPlayback }: { isPlayback: boolean }) {
  return (
    <div class="event-row head" aria-hidden="true">
      {isPlayback ? (
        <span>Elapsed + pause</span>
      ) : (
        <span title={`Time zone: ${timeZone()}`}>
          Received <span class="zone">({timeZone()})</span>
        </span>
      )}
      <span>Type</span>
      <span class="player">Player</span>
      <span class="build">Build</span>
      <span class="place">Place</span>
      <span class="rest">Members</span>
      <span class="id">Event id</span>
    </div>
  )
}

/** Keeps the scroll position when events are added above, except at the top. */
function useAnchor(list: RefObject<HTMLElement | null>, events: readonly ListedEvent[], update: () => void): void {
  const newest = useRef<string | undefined>(undefined)
  useLayoutEffect(() => {
    const { current } = list
    const added = events.findIndex(({ cursor }) => cursor === newest.current)
    newest.current = events[0]?.cursor
    if (!current || added <= 0 || current.scrollTop === 0) return
    current.scrollTop += added * rowHeight
    update()
  }, [events])
}

function idOf(cursor: string | undefined): string {
  return `event-${cursor}`
}

function EventRow({
  event,
  row,
  count,
  isOpened,
  isCurrent,
  time,
}: {
  event: ListedEvent
  row: number
  count: number
  isOpened: boolean
  isCurrent: boolean
  /** Default: the time of receipt. */
  time: string | undefined
}) {
  const { receivedAt, type, playerId, buildId, placeId, eventId, text } = event
  const summary = useMemo(() => summarizeMembers(text, shownMembers, summaryCharsMax), [text])
  return (
    <div
      id={idOf(event.cursor)}
      class={event.isAfterGap ? 'event-row after-gap' : 'event-row'}
      role="option"
      tabIndex={-1}
      aria-selected={isOpened}
      aria-current={isCurrent ? 'step' : undefined}
      aria-posinset={row + 1}
      aria-setsize={count}
      style={{ top: `${row * rowHeight}px` }}
      title={event.isAfterGap ? 'Events before this one may be missing.' : undefined}
      data-cursor={event.cursor}
    >
      <span class="time">{time ?? formatTimeMs(receivedAt)}</span>
      <span class="type">
        <Value text={type || '–'} />
      </span>
      <span class="player">
        <Value text={playerId || '–'} />
      </span>
      <span class="build">
        <Value text={buildId || '–'} />
      </span>
      <span class="place">
        <Value text={placeId || '–'} />
      </span>
      <span class="rest mono">
        <Value text={summary} />
      </span>
      <span class="id mono">
        <Value text={eventId} />
      </span>
    </div>
  )
}

/** The visible part of a scrolled box, in CSS pixels. `update` reads it immediately. */
function useScroll(box: RefObject<HTMLElement | null>): { scrollTop: number; height: number; update(): void } {
  const [scroll, setScroll] = useState({ scrollTop: 0, height: 600 })
  function update(): void {
    if (box.current) setScroll({ scrollTop: box.current.scrollTop, height: box.current.clientHeight })
  }
  useEffect(() => {
    const element = box.current
    if (!element) return
    const observer = new ResizeObserver(update)
    observer.observe(element)
    element.addEventListener('scroll', update, { passive: true })
    return () => {
      observer.disconnect()
      element.removeEventListener('scroll', update)
    }
  }, [])
  return { ...scroll, update }
}
