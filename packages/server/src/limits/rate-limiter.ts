import { batchEventsMax, IngestError } from '@ingest/core'
import {
  divideQuotas,
  parseRateLimits,
  policyText,
  type Quota,
  type QuotaName,
  quotaNames,
  type RateLimit,
  type RateLimits,
  readBytesMin,
  remainingText,
} from './rate-limits.ts'

/** The limits that a route counts against. */
export type Budget = 'batches' | 'maps' | 'reads'

/** The limits of each budget. */
export const quotasByBudget: Readonly<Record<Budget, readonly QuotaName[]>> = {
  batches: ['requests', 'events', 'batchBytes'],
  maps: ['mapRequests', 'mapBytes'],
  reads: ['readRequests', 'readBytes'],
}

export type RateLimitHeaders = { RateLimit: string; 'RateLimit-Policy': string }

/**
 * Rate limits by project. `admit…` charges a project if it is within its limit and throws otherwise; `charge…` always
 * charges, even beyond the limit. Methods may return promises, as for counters in a shared service: every request waits
 * for them, so they must end soon. An error that is not an {@link IngestError} is a 503 for the client.
 */
export interface RateLimiter {
  /**
   * Charges one request and the declared bytes of its body.
   *
   * @throws {IngestError} `rate-limited`, with nothing charged.
   */
  admitRequest(projectId: string, bytes: number): void | Promise<void>
  /** Charges the bytes of a batch beyond those declared. */
  chargeBatchBytes(projectId: string, bytes: number): void | Promise<void>
  /**
   * Charges the events of an admitted request. `bytes` is what its body was charged: `Retry-After` allows for a retry
   * of the same size.
   *
   * @throws {IngestError} `rate-limited`, with no events charged. The request and its bytes stay charged, as they were
   *   received and parsed.
   */
  admitEvents(projectId: string, count: number, bytes: number): void | Promise<void>
  /**
   * Charges the bytes of an upload, and one request; or with `charged` the bytes of a verification alone. `charged` is
   * what the same request was charged before; it does not count against the limit, or a map larger than the burst could
   * never be verified.
   *
   * @throws {IngestError} `rate-limited`, with nothing charged.
   */
  admitMapBytes(projectId: string, bytes: number, charged?: number): void | Promise<void>
  /** Charges the bytes of an upload beyond those declared. */
  chargeMapBytes(projectId: string, bytes: number): void | Promise<void>
  /**
   * Charges one request and 4,096 bytes for a read.
   *
   * @throws {IngestError} `rate-limited`, with nothing charged.
   */
  admitRead(projectId: string): void | Promise<void>
  /**
   * Charges bytes that a read returns or scans; false when the budget is used up after that. A scan charges each event,
   * or 65,536 bytes at a time if this returns a promise.
   */
  chargeReadBytes(projectId: string, bytes: number): boolean | Promise<boolean>
  /**
   * What the project has left of a budget, as in draft-ietf-httpapi-ratelimit-headers-11. Undefined for no headers, as
   * after an error.
   */
  headers(projectId: string, budget: Budget): RateLimitHeaders | undefined | Promise<RateLimitHeaders | undefined>
}

/** A rate limiter in memory, for one process, which returns no promises. */
export interface MemoryRateLimiter extends RateLimiter {
  admitRequest(projectId: string, bytes: number): void
  chargeBatchBytes(projectId: string, bytes: number): void
  admitEvents(projectId: string, count: number, bytes: number): void
  admitMapBytes(projectId: string, bytes: number, charged?: number): void
  chargeMapBytes(projectId: string, bytes: number): void
  admitRead(projectId: string): void
  chargeReadBytes(projectId: string, bytes: number): boolean
  headers(projectId: string, budget: Budget): RateLimitHeaders
  /** How many projects are tracked: those charged lately, at most {@link projectsTrackedMax}. */
  trackedCount(): number
}

