import { IngestError } from '@ingest/core'

/** Maximum number of requests in flight, by kind, over all projects. */
export const concurrencyLimits = {
  /** Batches being received or stored. */
  batches: { what: 'batches', max: 1024 },
  /** Publications and chunks being received or stored; `uploadBytes` limits the received bytes. */
  uploads: { what: 'uploads', max: 1024 },
  /** The received bytes of these uploads. */
  uploadBytes: { what: 'unfinished uploads', max: 256 * 1024 * 1024 },
  /** Uploads whose body is complete: each holds up to 4 MiB, inflated, and its decoded content. */
  storedUploads: { what: 'uploads', max: 32 },
  /** Reads, until the response is sent: each holds a chunk of up to 1 MiB. */
  downloads: { what: 'downloads', max: 256 },
  /** Reads that wait for events: they last long and hold little memory. */
  longPolls: { what: 'long polls', max: 512 },
} as const

/**
 * The limit of one project, or of one address without a key: a quarter, so that slow clients leave slots for others.
 */
export function shareMaxOf({ max }: { max: number }): number {
  return Math.floor(max / 4)
}

export type ConcurrencyLimitName = keyof typeof concurrencyLimits

/** Limits requests in flight, or their bytes. */
export interface ConcurrencyLimit {
  /**
   * Takes slots for the project. Default: one.
   *
   * @throws {IngestError} `overloaded` if fewer are free
   */
  take(projectId: string, count?: number): Slots
}

/** The slots of one request. */
export interface Slots {
  /**
   * Takes more slots.
   *
   * @throws {IngestError} `overloaded`, with none taken
   */
  add(count: number): void
  /** Releases all slots; only the first call has an effect. */
  release(): void
}

export function createConcurrencyLimit({ what, max }: { what: string; max: number }): ConcurrencyLimit {
  const projectMax = shareMaxOf({ max })
  const takenByProject = new Map<string, number>()
  let taken = 0

  function change(projectId: string, count: number): void {
    taken += count
    const own = (takenByProject.get(projectId) ?? 0) + count
    if (own === 0) takenByProject.delete(projectId)
    else takenByProject.set(projectId, own)
  }

  return {
    take(projectId, count = 1) {
      let own = 0
      function add(more: number): void {
        if (taken + more > max || (takenByProject.get(projectId) ?? 0) + more > projectMax) {
          throw tooMany(what)
        }
        own += more
        change(projectId, more)
      }
      add(count)
      return {
        add,
        release() {
          change(projectId, -own)
          own = 0
        },
      }
    },
  }
}

/** A limit for each kind of request. */
export function createConcurrencyLimits(): Readonly<Record<ConcurrencyLimitName, ConcurrencyLimit>> {
  const limits = Object.entries(concurrencyLimits).map(([name, limit]) => [name, createConcurrencyLimit(limit)])
  return Object.fromEntries(limits)
}

/** The `overloaded` of a request beyond a limit. */
export function tooMany(what: string): IngestError {
  return new IngestError('overloaded', `Too many ${what} in flight: try again later.`, { retryAfterSeconds: 1 })
}
