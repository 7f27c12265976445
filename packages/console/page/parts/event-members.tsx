import { formatAddress } from '../address.ts'
import { type EventFilter, filterMembers, filterNames, filterValue } from '../event-filter.ts'
import './event-members.css'
import { Value } from './value.tsx'

/** The members of an event that the server filters by: each is a link to the events with its value. */
export function EventMembers({ text, filter = {} }: { text: string; filter?: EventFilter | undefined }) {
  const event = JSON.parse(text) as Record<string, unknown>
  return (
    <dl class="event-members" aria-label="Members to filter by">
      {filterNames.map((name) => (
        <Member key={name} name={name} value={event[filterMembers[name]]} filter={filter} />
      ))}
    </dl>
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