/** Admits everything. */
export const unlimited: RateLimiter = {
  admitRequest() {},
  chargeBatchBytes() {},
  admitEvents() {},
  admitMapBytes() {},
  chargeMapBytes() {},
  admitRead() {},
  chargeReadBytes: () => true,
  headers: () => undefined,
}

/**
 * A leaky bucket for each limit of each project. `serverCount` returns the number of live servers, between which the
 * limits are divided; default: 1.
 *
 * @throws {IngestError} `invalid-argument` for a limit that is not a whole number from 1, or too small for one batch.
 */
export function createRateLimiter(
  { now = () => performance.now(), ...limits }: RateLimits = {},
  serverCount: () => number = () => 1,
): MemoryRateLimiter {
  const shares = createShares(parseRateLimits(limits), serverCount)
  const buckets = createBuckets(shares, now)
  return {
    admitRequest(projectId, bytes) {
      const { requests, events, batchBytes } = shares.current().quotas
      const levels = buckets.levelsOf(projectId)
      const requestsWait = waitSeconds(requests, levels.requests, 1)
      const bytesWait = waitSeconds(batchBytes, levels.batchBytes, bytes)
      if (requestsWait > 0 || bytesWait > 0) {
        // the number of events is not known yet: Retry-After must be enough for a full batch
        const eventsWait = waitSeconds(events, levels.events, batchEventsMax)
        throw rateLimited(requestsWait > 0 ? requests : batchBytes, Math.max(requestsWait, bytesWait, eventsWait))
      }
      levels.requests += 1000
      levels.batchBytes += bytes * 1000
    },
    chargeBatchBytes(projectId, bytes) {
      buckets.levelsOf(projectId).batchBytes += bytes * 1000
    },
    admitEvents(projectId, count, bytes) {
      const { requests, events, batchBytes } = shares.current().quotas
      const levels = buckets.levelsOf(projectId)
      const eventsWait = waitSeconds(events, levels.events, count)
      if (eventsWait > 0) {
        const requestsWait = waitSeconds(requests, levels.requests, 1)
        const bytesWait = waitSeconds(batchBytes, levels.batchBytes, bytes)
        throw rateLimited(events, Math.max(eventsWait, requestsWait, bytesWait))
      }
      levels.events += count * 1000
    },
    admitMapBytes(projectId, bytes, charged) {
      const { mapRequests, mapBytes } = shares.current().quotas
      const levels = buckets.levelsOf(projectId)
      const requestsWait = charged === undefined ? waitSeconds(mapRequests, levels.mapRequests, 1) : 0
      const count = Math.min(bytes, mapBytes.burst)
      const isAdmitted = waitSeconds(mapBytes, Math.max(0, levels.mapBytes - (charged ?? 0) * 1000), count) === 0
      const bytesWait = isAdmitted ? 0 : waitSeconds(mapBytes, levels.mapBytes, count)
      if (requestsWait > 0 || bytesWait > 0) {
        throw rateLimited(requestsWait > 0 ? mapRequests : mapBytes, Math.max(requestsWait, bytesWait))
      }
      if (charged === undefined) levels.mapRequests += 1000
      levels.mapBytes += bytes * 1000
    },
    chargeMapBytes(projectId, bytes) {
      buckets.levelsOf(projectId).mapBytes += bytes * 1000
    },
    admitRead(projectId) {
      const { readRequests, readBytes } = shares.current().quotas
      const levels = buckets.levelsOf(projectId)
      const requestsWait = waitSeconds(readRequests, levels.readRequests, 1)
      const bytesWait = waitSeconds(readBytes, levels.readBytes, readBytesMin)
      if (requestsWait > 0 || bytesWait > 0) {
        throw rateLimited(requestsWait > 0 ? readRequests : readBytes, Math.max(requestsWait, bytesWait))
      }
      levels.readRequests += 1000
      levels.readBytes += readBytesMin * 1000
    },
    chargeReadBytes(projectId, bytes) {
      const levels = buckets.levelsOf(projectId)
      levels.readBytes += bytes * 1000
      return levels.readBytes < shares.current().quotas.readBytes.burst * 1000
    },
    headers(projectId, budget) {
      const { quotas, policies } = shares.current()
      const levels = buckets.levelsOf(projectId)
      const remaining = quotasByBudget[budget].map((name) => remainingText(quotas[name], levels[name]))
      return { RateLimit: remaining.join(', '), 'RateLimit-Policy': policies[budget] }
    },
    trackedCount: buckets.count,
  }
}

