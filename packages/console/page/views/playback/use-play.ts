import { useContext, useEffect, useMemo, useState } from 'preact/hooks'
import type { Api } from '../../api/api.ts'
import type { Stats } from '../../api/bodies.ts'
import type { RequestError } from '../../api/request-error.ts'
import { ConnectionContext, repeat, useApi } from '../../api/use-api.ts'
import { type EventFilter, filterQuery } from '../../event-filter.ts'
import { findPairs, type Pair } from '../../heat/pairs.ts'
import type { ReadEvents } from '../live/follow.ts'
import { createHistory, type History } from '../live/history.ts'
import { readEvents } from '../live/use-follow.ts'
import { createPlayReader, type PlayEvent, type PlayReader } from './play-reader.ts'

export interface Play {
  reader: PlayReader
  /** Sorted by time. */
  events: readonly PlayEvent[]
  /** The most frequent pair of members with coordinates. */
  pair: Pair | undefined
  isReading: boolean
  error: RequestError | undefined
}

/** Reads the matching events of a range. The component needs a `key` of both arguments. */
export function usePlay(filter: EventFilter, range: { from: number; to: number }): Play {
  const api = useApi()
  const connection = useContext(ConnectionContext)
  const [state, setState] = useState<{ round: number; isReading: boolean; error?: RequestError }>({
    round: 0,
    isReading: true,
  })
  const reader = useMemo(() => {
    const selected = filterQuery(filter)
    return createPlayReader(range, (query, signal) => readEvents(api, { ...selected, ...query }, signal))
  }, [api])
  useEffect(() => {
    const ending = new AbortController()
    const { signal } = ending
    async function step(): Promise<0 | undefined> {
      const next = await reader.step(signal)
      setState(({ round }) => ({ round: round + 1, isReading: next !== undefined }))
      return next
    }
    const onError = (error: RequestError) =>
      setState(({ round }) => ({ round: round + 1, isReading: error.isRetried, error }))
    void repeat(step, { connection, signal, onError })
    return () => ending.abort()
  }, [reader, connection])
  const { events, pair } = useMemo(
    () => ({ events: reader.events(), pair: findPairs(reader.columns)[0] }),
    [reader, reader.columns.rows],
  )
  return { reader, events, pair, isReading: state.isReading, error: state.error }
}

/** When the last matching event was received. */
interface LastActivity {
  /** Null if none was found. */
  at: number | null | undefined
  /** How far back was searched; undefined before the first response, and if the project has no events. */
  searchedFrom: number | undefined
  isComplete: boolean
  error: RequestError | undefined
  searchFurther(): void
}

/** Searches backwards for the last matching event. The component needs a `key` of the filter. */
export function useLastActivity(filter: EventFilter): LastActivity {
  const api = useApi()
  const connection = useContext(ConnectionContext)
  const [run, setRun] = useState(0)
  const [state, setState] = useState<Omit<LastActivity, 'searchFurther'>>(searching)
  const search = useMemo(() => createSearch(api, filter), [api])
  useEffect(() => {
    const ending = new AbortController()
    const { signal } = ending
    async function step(): Promise<0 | undefined> {
      const found = await search(signal)
      setState({ ...found, error: undefined })
      return found.at === undefined ? 0 : undefined
    }
    const onError = (error: RequestError) => setState((before) => ({ ...before, error }))
    void repeat(step, { connection, signal, onError })
    return () => ending.abort()
  }, [search, connection, run])
  return {
    ...state,
    searchFurther() {
      setState(searching)
      setRun((count) => count + 1)
    },
  }
}

function createSearch(api: Api, filter: EventFilter) {
  const selected = filterQuery(filter)
  const read: ReadEvents = (query, signal) => readEvents(api, { ...selected, ...query }, signal)
  let at: number | undefined
  let history: History | undefined
  return async (signal: AbortSignal): Promise<Pick<LastActivity, 'at' | 'searchedFrom' | 'isComplete'>> => {
    if (!history) {
      const { firstAt, lastAt } = await api.json<Stats>('v1/stats', { signal })
      if (firstAt === null || lastAt === null) return { at: null, searchedFrom: undefined, isComplete: true }
      const beginning = { from: Date.parse(lastAt) + 1, firstAt: Date.parse(firstAt) }
      history = createHistory(beginning, read, (events) => {
        at ??= events.at(-1)?.receivedAt
      })
    }
    const next = await history.step(signal)
    return {
      at: at ?? (next === undefined ? null : undefined),
      searchedFrom: history.searchedFrom(),
      isComplete: history.isComplete(),
    }
  }
}

const searching = { at: undefined, searchedFrom: undefined, isComplete: false, error: undefined }
