import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { formatAddress } from '../address.ts'
import type { Activity, Stats } from '../api/bodies.ts'
import type { RequestError } from '../api/request-error.ts'
import { useConnection, useLoaded } from '../api/use-api.ts'
import { formatBytes, formatCount, formatRate, formatSpan } from '../format.ts'
import { Failure, Notice } from '../parts/notice.tsx'
import { Time } from '../parts/time.tsx'
import { timeZone } from '../time-zone.ts'
import { HealthNotice, loadHealth } from './now/health.tsx'
import { MinutesCharts } from './now/minutes-charts.tsx'

const pollMs = 5_000

/** The health of the server, the stored events, and outcomes by minute. */
export function NowView() {
  const health = useLoaded(loadHealth, [], pollMs)
  const stats = useLoaded((api, signal) => api.json<Stats>('v1/stats', { signal }), [], pollMs)
  const activity = useLoaded((api, signal) => api.json<Activity>('v1/activity', { signal }), [], pollMs)
  const isReady = !health.data?.problem
  useRetryWhenReady(isReady)
  const failure = [stats.error, activity.error].find((error) => error && isUnexplained(error, isReady))
  const isEmpty = stats.data?.events === 0
  return (
    <div class="now">
      <HealthNotice health={health} />
      {failure && <Failure error={failure} what="return statistics" />}
      {!stats.data && !stats.error && <Notice kind="loading">Loading…</Notice>}
      {isEmpty && <NoEvents />}
      {stats.data && !isEmpty && <Figures stats={stats.data} isCurrent={!stats.error} />}
      {hasMinutes(activity.data, isEmpty) && <MinutesCharts loaded={activity} />}
      <p class="hint">Time zone: {timeZone()}.</p>
    </div>
  )
}

/** Retries at once when the server becomes ready, instead of after the backoff. */
function useRetryWhenReady(isReady: boolean): void {
  const connection = useConnection()
  const wasReady = useRef(isReady)
  useEffect(() => {
    if (isReady && !wasReady.current) connection.retryNow()
    wasReady.current = isReady
  }, [isReady])
}

/** Whether neither the banner of the page, nor the health, nor the section itself reports it. */
function isUnexplained({ kind }: RequestError, isReady: boolean): boolean {
  return kind !== 'offline' && kind !== 'unsupported' && (kind !== 'unavailable' || isReady)
}

/** In a project without events, minutes matter only if events were rejected. */
function hasMinutes(activity: Activity | undefined, isEmpty: boolean): boolean {
  return !isEmpty || (activity?.steps ?? []).some(({ rejected }) => rejected > 0)
}

function NoEvents() {
  return (
    <Notice kind="empty">
      No event is stored in this project yet. <a href={formatAddress(['try'])}>Send one</a>: it appears here within
      seconds.
    </Notice>
  )
}

function Figures({ stats, isCurrent }: { stats: Stats; isCurrent: boolean }) {
  const { events, eventsPerSecond, bytes, lastAt } = stats
  return (
    <dl class="figures">
      <Figure name="Last event">
        {lastAt === null ? (
          '–'
        ) : (
          <>
            <Time at={lastAt} /> <small>{formatSpan(Date.now() - Date.parse(lastAt))} ago</small>
          </>
        )}
      </Figure>
      <Figure name="Events per second">
        {isCurrent ? formatRate(eventsPerSecond) : '–'}{' '}
        <small>{isCurrent ? 'over the last minute' : 'not known now'}</small>
      </Figure>
      <Figure name="Events">{formatCount(events)}</Figure>
      <Figure name="Size of events">{formatBytes(bytes)}</Figure>
    </dl>
  )
}

function Figure({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}
