import { useMemo } from 'preact/hooks'
import type { Range } from '../../range.ts'
import type { SampleProgress, SampleQuery } from '../../worker/samples.ts'
import type { WhereAddress } from './where-address.ts'

/** A build and the time of its freeze, before which it has no events. */
export interface FrozenSince {
  buildId: string
  frozenAt: string | null | undefined
}

interface SampleQueryOptions {
  range: Range
  where: WhereAddress
  /** Whether events without a place count as events of the chosen place. */
  isPlaceless: boolean
}

/**
 * The query for a build's events that the server filters: by one type, place, player, session and server. Returns the
 * same object while the query is unchanged.
 */
export function useSampleQuery(build: FrozenSince | undefined, options: SampleQueryOptions): SampleQuery | undefined {
  const query = build && queryOf(build, options)
  return useMemo(() => query, [JSON.stringify(query)])
}

function queryOf({ buildId, frozenAt }: FrozenSince, { range, where, isPlaceless }: SampleQueryOptions): SampleQuery {
  const { placeId, playerId, sessionId, serverId, types } = where
  return {
    filter: {
      buildId,
      playerId,
      sessionId,
      serverId,
      type: types.length === 1 ? types[0] || undefined : undefined,
      placeId: isPlaceless ? undefined : placeId || undefined,
    },
    from: Math.max(range.from, frozenAt ? Date.parse(frozenAt) : 0),
    to: range.to,
  }
}

/** What is counted: completes "12 …s". */
export function nounOf(isSample: boolean): 'event' | 'sampled event' {
  return isSample ? 'sampled event' : 'event'
}

/** A sample of a build, with its display name. */
export interface ShownSample {
  /** The name of its build. */
  name: string
  query: SampleQuery
  progress: SampleProgress
}
