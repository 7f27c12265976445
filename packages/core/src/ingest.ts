import { IngestError } from './error.ts'
import type { BatchInput, BatchResult } from './events/batch.ts'
import { checkProjectId, eventIdIssue } from './events/event.ts'
import { createArrivals } from './events/event-notifier.ts'
import { compileEventSchemas, type EventSchemas } from './events/event-schemas.ts'
import { checkReadEventsOptions, type ReadEventsOptions, readEvents } from './events/read-events.ts'
import { submitBatch } from './events/submit-batch.ts'
import type { Maps } from './maps/map.ts'
import { createMaps, type MapRules } from './maps/maps.ts'
import { createStatistics, type Statistics } from './project-stats.ts'
import { type Authenticate, createKeyring, type Keyring } from './projects/keyring.ts'
import type { Cursor, Store, StoredEvent } from './store.ts'

export interface SubmitOptions {
  /**
   * Called with the number of events once the batch is well-formed, before any of them is looked at. What it throws
   * is what `submitBatch` rejects with: the place for a rate limit.
   */
  admit?: (eventCount: number) => void
}

/** Takes batches of events and maps, and gives them back. The same whether it is embedded or reached over HTTP. */
export interface Ingest extends Maps, Statistics {
  /**
   * Stores the valid events of a batch that are new, each once and for ever, and says what became of the others.
   * Resolves once every accepted event would survive a power cut. Sending the same batch again is always safe.
   *
   * `body` is the bytes of a JSON document as they came, or the object: `{ events: [{ projectId, eventId, … }] }`. An
   * event that came in bytes is kept byte for byte; the bytes must not be changed before the promise settles.
   *
   * @throws {IngestError} with nothing stored: `malformed-body`, `invalid-envelope`, `batch-too-large`,
   *   `too-many-events` for the batch, `invalid-argument` for the project id, and what `Store.append` refuses with.
   */
  submitBatch(projectId: string, body: Uint8Array | BatchInput, options?: SubmitOptions): Promise<BatchResult>
  /**
   * The project's events, oldest first, with the bytes that were sent: all of them, or those that are wanted. For what
   * comes later as well there is `followEvents`.
   *
   * @throws {IngestError} at the first step: `invalid-argument`, `invalid-cursor`; `store-closed` while it waits
   */
  readEvents(projectId: string, options?: ReadEventsOptions): AsyncIterable<StoredEvent>
  /**
   * The cursor of the last event by now: behind it comes only what is stored later. There is one without events, too.
   *
   * @throws {IngestError} `invalid-argument`
   */
  lastCursor(projectId: string): Promise<Cursor>
  /**
   * The event with this id, if it is stored.
   *
   * @throws {IngestError} `invalid-argument`
   */
  findEvent(projectId: string, eventId: string): Promise<StoredEvent | undefined>
  /** Finishes what has begun, ends who waits for events, and closes the store. */
  close(): Promise<void>
}

/** What has become of all events since this Ingest was created, over all projects. */
export interface Tally {
  accepted: number
  duplicates: number
  rejected: number
  /** Duplicates whose content differs from what is stored: somebody uses an id twice. */
  conflicts: number
}

/** An Ingest in this process, with what only the one who runs it may do. */
export interface EmbeddedIngest extends Ingest {
  /** Whether the credentials open the project; the keyring's own, unless another was given. */
  authenticate: Authenticate
  keys: Keyring
  /** The projects that the store keeps anything of, in the order of their bytes. */
  projects(): Promise<string[]>
  /** Resolves if a batch could be stored now; rejects with what stands in its way. */
  check(): Promise<void>
  tally(): Readonly<Tally>
}

export interface IngestOptions {
  store: Store
  /** Further rules by event `type`, in TypeBox or plain JSON Schema; they add issues to the rules of Ingest. */
  schemas?: EventSchemas
  /** In place of the keyring. What it throws is answered as "temporarily unavailable", never as "wrong key". */
  authenticate?: Authenticate
  maps?: MapRules
  /** The clock, in milliseconds since 1970. An invalid time is an `internal-error`, and is never stored. */
  now?: () => number
}

/**
 * An Ingest on a store.
 *
 * @throws {IngestError} `invalid-argument` for a store that is none, and for a schema that is broken.
 */
export function createIngest(options: IngestOptions): EmbeddedIngest {
  const { store, schemas = {}, authenticate, maps = {}, now: clock = Date.now } = options
  if (typeof store?.append !== 'function') {
    throw new IngestError('invalid-argument', 'createIngest needs an open store: { store: await openLmdbStore(…) }.')
  }
  const now = () => checkTime(clock())
  const context = { store, checkBySchema: compileEventSchemas(schemas), now }
  const keys = createKeyring(store, now)
  const arrivals = createArrivals()
  const tally: Tally = { accepted: 0, duplicates: 0, rejected: 0, conflicts: 0 }
  return {
    async submitBatch(projectId, body, { admit = () => {} } = {}) {
      checkProjectId(projectId)
      const { result, conflicts } = await submitBatch(context, projectId, body, admit)
      tally.accepted += result.accepted
      tally.duplicates += result.duplicates
      tally.rejected += result.rejected.length
      tally.conflicts += conflicts
      if (result.accepted > 0) arrivals.announce(projectId)
      return result
    },

    async *readEvents(projectId, options = {}) {
      checkProjectId(projectId)
      checkReadEventsOptions(options)
      yield* readEvents({ store, arrivals, now }, projectId, options)
    },

    async lastCursor(projectId) {
      checkProjectId(projectId)
      return store.lastCursor(projectId)
    },

    async findEvent(projectId, eventId) {
      checkProjectId(projectId)
      const issue = eventIdIssue(eventId)
      if (issue) throw new IngestError('invalid-argument', issue.message, { issues: [issue] })
      return store.find(projectId, eventId)
    },

    ...createMaps({ store, rules: maps, now }),
    ...createStatistics(store, now),
    authenticate: authenticate ?? keys.authenticate,
    keys,
    projects: () => store.projects(),
    tally: () => ({ ...tally }),
    check: () => store.check(),
    close() {
      arrivals.close()
      return store.close()
    },
  }
}

/** The last time that a `Date` can hold. */
const timeMax = 8.64e15

function checkTime(time: unknown): number {
  if (typeof time === 'number' && time >= 0 && time <= timeMax) return time
  throw new IngestError('internal-error', `The clock (now) returned ${String(time)}, not milliseconds since 1970.`)
}
