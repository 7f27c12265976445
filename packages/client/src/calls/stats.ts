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
  /** Of the process that responds: behind one address there may be several. */
  getActivity(options?: CallOptions): Promise<Activity>
  /** Of the process that responds, as `getActivity`. */
  listRejected(options?: RejectedOptions & CallOptions): Promise<RecentRejections>
}

export function statsCalls(api: Api): StatsCalls {
  return {
    async getStats(options) {
      return parseProjectStats((await api.call({ method: 'GET', path: '/v1/stats', expect: [200] }, options)).body)
    },

    async listBuilds({ cursor, limit, ...options } = {}) {
      const query = { cursor, limit }
      return parseBuildPage((await api.call({ method: 'GET', path: '/v1/builds', query, expect: [200] }, options)).body)
    },

    async getActivity(options) {
      return parseActivity((await api.call({ method: 'GET', path: '/v1/activity', expect: [200] }, options)).body)
    },

    async listRejected({ limit, ...options } = {}) {
      const request = { method: 'GET', path: '/v1/rejected', query: { limit }, expect: [200] } as const
      return parseRecentRejections((await api.call(request, options)).body)
    },
  }
}
