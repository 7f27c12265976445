import { useEffect, useRef, useState } from 'preact/hooks'
import type { Api } from '../../api/api.ts'
import type { Stats } from '../../api/bodies.ts'
import { useConnection, useLoaded } from '../../api/use-api.ts'
import { formatCount, formatRate } from '../../format.ts'
import { Notice } from '../../parts/notice.tsx'
import { Time } from '../../parts/time.tsx'
import type { Following } from './use-follow.ts'

/** Rerender interval: rates and sampling expire even if no events are received. */
const renderIntervalMs = 2_000
/** Each request costs the project 1 MiB of its read limit. */
const statsIntervalMs = 10_000

interface StreamStateProps {
  following: Following
  isPaused: boolean
  /** Paused at the event of a link: later events are not read. */
  isPast: boolean
  isFiltered: boolean
  onPause(): void
  onResume(): void
}

/** Shows whether the page follows the stream, and whether it skips events. */
export function StreamState({ following, isPaused, isPast, isFiltered, onPause, onResume }: StreamStateProps) {
  useRenderEvery(renderIntervalMs)
  const { follower, status } = following
  const isSampled = follower.isSampled()
  const isLost = useConnection().lostAt !== undefined
  const isConnected = status === 'following' && !isLost
  const [name, state] = nameState({ isPaused, isLost, isSampled, status })
  const refusedAt = follower.cursorRefusedAt()
  return (
    <div class="stream-state">
      <div class="line">
        <button type="button" class={isPaused ? 'primary' : ''} onClick={isPaused ? onResume : onPause}>
          {isPaused ? resumeLabel(following) : 'Pause'}
        </button>
        <strong class={`state ${name}`} role="status">
          {state}
        </strong>
        {isPaused && isConnected && (
          <span class="muted">
            {isPast ? 'Resume to read on from the linked event.' : 'New events wait until you resume.'} If there are
            many, some are left out.
          </span>
        )}
        {!isPaused && isConnected && (
          <span class="muted">
            <Rates {...{ following, isFiltered, isSampled }} />
          </span>
        )}
      </div>
      {refusedAt !== undefined && (
        <Notice kind="empty">
          The server refused the cursor at <Time at={refusedAt} />, as it does after a backup is restored. The page
          continued with the newest events: some may be missing, others may appear twice.
        </Notice>
      )}
    </div>
  )
}

function resumeLabel({ follower, held: { newerCount, isNewerCut } }: Following): string {
  if (newerCount === 0) return 'Resume'
  return `Resume: ${formatCount(newerCount)}${isNewerCut || follower.isAfterGap() ? '+' : ''} new`
}

function nameState({
  isPaused,
  isLost,
  isSampled,
  status,
}: {
  isPaused: boolean
  isLost: boolean
  isSampled: boolean
  status: Following['status']
}) {
  if (isLost) return ['', 'Not connected']
  if (status === 'stopped') return ['', 'Stopped']
  if (isPaused) return ['', 'Paused']
  if (status === 'connecting') return ['', 'Connecting…']
  if (status === 'retrying') return ['', 'Trying again…']
  return isSampled ? ['sampled', 'Following a sample'] : ['following', 'Following']
}

/** The rate of received events, or when the last one was received; nothing until it is known. */
function Rates({
  following: { follower, held },
  isFiltered,
  isSampled,
}: Pick<StreamStateProps, 'following' | 'isFiltered'> & { isSampled: boolean }) {
  const stored = useStoredPerSecond(isSampled && !isFiltered)
  const received = follower.receivedPerSecond()
  const newest = held.events.at(-1)
  const kind = isFiltered ? 'matching event' : 'event'
  if (isSampled) {
    const all = stored !== undefined && received !== undefined && stored > received ? ` of ${formatRate(stored)}` : ''
    const rate = received !== undefined ? ` About ${formatRate(received)}${all} per second are shown.` : ''
    return <>Events arrive too fast to show them all.{rate}</>
  }
  if (follower.isAfterGap()) return <>Events after the newest one here may be missing.</>
  if (received) return <>{`${formatRate(received)} ${received === 1 ? kind : `${kind}s`} per second`}</>
  if (received === undefined || !newest) return null
  return (
    <>
      No {kind} since <Time at={newest.receivedAt} />
    </>
  )
}

/** The rate of the whole project, polled slowly; undefined unless `isWanted`. */
function useStoredPerSecond(isWanted: boolean): number | undefined {
  const before = useRef<{ events: number; at: number } | undefined>(undefined)
  async function load(api: Api, signal: AbortSignal): Promise<number | undefined> {
    if (!isWanted) {
      before.current = undefined
      return undefined
    }
    const { events, eventsPerSecond } = await api.json<Stats>('v1/stats', { signal })
    const [last, at] = [before.current, performance.now()]
    before.current = { events, at }
    return last ? ((events - last.events) / (at - last.at)) * 1000 : eventsPerSecond
  }
  return useLoaded(load, [isWanted], isWanted ? statsIntervalMs : undefined).data
}

function useRenderEvery(ms: number): void {
  const [, render] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => render((count) => count + 1), ms)
    return () => clearInterval(timer)
  }, [ms])
}
