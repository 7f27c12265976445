import { batchBytesMax, batchEventsMax, IngestError } from '@ingest/core'

/** So many a second in the long run, and up to `burst` at once. Both are whole numbers. */
export interface RateLimit {
  perSecond: number
  burst: number
}

/** The limits of every project; what is left out is as in {@link rateLimitsDefault}. */
export interface RateLimits {
  requests?: RateLimit
  /** Its burst is at least 100, or a full batch could never pass. */
  events?: RateLimit
  /**
   * Bytes of the bodies of batches, uncompressed. By default {@link bytesPerEvent} for each event of the limit of
   * events. Its burst is at least 262,144, or a full batch could never pass.
   */
  batchBytes?: RateLimit
  /** Bytes of publications and chunks. A body that is larger than the burst passes when nothing is owed. */
  mapBytes?: RateLimit
  /** Bytes that reads return or look at. */
  readBytes?: RateLimit
  /** A clock that never goes back, in milliseconds. */
  now?: () => number
}

/** Limits what each project may take. In memory, so for this process only. */
export interface RateLimiter {
  /**
   * Takes one request, and the bytes that its body is declared to have.
   *
   * @throws {IngestError} `rate-limited`, with nothing taken.
   */
  takeRequest(projectId: string, bytes: number): void
  /** Takes the bytes that the body of a batch had beyond those declared, however much is left. */
  oweBatchBytes(projectId: string, bytes: number): void
  /**
   * Takes the events of a request that was let through. `bytes` is what its body was charged: `Retry-After` allows for
   * as many again.
   *
   * @throws {IngestError} `rate-limited`, with no events taken; the request and its bytes stay taken, as they were
   *   received and parsed.
   */
  takeEvents(projectId: string, count: number, bytes: number): void
  /**
   * Takes the bytes of an upload or of a verification. `taken` is what the same request has taken before, and does not
   * count against it: otherwise a map of more than the burst could never be verified.
   *
   * @throws {IngestError} `rate-limited`, with nothing taken.
   */
  takeMapBytes(projectId: string, bytes: number, taken?: number): void
  /** Takes bytes of maps, however much is left: what an upload had beyond those declared. */
  oweMapBytes(projectId: string, bytes: number): void
  /**
   * Takes {@link readBytesMin} for a request that reads.
   *
   * @throws {IngestError} `rate-limited`, with nothing taken.
   */
  takeRead(projectId: string): void
  /** Takes bytes that a read returns or looks at, however much is left; false when nothing is left after that. */
  oweReadBytes(projectId: string, bytes: number): boolean
  /** What the project has left for batches, as draft-ietf-httpapi-ratelimit-headers-11 writes it. */
  headers(projectId: string): RateLimitHeaders
  /** The same of the bytes of maps. */
  mapHeaders(projectId: string): RateLimitHeaders
  /** The same of the bytes of reads. */
  readHeaders(projectId: string): RateLimitHeaders
  /** How many projects are remembered: those that took something lately, at most {@link projectsTrackedMax}. */
  trackedCount(): number
}

export type RateLimitHeaders = { RateLimit: string; 'RateLimit-Policy': string }

/** The default limit of bytes of batches, for each event of the limit of events. */
export const bytesPerEvent = 512
/** What a request that reads takes at least, in bytes. */
export const readBytesMin = 4096

export const rateLimitsDefault = {
  requests: { perSecond: 100, burst: 200 },
  events: { perSecond: 20_000, burst: 100_000 },
  batchBytes: { perSecond: 20_000 * bytesPerEvent, burst: 100_000 * bytesPerEvent },
  mapBytes: { perSecond: 32 * 1024 * 1024, burst: 512 * 1024 * 1024 },
  readBytes: { perSecond: 16 * 1024 * 1024, burst: 64 * 1024 * 1024 },
} as const satisfies RateLimits

/** The most projects that are remembered at once. */
export const projectsTrackedMax = 10_000
/** How many are forgotten when all of them are busy, so that making room is rare. */
const projectsForgotten = projectsTrackedMax / 10

/** A limit of each project: a leaky bucket. */
interface Quota extends RateLimit {
  /** The policy in the headers. */
  policy: string
  /**
   * Its quota unit. The draft registers `requests` and `content-bytes`; a client that does not know `events` ignores
   * that policy, while without a unit it would take events for requests.
   */
  unit: 'requests' | 'content-bytes' | 'events'
  /** Its unit in error messages. */
  what: string
  /** The least burst. */
  burstMin: number
}

