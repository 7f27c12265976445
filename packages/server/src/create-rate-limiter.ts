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
  /** What the project has left, as draft-ietf-httpapi-ratelimit-headers-10 says it. */
  headers(projectId: string): { RateLimit: string; 'RateLimit-Policy': string }
  /** How many projects are remembered: those that took something lately, at most {@link projectsTrackedMax}. */
  trackedCount(): number
}

export const rateLimitsDefault = {
  requests: { perSecond: 100, burst: 200 },
  events: { perSecond: 20_000, burst: 100_000 },
} as const satisfies RateLimits

/** The most projects that are remembered at once. */
export const projectsTrackedMax = 10_000
/** How many are forgotten when all of them are busy, so that making room is rare. */
const projectsForgotten = projectsTrackedMax / 10

/**
 * The theoretical arrival times of GCRA (ITU-T I.371), multiplied by the rate: in thousandths of a request or event.
 * With whole rates and whole milliseconds nothing is ever rounded.
 */
interface Arrivals {
  requests: number
  events: number
}

/**
 * Two buckets a project, by the generic cell rate algorithm.
 *
 * @throws {IngestError} `invalid-argument` for a limit that is not whole and positive, or too small for one batch.
 */
export function createRateLimiter(limits: RateLimits = {}): RateLimiter {
  const { requests, events, now } = { ...rateLimitsDefault, now: () => performance.now(), ...limits }
  checkLimit('requests', requests, 1)
  checkLimit('events', events, batchEventsMax)
  const arrivalsByProject = new Map<string, Arrivals>()
  const nowMs = () => Math.floor(now())
  const policy = `${policyOf('requests', requests)}, ${policyOf('events', events)}`

  function arrivalsOf(projectId: string, time: number): Arrivals {
    let arrivals = arrivalsByProject.get(projectId)
    if (!arrivals) {
      if (arrivalsByProject.size >= projectsTrackedMax) makeRoom(time)
      arrivals = { requests: time * requests.perSecond, events: time * events.perSecond }
      arrivalsByProject.set(projectId, arrivals)
    }
    return arrivals
  }

  function makeRoom(time: number): void {
    for (const [projectId, arrivals] of arrivalsByProject) {
      const isFull = debt(requests, arrivals.requests, time) === 0 && debt(events, arrivals.events, time) === 0
      if (isFull) arrivalsByProject.delete(projectId)
    }
    if (arrivalsByProject.size < projectsTrackedMax) return
    // whoever is forgotten begins with full buckets: an error in favour of the project
    for (const projectId of [...arrivalsByProject.keys()].slice(0, projectsForgotten)) {
      arrivalsByProject.delete(projectId)
    }
  }

  return {
    takeRequest(projectId) {
      const time = nowMs()
      const arrivals = arrivalsOf(projectId, time)
      const wait = waitSeconds(requests, arrivals.requests, time, 1)
      if (wait > 0) {
        // how many events it has is not known yet, and waiting has to be enough for as many as there may be
        const eventsWait = waitSeconds(events, arrivals.events, time, batchEventsMax)
        throw limited('requests', requests, Math.max(wait, eventsWait))
      }
      arrivals.requests = arrivalAfter(requests, arrivals.requests, time, 1)
    },

    takeEvents(projectId, count) {
      const time = nowMs()
      const arrivals = arrivalsOf(projectId, time)
      const wait = waitSeconds(events, arrivals.events, time, count)
      if (wait > 0) {
        arrivals.requests -= 1000
        throw limited('events', events, wait)
      }
      arrivals.events = arrivalAfter(events, arrivals.events, time, count)
    },

    headers(projectId) {
      const time = nowMs()
      const arrivals = arrivalsByProject.get(projectId)
      const left = [
        leftOf('requests', requests, arrivals ? debt(requests, arrivals.requests, time) : 0),
        leftOf('events', events, arrivals ? debt(events, arrivals.events, time) : 0),
      ]
      return { RateLimit: left.join(', '), 'RateLimit-Policy': policy }
    },

    trackedCount: () => arrivalsByProject.size,
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

/** What was taken and has not come back yet, in thousandths. */
function debt({ perSecond }: RateLimit, arrival: number, now: number): number {
  return Math.max(0, arrival - now * perSecond)
}

function arrivalAfter(limit: RateLimit, arrival: number, now: number, count: number): number {
  return now * limit.perSecond + debt(limit, arrival, now) + count * 1000
}

/** Zero when `count` may pass now, otherwise the whole seconds after which it may. */
function waitSeconds(limit: RateLimit, arrival: number, now: number, count: number): number {
  if (count === 0) return 0
  const excess = debt(limit, arrival, now) + count * 1000 - limit.burst * 1000
  return Math.max(0, Math.ceil(excess / (limit.perSecond * 1000)))
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
  const left = Math.floor((burst * 1000 - debt) / 1000)
  return `"${name}";r=${left};t=${Math.ceil(debt / (perSecond * 1000))}`
}
