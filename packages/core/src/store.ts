import type { EventStore } from './events/event-store.ts'
import type { MapStore } from './maps/map-store.ts'
import type { ProjectStore } from './projects/project-store.ts'

/**
 * Keeps events, maps and projects. Each operation is atomic, and durable when it resolves.
 *
 * Arguments are valid: core checks them before it calls a store. An operation that rejects has changed nothing; it
 * rejects with an {@link IngestError}: `store-closed` after `close`, `disk-full` while there is no space, `overloaded`
 * when too many requests are queued, `store-failed` when the store can no longer be trusted. `storeChecks` of
 * `@ingest/core/testing` checks this contract.
 */
export interface Store extends EventStore, MapStore, ProjectStore {
  /** Resolves if an append could succeed now; rejects with the reason otherwise. */
  check(): Promise<void>
  /** Finishes the operations in flight, then releases all resources. May be called twice. */
  close(): Promise<void>
}