const quotaNames = ['requests', 'events', 'batchBytes', 'mapBytes', 'readBytes'] as const
type QuotaName = (typeof quotaNames)[number]

/**
 * What was taken and had not come back yet at a time, in thousandths of a request, event or byte: with whole rates and
 * whole milliseconds nothing is ever rounded.
 */
type Debts = Record<QuotaName, number> & { at: number }

/**
 * A leaky bucket for each limit of each project.
 *
 * @throws {IngestError} `invalid-argument` for a limit that is not whole and positive, or too small for one batch.
 */
export function createRateLimiter({ now = () => performance.now(), ...limits }: RateLimits = {}): RateLimiter {
  const quotas = quotasOf(limits)
  const { requests, events, batchBytes, mapBytes, readBytes } = quotas
  const debtsByProject = new Map<string, Debts>()
  const policyOf = (...names: QuotaName[]) => names.map((name) => policyText(quotas[name])).join(', ')
  const batchPolicy = policyOf('requests', 'events', 'batchBytes')
  const mapPolicy = policyOf('mapBytes')
  const readPolicy = policyOf('readBytes')

  /** What the project owes by now. */
  function debtsOf(projectId: string): Debts {
    const time = Math.floor(now())
    let debts = debtsByProject.get(projectId)
    if (!debts) {
      if (debtsByProject.size >= projectsTrackedMax) makeRoom(time)
      debts = { at: time, requests: 0, events: 0, batchBytes: 0, mapBytes: 0, readBytes: 0 }
      debtsByProject.set(projectId, debts)
    }
    pay(debts, time)
    return debts
  }

  function pay(debts: Debts, time: number): void {
    const passedMs = time - debts.at
    debts.at = time
    for (const name of quotaNames) debts[name] = Math.max(0, debts[name] - passedMs * quotas[name].perSecond)
  }

  function makeRoom(time: number): void {
    for (const [projectId, debts] of debtsByProject) {
      pay(debts, time)
      if (quotaNames.every((name) => debts[name] === 0)) debtsByProject.delete(projectId)
    }
    if (debtsByProject.size < projectsTrackedMax) return
    // a project that is forgotten begins with full buckets: an error in its favour
    for (const projectId of [...debtsByProject.keys()].slice(0, projectsForgotten)) {
      debtsByProject.delete(projectId)
    }
  }

  function leftOf(projectId: string, ...names: QuotaName[]): string {
    const debts = debtsOf(projectId)
    return names.map((name) => leftText(quotas[name], debts[name])).join(', ')
  }

  return {
    takeRequest(projectId, bytes) {
      const debts = debtsOf(projectId)
      const waits: [Quota, number][] = [
        [requests, waitSeconds(requests, debts.requests, 1)],
        [batchBytes, waitSeconds(batchBytes, debts.batchBytes, bytes)],
      ]
      const refused = waits.find(([, seconds]) => seconds > 0)
      if (refused) {
        // how many events it has is not known yet, and waiting has to be enough for as many as there may be
        waits.push([events, waitSeconds(events, debts.events, batchEventsMax)])
        throw limited(refused[0], Math.max(...waits.map(([, seconds]) => seconds)))
      }
      debts.requests += 1000
      debts.batchBytes += bytes * 1000
    },

    oweBatchBytes(projectId, bytes) {
      debtsOf(projectId).batchBytes += bytes * 1000
    },

    takeEvents(projectId, count, bytes) {
      const debts = debtsOf(projectId)
      const wait = waitSeconds(events, debts.events, count)
      if (wait > 0) {
        const others = [waitSeconds(requests, debts.requests, 1), waitSeconds(batchBytes, debts.batchBytes, bytes)]
        throw limited(events, Math.max(wait, ...others))
      }
      debts.events += count * 1000
    },

    takeMapBytes(projectId, bytes, taken = 0) {
      const debts = debtsOf(projectId)
      const count = Math.min(bytes, mapBytes.burst)
      const isFree = waitSeconds(mapBytes, Math.max(0, debts.mapBytes - taken * 1000), count) === 0
      if (!isFree) throw limited(mapBytes, waitSeconds(mapBytes, debts.mapBytes, count))
      debts.mapBytes += bytes * 1000
    },

    oweMapBytes(projectId, bytes) {
      debtsOf(projectId).mapBytes += bytes * 1000
    },

    takeRead(projectId) {
      const debts = debtsOf(projectId)
      const wait = waitSeconds(readBytes, debts.readBytes, readBytesMin)
      if (wait > 0) throw limited(readBytes, wait)
      debts.readBytes += readBytesMin * 1000
    },

    oweReadBytes(projectId, bytes) {
      const debts = debtsOf(projectId)
      debts.readBytes += bytes * 1000
      return debts.readBytes < readBytes.burst * 1000
    },

    headers: (projectId) => ({
      RateLimit: leftOf(projectId, 'requests', 'events', 'batchBytes'),
      'RateLimit-Policy': batchPolicy,
    }),
    mapHeaders: (projectId) => ({ RateLimit: leftOf(projectId, 'mapBytes'), 'RateLimit-Policy': mapPolicy }),
    readHeaders: (projectId) => ({ RateLimit: leftOf(projectId, 'readBytes'), 'RateLimit-Policy': readPolicy }),
    trackedCount: () => debtsByProject.size,
  }
}

