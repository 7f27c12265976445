import { IngestError } from '../error.ts'

/** Wakes long polls of a project when this process stores an event of it. */
export interface EventNotifier {
  notify(projectId: string): void
  /** Remembers notifications of the project from now on, until `end`. */
  subscribe(projectId: string): EventSubscription
  /** Makes every `next` reject with `store-closed`, pending or later. */
  close(): void
}

export interface EventSubscription {
  /**
   * Resolves at the next notification, or at once if there was one since the subscription began or the last `next`
   * resolved. Resolves after `timeoutMs` or when the signal aborts, too.
   *
   * @throws {IngestError} `store-closed`
   */
  next(timeoutMs: number, signal: AbortSignal | undefined): Promise<void>
  end(): void
}

export function createEventNotifier(): EventNotifier {
  const listeners = new Map<string, Set<() => void>>()
  let isClosed = false
  return {
    notify(projectId) {
      for (const listen of listeners.get(projectId) ?? []) listen()
    },

    subscribe(projectId) {
      const ofProject = listeners.get(projectId) ?? new Set()
      let isNotified = false
      let wake = () => {}
      function listen(): void {
        isNotified = true
        wake()
      }
      listeners.set(projectId, ofProject.add(listen))
      return {
        async next(timeoutMs, signal) {
          if (!isNotified && !isClosed && !signal?.aborted) {
            await sleep(timeoutMs, signal, (resolve) => {
              wake = resolve
            })
            wake = () => {}
          }
          if (isClosed) throw new IngestError('store-closed', 'The Ingest was closed during a long poll.')
          isNotified = false
        },
        end() {
          ofProject.delete(listen)
          if (ofProject.size === 0) listeners.delete(projectId)
        },
      }
    },

    close() {
      isClosed = true
      for (const ofProject of listeners.values()) for (const listen of ofProject) listen()
    },
  }
}

/** Resolves after `timeoutMs`, when the signal aborts, or when the function that `expose` receives is called. */
function sleep(
  timeoutMs: number,
  signal: AbortSignal | undefined,
  expose: (resolve: () => void) => void,
): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(settle, timeoutMs)
    signal?.addEventListener('abort', settle)
    expose(settle)
    function settle(): void {
      clearTimeout(timer)
      signal?.removeEventListener('abort', settle)
      resolve()
    }
  })
}
