/** Permission to read, over at the end of the current turn of the event loop. */
export interface ReadStep {
  isOver: boolean
}

/** Shares the event loop between long reads and everything else that runs in it. */
export interface ReadTurns {
  /**
   * Resolves with this reader's next step. There is one step at a time, round robin by project, and by reader within a
   * project.
   */
  next(projectId: string): Promise<ReadStep>
}

/** The time for everything else, as a multiple of the time for reads, while both have work. */
const othersShare = 4
/** A turn in which everything else took less than this was idle, in milliseconds. */
const idleTurnMs = 0.1

export interface ReadTurnsEffects {
  /** A monotonic clock, in milliseconds. */
  now?: () => number
  /** Calls `action` in the next turn of the event loop. */
  defer?: (action: () => void) => void
}

/**
 * At most one step in each turn of the event loop. After a step, readers wait until everything else has run four times
 * as long, or until a turn in which there was nothing else to do: an idle process reads at full speed, and a busy one
 * spends at most a fifth of its time on reads.
 */
export function createReadTurns(effects: ReadTurnsEffects = {}): ReadTurns {
  const { now = () => performance.now(), defer = setImmediate } = effects
  const waiting = new Map<string, ((step: ReadStep) => void)[]>()
  let isDeferred = false
  let step: ReadStep = { isOver: true }
  let startedAt = 0
  let endedAt = Number.NEGATIVE_INFINITY
  /** How much longer everything else runs before the next step. */
  let owedMs = 0

  function deferTurn(): void {
    if (isDeferred || waiting.size === 0) return
    isDeferred = true
    defer(begin)
    // runs after the microtasks of the step, in the same turn
    defer(end)
  }

  function begin(): void {
    startedAt = now()
    const othersMs = startedAt - endedAt
    owedMs = othersMs < idleTurnMs ? 0 : Math.max(0, owedMs - othersMs)
    if (owedMs > 0) return
    step = { isOver: false }
    takeFirst()?.(step)
  }

  function end(): void {
    endedAt = now()
    if (!step.isOver) owedMs = (endedAt - startedAt) * othersShare
    step.isOver = true
    isDeferred = false
    deferTurn()
  }

  function takeFirst(): ((step: ReadStep) => void) | undefined {
    for (const [projectId, readers] of waiting) {
      const first = readers.shift()
      waiting.delete(projectId)
      // behind the other projects
      if (readers.length > 0) waiting.set(projectId, readers)
      return first
    }
    return undefined
  }

  return {
    next(projectId) {
      return new Promise((resolve) => {
        const readers = waiting.get(projectId)
        if (readers) readers.push(resolve)
        else waiting.set(projectId, [resolve])
        deferTurn()
      })
    },
  }
}
