import { setImmediate } from 'node:timers/promises'
import type { RetryEffects } from '../src/http/retry.ts'

/** A clock that advances to the next sleeper, and only while no request is in flight. */
export function createVirtualTime() {
  let time = 0
  const sleepers: { at: number; wake: () => void }[] = []
  const busy = new Set<Promise<unknown>>()

  const effects: Required<Pick<RetryEffects, 'now' | 'sleep'>> = {
    now: () => time,
    sleep: (ms, signal) =>
      new Promise<void>((resolve, reject) => {
        const leave = () => {
          const at = sleepers.indexOf(sleeper)
          if (at !== -1) sleepers.splice(at, 1)
          reject(signal.reason)
        }
        const sleeper = {
          at: time + ms,
          wake: () => {
            signal.removeEventListener('abort', leave)
            resolve()
          },
        }
        if (signal.aborted) return reject(signal.reason)
        signal.addEventListener('abort', leave)
        sleepers.push(sleeper)
      }),
  }

  async function settle(): Promise<void> {
    do {
      await Promise.allSettled(busy)
      await setImmediate()
    } while (busy.size > 0)
  }

  /** Wakes the next sleeper; false if it is not due by `end`. */
  async function step(end: number): Promise<boolean> {
    await settle()
    const next = sleepers.sort((a, b) => a.at - b.at)[0]
    if (!next || next.at > end) return false
    sleepers.shift()
    time = next.at
    next.wake()
    return true
  }

  return {
    effects,
    /** Stops the clock until the promise is settled. */
    async during<T>(promise: Promise<T>): Promise<T> {
      busy.add(promise)
      try {
        return await promise
      } finally {
        busy.delete(promise)
      }
    },
    /** Advances the clock by that many milliseconds, and runs everything due in between. */
    async pass(ms: number): Promise<void> {
      const end = time + ms
      while (await step(end));
      time = end
    },
    /** Advances the clock until the promise is settled. */
    async until<T>(promise: Promise<T>): Promise<T> {
      let isSettled = false
      const done = () => {
        isSettled = true
      }
      promise.then(done, done)
      for (;;) {
        await settle()
        if (isSettled) return promise
        if (!(await step(Number.MAX_VALUE))) throw new Error('no sleeper is left')
      }
    },
  }
}
