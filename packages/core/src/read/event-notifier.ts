import { IngestError } from '../error.ts'
import type { EventStore } from '../store.ts'

/** Wakes long polls of a project when an event of it is stored. */
export interface EventNotifier {
  notify(projectId: string): void
  /** Records notifications of the project until `end` is called. */
  subscribe(projectId: string): EventSubscription
  /** Makes every `next`, pending or later, reject with `store-closed`. */
  close(): void
}

export interface EventSubscription {
  /**
   * Resolves at the next notification, at once if there was one since the subscription began or the last `next`
   * resolved. Also resolves after `timeoutMs` and when the signal aborts.
   *
   * @throws {IngestError} `store-closed`
   */
  next(timeoutMs: number, signal: AbortSignal | undefined): Promise<void>
  end(): void
}

type Watch = NonNullable<EventStore['watch']>

interface Subscribers {
  listeners: Set<() => void>
  unwatch(): void
}

/**
 * Combines notifications of this process with those of `watch`. Each project with subscriptions is watched once, until
 * the last of them ends.
 */
export function createEventNotifier(watch: Watch = () => () => {}): EventNotifier {
  const subscribersByProject = new Map<string, Subscribers>()
  let isClosed = false

  function notify(projectId: string): void {
    for (const listen of subscribersByProject.get(projectId)?.listeners ?? []) listen()
  }

  function subscribersOf(projectId: string): Subscribers {
    const existing = subscribersByProject.get(projectId)
    if (existing) return existing
    const unwatch = isClosed ? () => {} : watch(projectId, () => notify(projectId))
    const subscribers = { listeners: new Set<() => void>(), unwatch }
    subscribersByProject.set(projectId, subscribers)
    return subscribers
  }

  return {
    notify,

    subscribe(projectId) {
      const subscribers = subscribersOf(projectId)
      let isNotified = false
      let wake = () => {}
      function listen(): void {
        isNotified = true
        wake()
      }
      subscribers.listeners.add(listen)
      return {
        async next(timeoutMs, signal) {
          if (!isNotified && !isClosed && !signal?.aborted) {
            let timer: NodeJS.Timeout | undefined
            await new Promise<void>((resolve) => {
              wake = () => resolve()
              timer = setTimeout(wake, timeoutMs)
              signal?.addEventListener('abort', wake)
            })
            clearTimeout(timer)
            signal?.removeEventListener('abort', wake)
          }
          if (isClosed) throw new IngestError('store-closed', 'The Ingest was closed during a long poll.')
          isNotified = false
        },
        end() {
          if (!subscribers.listeners.delete(listen) || subscribers.listeners.size > 0) return
          subscribersByProject.delete(projectId)
          subscribers.unwatch()
        },
      }
    },

    close() {
      isClosed = true
      for (const subscribers of subscribersByProject.values()) {
        subscribers.unwatch()
        // a reader that never continues must not keep the store watching
        subscribers.unwatch = () => {}
        for (const listen of subscribers.listeners) listen()
      }
    },
  }
}
