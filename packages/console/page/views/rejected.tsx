import { useMemo } from 'preact/hooks'
import { type Address, changeQuery, formatAddress, replaceQuery } from '../address.ts'
import type { RejectionGroup, Rejections } from '../api/bodies.ts'
import { useLoaded } from '../api/use-api.ts'
import { formatCount } from '../format.ts'
import { BarChart } from '../parts/bar-chart.tsx'
import { Content, Notice } from '../parts/notice.tsx'
import { RangePicker } from '../parts/range-picker.tsx'
import { ReleaseList, releasesOf, releasesWithin, useNewestBuilds } from '../parts/releases.tsx'
import { save } from '../parts/save.ts'
import { nameOfStep } from '../parts/steps.ts'
import { Value } from '../parts/value.tsx'
import { keepRange, parseRange, type Range } from '../range.ts'
import { pollMsOf, rangeNow } from './now/load-activity.ts'
import { CauseDetails } from './rejected/cause-details.tsx'
import { filterGroups, mergeCauses, missing, type Origin, origins, toNdjson } from './rejected/causes.ts'
import './rejected/rejected.css'

/**
 * Why events were rejected, and where they came from. `#/rejected?code=…&path=…` opens one cause; `build`, `type` and
 * `key` filter.
 */
export function RejectedView({ address: { query } }: { address: Address }) {
  const range = parseRange(query, Date.now())
  const loaded = useLoaded(
    (api, signal) => api.json<Rejections>('v1/rejected', { query: rangeNow(query), signal }),
    [JSON.stringify(range.choice)],
    range.isLive ? pollMsOf : undefined,
  )
  return (
    <>
      <div class="controls">
        <RangePicker range={range} />
        {loaded.data && <ExportButton groups={filterGroups(loaded.data.groups, query)} />}
      </div>
      <OriginFilters query={query} />
      <Content loaded={loaded} what="list rejected events">
        {(body) => <RejectedIn {...{ body, range, query }} />}
      </Content>
    </>
  )
}

function ExportButton({ groups }: { groups: readonly RejectionGroup[] }) {
  return (
    <button
      type="button"
      disabled={groups.length === 0}
      onClick={() => save(new Blob([toNdjson(groups)], { type: 'application/x-ndjson' }), 'rejected.ndjson')}
    >
      Export as NDJSON
    </button>
  )
}

/** The origin filters of the address, each with a button to remove it. */
function OriginFilters({ query }: { query: URLSearchParams }) {
  const names = (Object.keys(origins) as Origin[]).filter((name) => query.has(name))
  if (names.length === 0) return null
  return (
    <p class="line">
      {names.map((name) => (
        <button key={name} type="button" onClick={() => replaceQuery({ [name]: undefined })} title="Remove this filter">
          {query.get(name) ? (
            <>
              {name}: <Value text={query.get(name) ?? ''} />
            </>
          ) : (
            missing[name]
          )}{' '}
          ✕
        </button>
      ))}
    </p>
  )
}

function RejectedIn({ body, range, query }: { body: Rejections; range: Range; query: URLSearchParams }) {
  const releases = releasesWithin(releasesOf(useNewestBuilds().data), body)
  const groups = useMemo(() => filterGroups(body.groups, query), [body, query])
  const causes = useMemo(() => mergeCauses(groups), [groups])
  const isFiltered = (Object.keys(origins) as Origin[]).some((name) => query.has(name))
  const counts = body.steps.map(({ rejected }, step) =>
    isFiltered ? causes.reduce((sum, cause) => sum + (cause.counts[step] ?? 0), 0) : rejected,
  )
  const total = counts.reduce((sum, count) => sum + count, 0)
  const [code, path] = [query.get('code'), query.get('path') ?? '']
  const isGone = code !== null && !causes.some((cause) => cause.code === code && cause.path === path)
  if (body.total === 0) return <Notice kind="empty">Nothing was rejected in this time.</Notice>
  return (
    <>
      <div class="outcome rejected">
        <h2>
          {formatCount(total)} {isFiltered && `of ${formatCount(body.total)}`} rejected, per{' '}
          {nameOfStep(body.stepSeconds)}
        </h2>
        <BarChart what="Rejected" steps={body} counts={counts} marks={releases} range={range} />
      </div>
      <ReleaseList releases={releases} />
      <h2>Causes</h2>
      {isGone && (
        <Notice kind="empty">
          No event was rejected for this cause in this time and selection.{' '}
          <a href={formatAddress(['rejected'], keepRange(query))}>Show all causes</a>
        </Notice>
      )}
      <ol class="causes">
        {causes.map((cause) => {
          const isOpen = cause.code === code && cause.path === path
          return (
            <li key={`${cause.code} ${cause.path}`}>
              <CauseDetails
                cause={cause}
                steps={body}
                isOpen={isOpen}
                onToggle={(opens) => replaceQuery(opens ? { code: cause.code, path: cause.path } : closed)}
                linkTo={(origin, id) =>
                  `${formatAddress(['rejected'])}?${changeQuery(`${query}`, { [origin]: id ?? '' })}`
                }
              />
            </li>
          )
        })}
      </ol>
      {!isFiltered && body.other > 0 && (
        <p class="hint">
          {formatCount(body.other)} more are only counted: their causes are not among the most frequent ones.
        </p>
      )}
    </>
  )
}

const closed = { code: undefined, path: undefined }
