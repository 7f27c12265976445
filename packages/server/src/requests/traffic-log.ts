import type { BatchReport, EmbeddedIngest } from '@ingest/core'
import type { RequestRecord } from '../http/request-record.ts'
import { isEnabled, type Log } from '../log.ts'

/** A window begins with its first request, so that an idle server logs nothing and runs no timer. */
const trafficWindowMs = 60_000
/** More refused credentials than one server with a wrong key sends before it pauses. */
export const unauthorizedBurst = 10
/** Maximum number of warnings in one window that name a project. */
const warningsMax = 100
/** Free space below this fraction of the file system is logged as a warning. */
const freePartMin = 0.1

export interface TrafficLog {
  count(record: RequestRecord): void
}

/**
 * Logs a summary of each minute with traffic at `info`. Logs at `warn`, at most once a minute per project: bursts of
 * refused credentials, rate limits, reused event ids, and a nearly full file system.
 *
 * `startTimer` calls its argument at the end of the window.
 */
export function createTrafficLog(
  log: Log,
  ingest: Pick<EmbeddedIngest, 'observe' | 'measure'>,
  startTimer: (onEnd: () => void) => void = (onEnd) => void setTimeout(onEnd, trafficWindowMs).unref(),
): TrafficLog {
  let window: Window | undefined
  const warnOfSpace = createSpaceWarning(log, ingest)

  function current(): Window {
    if (window) return window
    startTimer(endWindow)
    window = newWindow()
    return window
  }

  function endWindow(): void {
    if (!window) return
    const { warnings: _, requests, accepted, duplicates, rejected, ...refused } = window
    window = undefined
    const some = Object.entries(refused).filter(([, count]) => count > 0)
    const seconds = trafficWindowMs / 1000
    log.info({ seconds, requests, accepted, duplicates, rejected, ...Object.fromEntries(some) }, 'traffic')
    if (isEnabled(log, 'warn')) warnOfSpace()
  }

  function warnOnce(projectId: string, message: string, fields: object): void {
    const { warnings } = current()
    const key = `${projectId} ${message}`
    if (warnings.size >= warningsMax || warnings.has(key)) return
    warnings.add(key)
    log.warn({ projectId, ...fields }, message)
  }

  ingest.observe({
    onBatch({ projectId, conflicts }: BatchReport) {
      if (conflicts > 0) warnOnce(projectId, 'an id was used for different events', { conflicts })
    },
  })

  return {
    count(record) {
      const totals = current()
      addRequest(totals, record)
      const { status, code, projectId, budget } = record
      if (code === 'rate-limited' && projectId !== undefined) {
        warnOnce(projectId, 'a project reached its rate limit', { budget })
      }
      if (status === 401 && totals.unauthorized === unauthorizedBurst) {
        const clientAddress = record.clientAddress()
        log.warn({ requests: unauthorizedBurst, clientAddress }, 'many requests have invalid credentials')
      }
    },
  }
}

type Window = ReturnType<typeof newWindow>

function newWindow() {
  return {
    requests: 0,
    accepted: 0,
    duplicates: 0,
    rejected: 0,
    unauthorized: 0,
    rateLimited: 0,
    failed: 0,
    /** Each key includes the project. */
    warnings: new Set<string>(),
  }
}

function addRequest(totals: Window, { outcome, status }: RequestRecord): void {
  totals.requests++
  if (outcome) {
    totals.accepted += outcome.accepted
    totals.duplicates += outcome.duplicates
    totals.rejected += outcome.rejected
  }
  if (status === 401) totals.unauthorized++
  else if (status === 429) totals.rateLimited++
  else if (status >= 500) totals.failed++
}

/** Warns when the free space falls below a tenth, and again at each further percent. */
function createSpaceWarning(log: Log, ingest: Pick<EmbeddedIngest, 'measure'>): () => Promise<void> {
  let warnedPercent = freePartMin * 100
  let isMeasuring = false
  return async () => {
    // do not start another measurement while a store hangs
    if (isMeasuring) return
    isMeasuring = true
    try {
      const metrics = await ingest.measure()
      const firstOf = (name: string) => metrics.find((metric) => metric.name === name)?.values[0]?.value
      const freeBytes = firstOf('ingest_store_filesystem_free_bytes')
      const sizeBytes = firstOf('ingest_store_filesystem_size_bytes')
      if (freeBytes === undefined || !sizeBytes) return
      const percent = Math.floor((freeBytes / sizeBytes) * 100)
      if (percent < warnedPercent) log.warn({ freeBytes, percent }, 'the file system of the store runs full')
      warnedPercent = Math.min(percent, freePartMin * 100)
    } catch {
      // requests that fail are logged
    } finally {
      isMeasuring = false
    }
  }
}
