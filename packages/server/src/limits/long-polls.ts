import type { EdgeRequest } from '../http/request.ts'

/** Requests whose answer is held back until there is something to say. */
export interface Waits {
  /**
   * Calls `end` when there is no use in waiting: who asked is gone, or the server is about to stop. Returns what is
   * called when nothing is waited for any more.
   */
  begin(request: EdgeRequest, end: () => void): () => void
}

/** @param draining aborted when the server is about to stop */
export function createWaits(draining: AbortSignal | undefined): Waits {
  // a listener for each would be more than a signal is made for
  const ends = new Set<() => void>()
  draining?.addEventListener('abort', () => {
    for (const end of ends) end()
  })
  return {
    begin(request, end) {
      if (draining?.aborted) end()
      ends.add(end)
      const ignore = request.onLeave(end)
      return () => {
        ends.delete(end)
        ignore()
      }
    },
  }
}
