import { IngestError } from '@ingest/core'
import type { LogError } from '../log.ts'
import {
  divideQuotas,
  parseRateLimits,
  policyText,
  type Quota,
  type QuotaName,
  type Quotas,
  quotaNames,
  type RateLimit,
  type RateLimits,
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

/** Response headers as in draft-ietf-httpapi-ratelimit-headers-11. */
export type RateLimitHeaders = { RateLimit: string; 'RateLimit-Policy': string }

/** The amounts to charge to each limit, such as `{ requests: 1, batchBytes: 5000 }`. */
export type Amounts = Partial<Record<QuotaName, number>>

/** Options of `RateLimiter.admit`. */
export interface AdmitOptions {
  /** Amounts that a retry of the request would also be charged, so that `Retry-After` is long enough for all of it. */
  retry?: Amounts
  /**
   * Amounts that the same request was charged before. They do not count against the limit: otherwise a map larger than
   * the burst could never be verified.
   */
  charged?: Amounts
}

/**
 * Rate limits by project. Methods may return promises, for counters in a shared service. Every request waits for them,
 * so they must settle soon. An error that is not an {@link IngestError} is a 503 for the client.
 */
export interface RateLimiter {
  /**
   * Charges all amounts if each is within its limit. An amount larger than the burst is admitted if nothing else counts
   * against the limit.
   *
   * @throws {IngestError} `rate-limited`, with nothing charged.
   */
  admit(projectId: string, amounts: Amounts, options?: AdmitOptions): void | Promise<void>
  /**
   * Charges amounts, even beyond their limits; false if a limit is then used up. A scan of events charges each event,
   * or 65,536 bytes at a time if this returns a promise.
   */
  charge(projectId: string, amounts: Amounts): boolean | Promise<boolean>
  /**
   * The project's remaining budget, as in draft-ietf-httpapi-ratelimit-headers-11. Undefined for no headers, such as
   * after an error.
   */
  headers(projectId: string, budget: Budget): RateLimitHeaders | undefined | Promise<RateLimitHeaders | undefined>
}

/** A rate limiter in memory, for one process, which returns no promises. */
export interface MemoryRateLimiter extends RateLimiter {
  admit(projectId: string, amounts: Amounts, options?: AdmitOptions): void
  charge(projectId: string, amounts: Amounts): boolean
  headers(projectId: string, budget: Budget): RateLimitHeaders
  /** Number of tracked projects: those charged recently, at most {@link projectsTrackedMax}. */
  trackedCount(): number
}

/** Admits everything. */
export const unlimited: RateLimiter = { admit() {}, charge: () => true, headers: () => undefined }

/**
 * Wraps an embedder's limiter, whose failures refuse requests. A request that was admitted and handled is not refused
 * because its headers fail; it then has none.
 *
 * @throws {IngestError} the `IngestError` of `limiter`, and `overloaded` for any other error, which is logged
 */
export function guardRateLimiter(limiter: RateLimiter, logError: LogError): RateLimiter {
  async function guard<T>(call: () => T | Promise<T>): Promise<T> {
    try {
      return await call()
    } catch (error) {
      if (error instanceof IngestError) throw error
      logError('overloaded', { err: error }, 'rate limits cannot be checked')
      throw new IngestError('overloaded', 'Rate limits cannot be checked now: try again later.', {
        retryAfterSeconds: 1,
      })
    }
  }
  return {
    admit: (...args) => guard(() => limiter.admit(...args)),
    charge: (...args) => guard(() => limiter.charge(...args)),
    headers: (...args) => guard(() => limiter.headers(...args)).catch(() => undefined),
  }
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
  const currentShare = createShares(parseRateLimits(limits), serverCount)
  const buckets = createBuckets(currentShare, now)

  function charge(levels: Levels, amounts: Amounts): void {
    for (const [name, amount] of entriesOf(amounts)) levels[name] += amount * 1000
  }

  return {
    admit(projectId, amounts, { retry = {}, charged = {} } = {}) {
      const { quotas } = currentShare()
      const levels = buckets.levelsOf(projectId)
      const waitFor = ([name, amount]: [QuotaName, number], credit = 0) => {
        const level = Math.max(0, levels[name] - credit * 1000)
        return waitSeconds(quotas[name], level, Math.min(amount, quotas[name].burst))
      }
      const exceeded = entriesOf(amounts).filter((each) => waitFor(each, charged[each[0]]) > 0)
      const [first] = exceeded
      if (first) {
        const waits = [...exceeded, ...entriesOf(retry)].map((each) => waitFor(each))
        throw rateLimited(quotas[first[0]], Math.max(...waits))
      }
      charge(levels, amounts)
    },
    charge(projectId, amounts) {
      const { quotas } = currentShare()
      const levels = buckets.levelsOf(projectId)
      charge(levels, amounts)
      return entriesOf(amounts).every(([name]) => levels[name] < quotas[name].burst * 1000)
    },
    headers(projectId, budget) {
      const { quotas, policies } = currentShare()
      const levels = buckets.levelsOf(projectId)
      const remaining = quotasByBudget[budget].map((name) => remainingText(quotas[name], levels[name]))
      return { RateLimit: remaining.join(', '), 'RateLimit-Policy': policies[budget] }
    },
    trackedCount: buckets.count,
  }
}

function entriesOf(amounts: Amounts): [QuotaName, number][] {
  return Object.entries(amounts) as [QuotaName, number][]
}

/** One server's share of the limits. */
interface Share {
  serverCount: number
  quotas: Quotas
  /** The `RateLimit-Policy` of each budget. */
  policies: Readonly<Record<Budget, string>>
}

/** A function that returns the share of the servers that are live now. */
function createShares(whole: Quotas, serverCount: () => number): () => Share {
  let share = shareOf(whole, serverCount())
  return () => {
    const count = serverCount()
    if (count !== share.serverCount) share = shareOf(whole, count)
    return share
  }
}

function shareOf(whole: Quotas, serverCount: number): Share {
  const quotas = divideQuotas(whole, serverCount)
  const policyOf = (budget: Budget) => quotasByBudget[budget].map((name) => policyText(quotas[name])).join(', ')
  const policies = { batches: policyOf('batches'), maps: policyOf('maps'), reads: policyOf('reads') }
  return { serverCount, quotas, policies }
}

/** Maximum number of projects that are tracked at once. */
export const projectsTrackedMax = 10_000
/** How many projects are evicted at once if none is idle, so that eviction is rare. */
const projectsEvicted = projectsTrackedMax / 10

/**
 * The levels of all buckets of a project at a time, in thousandths of a request, event or byte: with whole rates and
 * whole milliseconds the arithmetic is exact.
 */
type Levels = Record<QuotaName, number> & { at: number }

const emptyLevels = Object.fromEntries(quotaNames.map((name) => [name, 0])) as Record<QuotaName, number>

interface Buckets {
  /** The current levels of a project. */
  levelsOf(projectId: string): Levels
  count(): number
}

function createBuckets(currentShare: () => Share, now: () => number): Buckets {
  const levelsByProject = new Map<string, Levels>()

  function leak(levels: Levels, time: number): void {
    const passedMs = time - levels.at
    const { quotas } = currentShare()
    levels.at = time
    for (const name of quotaNames) levels[name] = Math.max(0, levels[name] - passedMs * quotas[name].perSecond)
  }

  function evict(time: number): void {
    for (const [projectId, levels] of levelsByProject) {
      leak(levels, time)
      if (quotaNames.every((name) => levels[name] === 0)) levelsByProject.delete(projectId)
    }
    if (levelsByProject.size <= projectsTrackedMax - projectsEvicted) return
    // an evicted project restarts with empty buckets, which errs in its favour
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
