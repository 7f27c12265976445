import type { ActivityRow, Digest, MapSlot, ReadOptions, Store, StoredEvent } from '@ingest/core'
import { startStoreProcess } from './store-process.ts'

/** The state on which a decision about a map is made. */
interface MapState {
  slot: MapSlot
  present: ReadonlySet<Digest>
}

/** The number of events in one message to this process. */
const pageSize = 100

/**
 * Opens the store in `directory` in a process of its own. Decisions are made in this process; the other process writes them
 * if the state on which they were made is still current.
 */
export async function openInProcess(directory: string): Promise<Store> {
  const child = await startStoreProcess(directory, { entriesPerFlush: 64 })
  let closing: Promise<unknown> | undefined

  async function* read(projectId: string, options: ReadOptions = {}): AsyncGenerator<StoredEvent[]> {
    let { after, limit = Number.POSITIVE_INFINITY, ...range } = options
    for (;;) {
      const size = Math.min(limit, pageSize)
      const page = await child.operate<StoredEvent[]>('read', projectId, {
        ...range,
        ...(after && { after }),
        limit: size,
      })
      yield page
      limit -= page.length
      after = page.at(-1)?.cursor
      if (page.length < size || limit === 0) return
    }
  }

  const operations = Object.fromEntries(
    [
      ...['known', 'find', 'totals', 'count', 'map', 'maps', 'builds', 'putChunk'],
      ...['readChunk', 'sweep', 'pendingTotals', 'entry', 'projects', 'check', 'erase', 'expire'],
      'putActivity',
    ].map((method) => [method, (...args: unknown[]) => child.operate(method, ...args)]),
  ) as unknown as Omit<Store, 'append' | 'read' | 'activity' | 'updateMap' | 'updateEntry' | 'close'>

  return {
    ...operations,
    read,
    // a function cannot be sent to a process
    append: (projectId, { onCommit: _, ...batch }) => child.operate('append', projectId, batch),
    async *activity(projectId, range) {
      yield* await child.operate<ActivityRow[]>('activity', projectId, range)
    },
    async updateMap(key, chunks, decide) {
      for (let state: MapState | undefined; ; ) {
        const decision = state && decide(state.slot, state.present)
        const { contents, result } = decision ?? {}
        state = await child.operate<MapState | undefined>('compareMap', key, chunks, state, contents)
        if (!state) return result as never
      }
    },
    async updateEntry(kind, projectId, decide) {
      for (let state: { entry: never } | undefined; ; ) {
        const decision = state && decide(state.entry)
        state = await child.operate('compareEntry', kind, projectId, state, decision)
        if (!state) return decision?.result as never
      }
    },
    async close() {
      closing ??= child.end()
      await closing
    },
  }
}
