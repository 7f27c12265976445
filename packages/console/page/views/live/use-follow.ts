import { useContext, useEffect, useMemo, useState } from 'preact/hooks'
import type { Api, Query } from '../../api/api.ts'
import { type EventLine, parseEventLines } from '../../api/event-lines.ts'
import type { RequestError } from '../../api/request-error.ts'
import { ConnectionContext, repeat, useApi } from '../../api/use-api.ts'
import { createFollower, type Follower, waitSeconds } from './follow.ts'
import { createHeldEvents, type HeldEvents, toHeldEvent } from './held-events.ts'

/** A response of more text is parsed with pauses, so that the page responds meanwhile. */
const parsedAtOnceChars = 256 * 1024

export interface Following {
  held: HeldEvents
  follower: Follower
  /** Changes with each response. */
  version: number
  error: RequestError | undefined
  isPaused: boolean
  setPaused(isPaused: boolean): void
}

/** Follows the events of the project while the view is open, not paused and visible. */
export function useFollow(): Following {
  const api = useApi()
  const connection = useContext(ConnectionContext)
  const [isPaused, setPaused] = useState(false)
  const [state, setState] = useState<{ version: number; error?: RequestError }>({ version: 0 })
  const { held, follower } = useMemo(() => createFollowing(api), [api])
  useEffect(() => {
    if (isPaused) return
    const ending = new AbortController()
    const { signal } = ending
    void repeat(
      async () => {
        const pauseMs = await follower.step(signal)
        setState(({ version }) => ({ version: version + 1 }))
        return pauseMs
      },
      {
        connection,
        signal,
        onError(error) {
          setState(({ version }) => ({ version, error }))
          if (!error.isRetried) setPaused(true)
        },
      },
    )
    return () => ending.abort()
  }, [connection, follower, isPaused])
  return { held, follower, isPaused, setPaused, version: state.version, error: state.error }
}

function createFollowing(api: Api) {
  const held = createHeldEvents()
  const follower = createFollower({
    read: (query, signal) => readEvents(api, query, signal),
    stats: (signal) => api.json('v1/stats', { signal }),
    async onEvents(lines, isAfterGap, signal) {
      let chars = 0
      const events = []
      for (const line of lines) {
        chars += line.text?.length ?? 0
        events.push(toHeldEvent(line, isAfterGap && events.length === 0))
        if (chars < parsedAtOnceChars) continue
        chars = 0
        await new Promise((resolve) => setTimeout(resolve))
        signal.throwIfAborted()
      }
      held.add(events)
    },
  })
  return { held, follower }
}

async function readEvents(api: Api, query: Query, signal: AbortSignal): Promise<EventLine[]> {
  const timeoutMs = (waitSeconds + 15) * 1000
  return api.body('v1/events', parseEventLines, { query, signal, timeoutMs })
}
