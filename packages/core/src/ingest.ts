import { IngestError } from './error.ts'
import type { BatchInput, BatchResult } from './events/batch.ts'
import { checkProjectId, eventIdIssue, type IngestEvent } from './events/event.ts'
import { createArrivals } from './events/event-notifier.ts'
import { compileEventSchemas, type EventOf, type EventSchemas } from './events/event-schemas.ts'
import type { Cursor, StoredEvent } from './events/event-store.ts'
import { checkReadEventsOptions, type ReadEventsOptions, readEvents } from './events/read-events.ts'
import { submitBatch } from './events/submit-batch.ts'
import type { Maps } from './maps/map.ts'
import { createMaps, type MapRules } from './maps/maps.ts'
import { createStatistics, type Statistics } from './project-stats.ts'
import { type Authenticate, createKeyring, type Keyring } from './projects/keyring.ts'
import type { Store } from './store.ts'

export interface SubmitOptions {
  /**
   * Called with the number of events once the batch is well-formed, before any of them is looked at. What it throws
   * is what `submitBatch` rejects with: the place for a rate limit.
   */
  admit?: (eventCount: number) => void
}

/** The events and maps of one project: the same interface embedded and over HTTP. `E` is the type of its events. */
export interface Ingest<E = IngestEvent> extends Maps, Statistics {
  readonly projectId: string
  /**
   * Stores the valid events of a batch that are new, each exactly once and permanently, and says what became of the
   * others. Resolves once every accepted event would survive power loss. Sending the same batch again is always safe.
   *
   * `body` is the bytes of a JSON document as they came, or the object: `{ events: [{ projectId, eventId, … }] }`. An
   * event that came in bytes is kept byte for byte; the bytes must not be changed before the promise settles.
   *
   * @throws {IngestError} with nothing stored: `malformed-body`, `invalid-envelope`, `batch-too-large`,
   *   `too-many-events` for the batch, and the errors of the store.
   */
  submitBatch(body: Uint8Array | BatchInput<E>, options?: SubmitOptions): Promise<BatchResult>
  /**
   * The project's events, oldest first, with the bytes that were sent: all of them, or those that match the options.
   * `followEvents` also yields those that are stored later.
   *
   * @throws {IngestError} at the first step: `invalid-argument`, `invalid-cursor`; `store-closed` during a long poll
   */
  readEvents(options?: ReadEventsOptions): AsyncIterable<StoredEvent>
  /** The cursor of the last event: only events that are stored later come after it. There is one without events, too. */
  lastCursor(): Promise<Cursor>
  /**
   * The event with this id, if it is stored.
   *
   * @throws {IngestError} `invalid-argument`
   */
  findEvent(eventId: string): Promise<StoredEvent | undefined>
}

/** What has become of all events since this Ingest was created, over all projects. */
export interface Tally {
  accepted: number
  duplicates: number
  rejected: number
  /** Duplicates whose content differs from what is stored: somebody uses an id twice. */
  conflicts: number
}

/** All projects of a store in this process. */
export interface EmbeddedIngest<E = IngestEvent> {
  /**
   * The events and maps of one project. Costs nothing, and need not exist: storing an event creates the project.
   *
   * @throws {IngestError} `invalid-argument` for an invalid project id
   */
  project(projectId: string): Ingest<E>
  /** Whether credentials are valid for a project; the keyring's own, unless another was given. */
  authenticate: Authenticate
  keys: Keyring
  /** The projects of which the store keeps anything, in the order of their bytes. */
  listProjects(): Promise<string[]>
  /** Resolves if a batch could be stored now; rejects with the reason otherwise. */
  checkReady(): Promise<void>
  tally(): Readonly<Tally>
  /** Finishes what has begun, ends long polls, and closes the store. */
  close(): Promise<void>
}

export interface IngestOptions<Schemas extends EventSchemas = EventSchemas> {
  store: Store
  /**
   * Further rules by event `type`, in TypeBox or plain JSON Schema; they add issues to the rules of Ingest, and TypeBox
   * schemas type the events of `submitBatch`.
   */
  schemas?: Schemas
  /** In place of the keyring. What it throws becomes "temporarily unavailable", never "wrong key". */
  authenticate?: Authenticate
  maps?: MapRules
  /** The clock, in milliseconds since 1970. An invalid time is an `internal-error`, and is never stored. */
  now?: () => number
}

/**
 * An Ingest on a store.
 *
 * @throws {IngestError} `invalid-argument` for an invalid store or schema
 */
export function createIngest<const Schemas extends EventSchemas = EventSchemas>(
  options: IngestOptions<Schemas>,
): EmbeddedIngest<EventOf<Schemas>> {
  const { store, schemas = {}, authenticate, maps: rules = {}, now: clock = Date.now } = options
  if (typeof store?.append !== 'function') {
    throw new IngestError('invalid-argument', 'createIngest needs an open store: { store: await openLmdbStore(…) }.')
  }
  const now = () => checkTime(clock())
  const context = { store, checkBySchema: compileEventSchemas(schemas), now }
  const keys = createKeyring(store, now)
  const arrivals = createArrivals()
  const mapsOf = createMaps({ store, rules, now })
  const statisticsOf = createStatistics(store, now)
  const tally: Tally = { accepted: 0, duplicates: 0, rejected: 0, conflicts: 0 }
  return {
    project(projectId) {
      checkProjectId(projectId)
      return {
        projectId,

        async submitBatch(body, { admit = () => {} } = {}) {
          const { result, conflicts } = await submitBatch(context, projectId, body, admit)
          tally.accepted += result.accepted
          tally.duplicates += result.duplicates
          tally.rejected += result.rejected.length
          tally.conflicts += conflicts
          if (result.accepted > 0) arrivals.announce(projectId)
          return result
        },

        async *readEvents(options = {}) {
          checkReadEventsOptions(options)
          yield* readEvents({ store, arrivals, now }, projectId, options)
        },

        lastCursor: () => store.lastCursor(projectId),

        async findEvent(eventId) {
          const issue = eventIdIssue(eventId)
          if (issue) throw new IngestError('invalid-argument', issue.message, { issues: [issue] })
          return store.find(projectId, eventId)
        },

        ...mapsOf(projectId),
        ...statisticsOf(projectId),
      }
    },
    authenticate: authenticate ?? keys.authenticate,
    keys,
    listProjects: () => store.projects(),
    tally: () => ({ ...tally }),
    checkReady: () => store.check(),
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
