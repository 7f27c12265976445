import type { Store } from '../store.ts'
import type { JsonObject } from '../validation.ts'
import { type BatchInput, type BatchResult, batchBody } from './batch.ts'
import { type ClassifiedEvents, classifyEvents, splitRepeats } from './classify-events.ts'
import type { CheckBySchema } from './event-schemas.ts'
import { parseBatch } from './parse-batch.ts'
import { scanBatch } from './scan-batch.ts'

export interface SubmitContext {
  store: Pick<Store, 'append' | 'known'>
  /** The embedder's own rules, if there are any. */
  checkBySchema: CheckBySchema | undefined
  /** Milliseconds since 1970. */
  now(): number
}

export interface SubmitReport {
  result: BatchResult
  /** Duplicates that `append` found to differ from the stored event, for a metric. */
  conflicts: number
}

/**
 * Decides the outcome of every event of a batch: unidentified events are rejected, stored ids are duplicates, other
 * invalid events are rejected, and the rest is stored.
 */
export async function submitBatch(
  { store, checkBySchema, now }: SubmitContext,
  projectId: string,
  input: Uint8Array | BatchInput<unknown>,
  admit: (eventCount: number) => void,
): Promise<SubmitReport> {
  const { body, count, classified } = classify(projectId, input, checkBySchema, admit)
  const { unidentified, invalid, valid } = classified
  // before the append: a valid event does not make an invalid one of the same batch a duplicate
  const isKnown =
    invalid.length > 0
      ? await store.known(
          projectId,
          invalid.map(({ eventId }) => eventId),
        )
      : []
  const { stored, conflicts } =
    valid.length === 0
      ? { stored: [], conflicts: 0 }
      : await store.append(projectId, { body, count, events: valid, receivedAt: now() })
  const accepted = stored.filter(Boolean).length
  const rejected = [...unidentified, ...invalid.filter((_, i) => !isKnown[i]).map(({ rejection }) => rejection)]
  return {
    result: {
      accepted,
      duplicates: count - accepted - rejected.length,
      rejected: rejected.sort((a, b) => a.index - b.index),
    },
    conflicts,
  }
}

/** A function of its own, so that the parsed events can be collected while the append waits for the disk. */
function classify(
  projectId: string,
  input: Uint8Array | BatchInput<unknown>,
  checkBySchema: CheckBySchema | undefined,
  admit: (eventCount: number) => void,
): { body: Buffer; count: number; classified: ClassifiedEvents } {
  const body = batchBody(input)
  // schemas need the values of events, which scanning avoids
  const scanned = checkBySchema ? undefined : scanBatch(body, projectId)
  if (scanned) {
    admit(scanned.length)
    return { body, count: scanned.length, classified: { unidentified: [], invalid: [], ...splitRepeats(scanned) } }
  }
  const events = parseBatch(body)
  admit(events.length)
  const parseWhole = ({ start, end }: { start: number; end: number }): JsonObject =>
    JSON.parse(body.toString('utf8', start, end))
  return { body, count: events.length, classified: classifyEvents(projectId, events, checkBySchema, parseWhole) }
}
