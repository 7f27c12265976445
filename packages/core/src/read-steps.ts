/** Allows a reader to read until the step is over, at the end of the current turn of the event loop. */
export interface ReadStep {
  isOver: boolean
}

/** The time given to other work after a step, as a multiple of the step's duration. */
const otherWorkShare = 4
/** A turn with less than this of other work was idle, in milliseconds. */
const idleTurnMs = 0.1

export interface ReadStepsEffects {
  /** A monotonic clock, in milliseconds. */
  now?: () => number
  /** Calls `action` in the next turn of the event loop. */
  defer?: (action: () => void) => void
}

/**
 * Schedules long reads, so that they do not block other work in the event loop: at most one step per turn. After a step,
 * readers wait until other work has run four times as long, or until an idle turn: an idle process reads at full speed, a
 * busy one spends at most a fifth of its time on reads.
 */
export function createReadSteps({ now = () => performance.now(), defer = setImmediate }: ReadStepsEffects = {}) {
  const waiting = new Map<string, ((step: ReadStep) => void)[]>()
  let isDeferred = false
  let step: ReadStep = { isOver: true }
  let startedAt = 0
  let endedAt = Number.NEGATIVE_INFINITY
  /** How long other work runs before the next step. */
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
    const otherWorkMs = startedAt - endedAt
    owedMs = otherWorkMs < idleTurnMs ? 0 : owedMs - otherWorkMs
    if (owedMs > 0) return
    step = { isOver: false }
    takeFirst()?.(step)
  }

  function end(): void {
    endedAt = now()
    if (!step.isOver) owedMs = (endedAt - startedAt) * otherWorkShare
    step.isOver = true
    isDeferred = false
    deferTurn()
  }

  function takeFirst(): ((step: ReadStep) => void) | undefined {
    for (const [projectId, readers] of waiting) {
      const first = readers.shift()
      waiting.delete(projectId)
      // at the end of the queue, after the other projects
      if (readers.length > 0) waiting.set(projectId, readers)
      return first
    }
    return undefined
  }

  return {
    /**
     * Resolves with this reader's next step. Steps are taken one at a time, round robin by project and by reader within
     * a project.
     */
    next(projectId: string): Promise<ReadStep> {
      return new Promise((resolve) => {
        const readers = waiting.get(projectId)
        if (readers) readers.push(resolve)
        else waiting.set(projectId, [resolve])
        deferTurn()
      })
    },
  }
}

const readSteps = createReadSteps()

/**
 * Resolves with the next step of a long read, or of other work that takes long. All stores and services of a thread
 * share these steps, since they share its event loop.
 */
export function nextReadStep(projectId: string): Promise<ReadStep> {
  return readSteps.next(projectId)
}
