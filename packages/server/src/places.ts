import { IngestError } from '@ingest/core'

/** The most batches that are being received or stored at once; the next is answered with 503. */
export const batchesInFlightMax = 1024
/** The most of them of one project, so that its slow senders leave room for the others. */
export const projectInFlightMax = batchesInFlightMax / 4

/** Bounds what is in flight. */
export interface Places {
  /**
   * Takes a place, and returns what gives it back.
   *
   * @throws {IngestError} `overloaded` when none is free.
   */
  enter(projectId: string): () => void
}

export function createPlaces(): Places {
  const byProject = new Map<string, number>()
  let all = 0
  return {
    enter(projectId) {
      const own = byProject.get(projectId) ?? 0
      if (all >= batchesInFlightMax || own >= projectInFlightMax) {
        throw new IngestError('overloaded', 'Too many batches wait here: try again later.', { retryAfterSeconds: 1 })
      }
      all++
      byProject.set(projectId, own + 1)
      return () => {
        all--
        const left = (byProject.get(projectId) ?? 1) - 1
        if (left === 0) byProject.delete(projectId)
        else byProject.set(projectId, left)
      }
    },
  }
}
