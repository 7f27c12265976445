import type { BuildPage, BuildPageOptions, ProjectStats } from '@ingest/core'
import { parseBuildPage, parseProjectStats } from '../http/parse-response.ts'
import type { Api, CallOptions } from './api.ts'

export interface StatsCalls {
  getStats(options?: CallOptions): Promise<ProjectStats>
  listBuilds(options?: BuildPageOptions & CallOptions): Promise<BuildPage>
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
  }
}

/** Milliseconds since 1970. */
function toUnixMs(isoTime: string | null): number | null {
  return isoTime === null ? null : Date.parse(isoTime)
}
