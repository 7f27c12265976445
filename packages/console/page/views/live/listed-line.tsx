import { replaceQuery } from '../../address.ts'
import { formatCount, formatCountOf } from '../../format.ts'
import { Time } from '../../parts/time.tsx'
import { eventsHeldMax } from './held-events.ts'
import type { Following } from './use-follow.ts'

export interface ListedLineProps {
  following: Following
  text: string
  shownCount: number
}

/** Shows how many events are listed and since when, with a field to search their text. */
export function ListedLine({ following, text, shownCount }: ListedLineProps) {
  const { held, history } = following
  const { length } = held.events
  if (!history && length === 0) return null
  return (
    <div class="listed-line controls">
      <p>
        {text !== '' && `${formatCount(shownCount)} of `}
        {formatCountOf(length, 'event')}
        {describeExtent(following)}
      </p>
      <label class="grow">
        Text in these events
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

function describeExtent({ held, history }: Following) {
  if (held.isFull) return `: the newest ${formatCount(eventsHeldMax)} are kept at most.`
  // without a history, the follower began before the first event
  if (!history || history.isComplete()) return ': all that are stored.'
  return (
    <>
      {' since '}
      <Time at={history.searchedFrom()} />.
    </>
  )
}
