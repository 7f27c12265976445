import { batchEventsMax, IngestError } from '@ingest/core'

/** So many a second for ever, and up to `burst` at once. Both are whole numbers. */
export interface RateLimit {
  perSecond: number
  burst: number
}

/** The limits of every project; what is left out is as in {@link rateLimitsDefault}. */
export interface RateLimits {
  requests?: RateLimit
  /** Its burst is at least 100, or a full batch could never pass. */
  events?: RateLimit
  /** Bytes of publications and chunks. A body that is larger than the burst passes when nothing is owed. */
  mapBytes?: RateLimit
  /** A clock that never goes back, in milliseconds. */
  now?: () => number
}

/** Limits what each project may take. In memory, so for this process only. */
export interface RateLimiter {
  /**
   * Takes one request.
   *
   * @throws {IngestError} `rate-limited`, with nothing taken.
   */
  takeRequest(projectId: string): void
  /**
   * Takes the events of a request that was let through.
   *
   * @throws {IngestError} `rate-limited`, with nothing taken and the request given back.
   */
  takeEvents(projectId: string, count: number): void
  /**
   * Takes what an upload has announced.
   *
   * @throws {IngestError} `rate-limited`, with nothing taken.
   */
  takeMapBytes(projectId: string, bytes: number): void
  /** Takes what an upload had more than it has announced, however much is left. */
  oweMapBytes(projectId: string, bytes: number): void
  /** What the project has left, as draft-ietf-httpapi-ratelimit-headers-10 says it. */
  headers(projectId: string): RateLimitHeaders
  /** The same of the bytes of maps. */
  mapHeaders(projectId: string): RateLimitHeaders
  /** How many projects are remembered: those that took something lately, at most {@link projectsTrackedMax}. */
  trackedCount(): number
}

export type RateLimitHeaders = { RateLimit: string; 'RateLimit-Policy': string }

export const rateLimitsDefault = {
  requests: { perSecond: 100, burst: 200 },
  events: { perSecond: 20_000, burst: 100_000 },
  mapBytes: { perSecond: 32 * 1024 * 1024, burst: 512 * 1024 * 1024 },
} as const satisfies RateLimits

/** The most projects that are remembered at once. */
export const projectsTrackedMax = 10_000
/** How many are forgotten when all of them are busy, so that making room is rare. */
const projectsForgotten = projectsTrackedMax / 10

/**
 * What was taken and had not come back yet at a time, in thousandths of a request, event or byte: with whole rates and
 * whole milliseconds nothing is ever rounded.
 */
interface Debts {
  at: number
  requests: number
  events: number
  mapBytes: number
}

/**
 * Three leaky buckets a project.
 *
 * @throws {IngestError} `invalid-argument` for a limit that is not whole and positive, or too small for one batch.
 */
