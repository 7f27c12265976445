import type { ComponentChildren } from 'preact'
import { useEffect, useMemo } from 'preact/hooks'
import { type Address, replaceQuery } from '../address.ts'
import type { Api } from '../api/api.ts'
import type { Build, BuildPage, MapPage } from '../api/bodies.ts'
import { useLoaded } from '../api/use-api.ts'
import { BuildField } from '../parts/build-field.tsx'
import { Content, Notice } from '../parts/notice.tsx'
import { RangePicker } from '../parts/range-picker.tsx'
import type { Range } from '../range.ts'
import { useSessionWorker } from '../worker/use-worker.ts'
import { BuildEvents } from './where/build-events.tsx'
import type { FrozenSince } from './where/sample-query.ts'
import { useSettledRange } from './where/use-settled-range.ts'
import { formatWhere, parseWhere, type WhereAddress } from './where/where-address.ts'
import './where/where.css'

/** Maximum number of listed builds. The view shows one of them unless the address names another. */
const buildsMax = 1_000

async function loadBuilds(api: Api, signal: AbortSignal): Promise<BuildPage> {
  return api.json<BuildPage>('v1/builds', { query: { limit: buildsMax }, signal })
}

/** A sample of a build’s events over its map, or those of two builds side by side. */
export function WhereView({ address }: { address: Address }) {
  const builds = useLoaded(loadBuilds, [])
  const where = useMemo(() => parseWhere(address.query), [address])
  const { range, renew } = useSettledRange(address.query)
  return (
    <Content loaded={builds} what="list builds">
      {({ builds: list }) => {
        const build = chooseBuild(list, where.buildId)
        if (!build) return <Notice kind="empty">No builds yet: send events with a buildId, or publish a map.</Notice>
        const choices = (
          <>
            <BuildChoices build={build} where={where} />
            <RangePicker range={range} />
          </>
        )
        if (build.frozenAt !== null)
          return <FrozenBuild key={build.buildId} {...{ build, list, where, range, renew, choices }} />
        return (
          <>
            <div class="controls">{choices}</div>
            <Notice kind="empty">
              This build is open: it has no events yet.{' '}
              <button type="button" onClick={builds.reload}>
                Check again
              </button>
            </Notice>
          </>
        )
      }}
    </Content>
  )
}

interface FrozenBuildProps {
  build: FrozenSince
  list: readonly Build[]
  where: WhereAddress
  range: Range
  renew(): void
  choices: ComponentChildren
}

function FrozenBuild({ build, list, where, range, renew, choices }: FrozenBuildProps) {
  const call = useSessionWorker()
  const { buildId } = build
  const maps = useLoaded(
    (api, signal) => api.json<MapPage>('v1/maps', { query: { buildId, limit: 1_000 }, signal }),
    [buildId],
  )
  const change = (changes: Partial<WhereAddress>) => replace({ buildId, ...changes })
  const frozenMs = build.frozenAt ? Date.parse(build.frozenAt) : 0
  // the build's first event may be newer than the view
  useEffect(() => {
    if (range.isLive && frozenMs >= range.to) renew()
  }, [frozenMs])
  const versus = where.versus !== undefined && where.versus !== buildId ? named(list, where.versus) : undefined
  return (
    <Content loaded={maps} what="list maps">
      {({ maps }) => <BuildEvents {...{ call, build, versus, range, maps, where, choices, change }} />}
    </Content>
  )
}

/** Puts the choices into the address, so that they can be shared. */
function replace(changes: Partial<WhereAddress>): void {
  replaceQuery(formatWhere(changes))
}

function BuildChoices({ build: { buildId }, where: { versus } }: { build: FrozenSince; where: WhereAddress }) {
  return (
    <>
      <BuildField value={buildId} onChoose={(buildId) => replace({ buildId, cell: undefined })} />
      <BuildField
        label="Beside it"
        value={versus ?? ''}
        none="no other build"
        onChoose={(versus) => replace({ buildId, versus: versus || undefined })}
      />
    </>
  )
}

/** The build named by the address, or else the most recently frozen one, preferring builds with a map. */
function chooseBuild(builds: readonly Build[], buildId: string | undefined): FrozenSince | undefined {
  if (buildId !== undefined) return named(builds, buildId)
  const frozen = builds.filter(({ frozenAt }) => frozenAt !== null)
  return frozen.find(({ maps }) => maps > 0) ?? frozen[0] ?? builds[0]
}

/** A build by name; its freeze is unknown if it is not listed. */
function named(builds: readonly Build[], buildId: string): FrozenSince {
  return builds.find((build) => build.buildId === buildId) ?? { buildId, frozenAt: undefined }
}
