import type { Project } from './project.ts'

/** What `updateProject` writes: `project`, if present; `result` is returned to the caller. */
export interface ProjectDecision<T> {
  project?: Project
  result: T
}

/** The part of a store that keeps projects and their keys; {@link Store} says what holds for all of its operations. */
export interface ProjectStore {
  /**
   * How long Ingest may use a project that it has read, in milliseconds, so that not every request needs a read: a
   * revoked key ends within this time in other processes. Default: 0.
   */
  readonly projectAgeMs?: number
  /** The project as it was last written, by any process. */
  project(projectId: string): Promise<Project | undefined>
  /** The projects with an event, a map or a key, in the order of their bytes. */
  projects(): Promise<string[]>
  /**
   * Reads, decides and writes a project in one step. `decide` is pure: it is called again after a lost race. If it
   * throws, `updateProject` rejects with the same error and nothing is written.
   */
  updateProject<T>(projectId: string, decide: (project: Project | undefined) => ProjectDecision<T>): Promise<T>
}
