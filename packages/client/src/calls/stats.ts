import type {
  Activity,
  BuildPage,
  BuildPageOptions,
  ProjectStats,
  RecentRejections,
  RejectedOptions,
} from '@ingest/core'
import { parseActivity, parseBuildPage, parseProjectStats, parseRecentRejections } from '../http/parse-response.ts'
import type { Api, CallOptions } from './api.ts'

export interface StatsCalls {
  getStats(options?: CallOptions): Promise<ProjectStats>
  listBuilds(options?: BuildPageOptions & CallOptions): Promise<BuildPage>
  getActivity(options?: CallOptions): Promise<Activity>
  listRejected(options?: RejectedOptions & CallOptions): Promise<RecentRejections>
}

export function statsCalls(api: Api): StatsCalls {
  return {
    async getStats(options) {
      const { body } = await api.call({ method: 'GET', path: '/v1/stats', expect: [200] }, options)
      const stats = parseProjectStats(body)
      return { ...stats, firstAt: toUnixMs(stats.firstAt), lastAt: toUnixMs(stats.lastAt) }
    },

    async listBuilds({ cursor, limit, ...options } = {}) {
      const query = { cursor, limit }
      const { body } = await api.call({ method: 'GET', path: '/v1/builds', query, expect: [200] }, options)
      const { builds, next } = parseBuildPage(body)
      return { builds: builds.map((build) => ({ ...build, frozenAt: toUnixMs(build.frozenAt) })), next }
    },

    async getActivity(options) {
      const { body } = await api.call({ method: 'GET', path: '/v1/activity', expect: [200] }, options)
      const { since, servers, minutes } = parseActivity(body)
      return {
        since: Date.parse(since),
        servers,
        minutes: minutes.map((minute) => ({ ...minute, at: Date.parse(minute.at) })),
      }
    },

    async listRejected({ limit, ...options } = {}) {
      const request = { method: 'GET', path: '/v1/rejected', query: { limit }, expect: [200] } as const
      const { body } = await api.call(request, options)
      const { since, total, groups, rejected } = parseRecentRejections(body)
      return {
        since: Date.parse(since),
        total,
        groups: groups.map((group) => ({ ...group, lastAt: Date.parse(group.lastAt) })),
        rejected: rejected.map((each) => ({ ...each, receivedAt: Date.parse(each.receivedAt) })),
      }
    },
  }
}

/** Milliseconds since 1970. */
function toUnixMs(isoTime: string | null): number | null {
  return isoTime === null ? null : Date.parse(isoTime)
}
