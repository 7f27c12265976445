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
import { endableRead } from './events/endable-read.ts'
import {
  type ErasedTotals,
  type EraseSelection,
  type ErasureOptions,
  eraseEvents,
  retainEvents,
} from './events/erase-events.ts'
import { eventIdIssue, type IngestEvent } from './events/event.ts'
import { createEventNotifier } from './events/event-notifier.ts'
import { compileEventSchemas, type EventOf, type EventSchemas } from './events/event-schemas.ts'
import type { ClockDoubt, Cursor, StoreCommit, StoredEvent } from './events/event-store.ts'
import { type EventBatch, type EventReader, type ReadBatchesOptions, readBatches } from './events/read-batches.ts'
import { createReadArrivals, type ReadContext, type ReadEventsOptions, readEvents } from './events/read-events.ts'
import { type SubmitContext, type SubmitOptions, type SubmitReport, submitBatch } from './events/submit-batch.ts'
import type { Maps } from './maps/map.ts'
import { createMaps, type MapRules } from './maps/maps.ts'
import { createOperations, type Operations } from './operations.ts'
import { createProjectStats, hasProject, type ProjectStatsReader } from './project-stats.ts'
import { type Authenticate, createKeyring, type Keyring } from './projects/keyring.ts'
import type { Store, StoreMetric } from './store.ts'
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
   * receive new events too.
   *
   * @throws {IngestError} at the first step: `invalid-argument`, `invalid-cursor`; later `store-closed`
   */
  readEvents(options?: ReadEventsOptions): AsyncIterable<StoredEvent>
  /**
   * The same events in batches, each with its cursor, for a sink that commits both in one transaction. A batch is yielded
   * when it is full, at the end of the log, and when it has scanned for 30 seconds.
   *
   * @throws {IngestError} as `readEvents`; continue behind the last cursor then
   */
  readBatches(options?: ReadBatchesOptions): AsyncIterable<EventBatch>
  /** The cursor of the last event, also of a project without events: only events stored later are behind it. */
  lastCursor(): Promise<Cursor>
  /**
   * The stored event with this id; undefined without one. An erased event has no bytes, and its id in `erased`.
   *
   * @throws {IngestError} `invalid-argument` for an invalid event id
   */
  findEvent(eventId: string): Promise<StoredEvent | undefined>
}

/** Outcomes of the events of all projects since `createIngest`. */
export interface Tally {
  accepted: number
  duplicates: number
  rejected: number
  /**
   * Valid duplicates whose bytes differ from those of the stored event: a sender uses an id twice. Repeats within a
   * batch are not counted.
   */
  conflicts: number
}

/** What happened to one submitted batch. */
export interface BatchReport extends SubmitReport {
  projectId: string
  /** From the call of `submitBatch` to its result, in milliseconds; `appendMs` is a part of it. */
  durationMs: number
}

/** Receives what an Ingest does, for metrics and logs. Its functions must not throw. */
export interface IngestObserver {
  onBatch?(report: BatchReport): void
  /** A commit of the store in this process, if the store reports them. */
  onCommit?(commit: StoreCommit): void
  /**
   * Work in the background has failed: a sweep of unused maps, which is tried again in an hour, or writing what was
   * counted for `getActivity`, which is tried again in a minute and reported once.
   */
  onError?(error: unknown): void
}

