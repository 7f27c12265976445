import { formatAddress } from '../address.ts'
import type { Build, BuildPage } from '../api/bodies.ts'
import { type Loaded, useLoaded } from '../api/use-api.ts'
import type { Mark } from './bar-chart.tsx'
import './releases.css'
import { visibleText } from '../visible-text.ts'
import type { Steps } from './steps.ts'
import { Time } from './time.tsx'
import { Value } from './value.tsx'

/** A build that is frozen, which means that its first event was stored. */
export interface Release {
  buildId: string
  /** In milliseconds since 1970. */
  at: number
}

const pollMs = 60_000
const buildsMax = 100

/** The newest builds, newest first. */
export function useNewestBuilds(): Loaded<readonly Build[]> {
  return useLoaded(
    async (api, signal) => (await api.json<BuildPage>('v1/builds', { query: { limit: buildsMax }, signal })).builds,
    [],
    pollMs,
  )
}

/** The builds that are frozen. */
export function releasesOf(builds: readonly Build[] = []): readonly Release[] {
  return builds.flatMap(({ buildId, frozenAt }) => (frozenAt === null ? [] : [{ buildId, at: Date.parse(frozenAt) }]))
}

/** Maximum number of marks: more would hide the bars. */
const marksMax = 8

/** The newest releases within the steps, oldest first, with their positions in a chart. */
export function releasesWithin(releases: readonly Release[], { steps, stepSeconds }: Steps): (Release & Mark)[] {
  const from = Date.parse(steps[0]?.at ?? '')
  const length = steps.length * stepSeconds * 1000
  return releases
    .filter(({ at }) => at >= from && at < from + length)
    .slice(0, marksMax)
    .map((release) => ({
      ...release,
      title: `First event of ${visibleText(release.buildId)}`,
      position: (release.at - from) / length,
    }))
    .reverse()
}

/** Lists the releases marked in a chart. */
export function ReleaseList({ releases }: { releases: readonly Release[] }) {
  if (releases.length === 0) return null
  return (
    <p class="releases">
      <span class="muted">{releases.length < marksMax ? 'New builds' : `The newest ${marksMax} builds`}, dashed:</span>
      {releases.map(({ buildId, at }) => (
        <span key={buildId}>
          <a href={formatAddress(['maps', buildId])}>
            <Value text={buildId} />
          </a>{' '}
          <Time at={at} />
        </span>
      ))}
    </p>
  )
}
