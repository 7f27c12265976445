import { formatCount } from '../../format.ts'
import { visibleText } from '../../visible-text.ts'
import type { EventFilter, HeldEvents } from './held-events.ts'

export interface FiltersProps {
  held: HeldEvents
  filter: EventFilter
  shownCount: number
  onChange(filter: EventFilter): void
}

/** Filters the held events. */
export function Filters({ held, filter, shownCount, onChange }: FiltersProps) {
  const { type, buildId, text } = filter
  const isFiltered = type !== undefined || buildId !== undefined || text !== ''
  return (
    <div class="controls">
      <NameSelect
        label="Type"
        all="All types"
        names={held.types}
        selected={type}
        onChange={(type) => onChange({ ...filter, type })}
      />
      <NameSelect
        label="Build"
        all="All builds"
        names={held.buildIds}
        selected={buildId}
        onChange={(buildId) => onChange({ ...filter, buildId })}
      />
      <label class="grow">
        Text
        <input
          type="search"
          value={text}
          placeholder="Anywhere in the event"
          spellcheck={false}
          onInput={({ currentTarget }) => onChange({ ...filter, text: currentTarget.value })}
        />
      </label>
      <p class="shown-count">
        {formatCount(shownCount)} of {formatCount(held.events.length)} shown
      </p>
      {isFiltered && (
        <button type="button" onClick={() => onChange({ text: '' })}>
          Show all
        </button>
      )}
    </div>
  )
}

interface NameSelectProps {
  label: string
  all: string
  /** Seen so far; an empty one stands for events without one. */
  names: ReadonlySet<string>
  selected: string | undefined
  onChange(name: string | undefined): void
}

/** The value of an option is its name behind `=`, so that none and all differ. */
function NameSelect({ label, all, names, selected, onChange }: NameSelectProps) {
  return (
    <label>
      {label}
      <select
        value={selected === undefined ? '' : `=${selected}`}
        onChange={({ currentTarget: { value } }) => onChange(value === '' ? undefined : value.slice(1))}
      >
        <option value="">{all}</option>
        {[...names].sort().map((name) => (
          <option key={name} value={`=${name}`}>
            {visibleText(name) || '(none)'}
          </option>
        ))}
      </select>
    </label>
  )
}
