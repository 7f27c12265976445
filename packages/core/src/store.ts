import type { ActivityStore } from './activity/activity-store.ts'
import type { IngestError } from './error.ts'
import type { EventStore, StoreCommit } from './events/event-store.ts'
import type { MapStore } from './maps/map-store.ts'
import type { EntryStore } from './projects/entry-store.ts'

/** One metric of a store, as Prometheus names it: `ingest_store_…`, in seconds or bytes. */
export interface StoreMetric {
  name: string
  help: string
  type: 'counter' | 'gauge'
  values: readonly { labels?: Readonly<Record<string, string>>; value: number }[]
}

/** A gauge with one value, or with one for each set of labels. */
export function storeGauge(name: string, help: string, value: number | StoreMetric['values']): StoreMetric {
  const values = typeof value === 'number' ? [{ value }] : value
  return { name: `ingest_store_${name}`, help, type: 'gauge', values }
}

/**
 * Keeps events, maps, entries of projects, and activity. Each operation is atomic, and durable when it resolves.
 *
 * Arguments are valid: core checks them before it calls a store. Names of projects, events, builds and places are
 * strings of at most 256 bytes of UTF-8 without control characters and lone surrogates; they are compared and listed by
 * these bytes. An unknown project is an empty one. Operations are own properties that do not use `this`: the checks
 * copy them.
 *
 * An operation that rejects has changed nothing and will not be completed later, unless the outcome of its code is
 * unknown ({@link IngestError.isOutcomeUnknown}): then it may have been completed, and repeating it is safe. `erase`,
 * `expire`, `putActivity`, `expireActivity` and `sweepMaps` may take several steps: steps before the rejected one stay
 * done. The error of one operation does not affect others.
 *
 * It rejects with an {@link IngestError}: `store-closed` after `close`, `disk-full` while there is no space,
 * `overloaded` when too many requests are queued, `store-locked` while another process blocks writes, `store-damaged`
 * when it needs stored bytes that are damaged; with an unknown outcome `store-unavailable` when the database cannot be
 * reached or the operation was done in part, `store-failed` when the store can no longer be trusted, and
 * `internal-error` for a bug. `storeChecks` of `@ingest/checks` checks this contract.
 */
export interface Store extends EventStore, MapStore, EntryStore, ActivityStore {
  /**
   * Announces this process as a server of the store until `close`. Returns a function that returns the number of live
   * servers, this one included, as of the last heartbeat. A store without it is served by independent processes.
   */
  registerServer?(): () => number
  /** Calls `onCommit` after each commit of this process. Returns a function that ends it. */
  watchCommits?(onCommit: (commit: StoreCommit) => void): () => void
  /** Current metrics of the store. Cheap enough for every scrape. */
  measure?(): Promise<readonly StoreMetric[]>
  /** Resolves if an append could succeed now; rejects with the reason otherwise. */
  check(): Promise<void>
  /** Finishes the operations in flight, then releases all resources. May be called twice. */
  close(): Promise<void>
}
