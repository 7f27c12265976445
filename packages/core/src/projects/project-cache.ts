import type { EntryStore } from '../store.ts'
import type { Project } from '../store-types.ts'

/** Maximum number of cached projects; the least recently read one is evicted first. */
export const projectsCachedMax = 10_000

/** Caches projects for at most {@link EntryStore.projectAgeMs}. Without an age, each read goes to the store. */
export interface ProjectCache {
  /** Concurrent reads of a project share one read of the store. A failed read is not cached. */
  read(projectId: string): Promise<Project | undefined>
  /** Makes the next read of the project go to the store. */
  forget(projectId: string): void
}

interface CachedProject {
  /** Resolves to undefined for a project that is not stored. */
  project: Promise<Project | undefined>
  /** Taken before the store was read: the project is at least this recent. */
  readAt: number
}

/** `clock` is monotonic, in milliseconds. */
export function createProjectCache(
  store: Pick<EntryStore, 'projectAgeMs' | 'entry'>,
  clock: () => number,
): ProjectCache {
  const { projectAgeMs = 0 } = store
  if (projectAgeMs === 0) return { read: (projectId) => store.entry('project', projectId), forget() {} }
  // in the order of `readAt`
  const cached = new Map<string, CachedProject>()

  function readStore(projectId: string, readAt: number): Promise<Project | undefined> {
    const entry = { project: store.entry('project', projectId), readAt }
    cached.delete(projectId)
    const [oldest] = cached.keys()
    if (oldest !== undefined && cached.size >= projectsCachedMax) cached.delete(oldest)
    cached.set(projectId, entry)
    entry.project.catch(() => {
      if (cached.get(projectId) === entry) cached.delete(projectId)
    })
    return entry.project
  }

  return {
    read(projectId) {
      const entry = cached.get(projectId)
      const time = clock()
      return entry && time < entry.readAt + projectAgeMs ? entry.project : readStore(projectId, time)
    },
    forget: (projectId) => void cached.delete(projectId),
  }
}
