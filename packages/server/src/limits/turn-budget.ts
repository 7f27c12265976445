import { shareMaxOf, tooMany } from './concurrency.ts'

/**
 * Work per turn of the event loop, over all projects: each limit takes a few milliseconds. By default, Node.js handles
 * everything it has received in one turn, and accepts one connection per turn. `waitingMax` requests wait for a later
 * turn.
 */
export const turnBudgets = {
  /** Requests with a valid key. A batch costs one more for each {@link requestBytes} of its body. */
  requests: { what: 'requests', max: 32, waitingMax: 1024 },
  /** Bytes of uploads. A connection delivers up to 64 KiB before it is paused. */
  uploadBytes: { what: 'uploads', max: 2 ** 21, waitingMax: 1024 },
  /** Responses to requests without a valid key, in units of 16 KiB, rounded up. */
  anonymous: { what: 'requests', max: 4, waitingMax: 4096 },
} as const

/** A body of this size takes about as long to parse and validate as a small request takes in all. */
export const requestBytes = 8192

/**
 * Takes from the budget of this turn. When that is used up, returns a promise that resolves in a later turn. Projects,
 * or addresses of unauthenticated clients, are served round-robin.
 *
 * @throws {IngestError} `overloaded` when too many requests wait, or a quarter of that number from one project or
 *   address
 */
export type TurnBudget = (source: string, cost: number) => Promise<void> | undefined

export function createTurnBudget({
  what,
  max,
  waitingMax,
}: {
  what: string
  max: number
  waitingMax: number
}): TurnBudget {
  /** Waiting requests by source; the first source is served next. */
  const waiting = new Map<string, { cost: number; resolve(): void }[]>()
  let waitingCount = 0
  let left: number = max

  function spend(cost: number): void {
    if (left === max) setImmediate(beginTurn)
    left -= cost
  }

  function beginTurn(): void {
    left = max
    for (const [source, queue] of waiting) {
      waiting.delete(source)
      const { cost, resolve } = queue.shift() as (typeof queue)[0]
      waitingCount--
      // move it to the end, where this loop finds it again
      if (queue.length > 0) waiting.set(source, queue)
      spend(cost)
      resolve()
      if (left <= 0) return
    }
  }

  return (source, cost) => {
    // only if no request is waiting
    if (left > 0 && waitingCount === 0) {
      spend(cost)
      return undefined
    }
    const queue = waiting.get(source) ?? []
    if (waitingCount >= waitingMax || queue.length >= shareMaxOf({ max: waitingMax })) throw tooMany(what)
    waitingCount++
    return new Promise((resolve) => {
      queue.push({ cost, resolve })
      waiting.set(source, queue)
    })
  }
}