/** An Ingest in this process: all projects of a store. */
export interface EmbeddedIngest<E = IngestEvent> {
  /**
   * One project, which need not exist: the first stored event creates it. Reads and writes nothing. With a signal, its
   * calls begin nothing more once that has aborted, and reject with its reason; a batch is stored all the same.
   *
   * @throws {IngestError} `invalid-argument` for an invalid project id: not 1 to 64 of `A-Z a-z 0-9 . _ -`
   */
  project(projectId: string, options?: { signal?: AbortSignal | undefined }): Ingest<E>
  /** Whether credentials are valid for a project, and by which key: by the option `authenticate`, or by `keys`. */
  authenticate: Authenticate
  keys: Keyring
  /** The ids of all projects with stored data, in the order of their bytes. */
  listProjects(): Promise<string[]>
  /** Whether `listProjects` has the project, without listing all. */
  hasProject(projectId: string): Promise<boolean>
  /**
   * Resolves if a batch could be stored now, and rejects with the error otherwise: with `store-unavailable` if the store
   * does not respond within 2 seconds.
   */
  checkReady(): Promise<void>
  /**
   * Announces this process as a server of the store until `close`. Returns a function that returns the number of live
   * servers, this one included: 1 for a store that does not count them. Further calls return the same function.
   */
  registerServer(): () => number
  /**
   * Replaces the schemas of events by type, for batches that are submitted from now on. If it throws, the current ones
   * stay in force.
   *
   * @throws {IngestError} `invalid-argument` for an invalid schema
   */
  setSchemas(schemas: EventSchemas): void
  tally(): Readonly<Tally>
  /** Calls the observer until the returned function is called. */
  observe(observer: IngestObserver): () => void
  /**
   * Erases the events of a project of which the value at a JSON Pointer equals a value, such as all events of a player. A
   * number and the string of its digits are equal.
   * Their bytes are deleted; their ids stay known, so that a retry stores nothing. The whole log is read. Events that are
   * stored after the call began are not erased: stop their senders first, or call it again. Maps are not erased. Call
   * `purgeErased` afterwards.
   *
   * @throws {IngestError} `invalid-argument`, or an error of the store; what was erased by then stays so
   */
  eraseEvents(projectId: string, selection: EraseSelection, options?: ErasureOptions): Promise<ErasedTotals>
  /**
   * Erases the events of a project that were received before a time, in milliseconds since 1970, in small steps with
   * pauses, as `eraseEvents` does.
   *
   * Events that a consumer has not read are erased too, unless `keepUnread` says to erase only those before the first
   * unread one of all consumers. A consumer whose cursor is an `invalid-cursor` has read nothing.
   *
   * @throws {IngestError} `invalid-argument`, or an error of the store
   */
  retainEvents(projectId: string, before: number, options?: RetainOptions): Promise<ErasedTotals>
  /**
   * Why the clock may be ahead, or was ahead when events were stored, as far as the store can know; undefined without a
   * doubt. Ask before an erasure by age, with `since` as `before` of `retainEvents`: a clock that is ahead makes all events
   * old. `startRetention` asks by itself. Default of `since`: now.
   *
   * @throws {IngestError} `internal-error` for a `now` that returns no time, or an error of the store
   */
  findClockDoubt(since?: number): Promise<ClockDoubt | undefined>
  /**
   * Resolves when the store's files contain no bytes of erased events. A database does this by itself, later: with one,
   * it resolves at once.
   *
   * @throws {IngestError} `overloaded` while a long read, such as a backup, needs these bytes: call it again
   */
  purgeErased(): Promise<void>
  /**
   * The consumers of all projects with their lag, at most 1,000. Counts 1,000 batches for each of up to 100 consumers, and
   * fewer of more: 100,000 for all.
   */
  listAllConsumers(): Promise<AllConsumers>
  /** What the store measures of itself now; empty for a store that measures nothing. */
  measure(): Promise<readonly StoreMetric[]>
  /** Ends long polls, finishes pending calls, and closes the store. May be called twice. */
  close(): Promise<void>
}

