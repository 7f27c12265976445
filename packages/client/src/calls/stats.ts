import type { BuildPage, BuildPageOptions, ProjectStats } from '@ingest/core'
import { parseBuildPage, parseProjectStats } from '../http/parse-response.ts'
import type { Api, CallOptions } from './api.ts'

/** What a client asks for in numbers; the project is known. */
export interface StatisticsCalls {
  getStats(options?: CallOptions): Promise<ProjectStats>
  listBuilds(options?: BuildPageOptions & CallOptions): Promise<BuildPage>
}

export function statisticsCalls(api: Api): StatisticsCalls {
  return {
    async getStats(options) {
      const { body } = await api.call({ method: 'GET', path: '/v1/stats', expect: [200] }, options)
      const stats = parseProjectStats(body)
      return { ...stats, firstAt: timeOf(stats.firstAt), lastAt: timeOf(stats.lastAt) }
    },

    async listBuilds({ cursor, limit, ...options } = {}) {
      const query = { cursor, limit }
      const { body } = await api.call({ method: 'GET', path: '/v1/builds', query, expect: [200] }, options)
      const { builds, next } = parseBuildPage(body)
      return { builds: builds.map((build) => ({ ...build, frozenAt: timeOf(build.frozenAt) })), next }
    },
  }
}

/** A time of an answer, in milliseconds since 1970. */
function timeOf(text: string | null): number | null {
  return text === null ? null : Date.parse(text)
}
