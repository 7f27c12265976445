import { replaceQuery } from '../../address.ts'
import { formatCount, formatCountOf } from '../../format.ts'
import { Time } from '../../parts/time.tsx'
import type { Following } from './use-follow.ts'

interface ListedLineProps {
  following: Following
  text: string
  shownCount: number
  isFiltered: boolean
  isPaused: boolean
}

/** Shows how many events are listed and of which time, with a field to search their text. */
export function ListedLine({ following, text, shownCount, isFiltered, isPaused }: ListedLineProps) {
  const { held, history } = following
  const { length } = held.events
  if (!history && length === 0) return null
  return (
    <div class="listed-line controls">
      <p>
        {text !== '' && `${formatCount(shownCount)} of `}
        {formatCountOf(length, isFiltered ? 'matching event' : 'event')} <Extent {...{ following, isPaused }} />
      </p>
      <label class="grow">
        Search these events
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

/** The time that the list covers. A paused list does not cover the present. */
function Extent({ following: { held, history }, isPaused }: Pick<ListedLineProps, 'following' | 'isPaused'>) {
  const [oldest, newest] = [held.events[0], held.events.at(-1)]
  // without a history, the follower began before the first event
  const isWhole = !held.isFull && (!history || history.isComplete())
  const from = held.isFull ? oldest?.receivedAt : history?.searchedFrom()
  return (
    <>
      {isPaused && newest ? 'from ' : 'since '}
      {isWhole || from === undefined ? 'the first stored event' : <Time at={from} />}
      {isPaused && newest && (
        <>
          {' '}
          to <Time at={newest.receivedAt} />
        </>
      )}
      .{held.isFull && ' Older ones are not kept here.'}
      {held.events.some(({ isAfterGap }) => isAfterGap) && ' Events may be missing at dashed lines.'}
    </>
  )
}
