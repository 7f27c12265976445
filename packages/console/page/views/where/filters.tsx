import { useState } from 'preact/hooks'
import { formatCount, formatCountOf } from '../../format.ts'
import type { EventSummary, Named } from '../../heat/heat-events.ts'
import { lookedFor } from '../../heat/pairs.ts'
import { parsePointer } from '../../json-pointer.ts'
import { Combobox } from '../../parts/combobox.tsx'
import { Notice } from '../../parts/notice.tsx'
import { Value } from '../../parts/value.tsx'
import { visibleText } from '../../visible-text.ts'
import type { WhereAddress } from './where-address.ts'

/** Chips that filter by type; none pressed means all types. */
export function TypeFilter({
  types,
  chosen,
  onChoose,
}: {
  types: readonly Named[]
  chosen: readonly string[]
  onChoose(types: string[]): void
}) {
  const toggle = (name: string) =>
    onChoose(chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name])
  // keep types that the address names, so that they can be removed
  const listed = [...types, ...chosen.filter((name) => !types.some((type) => type.name === name)).map(unseen)]
  return (
    <fieldset class="types">
      <legend class="muted">Types</legend>
      <button type="button" aria-pressed={chosen.length === 0} onClick={() => onChoose([])}>
        All types
      </button>
      {listed.map(({ name, count }) => (
        <button key={name} type="button" aria-pressed={chosen.includes(name)} onClick={() => toggle(name)}>
          <Value text={name || 'no type'} /> <span class="muted">{formatCount(count)}</span>
        </button>
      ))}
    </fieldset>
  )
}

const unseen = (name: string) => ({ name, count: 0 })

export interface PointerChoice {
  across: string
  down: string
}

/** The pairs that were found, or any two members. */
export function PairFilter({
  summary,
  chosen,
  onChoose,
}: {
  summary: EventSummary
  chosen: PointerChoice
  onChoose(pair: PointerChoice): void
}) {
  const isFound = summary.pairs.some((pair) => keyOf(pair) === keyOf(chosen))
  const [isOpen, setOpen] = useState(!isFound)
  return (
    <>
      <Combobox
        label="Coordinates"
        value={isOpen ? '' : keyOf(chosen)}
        options={[
          ...summary.pairs.map((pair) => ({
            value: keyOf(pair),
            label: `${pair.across} and ${pair.down}`,
            detail: formatCount(pair.count),
          })),
          { value: '', label: 'Other members…' },
        ]}
        onChoose={(key) => {
          const pair = summary.pairs.find((pair) => keyOf(pair) === key)
          setOpen(!pair)
          if (pair) onChoose({ across: pair.across, down: pair.down })
        }}
      />
      {isOpen && <PointerForm pointers={summary.pointers} {...{ chosen, onChoose }} />}
    </>
  )
}

/** Whether a browser shows the whole text of an option, so that a user can type it. */
const isVisible = (pointer: string) => visibleText(pointer) === pointer

const keyOf = ({ across, down }: PointerChoice) => `${across} ${down}`

/** A form for two JSON Pointers. */
function PointerForm({
  pointers,
  chosen,
  onChoose,
}: {
  pointers: readonly string[]
  chosen: PointerChoice
  onChoose(pair: PointerChoice): void
}) {
  const [problem, setProblem] = useState('')
  function submit(event: SubmitEvent): void {
    event.preventDefault()
    const fields = new FormData(event.currentTarget as HTMLFormElement)
    const across = String(fields.get('across')).trim()
    const down = String(fields.get('down')).trim()
    const isValid = [across, down].every((pointer) => pointer && parsePointer(pointer))
    setProblem(isValid ? '' : 'A JSON Pointer begins with /, such as /position/x.')
    if (isValid) onChoose({ across, down })
  }
  return (
    <form class="pointers" onSubmit={submit}>
      {(['across', 'down'] as const).map((name) => (
        <label key={name}>
          {name === 'across' ? 'Across' : 'Down'}
          <input
            name={name}
            class="mono"
            defaultValue={chosen[name]}
            list="pointers"
            size={14}
            spellcheck={false}
            required
          />
        </label>
      ))}
      <datalist id="pointers">
        {pointers.filter(isVisible).map((pointer) => (
          <option key={pointer} value={pointer} />
        ))}
      </datalist>
      <button type="submit">Use these</button>
      {problem && <span role="alert">{problem}</span>}
    </form>
  )
}

/** Lists the pointers that were tried, and the members of the first event. */
export function NoCoordinates({
  progress,
  isReading,
  onChoose,
}: {
  progress: EventSummary
  isReading: boolean
  onChoose(pair: PointerChoice): void
}) {
  return (
    <>
      <Notice kind="empty">
        {formatCountOf(progress.events, 'event')} read{isReading && ' so far'}, none with numeric coordinates. Looked
        for: {lookedFor}.
      </Notice>
      <PointerForm pointers={progress.pointers} chosen={{ across: '', down: '' }} onChoose={onChoose} />
      <h2>Members of the first event</h2>
      <ul class="members">
        {progress.example.map(({ pointer, kind }) => (
          <li key={pointer}>
            <code>
              <Value text={pointer} />
            </code>{' '}
            <span class="muted">{kind}</span>
          </li>
        ))}
      </ul>
    </>
  )
}

const ids = [
  ['playerId', 'Player'],
  ['sessionId', 'Session'],
  ['serverId', 'Server'],
] as const

/** Filters the events by player, session or server, on the server. */
export function IdFilters({
  where,
  onChoose,
}: {
  where: WhereAddress
  onChoose(changes: Partial<WhereAddress>): void
}) {
  const isUsed = ids.some(([id]) => where[id] !== undefined)
  function submit(event: SubmitEvent): void {
    event.preventDefault()
    const fields = new FormData(event.currentTarget as HTMLFormElement)
    const typed = (id: string) => String(fields.get(id)).trim() || undefined
    onChoose({ playerId: typed('playerId'), sessionId: typed('sessionId'), serverId: typed('serverId') })
  }
  return (
    <details class="id-filters" open={isUsed}>
      <summary>Player, session, server</summary>
      <form class="controls" onSubmit={submit} key={ids.map(([id]) => where[id]).join('\n')}>
        {ids.map(([id, title]) => (
          <label key={id}>
            {title}
            <input
              name={id}
              class="mono"
              defaultValue={where[id] ?? ''}
              size={16}
              autocomplete="off"
              spellcheck={false}
            />
          </label>
        ))}
        <button type="submit">Filter</button>
      </form>
    </details>
  )
}
