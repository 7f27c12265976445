import { setTimeout as sleep } from 'node:timers/promises'
import type { EmbeddedIngest, ErasedTotals } from '@ingest/core'

/** How long events are kept, in milliseconds: by project id, and for all projects that are not named. */
export interface Retention {
  defaultMs?: number
  projects?: Readonly<Record<string, number>>
}

export interface RetentionOptions {
  ingest: Pick<EmbeddedIngest, 'listProjects' | 'retainEvents' | 'purgeErased'>
  retention: Retention
  log: { info(fields: object, message: string): void; warn(fields: object, message: string): void }
  /** Ends it, as at a drain. */
  signal: AbortSignal
}

/** The first round follows a pause too, so that servers that start together do not begin with it. */
const firstRoundMs = 60_000
const roundMs = 3_600_000

/**
 * Erases events that are older than their project's retention once an hour, in small steps with pauses, until the signal
 * aborts. Several servers of a store may do so: what one has erased, the others skip. Errors are logged, and the next
 * round tries again. Resolves when the signal has aborted and the last step is over.
 */
export async function startRetention({ ingest, retention, log, signal }: RetentionOptions): Promise<void> {
  for (let pauseMs = firstRoundMs; await pause(pauseMs, signal); pauseMs = roundMs) {
    try {
      await retainOnce({ ingest, retention, log, signal })
    } catch (err) {
      if (!signal.aborted) log.warn({ err }, 'retention failed, and is tried again in an hour')
    }
  }
}

/** One round. */
export async function retainOnce({ ingest, retention, log, signal }: RetentionOptions): Promise<void> {
  const { defaultMs, projects = {} } = retention
  const total: ErasedTotals = { events: 0, bytes: 0 }
  for (const projectId of await ingest.listProjects()) {
    signal.throwIfAborted()
    const keptMs = Object.hasOwn(projects, projectId) ? projects[projectId] : defaultMs
    if (keptMs === undefined) continue
    const { events, bytes } = await ingest.retainEvents(projectId, Date.now() - keptMs, { signal })
    total.events += events
    total.bytes += bytes
    if (events > 0) log.info({ projectId, events, bytes }, 'old events were erased')
  }
  // also what a round before could not purge
  await ingest.purgeErased()
}

/** Resolves to false if the signal aborts. */
async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await sleep(ms, undefined, { signal, ref: false })
    return true
  } catch {
    return false
  }
}
