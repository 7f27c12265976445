import { setTimeout as sleep } from 'node:timers/promises'
import type { ErasedTotals } from './events/erase-events.ts'
import type { EmbeddedIngest } from './ingest.ts'
import { mapProjects } from './projects/map-projects.ts'

/**
 * How long the events of a project are stored, in milliseconds; `off` is permanently. `*` stands for every project
 * without a rule of its own.
 */
export type RetentionRule = readonly [projectId: string, maxAge: number | 'off']

export interface RetentionOptions {
  /** Called for each project of which a round has erased events. */
  onErased?: (erased: ErasedTotals & { projectId: string }) => void
  /** Whether to keep what a consumer has not read, as `retainEvents` does. Default: false. */
  keepUnread?: boolean
  /** Called for each project with consumers that have not read what a round erases, or keeps. */
  onUnread?: (unread: { projectId: string; consumers: readonly string[] }) => void
  /** Called when a round fails; the next one follows after an hour. */
  onError?: (error: unknown) => void
}

type Erasing = Pick<EmbeddedIngest, 'listProjects' | 'retainEvents' | 'purgeErased'>

/** The first round follows a pause too, so that servers that start together do not begin with it. */
const firstRoundMs = 60_000
const roundMs = 3_600_000

/**
 * Erases events that are older than the rules allow once an hour, in small steps with pauses. Several processes with one
 * store may do so: what one has erased, the others skip. Returns a function that ends it, and resolves after the last
 * step; call it before the Ingest is closed.
 */
export function startRetention(
  ingest: Erasing,
  rules: readonly RetentionRule[],
  options: RetentionOptions = {},
): () => Promise<void> {
  if (rules.every(([, maxAge]) => maxAge === 'off')) return async () => {}
  const ending = new AbortController()
  const ended = repeat(ending.signal, async () => {
    await applyRetention(ingest, rules, { ...options, signal: ending.signal }).catch((error) => {
      if (!ending.signal.aborted) options.onError?.(error)
    })
  })
  return () => {
    ending.abort()
    return ended
  }
}

async function repeat(signal: AbortSignal, run: () => Promise<void>): Promise<void> {
  for (let pauseMs = firstRoundMs; await pause(pauseMs, signal); pauseMs = roundMs) await run()
}

/** One round. `now` is in milliseconds since 1970. */
export async function applyRetention(
  ingest: Erasing,
  rules: readonly RetentionRule[],
  {
    onErased,
    onUnread,
    keepUnread = false,
    signal,
    now = Date.now(),
  }: RetentionOptions & { signal: AbortSignal; now?: number },
): Promise<void> {
  const maxAges = new Map(rules)
  await mapProjects(await ingest.listProjects(), async (projectId) => {
    signal.throwIfAborted()
    const maxAge = maxAges.get(projectId) ?? maxAges.get('*') ?? 'off'
    if (maxAge === 'off') return
    const erased = await ingest.retainEvents(projectId, now - maxAge, {
      signal,
      keepUnread,
      onUnread: (consumers) => onUnread?.({ projectId, consumers }),
    })
    if (erased.events > 0) onErased?.({ projectId, ...erased })
  })
  // also what a round before could not purge
  await ingest.purgeErased()
}

/** Resolves to false if the signal aborts. */
async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  return sleep(ms, true, { signal, ref: false }).catch(() => false)
}
