import { formatAddress } from '../address.ts'
import { type EventFilter, filterMembers, filterNames, filterValue } from '../event-filter.ts'
import { formatRange } from '../range.ts'
import './event-members.css'
import { Value } from './value.tsx'

interface EventMembersProps {
  text: string
  receivedAt: number
  /** The filter to which the links add a member. */
  filter?: EventFilter | undefined
}

/** The members of an event that the server can filter by; each links to the events with its value. */
export function EventMembers({ text, receivedAt, filter = {} }: EventMembersProps) {
  const event = JSON.parse(text) as Record<string, unknown>
  return (
    <dl class="event-members" aria-label="Members to filter by">
      {filterNames.map((name) => (
        <Member key={name} name={name} value={event[filterMembers[name]]} filter={filter} />
      ))}
      <PlayLinks event={event} receivedAt={receivedAt} />
    </dl>
  )
}

const playedMs = 3_600_000

/** Links to the events of the session and the player in the hour before and after. */
function PlayLinks({ event, receivedAt }: { event: Record<string, unknown>; receivedAt: number }) {
  const around = formatRange({ from: receivedAt - playedMs, to: receivedAt + playedMs })
  const links = (['session', 'player'] as const).flatMap((name) => {
    const value = filterValue(event[filterMembers[name]])
    return value === undefined ? [] : [{ name, href: formatAddress(['playback'], { [name]: value, ...around }) }]
  })
  if (links.length === 0) return null
  return (
    <div>
      <dt>Playback</dt>
      {links.map(({ name, href }) => (
        <dd key={name}>
          <a href={href}>Play this {name}</a>
        </dd>
      ))}
    </div>
  )
}

function Member({ name, value, filter }: { name: keyof EventFilter; value: unknown; filter: EventFilter }) {
  const selected = filterValue(value)
  if (value === undefined) return null
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {selected === undefined || filter[name] === selected ? (
          <Value text={selected ?? JSON.stringify(value)} />
        ) : (
          <a href={formatAddress(['live'], { ...filter, [name]: selected })} title={`Only events with this ${name}`}>
            <Value text={selected} />
          </a>
        )}
      </dd>
    </div>
  )
}
