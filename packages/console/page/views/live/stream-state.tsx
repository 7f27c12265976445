import { useEffect, useRef, useState } from 'preact/hooks'
import type { Api } from '../../api/api.ts'
import type { Stats } from '../../api/bodies.ts'
import { useConnection, useLoaded } from '../../api/use-api.ts'
import { formatCount, formatRate } from '../../format.ts'
import { Notice } from '../../parts/notice.tsx'
import { Time } from '../../parts/time.tsx'
import { burstMax } from './follow.ts'
import type { Following } from './use-follow.ts'

/** Rerender interval: rates and sampling expire even if no events are received. */
const renderIntervalMs = 2_000
/** Each request costs the project 1 MiB of its read limit. */
const statsIntervalMs = 10_000

export interface StreamStateProps {
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
  const { follower, held, status } = following
  const isSampled = follower.isSampled()
  const isLost = useConnection().lostAt !== undefined
  const isConnected = status === 'following' && !isLost
  const [name, state] = nameState({ isPaused, isLost, isSampled, status })
  const refusedAt = follower.cursorRefusedAt()
  return (
    <div class="stream-state">
      <div class="line">
        <button type="button" class={isPaused ? 'primary' : ''} onClick={isPaused ? onResume : onPause}>
          {isPaused ? resumeLabel(held.newerCount, isSampled) : 'Pause'}
        </button>
        <strong class={`state ${name}`} role="status">
          {state}
        </strong>
        {isPaused && isConnected && (
          <span class="muted">
            {isPast
              ? 'at the linked event. Resume continues from there'
              : 'Events still come in. Resume shows the newest'}
            , or a part if there are more than {formatCount(burstMax)}.
          </span>
        )}
        {!isPaused && isConnected && <Rates {...{ following, isFiltered, isSampled }} />}
      </div>
      {refusedAt !== undefined && (
        <Notice kind="empty">
          The server refused the cursor at <Time at={refusedAt} />, as after a restored backup. The page continued with
          the newest events: some may be missing, others appear twice.
        </Notice>
      )}
    </div>
  )
}

function resumeLabel(newerCount: number, isSampled: boolean): string {
  if (newerCount === 0) return 'Resume'
  return `${formatCount(newerCount)}${isSampled ? '+' : ''} new`
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
  return isSampled ? ['sampled', 'Following, sampled'] : ['following', 'Following']
}

/** The rate of received events, or since when none was received. */
function Rates({
  following: { follower, held },
  isFiltered,
  isSampled,
}: Pick<StreamStateProps, 'following' | 'isFiltered'> & { isSampled: boolean }) {
  const isWhole = isSampled && !isFiltered
  const stored = useStoredPerSecond(isWhole)
  const received = follower.receivedPerSecond()
  const newest = held.events.at(-1)
  if (isSampled)
    return (
      <span class="muted">
        More events arrive than are shown
        {received !== undefined && `: about ${formatRate(received)}`}
        {received !== undefined && stored !== undefined && ` of ${formatRate(stored)}`}
        {received !== undefined && ' events per second'}. A dashed line marks where some were left out.
      </span>
    )
  if (follower.isAfterGap()) return <span class="muted">Events after the newest one here were left out.</span>
  if (received) return <span class="muted">{formatRate(received)} events per second</span>
  return (
    <span class="muted">
      {newest ? (
        <>
          nothing since <Time at={newest.receivedAt} />
        </>
      ) : (
        'nothing so far'
      )}
    </span>
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
