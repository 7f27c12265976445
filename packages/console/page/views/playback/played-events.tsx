import { useMemo, useState } from 'preact/hooks'
import { replaceQuery } from '../../address.ts'
import { EventList } from '../live/event-list.tsx'
import { formatElapsed, formatPause } from './format-pause.ts'
import type { PlayEvent } from './play-reader.ts'
import { Player, prefersReducedMotion, speedFor, useClock } from './player.tsx'

interface PlayedEventsProps {
  /** Sorted by time. */
  events: readonly PlayEvent[]
  /** The cursor of the opened event. */
  opened: string | undefined
  at: number
  onMove(at: number): void
}

/** The controls of a playback, and its events with the current one marked. */
export function PlayedEvents({ events, opened, at, onMove }: PlayedEventsProps) {
  const from = events[0]?.at ?? 0
  const to = events.at(-1)?.at ?? from
  const [isPlaying, setPlaying] = useState(false)
  const [chosenSpeed, setSpeed] = useState<number>()
  const speed = chosenSpeed ?? speedFor(to - from)
  // several events may have the same time: a step moves by one event
  const [row, setRow] = useState(0)
  const current = events[row]?.at === at ? row : events.findLastIndex((event) => event.at <= at)
  const times = useMemo(
    () =>
      events.map(({ at }, i) => {
        const before = events[i - 1]
        return `${formatElapsed(at - from)} ${before ? formatPause(at - before.at) : ''}`
      }),
    [events],
  )

  function moveTo(row: number): void {
    const event = events[row]
    if (!event) return
    setRow(row)
    onMove(event.at)
  }
  useClock(isPlaying, (ms) => {
    const next = Math.min(to, at + ms * speed)
    if (next >= to) setPlaying(false)
    if (prefersReducedMotion())
      moveTo(
        Math.max(
          current + 1,
          events.findLastIndex((event) => event.at <= next),
        ),
      )
    else onMove(next)
  })
  return (
    <>
      <Player
        {...{ from, to, at, isPlaying, speed }}
        onPlay={(isPlaying) => {
          if (isPlaying && at >= to) moveTo(0)
          setPlaying(isPlaying)
        }}
        onSpeed={setSpeed}
        onMove={onMove}
        onStep={(direction) => moveTo(current + direction)}
      />
      <EventList
        events={events}
        playback={{ times, current }}
        opened={opened}
        onOpen={(event) => {
          setPlaying(false)
          moveTo(events.indexOf(event))
          replaceQuery({ event: event.eventId, cursor: event.cursor })
        }}
      />
    </>
  )
}
