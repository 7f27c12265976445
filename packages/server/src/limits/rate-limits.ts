import { batchBytesMax, batchEventsMax, IngestError } from '@ingest/core'

/** `perSecond` on average, and up to `burst` at once. Both are whole numbers. */
export interface RateLimit {
  perSecond: number
  burst: number
}

/**
 * The limits of every project. If the store counts its live servers, they apply to all servers together. Defaults:
 * {@link rateLimitsDefault}.
 */
export interface RateLimits {
  requests?: RateLimit
  /** Its burst is at least 100, the events of a full batch. */
  events?: RateLimit
  /**
   * Bytes of the bodies of batches, uncompressed. Default: 512 times the limit of events. Its burst is
   * at least 262,144, the bytes of a full batch.
   */
  batchBytes?: RateLimit
  /** Publications and uploads of chunks. */
  mapRequests?: RateLimit
  /**
   * Bytes of publications and chunks, plus 64 for each JSON member. A body larger than the burst is admitted if the
   * bucket is empty.
   */
  mapBytes?: RateLimit
  /** Reads of any kind. */
  readRequests?: RateLimit
  /** Bytes that reads return or scan. */
  readBytes?: RateLimit
  /** A monotonic clock, in milliseconds. Default: `performance.now`. */
  now?: () => number
}

/** The default limit of batch bytes per event of the events limit. */
export const bytesPerEvent = 512
/** The minimum charge of a read, in bytes. */
export const readBytesMin = 4096

/** The default limits of every project. */
export const rateLimitsDefault = {
  requests: { perSecond: 100, burst: 200 },
  events: { perSecond: 20_000, burst: 100_000 },
  batchBytes: { perSecond: 20_000 * bytesPerEvent, burst: 100_000 * bytesPerEvent },
  mapRequests: { perSecond: 100, burst: 1000 },
  mapBytes: { perSecond: 32 * 1024 * 1024, burst: 512 * 1024 * 1024 },
  readRequests: { perSecond: 100, burst: 400 },
  readBytes: { perSecond: 16 * 1024 * 1024, burst: 64 * 1024 * 1024 },
} as const satisfies RateLimits

/** The name and unit of a limit, and its smallest configurable burst. */
interface QuotaKind {
  /** Its name in the headers. */
  policy: string
  /**
   * Its quota unit in the headers. The draft registers `requests` and `content-bytes`. A client that does not know
   * `events` ignores that policy; without a unit it would count events as requests.
   */
  unit: 'requests' | 'content-bytes' | 'events'
  /** Its unit in error messages. */
  what: string
  burstMin: number
}

const quotaKinds = {
  requests: { policy: 'requests', unit: 'requests', what: 'requests', burstMin: 1 },
  events: { policy: 'events', unit: 'events', what: 'events', burstMin: batchEventsMax },
  batchBytes: { policy: 'batch-bytes', unit: 'content-bytes', what: 'batch bytes', burstMin: batchBytesMax },
  mapRequests: { policy: 'map-requests', unit: 'requests', what: 'map requests', burstMin: 1 },
  mapBytes: { policy: 'map-bytes', unit: 'content-bytes', what: 'map bytes', burstMin: 1 },
  readRequests: { policy: 'read-requests', unit: 'requests', what: 'reads', burstMin: 1 },
  readBytes: { policy: 'read-bytes', unit: 'content-bytes', what: 'read bytes', burstMin: readBytesMin },
} as const satisfies Record<string, QuotaKind>

export type QuotaName = keyof typeof quotaKinds

export const quotaNames = Object.keys(quotaKinds) as QuotaName[]

export interface Quota extends RateLimit, QuotaKind {}

export type Quotas = Readonly<Record<QuotaName, Quota>>

/**
 * The quota of each limit.
 *
 * @throws {IngestError} `invalid-argument`
 */
export function parseRateLimits(limits: Omit<RateLimits, 'now'>): Quotas {
  const batchBytes = batchBytesFor(limits.events ?? rateLimitsDefault.events)
  const all = { ...rateLimitsDefault, batchBytes, ...limits }
  const quotas = mapQuotas((name) => ({ ...all[name], ...quotaKinds[name] }))
  for (const name of quotaNames) checkQuota(quotas[name])
  return quotas
}

/**
 * The share of one of `serverCount` servers: whole numbers of at least 1 a second, and at least the smallest burst, so
 * that each server can admit a full batch.
 */
export function divideQuotas(quotas: Quotas, serverCount: number): Quotas {
  return mapQuotas((name) => {
    const { perSecond, burst, burstMin } = quotas[name]
    return {
      ...quotas[name],
      perSecond: Math.max(1, Math.floor(perSecond / serverCount)),
      burst: Math.max(burstMin, Math.floor(burst / serverCount)),
    }
  })
}

function mapQuotas(quotaOf: (name: QuotaName) => Quota): Quotas {
  return Object.fromEntries(quotaNames.map((name) => [name, quotaOf(name)])) as Quotas
}

function batchBytesFor({ perSecond, burst }: RateLimit): RateLimit {
  return { perSecond: perSecond * bytesPerEvent, burst: Math.max(batchBytesMax, burst * bytesPerEvent) }
}

function checkQuota({ what, perSecond, burst, burstMin }: Quota): void {
  if (!Number.isSafeInteger(perSecond) || perSecond < 1) {
    throw new IngestError('invalid-argument', `The limit of ${what} per second must be a whole number from 1.`)
  }
  if (!Number.isSafeInteger(burst) || burst < burstMin) {
    throw new IngestError('invalid-argument', `The burst of ${what} must be a whole number from ${burstMin}.`)
  }
}

/** An entry of `RateLimit-Policy`. */
export function policyText({ policy, unit, perSecond, burst }: Quota): string {
  return `"${policy}";q=${burst};qu="${unit}";w=${Math.ceil(burst / perSecond)}`
}

/**
 * An entry of `RateLimit`: the remaining quota, and the seconds until the bucket is empty. `level` is in thousandths.
 */
export function remainingText({ policy, perSecond, burst }: Quota, level: number): string {
  const left = Math.max(0, Math.floor((burst * 1000 - level) / 1000))
  return `"${policy}";r=${left};t=${Math.ceil(level / (perSecond * 1000))}`
}
