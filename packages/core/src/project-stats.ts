import { IngestError } from './error.ts'
import { decodeListCursor, encodeListCursor } from './json/cursor.ts'
import { buildIdIssue } from './maps/publication.ts'
import type { EventStore, MapStore, Store } from './store.ts'
import { type BuildEntry, type BuildPosition, foldBuildId } from './store-types.ts'
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
  /** Events per second over the last minute, estimated from its first 10,000 batches if it has more. */
  eventsPerSecond: number
}

/** One build of a project. */
export interface BuildStatus {
  buildId: string
  /** When the first event that references the build was stored, in milliseconds since 1970; null while it is open. */
  frozenAt: number | null
  /** Published maps of the build, complete or not. */
  maps: number
}

/** Maximum length of `search` in a list of builds, in UTF-16 code units: the same as of a build id. */
export const searchLengthMax = 128

/** Selects one page of the builds of a project. */
export interface BuildPageOptions {
  /**
   * Only builds whose id contains this text of 1 to 128 characters; A to Z match a to z. A page examines at most 10,000
   * builds: it may be empty although `next` names a further page.
   */
  search?: string
  /** `next` of the previous page. */
  cursor?: string
  /** Maximum number of builds of the page, 1 to 1,000. Default: 100. */
  limit?: number
}

/** One page of the builds of a project. */
export interface BuildPage {
  builds: BuildStatus[]
  /** The cursor of the next page; null on the last. */
  next: string | null
}

/** Reads the statistics of one project. */
export interface ProjectStatsReader {
  /** The totals of the project. The cost does not depend on how much is stored. */
  getStats(): Promise<ProjectStats>
  /**
   * The builds that are frozen or have a published map: open ones first, then frozen ones, the newest freeze first.
   *
   * @throws {IngestError} `invalid-cursor`, `invalid-argument`
   */
  listBuilds(options?: BuildPageOptions): Promise<BuildPage>
}

const pageMax = 1_000
const pageDefault = 100
const rateSeconds = 60
const rateBatchesMax = 10_000

/** Statistics by project; `now` returns milliseconds since 1970. */
export function createProjectStats(
  store: EventStore & MapStore,
  now: () => number,
): (projectId: string) => ProjectStatsReader {
  return (projectId) => ({
    async getStats() {
      const from = now() - rateSeconds * 1000
      const { events, batches, bytes, firstAt, lastAt } = await store.totals(projectId)
      const recent = await store.count(projectId, { from }, rateBatchesMax)
      return {
        events,
        batches,
        bytes,
        firstAt: firstAt ?? null,
        lastAt: lastAt ?? null,
        eventsPerSecond: (recent.events * (1 + recent.batchesLeft / rateBatchesMax)) / rateSeconds,
      }
    },

    async listBuilds({ search, cursor, limit = pageDefault } = {}) {
      checkLimit(limit, pageMax, 'builds')
      checkSearch(search)
      const found = await store.builds(projectId, {
        search: search && foldBuildId(search),
        after: cursor === undefined ? undefined : decodeListCursor('builds', projectId, cursor, parseBuildPosition),
        limit: limit + 1,
      })
      const page = found.builds.slice(0, limit)
      const last = found.builds.length > limit ? page.at(-1) : found.last
      return {
        builds: page.map(toStatus),
        next: last ? encodeListCursor('builds', projectId, namesOf(last)) : null,
      }
    },
  })
}

function namesOf({ buildId, frozenAt }: BuildPosition): string[] {
  return frozenAt === undefined ? [buildId] : [buildId, String(frozenAt)]
}

function parseBuildPosition(names: readonly unknown[]): BuildPosition {
  const buildId = parseBuildName(names)
  if (names[1] === undefined) return { buildId }
  const frozenAt = Number(names[1])
  if (Number.isSafeInteger(frozenAt)) return { buildId, frozenAt }
  throw new IngestError('invalid-cursor', 'The cursor holds no time.')
}

function checkSearch(search: unknown): void {
  if (search === undefined) return
  if (typeof search !== 'string' || search.length < 1 || search.length > searchLengthMax) {
    throw new IngestError('invalid-argument', `search must be a string of 1 to ${searchLengthMax} characters.`)
  }
}

function toStatus({ buildId, frozenAt, maps }: BuildEntry): BuildStatus {
  return { buildId, frozenAt: frozenAt ?? null, maps }
}

/** Whether the project has an event, a map or a key; does not list the projects. */
export async function hasProject(store: Store, projectId: string): Promise<boolean> {
  const { batches } = await store.totals(projectId)
  if (batches > 0 || (await store.entry('project', projectId)) !== undefined) return true
  return (await store.maps(projectId, { limit: 1 })).length > 0
}

function parseBuildName([buildId]: readonly unknown[]): string {
  if (buildIdIssue(buildId, '')) throw new IngestError('invalid-cursor', 'The cursor holds no build id.')
  return buildId as string
}
