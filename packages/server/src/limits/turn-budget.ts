/**
 * What one turn of the event loop does for all projects: each takes a few milliseconds. Node.js otherwise handles all
 * that has arrived in one turn, and accepts one connection in each.
 */
export const turnBudgets = {
  /** Requests with a valid key. */
  requests: 32,
  /** Bytes of uploads. A connection delivers up to 64 KiB before it is paused. */
  uploadBytes: 2 ** 21,
} as const

/**
 * Takes from the budget of this turn. When that is used up, returns a promise that resolves in a later turn: of the
 * projects that wait, each takes in turn.
 */
export type TurnBudget = (projectId: string, cost: number) => Promise<void> | undefined

export function createTurnBudget(max: number): TurnBudget {
  /** Of each project that waits, the next one first. */
  const waiting = new Map<string, { cost: number; resolve(): void }[]>()
  let left: number = max

  function spend(cost: number): void {
    if (left === max) setImmediate(beginTurn)
    left -= cost
  }

  function beginTurn(): void {
    left = max
    for (const [projectId, queue] of waiting) {
      waiting.delete(projectId)
      const { cost, resolve } = queue.shift() as (typeof queue)[0]
      // behind the others, where this loop finds it again
      if (queue.length > 0) waiting.set(projectId, queue)
      spend(cost)
      resolve()
      if (left <= 0) return
    }
  }

  return (projectId, cost) => {
    if (left > 0) {
      spend(cost)
      return undefined
    }
    return new Promise((resolve) => {
      const queue = waiting.get(projectId) ?? []
      queue.push({ cost, resolve })
      waiting.set(projectId, queue)
    })
  }
}
