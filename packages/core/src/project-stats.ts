import { IngestError } from './error.ts'
import type { EventStore } from './events/event-store.ts'
import { decodeListCursor, encodeListCursor } from './json/cursor.ts'
import type { BuildEntry, MapStore } from './maps/map-store.ts'
import { buildIdIssue } from './maps/publication.ts'
import type { Store } from './store.ts'
import { checkLimit } from './validation.ts'

/** Totals of a project. */
export interface ProjectStats {
  events: number
  /** Batches of which at least one event was stored. */
  batches: number
  /** Stored bytes of these batches, without maps. */
  bytes: number
  /** When the first stored batch was received, in milliseconds since 1970 by the clock of the server. */
  firstAt: number | null
  /** When the last stored batch was received. */
  lastAt: number | null
  /**
   * Events per second over the last minute, or over the time of the newest 10,000 batches if they are younger than a
   * minute.
   */
  eventsPerSecond: number
  /** Builds that are frozen or have a published map. */
  builds: number
  frozenBuilds: number
  /** Published maps, complete or not. */
  maps: number
}

/** One build of a project. */
export interface BuildStatus {
  buildId: string
  /** When the first event that references the build was stored, in milliseconds since 1970; null while it is open. */
  frozenAt: number | null
  /** Published maps of the build, complete or not. */
  maps: number
}

export interface BuildPageOptions {
  /** `next` of the previous page. */
  cursor?: string
  /** The most builds of the page, 1 to 1,000. Default: 100. */
  limit?: number
}

export interface BuildPage {
  builds: BuildStatus[]
  /** The cursor of the next page; null on the last. */
  next: string | null
}

/** Reads the statistics of one project. */
export interface ProjectStatsReader {
  /** The totals of the project. The cost grows with the number of builds, not with the number of events. */
  getStats(): Promise<ProjectStats>
  /**
   * The builds that are frozen or have a published map, in the order of their UTF-8 bytes.
   *
   * @throws {IngestError} `invalid-cursor`, `invalid-argument`
   */
  listBuilds(options?: BuildPageOptions): Promise<BuildPage>
}

const pageMax = 1_000
const pageDefault = 100
const rateMs = 60_000
/** The least time of a rate, as clocks may go backwards. */
const rateMsMin = 1_000
const rateBatchesMax = 10_000

/** Statistics by project; `now` returns milliseconds since 1970. */
export function createProjectStats(
  store: EventStore & MapStore,
  now: () => number,
): (projectId: string) => ProjectStatsReader {
  return (projectId) => ({
    async getStats() {
      const at = now()
      const { events, batches, bytes, firstAt, lastAt } = await store.totals(projectId)
      const recent = await store.countSince(projectId, at - rateMs, rateBatchesMax)
      const counts = { builds: 0, frozenBuilds: 0, maps: 0 }
      for await (const { frozenAt, maps } of eachBuild(store, projectId)) {
        counts.builds++
        if (frozenAt !== undefined) counts.frozenBuilds++
        counts.maps += maps
      }
      return {
        events,
        batches,
        bytes,
        firstAt: firstAt ?? null,
        lastAt: lastAt ?? null,
        eventsPerSecond: (1000 * recent.events) / Math.max(at - recent.since, rateMsMin),
        ...counts,
      }
    },

    async listBuilds({ cursor, limit = pageDefault } = {}) {
      checkLimit(limit, pageMax, 'builds')
      const after = cursor === undefined ? undefined : decodeListCursor('builds', projectId, cursor, parseBuildName)
      const entries = await store.builds(projectId, { after, limit: limit + 1 })
      const page = entries.slice(0, limit)
      const last = page.at(-1)
      return {
        builds: page.map(({ buildId, frozenAt = null, maps }) => ({ buildId, frozenAt, maps })),
        next: last && entries.length > limit ? encodeListCursor('builds', projectId, [last.buildId]) : null,
      }
    },
  })
}

/** All builds of a project. */
export async function* eachBuild(store: Pick<MapStore, 'builds'>, projectId: string): AsyncGenerator<BuildEntry> {
  for (let after: string | undefined; ; ) {
    const page = await store.builds(projectId, { after, limit: pageMax })
    yield* page
    if (page.length < pageMax) return
    after = page.at(-1)?.buildId
  }
}

/** Whether the project has an event, a map or a key, without listing the projects. */
export async function hasProject(store: Store, projectId: string): Promise<boolean> {
  const { batches } = await store.totals(projectId)
  if (batches > 0 || (await store.project(projectId)) !== undefined) return true
  return (await store.maps(projectId, { limit: 1 })).length > 0
}

function parseBuildName([buildId]: readonly unknown[]): string {
  if (buildIdIssue(buildId, '')) throw new IngestError('invalid-cursor', 'The cursor holds no build id.')
  return buildId as string
}
