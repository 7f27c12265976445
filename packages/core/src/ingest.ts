import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { type ActivityReader, hourMs } from './activity/activity.ts'
import { createActivityCounter } from './activity/activity-counter.ts'
import { createActivityReader } from './activity/read-activity.ts'
import { cancellableStore } from './cancellable-store.ts'
import {
  type AllConsumers,
  type Consumers,
  createConsumers,
  findUnread,
  listAllConsumers,
} from './consumers/consumers.ts'
import { IngestError } from './error.ts'
import type { BatchInput, BatchResult } from './events/batch.ts'
import {
  type ErasedTotals,
  type EraseSelection,
  type ErasureOptions,
  eraseEvents,
  retainEvents,
} from './events/erase-events.ts'
import { eventIdIssue, type IngestEvent } from './events/event.ts'
import { compileEventSchemas, type EventOf, type EventSchemas } from './events/event-schemas.ts'
import type { Cursor } from './json/cursor.ts'
import type { Maps } from './maps/map.ts'
import { createMaps, type MapRules } from './maps/maps.ts'
import { createOperations, type Operations } from './operations.ts'
import { createProjectStats, hasProject, type ProjectStatsReader } from './project-stats.ts'
import { type Authenticate, createKeyring, type Keyring } from './projects/keyring.ts'
import { endableRead } from './read/endable-read.ts'
import { createEventNotifier } from './read/event-notifier.ts'
import { type EventBatch, type EventReader, type ReadBatchesOptions, readBatches } from './read/read-batches.ts'
import {
  createReadArrivals,
  type EventPage,
  type ReadContext,
  type ReadEventsOptions,
  type ReadPagesOptions,
  readEach,
  readPages,
} from './read/read-events.ts'
import type { Store } from './store.ts'
import type { ClockDoubt, StoreCommit, StoredEvent, StoreMetric } from './store-types.ts'
import { type SubmitContext, type SubmitOptions, type SubmitReport, submitBatch } from './submit/submit-batch.ts'
import { startSweeping } from './sweep.ts'
import { checkProjectId } from './validation.ts'

/** The events, maps, consumers, statistics and activity of one project: the same interface embedded and over HTTP. */
export interface Ingest<E = IngestEvent> extends Maps, Consumers, ProjectStatsReader, ActivityReader {
  readonly projectId: string
  /**
   * Stores the valid new events of a batch, each exactly once and permanently. Resolves once they would survive power
   * loss, with the outcome of every event. Retrying a batch is always safe.
   *
   * `body` is JSON in bytes or an object, `{ events: [{ projectId, eventId, … }] }`: at most 262,144 bytes and 100
   * events. Events in bytes are stored byte for byte; do not change the bytes before the promise settles.
   *
   * @throws {IngestError} with nothing stored: `malformed-body`, `invalid-envelope`, `batch-too-large`,
   *   `too-many-events`, or an error of the store
   */
  submitBatch(body: Uint8Array | BatchInput<E>, options?: SubmitOptions): Promise<BatchResult>
  /**
   * The project's events that match the options, oldest first, with the bytes that were sent. Use `followEvents` to
   * receive later events too.
   *
   * @throws {IngestError} at the first step: `invalid-argument`, `invalid-cursor`; later `store-closed`
   */
  readEvents(options?: ReadEventsOptions): AsyncIterable<StoredEvent>
  /**
   * The same events as `readEvents` in pages, as they are read, which takes less processor time for each event. Pages
   * without a matching event are yielded too.
   *
   * @throws {IngestError} the codes of `readEvents`
   */
  readPages(options?: ReadPagesOptions): AsyncIterable<EventPage>
  /**
   * The same events as `readEvents` in batches, each with its cursor, for a sink that commits both in one transaction.
   * A batch is yielded when it is full, at the end of the log, and when it has scanned for 30 seconds.
   *
   * @throws {IngestError} the codes of `readEvents`; to resume, continue after the last cursor
   */
  readBatches(options?: ReadBatchesOptions): AsyncIterable<EventBatch>
  /** The cursor of the last event, from which only later events are read. A project without events has a cursor too. */
  lastCursor(): Promise<Cursor>
  /**
   * The stored event with this id; undefined if there is none. An erased event has no bytes and has its id in `erased`.
   *
   * @throws {IngestError} `invalid-argument` for an invalid event id
   */
  findEvent(eventId: string): Promise<StoredEvent | undefined>
}

