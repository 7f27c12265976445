import { int4Array } from '../connection/binary-arrays.ts'
import type { Database } from '../connection/database.ts'
import type { ProjectNumbers } from '../projects/project-numbers.ts'

/** How often the heads of all watched projects are read, by one statement. */
const pollMs = 120

/** Watches projects for events of any process. */
export interface EventWatch {
  watch(projectId: string, onAppend: () => void): () => void
  close(): void
}

interface WatchedProject {
  listeners: Set<() => void>
  /** The newest batch seen so far; undefined before the first poll. */
  seq: number | undefined
}

/**
 * One poller for all watchers of a process. NOTIFY would serialize the commits of all projects, and PgBouncer does not
 * support LISTEN.
 */
export function createEventWatch(database: Database, numbers: ProjectNumbers): EventWatch {
  const watched = new Map<string, WatchedProject>()
  let timer: NodeJS.Timeout | undefined
  let isPolling = false

  async function poll(): Promise<void> {
    isPolling = true
    try {
      const projects = int4Array([...watched.keys()].map((projectId) => numbers.likely(projectId)))
      const rows = await database.query<{ project_id: string; seq: number }>('heads', [projects])
      for (const { project_id: projectId, seq } of rows) notify(watched.get(projectId), seq)
    } catch {
      // the next poll reads again
    }
    isPolling = false
    schedule()
  }

  function notify(project: WatchedProject | undefined, seq: number): void {
    if (!project || project.seq === seq) return
    project.seq = seq
    // also on the first poll: an event may have arrived between the listener's last read and now
    for (const listen of project.listeners) listen()
  }

  function schedule(): void {
    if (watched.size === 0 || isPolling) return
    timer ??= setTimeout(() => {
      timer = undefined
      void poll()
    }, pollMs)
  }

  return {
    watch(projectId, onAppend) {
      const project = watched.get(projectId) ?? { listeners: new Set(), seq: undefined }
      watched.set(projectId, project)
      const listen = () => onAppend()
      project.listeners.add(listen)
      schedule()
      return () => {
        project.listeners.delete(listen)
        if (project.listeners.size === 0 && watched.get(projectId) === project) watched.delete(projectId)
      }
    },

    close() {
      watched.clear()
      clearTimeout(timer)
    },
  }
}
