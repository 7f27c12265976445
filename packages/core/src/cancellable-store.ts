import type { Store } from './store.ts'

/**
 * The store, for a caller that may lose interest: once the signal has aborted, no operation begins and no row is read,
 * and the attempt throws the reason of the signal. An operation in flight ends as it would.
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
