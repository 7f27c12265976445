import { randomUUID } from 'node:crypto'
import { createTurns } from '@ingest/core/internal'
import type { Database } from '../connection/database.ts'
import type { ProjectNumbers } from './project-numbers.ts'

/** A text of each project that is replaced as a whole; null until it is first written. */
export interface ProjectState {
  read(projectId: string): Promise<string | null>
  /**
   * Reads, decides and writes in one step; `decide` is called again after a lost race. If it returns no `state`,
   * nothing is written, and this resolves once the synchronous standby has the state that was read.
   */
  update<T>(projectId: string, decide: (state: string | null) => { state?: string | null; result: T }): Promise<T>
}

interface StateRow {
  version: string | null
  state: string | null
}

/** `queries` are the names of the statements of `sql/queries` that read and write the state and its version. */
export function createProjectState(
  database: Database,
  numbers: ProjectNumbers,
  queries: { read: string; write: string },
): ProjectState {
  const inTurn = createTurns()

  async function readRow(query: Database['query'], project: number | undefined): Promise<StateRow> {
    const [row] = project === undefined ? [] : await query<StateRow>(queries.read, [project])
    return row ?? { version: null, state: null }
  }

  return {
    async read(projectId) {
      return (await readRow(database.query, await numbers.find(projectId))).state
    },

    update(projectId, decide) {
      return inTurn(projectId, async () => {
        let { query } = database
        for (;;) {
          const existing = await numbers.find(projectId)
          const before = await readRow(query, existing)
          const { state, result } = decide(before.state)
          if (state === undefined) {
            if (query === database.queryConfirmed) return result
            query = database.queryConfirmed
            continue
          }
          const number = existing ?? (await numbers.create(projectId))
          const values = [number, before.version, randomUUID(), state]
          const [row] = await database.query<{ written: boolean }>(queries.write, values)
          if (row?.written) return result
          numbers.forget(projectId)
        }
      })
    },
  }
}
