import type { ComponentChildren } from 'preact'
import { useMemo } from 'preact/hooks'
import type { Address } from '../address.ts'
import type { Api } from '../api/api.ts'
import type { Build, BuildPage, MapPage } from '../api/bodies.ts'
import { useLoaded } from '../api/use-api.ts'
import { formatCountOf } from '../format.ts'
import { Combobox } from '../parts/combobox.tsx'
import { Content, Notice } from '../parts/notice.tsx'
import { useWorker } from '../worker/use-worker.ts'
import { BuildEvents } from './where/build-events.tsx'
import { formatWhere, parseWhere, type WhereAddress } from './where/where-address.ts'
import './where/where.css'

const buildsMax = 1_000

async function loadBuilds(api: Api, signal: AbortSignal): Promise<BuildPage> {
  return api.json<BuildPage>('v1/builds', { query: { limit: buildsMax }, signal })
}

/** Events of a build over its map. */
export function WhereView({ address }: { address: Address }) {
  const builds = useLoaded(loadBuilds, [])
  const where = useMemo(() => parseWhere(address.query), [address])
  return (
    <Content loaded={builds} what="list builds">
      {({ builds: list, next }) => {
        const build = chooseBuild(list, where.buildId)
        if (!build) return <Notice kind="empty">No builds yet: send events with a buildId, or publish a map.</Notice>
        const buildChoice = <BuildChoice {...{ list: byFreeze(list), isCut: next !== null, build }} />
        if (build.frozenAt !== null) return <FrozenBuild key={build.buildId} {...{ build, where, buildChoice }} />
        return (
          <>
            <div class="controls">{buildChoice}</div>
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

/** A build that is not listed, as its freeze is not known. */
type AnyBuild = Omit<Build, 'frozenAt'> & { frozenAt: string | null | undefined }

interface FrozenBuildProps {
  build: AnyBuild
  where: WhereAddress
  buildChoice: ComponentChildren
}

function FrozenBuild({ build: { buildId, frozenAt }, where, buildChoice }: FrozenBuildProps) {
  const call = useWorker()
  const maps = useLoaded(
    (api, signal) => api.json<MapPage>('v1/maps', { query: { buildId, limit: 1_000 }, signal }),
    [buildId],
  )
  const change = (changes: Partial<WhereAddress>) => go({ ...where, buildId, ...changes })
  return (
    <Content loaded={maps} what="list maps">
      {({ maps }) => (
        <BuildEvents {...{ call, buildId, frozenAt: frozenAt ?? undefined, maps, where, buildChoice, change }} />
      )}
    </Content>
  )
}

function BuildChoice({ list, isCut, build }: { list: readonly Build[]; isCut: boolean; build: AnyBuild }) {
  return (
    <>
      <Combobox
        label="Build"
        value={build.buildId}
        options={list.map(({ buildId, frozenAt, maps }) => ({
          value: buildId,
          detail: frozenAt === null ? 'open, no events' : formatCountOf(maps, 'map'),
        }))}
        onChoose={(buildId) => go({ buildId, types: [] })}
      />
      {isCut && (
        <p class="hint">The first 1,000 builds by name are listed: open others by their address, #/where?build=…</p>
      )}
    </>
  )
}

/** The newest freeze first, open builds last. */
function byFreeze(builds: readonly Build[]): Build[] {
  return [...builds].sort((a, b) => (b.frozenAt ?? '').localeCompare(a.frozenAt ?? ''))
}

/** The build that the address names, else the one that froze last, one with a map before others. */
function chooseBuild(builds: readonly Build[], buildId: string | undefined): AnyBuild | undefined {
  if (buildId !== undefined) {
    return builds.find((build) => build.buildId === buildId) ?? { buildId, frozenAt: undefined, maps: 0 }
  }
  const sorted = byFreeze(builds)
  return sorted.find(({ frozenAt, maps }) => frozenAt !== null && maps > 0) ?? sorted[0]
}

/** The address holds the choices, so that it can be shared; going back leaves the view. */
function go(where: WhereAddress): void {
  location.replace(formatWhere(where))
}
