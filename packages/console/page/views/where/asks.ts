import { useMemo } from 'preact/hooks'
import type { Range } from '../../range.ts'
import type { SampleAsk, SampleProgress } from '../../worker/samples.ts'
import type { WhereAddress } from './where-address.ts'

/** A build and when it froze: it has no event before. */
export interface FrozenSince {
  buildId: string
  frozenAt: string | null | undefined
}

export interface AskOptions {
  range: Range
  where: WhereAddress
  /** Whether events that name no place count as of the chosen one. */
  isPlaceless: boolean
  wanted: readonly string[]
}

/**
 * The events of a build that the server filters: by one type, by the place that the address names, by player, session
 * and server. The same object for the same events.
 */
export function useAsk(build: FrozenSince | undefined, options: AskOptions): SampleAsk | undefined {
  const ask = build && askOf(build, options)
  return useMemo(() => ask, [JSON.stringify(ask)])
}

function askOf({ buildId, frozenAt }: FrozenSince, { range, where, isPlaceless, wanted }: AskOptions): SampleAsk {
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
    wanted,
  }
}

/** A sample of a build, as it is shown. */
export interface ShownSample {
  /** Of its build. */
  name: string
  ask: SampleAsk
  progress: SampleProgress
}