export function createRateLimiter(limits: RateLimits = {}): RateLimiter {
  const { requests, events, mapBytes, now } = { ...rateLimitsDefault, now: () => performance.now(), ...limits }
  checkLimit('requests', requests, 1)
  checkLimit('events', events, batchEventsMax)
  checkLimit('bytes of maps', mapBytes, 1)
  const debtsByProject = new Map<string, Debts>()
  const policy = `${policyOf('requests', requests)}, ${policyOf('events', events)}`
  const mapPolicy = policyOf('map-bytes', mapBytes)

  /** What the project owes by now. */
  function debtsOf(projectId: string): Debts {
    const time = Math.floor(now())
    let debts = debtsByProject.get(projectId)
    if (!debts) {
      if (debtsByProject.size >= projectsTrackedMax) makeRoom(time)
      debts = { at: time, requests: 0, events: 0, mapBytes: 0 }
      debtsByProject.set(projectId, debts)
    }
    pay(debts, time)
    return debts
  }

  function pay(debts: Debts, time: number): void {
    const passedMs = time - debts.at
    debts.at = time
    debts.requests = Math.max(0, debts.requests - passedMs * requests.perSecond)
    debts.events = Math.max(0, debts.events - passedMs * events.perSecond)
    debts.mapBytes = Math.max(0, debts.mapBytes - passedMs * mapBytes.perSecond)
  }

  function makeRoom(time: number): void {
    for (const [projectId, debts] of debtsByProject) {
      pay(debts, time)
      if (debts.requests === 0 && debts.events === 0 && debts.mapBytes === 0) debtsByProject.delete(projectId)
    }
    if (debtsByProject.size < projectsTrackedMax) return
    // whoever is forgotten begins with full buckets: an error in favour of the project
    for (const projectId of [...debtsByProject.keys()].slice(0, projectsForgotten)) {
      debtsByProject.delete(projectId)
    }
  }

  return {
    takeRequest(projectId) {
      const debts = debtsOf(projectId)
      const wait = waitSeconds(requests, debts.requests, 1)
      if (wait > 0) {
        // how many events it has is not known yet, and waiting has to be enough for as many as there may be
        throw limited('requests', requests, Math.max(wait, waitSeconds(events, debts.events, batchEventsMax)))
      }
      debts.requests += 1000
    },

    takeEvents(projectId, count) {
      const debts = debtsOf(projectId)
      const wait = waitSeconds(events, debts.events, count)
      if (wait > 0) {
        debts.requests = Math.max(0, debts.requests - 1000)
        throw limited('events', events, wait)
      }
      debts.events += count * 1000
    },

    takeMapBytes(projectId, bytes) {
      const debts = debtsOf(projectId)
      const wait = waitSeconds(mapBytes, debts.mapBytes, Math.min(bytes, mapBytes.burst))
      if (wait > 0) throw limited('bytes of maps', mapBytes, wait)
      debts.mapBytes += bytes * 1000
    },

    oweMapBytes(projectId, bytes) {
      debtsOf(projectId).mapBytes += bytes * 1000
    },

    headers(projectId) {
      const debts = debtsOf(projectId)
      const left = `${leftOf('requests', requests, debts.requests)}, ${leftOf('events', events, debts.events)}`
      return { RateLimit: left, 'RateLimit-Policy': policy }
    },

    mapHeaders(projectId) {
      const left = leftOf('map-bytes', mapBytes, debtsOf(projectId).mapBytes)
      return { RateLimit: left, 'RateLimit-Policy': mapPolicy }
    },

    trackedCount: () => debtsByProject.size,
  }
}

function checkLimit(name: string, { perSecond, burst }: RateLimit, burstMin: number): void {
  if (!Number.isSafeInteger(perSecond) || perSecond < 1) {
    throw new IngestError('invalid-argument', `The limit of ${name} per second is a whole number from 1.`)
  }
  if (!Number.isSafeInteger(burst) || burst < burstMin) {
    throw new IngestError('invalid-argument', `The burst of ${name} is a whole number from ${burstMin}.`)
  }
}

/** Zero when `count` may pass now, otherwise the whole seconds after which it may. */
function waitSeconds({ perSecond, burst }: RateLimit, debt: number, count: number): number {
  if (count === 0) return 0
  return Math.max(0, Math.ceil((debt + count * 1000 - burst * 1000) / (perSecond * 1000)))
}

function limited(name: string, { perSecond, burst }: RateLimit, retryAfterSeconds: number): IngestError {
  return new IngestError(
    'rate-limited',
    `The project may send ${perSecond} ${name} a second, and ${burst} at once: wait ${retryAfterSeconds} s.`,
    { limit: perSecond, retryAfterSeconds },
  )
}

function policyOf(name: string, { perSecond, burst }: RateLimit): string {
  return `"${name}";q=${burst};w=${Math.ceil(burst / perSecond)}`
}

/** What is left, and the seconds until all of it is back. */
function leftOf(name: string, { perSecond, burst }: RateLimit, debt: number): string {
  const left = Math.max(0, Math.floor((burst * 1000 - debt) / 1000))
  return `"${name}";r=${left};t=${Math.ceil(debt / (perSecond * 1000))}`
}
