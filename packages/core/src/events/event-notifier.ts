import { IngestError } from '../error.ts'

/** Tells those who wait for events of a project that there are some. */
export interface Arrivals {
  /** Something of the project was stored. */
  announce(projectId: string): void
  /** Takes note of what is announced from now on, until its `end`. */
  watch(projectId: string): ArrivalWatch
  /** Ends all waiting, now and from now on. */
  close(): void
}

export interface ArrivalWatch {
  /**
   * Resolves once something is announced, at once if something was since the watch began or the last `next` resolved;
   * after `ms` at the latest, and when the signal aborts.
   *
   * @throws {IngestError} `store-closed`
   */
  next(ms: number, signal: AbortSignal | undefined): Promise<void>
  end(): void
}

export function createArrivals(): Arrivals {
  const watches = new Map<string, Set<() => void>>()
  let isClosed = false
  return {
    announce(projectId) {
      for (const note of watches.get(projectId) ?? []) note()
    },

    watch(projectId) {
      const all = watches.get(projectId) ?? new Set()
      let isNoted = false
      let wake = () => {}
      function note(): void {
        isNoted = true
        wake()
      }
      watches.set(projectId, all.add(note))
      return {
        async next(ms, signal) {
          if (!isNoted && !isClosed && !signal?.aborted) {
            await new Promise<void>((resolve) => {
              const timer = setTimeout(goOn, ms)
              signal?.addEventListener('abort', goOn)
              wake = goOn
              function goOn(): void {
                clearTimeout(timer)
                signal?.removeEventListener('abort', goOn)
                wake = () => {}
                resolve()
              }
            })
          }
          if (isClosed) throw new IngestError('store-closed', 'The Ingest was closed while events were waited for.')
          isNoted = false
        },
        end() {
          all.delete(note)
          if (all.size === 0) watches.delete(projectId)
        },
      }
    },

    close() {
      isClosed = true
      for (const all of watches.values()) for (const note of all) note()
    },
  }
}
