import type { Cursor } from '../events/event-store.ts'

/** The stored position of one reader in the events of a project. */
export interface ConsumerRecord {
  /** 1 to 64 of `A-Z a-z 0-9 . _ -`, the first a letter or digit. */
  name: string
  /** The last event that it has read. */
  cursor: Cursor
  /** When the cursor was stored, in milliseconds since 1970. */
  updatedAt: number
}

/**
 * The result of `decide` in `updateConsumers`: `consumers`, if present, replaces all consumers of the project; `result`
 * is returned to the caller.
 */
export interface ConsumersDecision<T> {
  consumers?: readonly ConsumerRecord[]
  result: T
}

/**
 * The part of a store that keeps the positions of consumers; {@link Store} says what holds for all of its operations.
 */
export interface ConsumerStore {
  /** The consumers of a project, including the last write of any other process. */
  consumers(projectId: string): Promise<readonly ConsumerRecord[]>
  /** The projects that have consumers, in the order of their bytes. */
  consumerProjects(): Promise<string[]>
  /**
   * Reads, decides and writes the consumers of a project in one step. `decide` is pure: it is called again after a lost
   * race. If it throws, `updateConsumers` rejects with the same error and nothing is written.
   */
  updateConsumers<T>(
    projectId: string,
    decide: (consumers: readonly ConsumerRecord[]) => ConsumersDecision<T>,
  ): Promise<T>
}
