import type { Cursor } from '../json/cursor.ts'
import type { Project } from './project.ts'

/** The stored position of one reader in the events of a project. */
export interface ConsumerRecord {
  /** 1 to 64 of `A-Z a-z 0-9 . _ -`, the first a letter or digit. */
  name: string
  /** The last event that it has read. */
  cursor: Cursor
  /** When the cursor was stored, in milliseconds since 1970. */
  updatedAt: number
}

/** What a store keeps of a project as one value of JSON, by kind. */
export interface Entries {
  /** The tenant and its keys. */
  project: Project
  /** The positions of its readers. */
  consumers: readonly ConsumerRecord[]
}

export type EntryKind = keyof Entries

/**
 * The result of `decide` in `updateEntry`: `entry`, if present, is written, or removed by null; `result` is returned.
 */
export interface EntryDecision<Kind extends EntryKind, T> {
  entry?: Entries[Kind] | null
  result: T
}

/** The part of a store that keeps one entry of each kind for a project; {@link Store} says what holds for all of it. */
export interface EntryStore {
  /**
   * How long a project that was read may be cached, in milliseconds. A key revoked by one process stays valid in others
   * for at most this time. Default: 0.
   */
  readonly projectAgeMs?: number
  /** The entry as it was last written, by any process; undefined for one that was never written, or was removed. */
  entry<Kind extends EntryKind>(kind: Kind, projectId: string): Promise<Entries[Kind] | undefined>
  /**
   * Reads, decides and writes an entry in one step. `decide` is pure: it is called again after a lost race. If it
   * throws, `updateEntry` rejects with the same error and nothing is written.
   */
  updateEntry<Kind extends EntryKind, T>(
    kind: Kind,
    projectId: string,
    decide: (entry: Entries[Kind] | undefined) => EntryDecision<Kind, T>,
  ): Promise<T>
  /**
   * The projects with an entry of a kind, by default `project`, in the order of their bytes; of the kind `project`,
   * also those with an event or a map. One that is created during the call may be missing.
   */
  projects(kind?: EntryKind): Promise<string[]>
}
