import { setTimeout as sleep } from 'node:timers/promises'
import type { ErasedTotals } from './events/erase-events.ts'
import type { EmbeddedIngest } from './ingest.ts'
import { mapProjects } from './projects/map-projects.ts'
import type { ClockDoubt } from './store-types.ts'

/**
 * How long the events of a project are stored, in milliseconds; `off` means permanently. `*` applies to every project
 * without its own rule.
 */
export type RetentionRule = readonly [projectId: string, maxAge: number | 'off']

/** Options of `startRetention`. */
export interface RetentionOptions {
  /** Called for each project whose events a round has erased. */
  onErased?: (erased: ErasedTotals & { projectId: string }) => void
  /** Whether to keep events that a consumer has not read, as `retainEvents` does. Default: false. */
  keepUnread?: boolean
  /** Called for each project whose consumers have not read events that a round erases or keeps. */
  onUnread?: (unread: { projectId: string; consumers: readonly string[] }) => void
  /**
   * Called for each reason to doubt the clock. While the clock may be ahead, a round does not erase events that are old
   * only by this clock.
   */
  onDoubt?: (doubt: ClockDoubt) => void
  /** Called when a round fails; the next round is an hour later. */
  onError?: (error: unknown) => void
}

type Erasing = Pick<EmbeddedIngest, 'findClockDoubt' | 'listProjects' | 'project' | 'retainEvents'>

/** The delay of the first round, so that servers that start together do not all begin with one. */
const firstRoundMs = 60_000
const roundMs = 3_600_000

/**
 * Once an hour, erases events that are older than the rules allow, in small steps with pauses. Several processes may do
 * so on one store: each skips the events that another has erased.
 *
 * Returns a function that stops it and resolves after the last step; call it before the Ingest is closed.
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

/** Runs one round. `now` is in milliseconds since 1970. */
export async function applyRetention(
  ingest: Erasing,
  rules: readonly RetentionRule[],
  {
    onErased,
    onUnread,
    onDoubt = () => {},
    keepUnread = false,
    signal,
    now = Date.now(),
  }: RetentionOptions & { signal: AbortSignal; now?: number },
): Promise<void> {
  const maxAges = new Map(rules)
  const doubts = await findDoubts(ingest, rules, now)
  const reported = new Set<ClockDoubt>()
  for (const doubt of doubts.values()) if (!doubt.mayBeAhead) reported.add(doubt)
  await mapProjects(await ingest.listProjects(), async (projectId) => {
    signal.throwIfAborted()
    const maxAge = maxAges.get(projectId) ?? maxAges.get('*') ?? 'off'
    if (maxAge === 'off') return
    const before = now - maxAge
    const doubt = doubts.get(maxAge)
    if (doubt?.mayBeAhead) {
      if (await hasEventBefore(ingest, projectId, before)) reported.add(doubt)
      return
    }
    const erased = await ingest.retainEvents(projectId, before, {
      signal,
      keepUnread,
      onUnread: (consumers) => onUnread?.({ projectId, consumers }),
    })
    if (erased.events > 0) onErased?.({ projectId, ...erased })
  })
  for (const doubt of new Map([...reported].map((each) => [each.message, each])).values()) onDoubt(doubt)
}

/** The doubts by age; ages without a doubt are omitted. */
async function findDoubts(
  ingest: Erasing,
  rules: readonly RetentionRule[],
  now: number,
): Promise<ReadonlyMap<number, ClockDoubt>> {
  const doubts = new Map<number, ClockDoubt>()
  for (const [, maxAge] of rules) {
    if (maxAge === 'off' || doubts.has(maxAge)) continue
    const doubt = await ingest.findClockDoubt(now - maxAge)
    if (doubt) doubts.set(maxAge, doubt)
  }
  return doubts
}

async function hasEventBefore(ingest: Erasing, projectId: string, before: number): Promise<boolean> {
  for await (const { receivedAt } of ingest.project(projectId).readEvents({ limit: 1 })) return receivedAt < before
  return false
}

/** Resolves to false if the signal aborts. */
async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  return sleep(ms, true, { signal, ref: false }).catch(() => false)
}