/** Outcomes of the events of all projects since `createIngest` was called. */
export interface Tally {
  accepted: number
  duplicates: number
  rejected: number
  /**
   * Valid duplicates whose bytes differ from those of the stored event: the sender used an id for two events. Repeats
   * within a batch are not counted.
   */
  conflicts: number
}

/** The outcome and timing of one submitted batch. */
export interface BatchReport extends SubmitReport {
  projectId: string
  /** From the call of `submitBatch` to its result, in milliseconds; includes `appendMs`. */
  durationMs: number
}

/** Observes an Ingest, for metrics and logs. Its functions must not throw. */
export interface IngestObserver {
  onBatch?(report: BatchReport): void
  /** Called for each commit of the store in this process, if the store reports them. */
  onCommit?(commit: StoreCommit): void
  /**
   * Background work has failed: a sweep of unused maps, which is retried in an hour, or storing the counts of
   * `getActivity`, which is retried in a minute and reported once.
   */
  onError?(error: unknown): void
}

/** An Ingest in this process: all projects of a store. */
export interface EmbeddedIngest<E = IngestEvent> {
  /**
   * One project, which need not exist: the first stored event creates it. Reads and writes nothing. Once `signal` has
   * aborted, its calls start nothing more and reject with its reason; `submitBatch` ignores the signal.
   *
   * @throws {IngestError} `invalid-argument` for an invalid project id: not 1 to 64 of `A-Z a-z 0-9 . _ -`
   */
  project(projectId: string, options?: { signal?: AbortSignal | undefined }): Ingest<E>
  /** Checks credentials for a project, with the option `authenticate`, or else with the keys of the store. */
  authenticate: Authenticate
  keys: Keyring
  /** The ids of all projects with stored data, in the order of their bytes. */
  listProjects(): Promise<string[]>
  /** Whether `listProjects` contains the project; cheaper than the list. */
  hasProject(projectId: string): Promise<boolean>
  /**
   * Resolves if a batch could be stored now; rejects with the error otherwise.
   *
   * @throws {IngestError} `store-unavailable` if the store does not respond within 2 seconds, or the error of the store
   */
  checkReady(): Promise<void>
  /**
   * Announces this process as a server of the store until `close`. Returns a function that returns the number of live
   * servers, this one included: 1 for a store that does not count them. Further calls return the same function.
   */
  registerServer(): () => number
  /**
   * Replaces the schemas of events by type, for batches submitted from now on. If this throws, the current schemas stay
   * in force.
   *
   * @throws {IngestError} `invalid-argument` for an invalid schema
   */
  setSchemas(schemas: EventSchemas): void
  tally(): Readonly<Tally>
  /** Calls the observer until the returned function is called. */
  observe(observer: IngestObserver): () => void
  /**
   * Erases the events of a project whose value at a JSON Pointer equals a value, such as all events of a player. A
   * number equals the string of its digits. No read returns the events again, although unused space of the store's files
   * may hold their bytes; their ids stay known, so that a retry stores nothing. The whole log is read. Events stored after
   * the call began are not erased: stop their senders first, or call it again. Maps are not erased.
   *
   * @throws {IngestError} `invalid-argument`, or an error of the store; events erased by then stay erased
   */
  eraseEvents(projectId: string, selection: EraseSelection, options?: ErasureOptions): Promise<ErasedTotals>
  /**
   * Erases the events of a project that were received before a time, in milliseconds since 1970, in small steps with
   * pauses, as `eraseEvents` does.
   *
   * Events that a consumer has not read are erased too. With `keepUnread`, only events before the first unread one of
   * all consumers are erased. A consumer whose cursor is refused with `invalid-cursor` counts as having read nothing.
   *
   * @throws {IngestError} `invalid-argument`, or an error of the store
   */
  retainEvents(projectId: string, before: number, options?: RetainOptions): Promise<ErasedTotals>
  /**
   * Why the clock may be ahead, or was ahead when events were stored, as far as the store can know; undefined if there
   * is no doubt. A clock that is ahead makes all events seem old: call this before erasing by age, with the `before` of
   * `retainEvents` as `since`. `startRetention` does so itself. Default of `since`: now.
   *
   * @throws {IngestError} `internal-error` if the option `now` returns an invalid time, or an error of the store
   */
  findClockDoubt(since?: number): Promise<ClockDoubt | undefined>
  /**
   * The consumers of all projects with their lag, at most 1,000. Counts at most 1,000 batches for each consumer, and
   * 100,000 in total.
   */
  listAllConsumers(): Promise<AllConsumers>
  /** Current metrics of the store; empty if the store has none. */
  measure(): Promise<readonly StoreMetric[]>
  /** Ends long polls, finishes pending calls, and closes the store. May be called twice. */
  close(): Promise<void>
}