export interface RetainOptions extends ErasureOptions {
  /** Whether to keep what a consumer has not read. Default: false. */
  keepUnread?: boolean
  /** Called before the first step with the consumers that have not read all of the events, if there are any. */
  onUnread?: (consumers: readonly string[]) => void
}

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
  /** What is counted for `getActivity` and `listRejected`. */
  activity?: {
    /** How long the store keeps it, in milliseconds. Default: 14 days. */
    keepMs?: number
  }
  rejected?: {
    /** Whether samples of rejected events have their text, which may hold personal data. Default: false, only issues. */
    keepEvents?: boolean
  }
  /** The name of this server in `listRejected`, 1 to 255 characters. Default: the name of the host. */
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
  // a caller without types may have forgotten them
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
    keepMs: checkKeepMs(activity.keepMs ?? activityKeepMs),
    keepEvents: rejected.keepEvents ?? false,
    onError: reports.reportError,
  })
  const checkBySchema = compileEventSchemas(schemas)
  const submitting: SubmitContext = { store, hashKey: store.hashKey ?? randomBytes(16), checkBySchema, now, counter }
  const reading: ReadContext = { store, readArrivals: createReadArrivals(store), notifier, now }
  const mapsOf = createMaps({ store, rules, now, onSweepError: reports.reportError })
  const operations = createOperations()
  const submits = { operations, onBatch: reports.reportBatch }
  let closing: Promise<void> | undefined

  /** Counts the batches in flight, puts what was counted, and closes the store. */
  async function closeAll(): Promise<void> {
    const counted = operations.drain().then(counter.close)
    await settleWithin(counted, closeTimeoutMs)
    await store.close()
  }

  return {
    project(projectId, { signal } = {}) {
      checkProjectId(projectId)
      const own = signal ? cancellableStore(store, signal) : store
      return {
        ...eventsOf(projectId, submitting, { ...reading, store: own, signal }, submits),
        ...mapsOf(projectId, own),
        ...createConsumers(own, now)(projectId),
        ...createProjectStats(own, now)(projectId),
        ...createActivityReader({ store: own, counter, now })(projectId),
      }
    },
    keys,
    authenticate: authenticate ?? keys.authenticate,
    listProjects: () => store.projects(),
    hasProject: (projectId) => hasProject(store, projectId),
    checkReady: createReadyCheck(store),
    registerServer() {
      counter.start()
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
    purgeErased: async () => store.purge?.(),
    listAllConsumers: () => listAllConsumers(store, now),
    measure: async () => (await store.measure?.()) ?? [],
    close() {
      notifier.close()
      closing ??= closeAll()
      return closing
    },
  }
}

interface Submits {
  operations: Operations
  /** Receives what happened to each batch. */
  onBatch: (report: BatchReport) => void
}

/** The events of one project. */
function eventsOf(
  projectId: string,
  submitting: SubmitContext,
  { signal, ...reading }: ReadContext & { signal: AbortSignal | undefined },
  { operations, onBatch }: Submits,
): Pick<Ingest<never>, 'projectId' | 'submitBatch' | 'readEvents' | 'readBatches' | 'lastCursor' | 'findEvent'> {
  const { store, notifier } = reading
  const reader: EventReader = {
    readEvents: (options = {}) =>
      endableRead([signal, options.signal], (signal) => readEvents(reading, projectId, { ...options, signal })),
    lastCursor: async () => store.lastCursor(projectId),
  }
  return {
    ...reader,
    projectId,

    async submitBatch(body, options = {}) {
      const startedAt = performance.now()
      const report = await operations.run(() => submitBatch(submitting, projectId, body, options))
      if (report.result.accepted > 0) notifier.notify(projectId)
      onBatch({ ...report, projectId, durationMs: performance.now() - startedAt })
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

/** Counts outcomes, and passes on to the observers what an Ingest does. */
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

/** Concurrent calls share one check: a load balancer that asks often must not fill a store's queue. */
function createReadyCheck(store: Store): () => Promise<void> {
  let checking: Promise<void> | undefined
  return () => {
    checking ??= checkReady(store).finally(() => {
      checking = undefined
    })
    return checking
  }
}

/** How long `checkReady` waits for the store: less than the time-outs of load balancers. */
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

/** How long a close waits for batches in flight and for the rows of what was counted. */
const closeTimeoutMs = 5_000

/** Resolves when the promise does, or after a time. */
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

/** The last time of a `Date`. */
const timeMax = 8.64e15

function checkTime(time: unknown): number {
  if (typeof time === 'number' && time >= 0 && time <= timeMax) return time
  throw new IngestError('internal-error', `The clock (now) returned ${String(time)}, not milliseconds since 1970.`)
}
