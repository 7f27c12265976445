import type { Store } from './store.ts'

/**
 * A store whose operations a signal cancels: once it has aborted, each new operation, and each further row of activity,
 * rejects with its reason. Operations in flight complete.
 */
export function cancellableStore(store: Store, signal: AbortSignal): Store {
  async function* activity(...args: Parameters<Store['activity']>): ReturnType<Store['activity']> {
    for await (const row of store.activity(...args)) {
      signal.throwIfAborted()
      yield row
    }
  }
  return new Proxy(store, {
    get(_, name) {
      signal.throwIfAborted()
      if (name === 'activity') return activity
      const member: unknown = Reflect.get(store, name)
      return typeof member === 'function' ? member.bind(store) : member
    },
  })
}