/** Options of `retainEvents`. */
export interface RetainOptions extends ErasureOptions {
  /** Whether to keep events that a consumer has not read. Default: false. */
  keepUnread?: boolean
  /** Called before the first step with the consumers that have unread events in the range, if there are any. */
  onUnread?: (consumers: readonly string[]) => void
}

/** Options of `createIngest`. */
export interface IngestOptions<Schemas extends EventSchemas = EventSchemas> {
  store: Store
  /**
   * Further rules by event `type`, in TypeBox or JSON Schema. TypeBox schemas also type the events of `submitBatch`.
   * Default: none.
   */
  schemas?: Schemas
  /** Replaces the keys of the store. The server reports an error that it throws as `key-store-unavailable`. */
  authenticate?: Authenticate
  maps?: MapRules
  /** Options of `getActivity` and `listRejected`. */
  activity?: {
    /** How long activity is stored, in milliseconds. Default: 14 days. */
    keepMs?: number
  }
  rejected?: {
    /**
     * Whether samples of rejected events include their text, which may hold personal data. Default: false, only issues.
     */
    keepEvents?: boolean
  }
  /** The name by which `getActivity` counts this server, 1 to 255 characters. Default: the name of the host. */
  server?: string
  /** The clock, in milliseconds since 1970. Default: `Date.now`. An invalid time is an `internal-error`. */
  now?: () => number
}

/**
 * Creates an Ingest on an open store, which it owns: `close` closes the store.
 *
 * @throws {IngestError} `invalid-argument` for an invalid store or schema
 */
