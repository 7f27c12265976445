import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { type Address, formatAddress } from '../address.ts'
import type { Activity, Stats } from '../api/bodies.ts'
import { useConnection, useLoaded } from '../api/use-api.ts'
import { formatCount, formatRate, formatSpan } from '../format.ts'
import { NoEvents } from '../parts/no-events.tsx'
import { Notice } from '../parts/notice.tsx'
import { RangePicker } from '../parts/range-picker.tsx'
import { releasesOf, useNewestBuilds } from '../parts/releases.tsx'
import { Time } from '../parts/time.tsx'
import { parseRange } from '../range.ts'
import { Attention } from './now/attention.tsx'
import { BuildVolumes } from './now/build-volumes.tsx'
import { HealthNotice, loadHealth } from './now/health.tsx'
import { type Before, useActivity, useBefore } from './now/load-activity.ts'
import './now/now.css'
import { OutcomeCharts } from './now/outcome-charts.tsx'
import { VolumeTable } from './now/volumes.tsx'

const pollMs = 5_000

/**
 * `#/now?range=…`: the health of the server, and the events it received in the range. `compare` names two builds to
 * show side by side.
 */
export function NowView({ address: { query } }: { address: Address }) {
  const range = parseRange(query, Date.now())
  const health = useLoaded(loadHealth, [], pollMs)
  const stats = useLoaded((api, signal) => api.json<Stats>('v1/stats', { signal }), [], pollMs)
  const types = useActivity(query, 'type')
  const builds = useActivity(query, 'build')
  const newest = useNewestBuilds()
  const before = useBefore(query, stats.data?.firstAt)
  const isReady = !health.data?.problem
  useRetryWhenReady(isReady)
  const isEmpty = stats.data?.events === 0
  const isQuiet = types.data?.steps.every(
    ({ accepted, duplicates, rejected }) => accepted + duplicates + rejected === 0,
  )
  const rate = range.isLive && !stats.error ? stats.data?.eventsPerSecond : undefined
  return (
    <div class="now">
      <HealthNotice health={health} others={[stats, types, builds]} />
      {!stats.data && !stats.error && <Notice kind="loading">Loading…</Notice>}
      {!isEmpty && <Attention newest={newest} />}
      {isEmpty && isQuiet !== false && <NoEvents />}
      {stats.data && !isEmpty && (
        <Figures stats={stats.data} isCurrent={!stats.error} before={range.isLive ? before : undefined} />
      )}
      {(!isEmpty || isQuiet === false) && (
        <>
          <div class="controls">
            <RangePicker range={range} />
          </div>
          {types.data && (
            <OutcomeCharts
              activity={types.data}
              before={before}
              releases={releasesOf(newest.data)}
              {...{ rate, range, query }}
            />
          )}
          {builds.data && <BuildVolumes activity={builds.data} newest={newest.data} {...{ before, query }} />}
          {types.data && <TypeVolumes activity={types.data} before={before} />}
        </>
      )}
    </div>
  )
}

function TypeVolumes({ activity, before }: { activity: Activity; before: Before | undefined }) {
  return (
    <section aria-labelledby="by-type">
      <h2 id="by-type">By type</h2>
      <VolumeTable
        activity={activity}
        volumes={activity.groups ?? []}
        before={before && { name: before.name, activity: before.types }}
        trends={['new', 'stopped']}
        what="Type"
        rest="Without a type, or beyond the 50 most frequent"
        linkTo={(type) => formatAddress(['live'], { type })}
      />
    </section>
  )
}

/** When the server becomes ready, retries at once instead of after the backoff. */
function useRetryWhenReady(isReady: boolean): void {
  const connection = useConnection()
  const wasReady = useRef(isReady)
  useEffect(() => {
    if (isReady && !wasReady.current) connection.retryNow()
    wasReady.current = isReady
  }, [isReady])
}

interface FiguresProps {
  stats: Stats
  isCurrent: boolean
  before: Before | undefined
}

function Figures({ stats: { events, eventsPerSecond, lastAt }, isCurrent, before }: FiguresProps) {
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
        <small>
          {isCurrent ? 'over the last minute' : 'unknown'}
          {before && `, ${formatRate(rateAtEnd(before))} a ${before.name} before`}
        </small>
      </Figure>
      <Figure name="Events stored">{formatCount(events)}</Figure>
    </dl>
  )
}

/** The events per second in the step that ends a range. */
function rateAtEnd({ types: { steps, stepSeconds } }: Before): number {
  return (steps.at(-1)?.accepted ?? 0) / stepSeconds
}

function Figure({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}