/** The part of the limits that one of several servers admits. */
interface Share {
  serverCount: number
  quotas: Readonly<Record<QuotaName, Quota>>
  /** The `RateLimit-Policy` of each budget. */
  policies: Readonly<Record<Budget, string>>
}

interface Shares {
  current(): Share
}

function createShares(whole: Readonly<Record<QuotaName, Quota>>, serverCount: () => number): Shares {
  let share = shareOf(whole, serverCount())
  return {
    current() {
      const count = serverCount()
      if (count !== share.serverCount) share = shareOf(whole, count)
      return share
    },
  }
}

function shareOf(whole: Readonly<Record<QuotaName, Quota>>, serverCount: number): Share {
  const quotas = divideQuotas(whole, serverCount)
  const policyOf = (budget: Budget) => quotasByBudget[budget].map((name) => policyText(quotas[name])).join(', ')
  const policies = { batches: policyOf('batches'), maps: policyOf('maps'), reads: policyOf('reads') }
  return { serverCount, quotas, policies }
}

/** The most projects that are tracked at once. */
export const projectsTrackedMax = 10_000
/** How many are evicted at once when none of them is idle, so that eviction is rare. */
const projectsEvicted = projectsTrackedMax / 10

/**
 * The level of each bucket at a time, in thousandths of a request, event or byte: with whole rates and whole
 * milliseconds the arithmetic is exact.
 */
type Levels = Record<QuotaName, number> & { at: number }

const emptyLevels = Object.fromEntries(quotaNames.map((name) => [name, 0])) as Record<QuotaName, number>

interface Buckets {
  /** The levels of a project now. */
  levelsOf(projectId: string): Levels
  count(): number
}

function createBuckets(shares: Shares, now: () => number): Buckets {
  const levelsByProject = new Map<string, Levels>()

  function leak(levels: Levels, time: number): void {
    const passedMs = time - levels.at
    const { quotas } = shares.current()
    levels.at = time
    for (const name of quotaNames) levels[name] = Math.max(0, levels[name] - passedMs * quotas[name].perSecond)
  }

  function evict(time: number): void {
    for (const [projectId, levels] of levelsByProject) {
      leak(levels, time)
      if (quotaNames.every((name) => levels[name] === 0)) levelsByProject.delete(projectId)
    }
    if (levelsByProject.size <= projectsTrackedMax - projectsEvicted) return
    // an evicted project restarts with empty buckets: an error in its favour
    for (const projectId of [...levelsByProject.keys()].slice(0, projectsEvicted)) levelsByProject.delete(projectId)
  }

  return {
    levelsOf(projectId) {
      const time = Math.floor(now())
      let levels = levelsByProject.get(projectId)
      if (!levels) {
        if (levelsByProject.size >= projectsTrackedMax) evict(time)
        levels = { at: time, ...emptyLevels }
        levelsByProject.set(projectId, levels)
      }
      leak(levels, time)
      return levels
    },
    count: () => levelsByProject.size,
  }
}

/** Whole seconds until `count` fits into the bucket; 0 if it fits now. */
function waitSeconds({ perSecond, burst }: RateLimit, level: number, count: number): number {
  if (count === 0) return 0
  return Math.max(0, Math.ceil((level + count * 1000 - burst * 1000) / (perSecond * 1000)))
}

function rateLimited({ what, perSecond, burst }: Quota, retryAfterSeconds: number): IngestError {
  return new IngestError(
    'rate-limited',
    `The project is limited to ${perSecond} ${what} a second, with bursts of ${burst}: retry after ${retryAfterSeconds} s.`,
    { limit: perSecond, retryAfterSeconds },
  )
}
