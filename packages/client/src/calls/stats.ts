import type {
  Activity,
  ActivityOptions,
  ActivityRangeOptions,
  BuildPage,
  BuildPageOptions,
  ProjectStats,
  Rejections,
} from '@ingest/core'
import * as wire from '@ingest/core/wire'
import type { CallOptions } from '../http/retry.ts'
import type { Api } from './api.ts'

export interface StatsCalls {
  getStats(options?: CallOptions): Promise<ProjectStats>
  listBuilds(options?: BuildPageOptions & CallOptions): Promise<BuildPage>
  getActivity(options?: ActivityOptions & CallOptions): Promise<Activity>
  listRejected(options?: ActivityRangeOptions & CallOptions): Promise<Rejections>
}

export function statsCalls(api: Api): StatsCalls {
  return {
    getStats: (options) => api.json(wire.Stats, { path: '/v1/stats' }, options),
    listBuilds: ({ search, cursor, limit, ...options } = {}) =>
      api.json(wire.BuildPage, { path: '/v1/builds', query: { search, cursor, limit } }, options),
    getActivity: ({ from, to, by, ...options } = {}) =>
      api.json(wire.Activity, { path: '/v1/activity', query: { from, to, by } }, options),
    listRejected: ({ from, to, ...options } = {}) =>
      api.json(wire.Rejections, { path: '/v1/rejected', query: { from, to } }, options),
  }
}
