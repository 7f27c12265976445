import { type BatchInput, type BatchResult, parseBatch, type RejectedEvent } from './batch.ts'
import type { CheckBySchema } from './event-schemas.ts'
import { type Slice, sliceEvents } from './slice-events.ts'
import { sortEvents } from './sort-events.ts'
import type { Store } from './store.ts'

/** What `submitBatch` needs besides the batch. */
export interface SubmitContext {
  store: Store
  checkBySchema: CheckBySchema
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
  input: Uint8Array | BatchInput,
  admit: (eventCount: number) => void,
): Promise<SubmitReport> {
  const { body, count, sorted } = read(projectId, input, checkBySchema, admit)
  // asked before anything of this batch is stored: an event does not make its own faulty repeat a known one
  const known =
    sorted.faulty.length > 0
      ? await store.known(
          projectId,
          sorted.faulty.map((event) => event.eventId),
        )
      : []
  const { stored, conflicts } =
    sorted.valid.length === 0
      ? { stored: [], conflicts: 0 }
      : await store.append(projectId, { body, count, events: sorted.valid, receivedAt: now() })
  const rejected = sorted.faulty.filter((_, i) => !known[i])
  const accepted = stored.filter(Boolean).length
  const unseen = [...sorted.repeats, ...sorted.faulty.filter((_, i) => known[i])]
  return {
    result: {
      accepted,
      duplicates: count - accepted - rejected.length - sorted.unidentified.length,
      rejected: merge(sorted.unidentified, rejected),
    },
    conflicts: conflicts + (await countConflicts(store, projectId, body, unseen)),
  }
}

/** A function of its own, so that the events, parsed, are garbage by the time at which others wait for the disk. */
function read(
  projectId: string,
  input: Uint8Array | BatchInput,
  checkBySchema: CheckBySchema,
  admit: (eventCount: number) => void,
) {
  const { body, events } = parseBatch(input)
  admit(events.length)
  return { body, count: events.length, sorted: sortEvents(projectId, events, checkBySchema) }
}

function merge(some: RejectedEvent[], others: RejectedEvent[]): RejectedEvent[] {
  if (some.length === 0) return others
  return [...some, ...others].sort((a, b) => a.index - b.index)
}

/** Duplicates that the store has not seen, and that are not the bytes that are stored under their id. */
async function countConflicts(
  store: Store,
  projectId: string,
  body: Uint8Array,
  duplicates: readonly { index: number; eventId: string }[],
): Promise<number> {
  if (duplicates.length === 0) return 0
  const slices = sliceEvents(body)
  let conflicts = 0
  for (const { index, eventId } of duplicates) {
    const { start, end } = slices[index] as Slice
    const stored = await store.find(projectId, eventId)
    if (stored && Buffer.compare(stored.bytes, body.subarray(start, end)) !== 0) conflicts++
  }
  return conflicts
}