export function createIngest<const Schemas extends EventSchemas = EventSchemas>(
  options: IngestOptions<Schemas>,
): EmbeddedIngest<EventOf<Schemas>> {
  // a caller without types may have omitted the options
  const { store, schemas = {}, authenticate, maps: rules = {}, now: clock = Date.now } = options ?? {}
  const { activity = {}, rejected = {}, server = hostname() || 'localhost' } = options ?? {}
  if (typeof store?.append !== 'function') {
    throw new IngestError('invalid-argument', 'createIngest needs an open store: { store: await openLmdbStore(…) }.')
  }
  const now = () => checkTime(clock())
  const keys = createKeyring(store, now)
  const notifier = createEventNotifier(store.watch?.bind(store))
  let serverCount: (() => number) | undefined
  const reports = createReports(store)
  const counter = createActivityCounter({
    ...{ store, now, server: checkServer(server) },
    keepEvents: rejected.keepEvents ?? false,
    onError: reports.reportError,
  })
  const checkBySchema = compileEventSchemas(schemas)
  const submitting: SubmitContext = { store, hashKey: store.hashKey ?? randomBytes(16), checkBySchema, now, counter }
  const reading: ReadContext = { store, readArrivals: createReadArrivals(store), notifier, now }
  const mapsOf = createMaps({ store, rules, now })
  startSweeping(store, {
    now,
    activityKeepMs: checkKeepMs(activity.keepMs ?? activityKeepMs),
    onError: reports.reportError,
  })
  const operations = createOperations()
  const submits = { operations, onBatch: reports.reportBatch }
  let closing: Promise<void> | undefined

  /** Projects without a signal, as batches use them. Cleared when full: creating one is cheap. */
  const projects = new Map<string, Ingest<EventOf<Schemas>>>()

  function createProject(projectId: string, signal?: AbortSignal): Ingest<EventOf<Schemas>> {
    checkProjectId(projectId)
    const own = signal ? cancellableStore(store, signal) : store
    return {
      ...eventsOf(projectId, submitting, { ...reading, store: own, signal }, submits),
      ...mapsOf(projectId, own),
      ...createConsumers(own, now)(projectId),
      ...createProjectStats(own, now)(projectId),
      ...createActivityReader({ store: own, counter, now })(projectId),
    }
  }

  /** Waits for the batches in flight, stores the activity counts, and closes the store. */
  async function closeAll(): Promise<void> {
    const counted = operations.drain().then(counter.close)
    await settleWithin(counted, closeTimeoutMs)
    await store.close()
  }

  return {
    project(projectId, { signal } = {}) {
      if (signal) return createProject(projectId, signal)
      const known = projects.get(projectId)
      if (known) return known
      const project = createProject(projectId)
      if (projects.size >= projectsKeptMax) projects.clear()
      projects.set(projectId, project)
      return project
    },
    keys,
    authenticate: authenticate ?? keys.authenticate,
    listProjects: () => store.projects(),
    hasProject: (projectId) => hasProject(store, projectId),
    checkReady: createReadyCheck(store),
    registerServer() {
      serverCount ??= store.registerServer?.() ?? (() => 1)
      return serverCount
    },
    setSchemas(schemas) {
      submitting.checkBySchema = compileEventSchemas(schemas)
    },
    tally: reports.tally,
    observe: reports.observe,
    async eraseEvents(projectId, selection, options = {}) {
      checkProjectId(projectId)
      return eraseEvents(store, projectId, selection, options)
    },
    async retainEvents(projectId, before, options = {}) {
      checkProjectId(projectId)
      const { keepUnread = false, onUnread = () => {}, ...erasure } = options
      const unread = await findUnread(store, projectId, before)
      if (unread.names.length > 0) onUnread(unread.names)
      return retainEvents(store, projectId, keepUnread ? Math.min(before, unread.firstAt) : before, erasure)
    },
    findClockDoubt: async (since = now()) => store.findClockDoubt?.(since, now()),
    listAllConsumers: () => listAllConsumers(store, now),
    measure: async () => (await store.measure?.()) ?? [],
    close() {
      notifier.close()
      closing ??= closeAll()
      return closing
    },
  }
}

/** Maximum number of projects whose functions are kept. */
const projectsKeptMax = 1_000

interface Submits {
  operations: Operations
  /** Called with the result of each batch. */
  onBatch: (report: BatchReport) => void
}

/** The events of one project. */
function eventsOf(
  projectId: string,
  submitting: SubmitContext,
  { signal, ...reading }: ReadContext & { signal: AbortSignal | undefined },
  { operations, onBatch }: Submits,
): Pick<
  Ingest<never>,
  'projectId' | 'submitBatch' | 'readEvents' | 'readPages' | 'readBatches' | 'lastCursor' | 'findEvent'
