import type {
  Activity,
  BuildPage,
  BuildPageOptions,
  ProjectStats,
  RecentRejections,
  RejectedOptions,
} from '@ingest/core'
import * as wire from '@ingest/core/wire'
import type { CallOptions } from '../http/retry.ts'
import type { Api } from './api.ts'

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
    getStats: (options) => api.json(wire.Stats, { path: '/v1/stats' }, options),
    listBuilds: ({ order, search, cursor, limit, ...options } = {}) =>
      api.json(wire.BuildPage, { path: '/v1/builds', query: { order, search, cursor, limit } }, options),
    getActivity: (options) => api.json(wire.Activity, { path: '/v1/activity' }, options),
    listRejected: ({ limit, ...options } = {}) =>
      api.json(wire.RecentRejections, { path: '/v1/rejected', query: { limit } }, options),
  }
}
