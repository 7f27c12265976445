import { hash, randomUUID } from 'node:crypto'
import type { Project, ProjectStore } from '@ingest/core'
import type { Database } from '../connection/database.ts'

/** The numbers of projects, which lead the keys of all tables. */
export interface ProjectNumbers {
  /** The number of a project; undefined if it was never written. */
  find(projectId: string): Promise<number | undefined>
  /** The number of a project, which is created if it is missing. */
  create(projectId: string): Promise<number>
  /** Forgets a number that the database does not know, as after a failover that lost the project. */
  forget(projectId: string): void
}

/** The most numbers that are cached. */
const cachedMax = 100_000

export function createProjectNumbers(database: Database): ProjectNumbers {
  const cache = new Map<string, number>()

  async function probe(projectId: string, idAt: (project: number) => Promise<string | undefined>) {
    const cached = cache.get(projectId)
    if (cached !== undefined) return cached
    for (let attempt = 0; ; attempt++) {
      const project = numberOf(projectId, attempt)
      const id = await idAt(project)
      if (id === undefined) return undefined
      if (id !== projectId) continue
      if (cache.size >= cachedMax) cache.clear()
      cache.set(projectId, project)
      return project
    }
  }

  return {
    find: (projectId) =>
      probe(projectId, async (project) => {
        const [row] = await database.query<{ project_id: string }>('project-id', [project])
        return row?.project_id
      }),

    async create(projectId) {
      const project = await probe(projectId, async (number) => {
        const [row] = await database.query<{ project_id: string }>('create-project', [number, projectId])
        return row?.project_id
      })
      return project as number
    },

    forget: (projectId) => void cache.delete(projectId),
  }
}

/** A hash of the id, so that it stays the same after a failover that lost the project; further attempts for collisions. */
export function numberOf(projectId: string, attempt: number): number {
  return hash('sha256', `${attempt}:${projectId}`, 'buffer').readInt32BE(0)
}

export interface ProjectStoreOptions {
  database: Database
  numbers: ProjectNumbers
  projectAgeMs: number
}

interface StateRow {
  version: string | null
  state: string | null
}

export function createProjectStore({ database, numbers, projectAgeMs }: ProjectStoreOptions): ProjectStore {
  async function readState(project: number): Promise<StateRow> {
    const [row] = await database.query<StateRow>('project-state', [project])
    return row ?? { version: null, state: null }
  }

  return {
    projectAgeMs,

    async project(projectId) {
      const project = await numbers.find(projectId)
      return project === undefined ? undefined : parseState((await readState(project)).state)
    },

    async projects() {
      const rows = await database.query<{ project_id: string }>('projects')
      return rows.map((row) => row.project_id)
    },

    async updateProject(projectId, decide) {
      for (;;) {
        const existing = await numbers.find(projectId)
        const { version, state } = existing === undefined ? { version: null, state: null } : await readState(existing)
        const { project, result } = decide(parseState(state))
        if (!project) return result
        const number = existing ?? (await numbers.create(projectId))
        const values = [number, version, randomUUID(), JSON.stringify(project)]
        const [row] = await database.query<{ written: boolean }>('put-project', values)
        if (row?.written) return result
        numbers.forget(projectId)
      }
    },
  }
}

function parseState(state: string | null): Project | undefined {
  return state === null ? undefined : JSON.parse(state)
}
