import { IngestError } from '@ingest/core'

/**
 * The most requests in flight, by kind: of all projects together, and of one project, so that its slow clients leave
 * capacity for others.
 */
export const concurrencyLimits = {
  /** Batches that are being received or stored. */
  batches: { what: 'batches', max: 1024, projectMax: 256 },
  /** Publications and chunks that are being received or stored; `bodyMemoryLimits` bounds the bytes received. */
  uploads: { what: 'uploads', max: 1024, projectMax: 128 },
  /** Those of them whose body is complete: each holds up to 4 MiB, inflated, and its decoded content. */
  storedUploads: { what: 'uploads', max: 32, projectMax: 16 },
  /** Reads, until the response is sent: each holds a chunk of up to 1 MiB. */
  downloads: { what: 'downloads', max: 256, projectMax: 128 },
  /** Reads that wait for events: they take long and hold little memory. */
  longPolls: { what: 'long polls', max: 512, projectMax: 256 },
} as const

export type ConcurrencyLimitName = keyof typeof concurrencyLimits

/** Bounds the requests in flight. */
export interface ConcurrencyLimit {
  /**
   * Takes a slot for the project. Returns a function that releases it; only its first call has an effect.
   *
   * @throws {IngestError} `overloaded` when every slot is taken.
   */
  acquire(projectId: string): () => void
}

export function createConcurrencyLimit({
  what,
  max,
  projectMax,
}: {
  what: string
  max: number
  projectMax: number
}): ConcurrencyLimit {
  const inFlightByProject = new Map<string, number>()
  let inFlight = 0
  return {
    acquire(projectId) {
      const own = inFlightByProject.get(projectId) ?? 0
      if (inFlight >= max || own >= projectMax) {
        throw new IngestError('overloaded', `Too many ${what} in flight: try again later.`, { retryAfterSeconds: 1 })
      }
      inFlight++
      inFlightByProject.set(projectId, own + 1)
      let isReleased = false
      return () => {
        if (isReleased) return
        isReleased = true
        inFlight--
        const left = (inFlightByProject.get(projectId) ?? 1) - 1
        if (left === 0) inFlightByProject.delete(projectId)
        else inFlightByProject.set(projectId, left)
      }
    },
  }
}

/** A limit for each kind of request. */
export function createConcurrencyLimits(): Readonly<Record<ConcurrencyLimitName, ConcurrencyLimit>> {
  const { batches, uploads, storedUploads, downloads, longPolls } = concurrencyLimits
  return {
    batches: createConcurrencyLimit(batches),
    uploads: createConcurrencyLimit(uploads),
    storedUploads: createConcurrencyLimit(storedUploads),
    downloads: createConcurrencyLimit(downloads),
    longPolls: createConcurrencyLimit(longPolls),
  }
}
