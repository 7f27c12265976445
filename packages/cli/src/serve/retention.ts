import { setTimeout as sleep } from 'node:timers/promises'
import type { EmbeddedIngest, ErasedTotals } from '@ingest/core'
import { mapProjects } from '../each-project.ts'
import type { Log } from './serve-log.ts'
import type { RetentionRule } from './serve-settings.ts'

export interface RetentionContext {
  ingest: Pick<EmbeddedIngest, 'listProjects' | 'retainEvents' | 'purgeErased'>
  rules: readonly RetentionRule[]
  log: Pick<Log, 'info' | 'warn'>
}

/** The first round follows a pause too, so that servers that start together do not begin with it. */
const firstRoundMs = 60_000
const roundMs = 3_600_000

/**
 * Erases events that are older than the rules allow once an hour, in small steps with pauses. Several servers of a store
 * may do so: what one has erased, the others skip. Returns a function that ends it and resolves when the last step is over.
 */
export function startRetention(context: RetentionContext): () => Promise<void> {
  if (context.rules.every(([, keep]) => keep === 'off')) return async () => {}
  const ending = new AbortController()
  const ended = repeat(context, ending.signal)
  return () => {
    ending.abort()
    return ended
  }
}

async function repeat(context: RetentionContext, signal: AbortSignal): Promise<void> {
  for (let pauseMs = firstRoundMs; await pause(pauseMs, signal); pauseMs = roundMs) {
    try {
      await retainOnce(context, signal)
    } catch (err) {
      if (!signal.aborted) context.log.warn({ err }, 'retention failed, and is tried again in an hour')
    }
  }
}

/** One round. */
export async function retainOnce(
  { ingest, rules, log }: RetentionContext,
  signal: AbortSignal,
  now = Date.now(),
): Promise<ErasedTotals> {
  const keepByProject = new Map(rules)
  const total: ErasedTotals = { events: 0, bytes: 0 }
  await mapProjects(await ingest.listProjects(), async (projectId) => {
    signal.throwIfAborted()
    const keep = keepByProject.get(projectId) ?? keepByProject.get('*') ?? 'off'
    if (keep === 'off') return
    const { events, bytes } = await ingest.retainEvents(projectId, now - keep, { signal })
    total.events += events
    total.bytes += bytes
    if (events > 0) log.info({ projectId, events, bytes }, 'old events were erased')
  })
  // also what a round before could not purge
  await ingest.purgeErased()
  return total
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
