import { IngestError } from '@ingest/core'

/** How many of something may be in flight. */
export interface PlaceLimits {
  /** What there are too many of: `batches`. */
  what: string
  max: number
  /** The most of them of one project, so that its slow senders leave room for the others. */
  projectMax: number
}

/** The most batches that are being received or stored at once; the next is answered with 503. */
export const batchesInFlightMax = 1024
/** The most of them of one project. */
export const projectInFlightMax = batchesInFlightMax / 4
/** The most publications and uploads of chunks: each holds a body of up to 4 MiB, and what is inside. */
export const uploadsInFlightMax = 32
/** The most of them of one project. */
export const projectUploadsMax = uploadsInFlightMax / 2
/** The most answers that read from the store while they are sent: each holds a chunk of up to 1 MiB. */
export const downloadsInFlightMax = 256
/** The most of them of one project. */
export const projectDownloadsMax = downloadsInFlightMax / 2
/** The most requests that wait for events. */
export const waitsInFlightMax = 512
/** The most of them of one project. */
export const projectWaitsMax = waitsInFlightMax / 2

export const batchPlaces: PlaceLimits = { what: 'batches', max: batchesInFlightMax, projectMax: projectInFlightMax }
export const uploadPlaces: PlaceLimits = { what: 'uploads', max: uploadsInFlightMax, projectMax: projectUploadsMax }
export const downloadPlaces: PlaceLimits = {
  what: 'answers',
  max: downloadsInFlightMax,
  projectMax: projectDownloadsMax,
}

export const waitPlaces: PlaceLimits = { what: 'readers', max: waitsInFlightMax, projectMax: projectWaitsMax }

/** Bounds what is in flight. */
export interface Places {
  /**
   * Takes a place, and returns what gives it back, however often it is called.
   *
   * @throws {IngestError} `overloaded` when none is free.
   */
  enter(projectId: string): () => void
}

export function createPlaces({ what, max, projectMax }: PlaceLimits): Places {
  const byProject = new Map<string, number>()
  let all = 0
  return {
    enter(projectId) {
      const own = byProject.get(projectId) ?? 0
      if (all >= max || own >= projectMax) {
        throw new IngestError('overloaded', `Too many ${what} wait here: try again later.`, { retryAfterSeconds: 1 })
      }
      all++
      byProject.set(projectId, own + 1)
      let isTaken = true
      return () => {
        if (!isTaken) return
        isTaken = false
        all--
        const left = (byProject.get(projectId) ?? 1) - 1
        if (left === 0) byProject.delete(projectId)
        else byProject.set(projectId, left)
      }
    },
  }
}
