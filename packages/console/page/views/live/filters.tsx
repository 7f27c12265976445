import { useState } from 'preact/hooks'
import { replaceQuery } from '../../address.ts'
import type { Activity } from '../../api/bodies.ts'
import { useLoaded } from '../../api/use-api.ts'
import { type EventFilter, type FilterName, filterNames } from '../../event-filter.ts'
import { Value } from '../../parts/value.tsx'
import { visibleText } from '../../visible-text.ts'
import type { SeenValues } from './held-events.ts'

interface FiltersProps {
  filter: EventFilter
  seen: SeenValues
  /** The member that is offered first. Default: `type`. */
  first?: FilterName
}

/** Chooses the filter of the server. The choices are in the address. */
export function Filters({ filter, seen, first = 'type' }: FiltersProps) {
  const chosen = filterNames.filter((name) => filter[name] !== undefined)
  return (
    <div class="live-filters">
      <FilterForm seen={seen} first={first} />
      {chosen.length > 0 && (
        <ul class="chips" aria-label="Filters">
          {chosen.map((name) => (
            <li key={name}>
              <button
                type="button"
                class="chip"
                title={`Remove the filter ${name} ${visibleText(filter[name] ?? '')}`}
                onClick={() => changeFilter({ [name]: undefined })}
              >
                <span class="muted">{name}</span> <Value text={filter[name] ?? ''} /> <span aria-hidden="true">×</span>
              </button>
            </li>
          ))}
          {chosen.length > 1 && (
            <li>
              <button
                type="button"
                onClick={() => changeFilter(Object.fromEntries(chosen.map((name) => [name, undefined])))}
              >
                Remove all
              </button>
            </li>
          )}
        </ul>
      )}
    </div>
  )
}

/** Changes the filter and closes the opened event, which need not match it. */
function changeFilter(changes: EventFilter | Record<string, undefined>): void {
  replaceQuery({ ...changes, event: undefined, cursor: undefined })
}

const suggestedMs = 86_400_000

/** Suggested values: counted by the server in the last day, or seen in events here. */
function useSuggestions(name: FilterName, seen: SeenValues): string[] {
  const { data = [] } = useLoaded(
    async (api, signal) => {
      if (name !== 'type' && name !== 'build') return []
      const query = { by: name, from: Date.now() - suggestedMs }
      const { groups = [] } = await api.json<Activity>('v1/activity', { query, signal })
      return groups.flatMap((group) => group.name ?? [])
    },
    [name],
  )
  return [...new Set([...data, ...seen[name]])].sort()
}

function FilterForm({ seen, first }: { seen: SeenValues; first: FilterName }) {
  const [name, setName] = useState(first)
  const [value, setValue] = useState('')
  const suggestions = useSuggestions(name, seen)
  function submit(event: SubmitEvent): void {
    event.preventDefault()
    changeFilter({ [name]: value })
    setValue('')
  }
  return (
    <form class="controls" onSubmit={submit}>
      <label>
        Filter by
        <select value={name} onChange={({ currentTarget }) => setName(currentTarget.value as FilterName)}>
          {filterNames.map((name) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label class="grow">
        Value
        <input
          value={value}
          list="suggestions"
          required
          placeholder="Exact value"
          autocomplete="off"
          spellcheck={false}
          onInput={({ currentTarget }) => setValue(currentTarget.value)}
        />
      </label>
      <datalist id="suggestions">
        {suggestions.map((value) => (
          <option key={value} value={value} label={visibleText(value)} />
        ))}
      </datalist>
      <button type="submit">Filter</button>
    </form>
  )
}
