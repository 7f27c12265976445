import { useState } from 'preact/hooks'
import { replaceQuery } from '../address.ts'
import { formatLocal, parseLocal } from '../format.ts'
import { formatRange, type Range, type RangeChoice, type SpanName, spans, spanTitles } from '../range.ts'
import './range-picker.css'

/** Chooses the time range of a view, which the address holds. Must be inside of `.controls`. */
export function RangePicker({ range }: { range: Range }) {
  const { choice, zoomedFrom, note } = range
  const [isCustom, setCustom] = useState(typeof choice !== 'string')
  function choose(next: RangeChoice): void {
    setCustom(typeof next !== 'string')
    replaceQuery(formatRange(next))
  }
  // also open if the address has changed to fixed times
  const isOpen = isCustom || typeof choice !== 'string'
  return (
    <>
      <label class="range">
        Time
        <select
          name="range"
          value={isOpen ? 'custom' : (choice as SpanName)}
          onChange={({ currentTarget: { value } }) =>
            value === 'custom' ? setCustom(true) : choose(value as SpanName)
          }
        >
          {Object.keys(spans).map((name) => (
            <option key={name} value={name}>
              Last {spanTitles[name as SpanName]}
            </option>
          ))}
          <option value="custom">From … to …</option>
        </select>
      </label>
      {zoomedFrom && (
        <button type="button" onClick={() => choose(zoomedFrom)}>
          Back to the last {spanTitles[zoomedFrom]}
        </button>
      )}
      {isOpen && <CustomRange key={`${range.from} ${range.to}`} range={range} onChoose={choose} />}
      {note && (
        <p class="hint" role="status">
          {note}
        </p>
      )}
    </>
  )
}

/** Two times, in the time zone of the page. */
function CustomRange({ range, onChoose }: { range: Range; onChoose(choice: RangeChoice): void }) {
  const [problem, setProblem] = useState<string>()
  function submit(event: SubmitEvent): void {
    event.preventDefault()
    const fields = new FormData(event.currentTarget as HTMLFormElement)
    const from = parseLocal(String(fields.get('from')))
    const to = parseLocal(String(fields.get('to')))
    setProblem(from < to ? undefined : 'The start is not before the end.')
    if (from < to) onChoose({ from, to })
  }
  return (
    <form class="controls custom-range" onSubmit={submit}>
      {(['from', 'to'] as const).map((name) => (
        <label key={name}>
          {name === 'from' ? 'From' : 'To'}
          <input name={name} type="datetime-local" step="1" required defaultValue={formatLocal(range[name])} />
        </label>
      ))}
      <button type="submit">Apply</button>
      {problem && <span role="alert">{problem}</span>}
    </form>
  )
}
