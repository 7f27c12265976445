import type { Ingest } from '../ingest.ts'
import type { StoredEvent } from './event-store.ts'
import type { ReadEventsOptions } from './read-events.ts'

/** Which events are followed, and from where on. */
export type FollowOptions = Omit<ReadEventsOptions, 'limit' | 'to' | 'waitMs'>

/** How long one read waits; how many of them there are, nobody sees. */
const waitMs = 60_000

/**
 * The project's events, oldest first, and then those that come, as they come. It never ends by itself: leave its loop,
 * or abort its signal, with whose reason it rejects. For what comes from now on only:
 *
 * ```ts
 * const project = ingest.project('game-1')
 * const after = await project.lastCursor()
 * for await (const { cursor, bytes } of followEvents(project, { after })) …
 * ```
 *
 * @throws {IngestError} what `readEvents` of the Ingest rejects with; go on behind the last cursor then.
 */
export async function* followEvents(
  ingest: Pick<Ingest, 'readEvents'>,
  options: FollowOptions = {},
): AsyncGenerator<StoredEvent, never> {
  let { after } = options
  function onProgress(cursor: string): void {
    after = cursor
    options.onProgress?.(cursor)
  }
  for (;;) {
    yield* ingest.readEvents({ ...options, ...(after !== undefined && { after }), waitMs, onProgress })
  }
}
