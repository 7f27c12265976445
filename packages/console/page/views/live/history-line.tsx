import { replaceQuery } from '../../address.ts'
import { formatCount, formatCountOf } from '../../format.ts'
import { Time } from '../../parts/time.tsx'
import { eventsHeldMax } from './held-events.ts'
import type { Following } from './use-follow.ts'

export interface HistoryLineProps {
  following: Following
  text: string
  shownCount: number
}

/** Shows how many events are listed and how far back the server was searched, with a field to search their text. */
export function HistoryLine({ following, text, shownCount }: HistoryLineProps) {
  const { held, history, isSearching, searchFurther } = following
  if (!history && held.events.length === 0) return null
  const canSearch = history && !isSearching && !held.isFull && !history.isComplete()
  return (
    <div class="history-line controls">
      <p>
        {text === ''
          ? `${formatCountOf(held.events.length, 'event')} here`
          : `${formatCount(shownCount)} of the ${formatCountOf(held.events.length, 'event')} here`}
        , {describeSearch(following)}
      </p>
      {canSearch && (
        <button type="button" onClick={searchFurther}>
          Search further back
        </button>
      )}
      <label class="grow">
        Text in the events here
        <input
          type="search"
          value={text}
          spellcheck={false}
          onInput={({ currentTarget }) => replaceQuery({ text: currentTarget.value || undefined })}
        />
      </label>
    </div>
  )
}

function describeSearch({ held, history, isSearching }: Following) {
  if (held.isFull) return `the newest of them: ${formatCount(eventsHeldMax)} are kept at most.`
  // without a history, the follower began before the first event
  if (!history || history.isComplete()) return 'all that are stored were searched.'
  return (
    <>
      {isSearching ? 'searching: back to ' : 'searched back to '}
      <Time at={history.searchedFrom()} />.
    </>
  )
}
