import type { Slice } from '../json/json-scanner.ts'
import { type BatchInput, type BatchResult, batchBody, type RejectedEvent } from './batch.ts'
import { type SortedEvents, sortEvents, takeOutRepeats } from './classify-events.ts'
import type { CheckBySchema } from './event-schemas.ts'
import type { EventStore } from './event-store.ts'
import { parseBatch } from './parse-batch.ts'
import { scanBatch } from './scan-batch.ts'

/** What `submitBatch` needs besides the batch. */
export interface SubmitContext {
  store: EventStore
  /** The embedder's own rules, if there are any. */
  checkBySchema: CheckBySchema | undefined
  now(): number
}

/** The answer to a batch, and what only the one who runs the service wants to know of it. */
export interface SubmitReport {
  result: BatchResult
  /** Duplicates whose content differs from what is stored under their id. */
  conflicts: number
}

/** Decides every event of a batch, in the order that the contract names: identity, known, schema, stored. */
export async function submitBatch(
  { store, checkBySchema, now }: SubmitContext,
  projectId: string,
  input: Uint8Array | BatchInput<unknown>,
  admit: (eventCount: number) => void,
): Promise<SubmitReport> {
  const { body, count, sorted } = read(projectId, input, checkBySchema, admit)
  const { unidentified, faulty, valid, repeats } = sorted
  // asked before anything of this batch is stored: an event does not make its own faulty repeat a known one
  const known = faulty.length > 0 ? await store.known(projectId, faulty.map(eventIdOf)) : []
  const { stored, conflicts } =
    valid.length === 0
      ? { stored: [], conflicts: 0 }
      : await store.append(projectId, { body, isWhole: valid.length === count, events: valid, receivedAt: now() })
  const rejected = faulty.filter((_, i) => !known[i]).map(({ rejection }) => rejection)
  const accepted = stored.filter(Boolean).length
  const unseen = [...repeats, ...faulty.filter((_, i) => known[i])]
  return {
    result: {
      accepted,
      duplicates: count - accepted - rejected.length - unidentified.length,
      rejected: merge(unidentified, rejected),
    },
    conflicts: conflicts + (await countConflicts(store, projectId, body, unseen)),
  }
}

/** A function of its own, so that the events, parsed, are garbage by the time at which others wait for the disk. */
function read(
  projectId: string,
  input: Uint8Array | BatchInput<unknown>,
  checkBySchema: CheckBySchema | undefined,
  admit: (eventCount: number) => void,
): { body: Buffer; count: number; sorted: SortedEvents } {
  const body = batchBody(input)
  // a schema needs the values, so that there is nothing to be saved
  const scanned = checkBySchema ? undefined : scanBatch(body, projectId)
  if (scanned) {
    admit(scanned.length)
    return { body, count: scanned.length, sorted: { unidentified: [], faulty: [], ...takeOutRepeats(scanned) } }
  }
  const events = parseBatch(body)
  admit(events.length)
  const sorted = sortEvents(projectId, events, checkBySchema, ({ start, end }) =>
    JSON.parse(body.toString('utf8', start, end)),
  )
  return { body, count: events.length, sorted }
}

function merge(some: RejectedEvent[], others: RejectedEvent[]): RejectedEvent[] {
  if (some.length === 0) return others
  return [...some, ...others].sort((a, b) => a.index - b.index)
}

/** Duplicates that the store has not seen, and that are not the bytes that are stored under their id. */
async function countConflicts(
  store: EventStore,
  projectId: string,
  body: Buffer,
  duplicates: readonly (Slice & { eventId: string })[],
): Promise<number> {
  let conflicts = 0
  for (const { eventId, start, end } of duplicates) {
    const stored = await store.find(projectId, eventId)
    if (stored && body.compare(stored.bytes, 0, stored.bytes.length, start, end) !== 0) conflicts++
  }
  return conflicts
}

function eventIdOf({ eventId }: { eventId: string }): string {
  return eventId
}
