import type { Api, Query } from '../../api/api.ts'
import type { MapStatus } from '../../api/bodies.ts'
import { RequestError } from '../../api/request-error.ts'

/** The status of a map; null if nothing is published. */
export async function loadStatus(api: Api, query: Query, signal: AbortSignal): Promise<MapStatus | null> {
  try {
    return await api.json<MapStatus>('v1/maps', { query, signal })
  } catch (error) {
    if (error instanceof RequestError && error.problem.code === 'map-not-found') return null
    throw error
  }
}
