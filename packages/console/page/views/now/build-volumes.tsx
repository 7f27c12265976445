import { formatAddress, replaceQuery } from '../../address.ts'
import type { Activity, Build, Rejections } from '../../api/bodies.ts'
import { useLoaded } from '../../api/use-api.ts'
import { formatCount, formatShare } from '../../format.ts'
import { IssueName } from '../../parts/issue-name.tsx'
import { Sparkline } from '../../parts/sparkline.tsx'
import { describeCounts } from '../../parts/steps.ts'
import { Value } from '../../parts/value.tsx'
import { keepRange } from '../../range.ts'
import { visibleText } from '../../visible-text.ts'
import { mergeCauses } from '../rejected/causes.ts'
import { type Before, rangeNow } from './load-activity.ts'
import { beginningsOf } from './trend.ts'
import { type Volume, VolumeTable } from './volumes.tsx'

const causesMax = 3

interface BuildVolumesProps {
  activity: Activity
  before: Before | undefined
  newest: readonly Build[] | undefined
  query: URLSearchParams
}

/** Events by build; two chosen builds are shown side by side: `compare=1.42.0&compare=1.42.1`. */
export function BuildVolumes({ activity, before, newest = [], query }: BuildVolumesProps) {
  const chosen = query.getAll('compare').slice(-2)
  const compared = chosen.flatMap((name) => activity.groups?.find((volume) => volume.name === name) ?? [])
  const newestFirst = sortNewestFirst(activity.groups ?? [], newest)
  function toggle(name: string): void {
    const others = chosen.filter((each) => each !== name)
    replaceQuery({ compare: others.length < chosen.length ? others : [...chosen.slice(-1), name] })
  }
  return (
    <section aria-labelledby="by-build">
      <h2 id="by-build">By build</h2>
      {chosen
        .filter((name) => compared.every((build) => build.name !== name))
        .map((name) => (
          <p key={name} class="hint">
            <Value text={name} /> has no events in this time, or is not among its most frequent builds.
          </p>
        ))}
      {compared.length > 0 && <Comparison activity={activity} builds={compared} query={query} />}
      <VolumeTable
        activity={activity}
        volumes={newestFirst}
        before={before && { name: before.name, activity: before.builds }}
        trends={[]}
        what="Build"
        rest="Without a build, or beyond the 20 most frequent"
        linkTo={(name) => formatAddress(['maps', name])}
        choice={({ name }) =>
          name !== null && (
            <input
              type="checkbox"
              aria-label={`Compare ${visibleText(name)}`}
              checked={chosen.includes(name)}
              onChange={() => toggle(name)}
            />
          )
        }
      />
    </section>
  )
}

/** Events without a build that is listed come last. */
function sortNewestFirst(volumes: readonly Volume[], newest: readonly Build[]): Volume[] {
  const beginningOf = beginningsOf(newest)
  return volumes.toSorted((a, b) => {
    if (a.name === null || b.name === null) return a.name === null ? 1 : -1
    return beginningOf(b) - beginningOf(a) || b.accepted - a.accepted
  })
}

function Comparison({
  activity,
  builds,
  query,
}: {
  activity: Activity
  builds: readonly Volume[]
  query: URLSearchParams
}) {
  const { data } = useLoaded(
    (api, signal) => api.json<Rejections>('v1/rejected', { query: rangeNow(query), signal }),
    [query.toString()],
  )
  const max = Math.max(1, ...builds.flatMap(({ counts }) => counts))
  return (
    <div class="comparison">
      {builds.map((build) => (
        <section key={build.name} aria-label={visibleText(build.name ?? '')}>
          <h3>
            <Value text={build.name ?? ''} />
          </h3>
          <Sparkline label={describeCounts('Accepted', activity, build.counts)} counts={build.counts} max={max} />
          <dl>
            <dt>Accepted</dt>
            <dd>{formatCount(build.accepted)}</dd>
            <dt>Rejected</dt>
            <dd>
              {formatCount(build.rejected)}{' '}
              <strong>{formatShare(build.rejected, build.accepted + build.rejected)}</strong>
            </dd>
          </dl>
          <Causes build={build} groups={data?.groups ?? []} query={query} />
        </section>
      ))}
      {builds.length === 1 && <p class="hint">Choose a second build below to compare them.</p>}
    </div>
  )
}

function Causes({ build, groups, query }: { build: Volume; groups: Rejections['groups']; query: URLSearchParams }) {
  const causes = mergeCauses(groups.filter(({ buildId }) => buildId === build.name))
  return (
    <ul>
      {causes.slice(0, causesMax).map(({ code, path, count }) => (
        <li key={`${code} ${path}`}>
          <a href={formatAddress(['rejected'], { ...keepRange(query), code, path, build: build.name ?? undefined })}>
            {formatCount(count)} <IssueName code={code} path={path} />
          </a>
        </li>
      ))}
    </ul>
  )
}