> {
  const { store, notifier } = reading
  const reader: EventReader = {
    readPages: (options = {}) =>
      endableRead([signal, options.signal], (signal) => readPages(reading, projectId, { ...options, signal })),
    lastCursor: async () => (await store.totals(projectId)).lastCursor,
  }
  return {
    ...reader,
    projectId,

    readEvents: (options = {}) =>
      readEach([signal, options.signal], options, (own) => readPages(reading, projectId, own)),

    async submitBatch(body, options = {}) {
      const startedAt = performance.now()
      const report = await operations.run(() => submitBatch(submitting, projectId, body, options))
      if (report.result.accepted > 0) notifier.notify(projectId)
      onBatch(Object.assign(report, { projectId, durationMs: performance.now() - startedAt }))
      return report.result
    },

    readBatches: (options) => readBatches(reader, options),

    async findEvent(eventId) {
      const issue = eventIdIssue(eventId)
      if (issue) throw new IngestError('invalid-argument', issue.message, { issues: [issue] })
      return store.find(projectId, eventId)
    },
  }
}

/** Counts outcomes and notifies the observers. */
function createReports(store: Store) {
  const observers = new Set<IngestObserver>()
  const tally: Tally = { accepted: 0, duplicates: 0, rejected: 0, conflicts: 0 }
  return {
    tally: () => ({ ...tally }),

    observe(observer: IngestObserver) {
      observers.add(observer)
      const unwatch = observer.onCommit && store.watchCommits?.(observer.onCommit)
      return () => {
        observers.delete(observer)
        unwatch?.()
      }
    },

    reportBatch(report: BatchReport) {
      const { accepted, duplicates, rejected } = report.result
      tally.accepted += accepted
      tally.duplicates += duplicates
      tally.rejected += rejected.length
      tally.conflicts += report.conflicts
      for (const { onBatch } of observers) onBatch?.(report)
    },

    reportError(error: unknown) {
      for (const { onError } of observers) onError?.(error)
    },
  }
}

/** Concurrent calls share one check: frequent checks of a load balancer must not fill a store's queue. */
function createReadyCheck(store: Store): () => Promise<void> {
  let checking: Promise<void> | undefined
  return () => {
    checking ??= checkReady(store).finally(() => {
      checking = undefined
    })
    return checking
  }
}

/** How long `checkReady` waits for the store: less than the timeouts of load balancers. */
const readyTimeoutMs = 2000

async function checkReady(store: Store): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const message = `The store did not respond within ${readyTimeoutMs} ms.`
      reject(new IngestError('store-unavailable', message, { retryAfterSeconds: 1 }))
    }, readyTimeoutMs)
  })
  try {
    await Promise.race([store.check(), timeout])
  } finally {
    clearTimeout(timer)
  }
}

/** How long `close` waits for batches in flight and for storing activity. */
const closeTimeoutMs = 5_000

/** Resolves when the promise settles, or after `ms`. */
async function settleWithin(promise: Promise<void>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([promise, timeout])
  clearTimeout(timer)
}

const activityKeepMs = 14 * 24 * hourMs

function checkKeepMs(keepMs: number): number {
  if (Number.isSafeInteger(keepMs) && keepMs >= hourMs) return keepMs
  throw new IngestError('invalid-argument', 'activity.keepMs must be a whole number of milliseconds, from an hour.')
}

function checkServer(server: string): string {
  if (typeof server === 'string' && server.length >= 1 && server.length <= 255) return server
  throw new IngestError('invalid-argument', 'server must be a name of 1 to 255 characters.')
}

/** The maximum time of a `Date`. */
const timeMax = 8.64e15

function checkTime(time: unknown): number {
  if (typeof time === 'number' && time >= 0 && time <= timeMax) return time
  throw new IngestError('internal-error', `The clock (now) returned ${String(time)}, not milliseconds since 1970.`)
}
