import { hash } from 'node:crypto'
import type { Database } from '../connection/database.ts'

/** The numbers of projects, the first column of the keys of all tables. */
export interface ProjectNumbers {
  /** The number of a project; undefined if it was never written. */
  find(projectId: string): Promise<number | undefined>
  /** The number of a project, which is created if missing. `deadline` is that of `Database.query`. */
  create(projectId: string, deadline?: number): Promise<number>
  /** The number of a project if it is cached, otherwise its most likely number. */
  likely(projectId: string): number
  /** Forgets a number that the database does not know, for example after a failover that lost the project. */
  forget(projectId: string): void
}

/** Maximum number of cached numbers. */
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

    async create(projectId, deadline) {
      const project = await probe(projectId, async (number) => {
        const [row] = await database.query<{ project_id: string }>('create-project', [number, projectId], deadline)
        return row?.project_id
      })
      return project as number
    },

    likely: (projectId) => cache.get(projectId) ?? numberOf(projectId, 0),

    forget: (projectId) => void cache.delete(projectId),
  }
}

/**
 * Runs a query of `sql/queries` whose first value is the number of a project. Returns no rows if the project is
 * unknown.
 */
export type ProjectQuery = <Row>(projectId: string, name: string, ...values: unknown[]) => Promise<Row[]>

export function createProjectQuery(
  { query }: Pick<Database, 'query'>,
  numbers: Pick<ProjectNumbers, 'find'>,
): ProjectQuery {
  return async <Row>(projectId: string, name: string, ...values: unknown[]) => {
    const project = await numbers.find(projectId)
    return project === undefined ? [] : query<Row>(name, [project, ...values])
  }
}

/**
 * A hash of the id, so that a project keeps its number after a failover that lost it; `attempt` resolves collisions.
 */
export function numberOf(projectId: string, attempt: number): number {
  return hash('sha256', `${attempt}:${projectId}`, 'buffer').readInt32BE(0)
}
