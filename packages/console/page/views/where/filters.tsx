import { formatCount, formatCountOf } from '../../format.ts'
import type { EventSummary, Named } from '../../heat/heat-events.ts'
import { lookedFor, type Pair } from '../../heat/pairs.ts'
import { Notice } from '../../parts/notice.tsx'
import { Value } from '../../parts/value.tsx'
import { visibleText } from '../../visible-text.ts'
import type { WhereAddress } from './where-address.ts'

/** Chips that filter by type; none pressed means all types. */
export function TypeFilter({
  types,
  chosen,
  noun,
  onChoose,
}: {
  types: readonly Named[]
  chosen: readonly string[]
  /** `event` or `sampled event`. */
  noun: string
  onChoose(types: string[]): void
}) {
  const toggle = (name: string) =>
    onChoose(chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name])
  // keep types that the address names, so that they can be removed
  const listed = [...types, ...chosen.filter((name) => !types.some((type) => type.name === name)).map(unseen)]
  return (
    <fieldset class="types">
      <legend class="muted capitalized">{noun}s by type</legend>
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

/** The pairs of coordinates that were found, if there is more than one. */
export function PairChoice({
  pairs,
  chosen,
  onChoose,
}: {
  pairs: readonly Pair[]
  chosen: Pair
  onChoose(pair: Pair): void
}) {
  if (pairs.length < 2) return null
  return (
    <label>
      Coordinates
      <select
        name="coordinates"
        value={pairs.indexOf(chosen)}
        onChange={({ currentTarget }) => onChoose(pairs[Number(currentTarget.value)] as Pair)}
      >
        {pairs.map(({ across, down, count }, i) => (
          <option key={`${across} ${down}`} value={i}>
            {visibleText(`${across} and ${down}`)} ({formatCount(count)})
          </option>
        ))}
      </select>
    </label>
  )
}

/** Lists the pointers that were tried, and the members of the first event. */
export function NoCoordinates({ progress, isReading }: { progress: EventSummary; isReading: boolean }) {
  return (
    <>
      <Notice kind="empty">
        {formatCountOf(progress.events, 'event')} read{isReading && ' so far'}, none with numeric coordinates. Looked
        for: {lookedFor}.
      </Notice>
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
