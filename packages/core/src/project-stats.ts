import { IngestError } from './error.ts'
import { decodeListCursor, encodeListCursor } from './events/cursor.ts'
import type { EventStore } from './events/event-store.ts'
import type { BuildEntry, MapStore } from './maps/map-store.ts'
import { buildIdIssue } from './maps/publication.ts'

/** What a project has stored. */
export interface ProjectStats {
  events: number
  /** Batches of which at least one event was stored. */
  batches: number
  /** Bytes of the stored events' batches, as they are kept; maps are not in it. */
  bytes: number
  /** When the first batch that is stored was received, by the clock of its server: milliseconds since 1970. */
  firstAt: number | null
  /** When the last one was. */
  lastAt: number | null
  /**
   * Events stored in the last minute, a second. Where the newest 10,000 batches have all come within the last minute,
   * it is over the time since the first of these.
   */
  eventsPerSecond: number
  /** How many are known: frozen, or with a map that is published for them. */
  builds: number
  frozenBuilds: number
  /** Places of builds of which anything is published, complete or not. */
  maps: number
}

/** What is known of one build. */
export interface BuildStatus {
  buildId: string
  /** When the first event that references it was stored: milliseconds since 1970; null while it is open. */
  frozenAt: number | null
  /** The places of which anything is published, complete or not. */
  maps: number
}

export interface BuildPageOptions {
  /** `next` of the page before. */
  cursor?: string
  /** 1 to 1,000; 100 without. */
  limit?: number
}

export interface BuildPage {
  builds: BuildStatus[]
  next: string | null
}

/** What there is of a project, in numbers. */
export interface Statistics {
  /**
   * Counts what the project has stored. The cost grows with the number of its builds, and not with that of its events.
   */
  getStats(): Promise<ProjectStats>
  /**
   * The builds of a project that are frozen, or that maps are published for, in the order of their bytes.
   *
   * @throws {IngestError} `invalid-cursor`, `invalid-argument`
   */
  listBuilds(options?: BuildPageOptions): Promise<BuildPage>
}

const pageMax = 1_000
const pageDefault = 100
/** What the rate is measured over. */
const rateMs = 60_000
/** A rate is measured over a second at least, whatever the clocks say. */
const rateMsMin = 1_000
/** The most batches that the rate is measured by. */
const rateBatchesMax = 10_000

/** The statistics of each project of a store; `now` is its clock, in milliseconds since 1970. */
export function createStatistics(store: EventStore & MapStore, now: () => number): (projectId: string) => Statistics {
  async function* allBuilds(projectId: string): AsyncGenerator<BuildEntry> {
    for (let after: string | undefined; ; ) {
      const page = await store.builds(projectId, { ...(after !== undefined && { after }), limit: pageMax })
      yield* page
      if (page.length < pageMax) return
      after = page.at(-1)?.buildId
    }
  }

  return (projectId) => ({
    async getStats() {
      const at = now()
      const { events, batches, bytes, firstAt, lastAt } = await store.totals(projectId)
      const recent = await store.countSince(projectId, at - rateMs, rateBatchesMax)
      const counts = { builds: 0, frozenBuilds: 0, maps: 0 }
      for await (const { frozenAt, maps } of allBuilds(projectId)) {
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
      if (!(Number.isInteger(limit) && limit >= 1 && limit <= pageMax)) {
        throw new IngestError('invalid-argument', `limit is a number of builds from 1 to ${pageMax}.`)
      }
      const after = cursor === undefined ? undefined : decodeListCursor('builds', projectId, cursor, parseBuildName)
      const entries = await store.builds(projectId, { ...(after !== undefined && { after }), limit: limit + 1 })
      const page = entries.slice(0, limit)
      const last = page.at(-1)
      return {
        builds: page.map(({ buildId, frozenAt = null, maps }) => ({ buildId, frozenAt, maps })),
        next: last && entries.length > limit ? encodeListCursor('builds', projectId, [last.buildId]) : null,
      }
    },
  })
}

function parseBuildName([buildId]: readonly unknown[]): string {
  if (buildIdIssue(buildId, '')) throw new IngestError('invalid-cursor', 'A build has another name.')
  return buildId as string
}
