import { useEffect, useRef, useState } from 'preact/hooks'
import type { Api } from '../../api/api.ts'
import type { Stats } from '../../api/bodies.ts'
import { useConnection, useLoaded } from '../../api/use-api.ts'
import { formatCount, formatRate } from '../../format.ts'
import { Notice } from '../../parts/notice.tsx'
import { Time } from '../../parts/time.tsx'
import { burstMax } from './follow.ts'
import type { Following } from './use-follow.ts'

/** While nothing comes in, rates and the sampling end by themselves. */
const renderIntervalMs = 2_000
/** Each costs the project 1 MiB of its limit for reads. */
const statsIntervalMs = 10_000

/** Whether the page follows the stream, and whether it skips events. */
export function StreamState({ following: { follower, isPaused, setPaused } }: { following: Following }) {
  useRenderEvery(renderIntervalMs)
  const isSampled = !isPaused && follower.isSampled()
  const isLost = useConnection().lostAt !== undefined
  const [name, state] = nameState({ isPaused, isLost, isSampled })
  const refusedAt = follower.cursorRefusedAt()
  return (
    <div class="stream-state">
      <div class="line">
        <button type="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? 'Resume' : 'Pause'}
        </button>
        <strong class={`state ${name}`} role="status">
          {state}
        </strong>
        {isPaused ? (
          <span class="muted">
            Events are still stored. Resume continues from here, or from the newest events if more than{' '}
            {formatCount(burstMax)} came in.
          </span>
        ) : (
          <>
            <Rates received={follower.receivedPerSecond()} isSampled={isSampled} />
            {!isSampled && follower.isAfterGap() && (
              <span class="muted">Events after the newest one here were left out.</span>
            )}
          </>
        )}
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

function nameState({ isPaused, isLost, isSampled }: { isPaused: boolean; isLost: boolean; isSampled: boolean }) {
  if (isPaused) return ['paused', 'Paused']
  if (isLost) return ['paused', 'Not connected']
  return isSampled ? ['sampled', 'Live, sampled'] : ['live', 'Live']
}

function Rates({ received, isSampled }: { received: number | undefined; isSampled: boolean }) {
  const stored = useStoredPerSecond(isSampled)
  if (!isSampled)
    return received === undefined ? null : <span class="muted">{formatRate(received)} events per second</span>
  return (
    <span class="muted">
      More events arrive than are shown
      {received !== undefined && `: about ${formatRate(received)}`}
      {received !== undefined && stored !== undefined && ` of ${formatRate(stored)}`}
      {received !== undefined && ' events per second'}. A dashed line marks where some were left out.
    </span>
  )
}

/** The rate of the whole project, polled slowly; undefined unless it is wanted. */
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