/** @throws {IngestError} `invalid-argument` */
function quotasOf(limits: Omit<RateLimits, 'now'>): Record<QuotaName, Quota> {
  const given = { ...rateLimitsDefault, batchBytes: batchBytesOf(limits.events ?? rateLimitsDefault.events), ...limits }
  const quotas: Record<QuotaName, Quota> = {
    requests: { ...given.requests, policy: 'requests', unit: 'requests', what: 'requests', burstMin: 1 },
    events: { ...given.events, policy: 'events', unit: 'events', what: 'events', burstMin: batchEventsMax },
    batchBytes: {
      ...given.batchBytes,
      policy: 'batch-bytes',
      unit: 'content-bytes',
      what: 'bytes of batches',
      burstMin: batchBytesMax,
    },
    mapBytes: { ...given.mapBytes, policy: 'map-bytes', unit: 'content-bytes', what: 'bytes of maps', burstMin: 1 },
    readBytes: {
      ...given.readBytes,
      policy: 'read-bytes',
      unit: 'content-bytes',
      what: 'bytes of reads',
      burstMin: readBytesMin,
    },
  }
  for (const name of quotaNames) checkLimit(quotas[name])
  return quotas
}

/** What a limit of events comes to in bytes. */
function batchBytesOf({ perSecond, burst }: RateLimit): RateLimit {
  return { perSecond: perSecond * bytesPerEvent, burst: Math.max(batchBytesMax, burst * bytesPerEvent) }
}

function checkLimit({ what, perSecond, burst, burstMin }: Quota): void {
  if (!Number.isSafeInteger(perSecond) || perSecond < 1) {
    throw new IngestError('invalid-argument', `The limit of ${what} per second is a whole number from 1.`)
  }
  if (!Number.isSafeInteger(burst) || burst < burstMin) {
    throw new IngestError('invalid-argument', `The burst of ${what} is a whole number from ${burstMin}.`)
  }
}

/** Zero when `count` may pass now, otherwise the whole seconds after which it may. */
function waitSeconds({ perSecond, burst }: RateLimit, debt: number, count: number): number {
  if (count === 0) return 0
  return Math.max(0, Math.ceil((debt + count * 1000 - burst * 1000) / (perSecond * 1000)))
}

function limited({ what, perSecond, burst }: Quota, retryAfterSeconds: number): IngestError {
  return new IngestError(
    'rate-limited',
    `The project is limited to ${perSecond} ${what} a second, and ${burst} at once: wait ${retryAfterSeconds} s.`,
    { limit: perSecond, retryAfterSeconds },
  )
}

function policyText({ policy, unit, perSecond, burst }: Quota): string {
  return `"${policy}";q=${burst};qu="${unit}";w=${Math.ceil(burst / perSecond)}`
}

/** What is left, and the seconds until all of it is back. */
function leftText({ policy, perSecond, burst }: Quota, debt: number): string {
  const left = Math.max(0, Math.floor((burst * 1000 - debt) / 1000))
  return `"${policy}";r=${left};t=${Math.ceil(debt / (perSecond * 1000))}`
}
