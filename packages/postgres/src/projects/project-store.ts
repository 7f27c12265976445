import { randomUUID } from 'node:crypto'
import type { Project, ProjectStore } from '@ingest/core'
import { createTurns } from '@ingest/core/internal'
import type { Database } from '../connection/database.ts'
import type { ProjectNumbers } from './project-numbers.ts'

interface StateRow {
  version: string | null
  state: string | null
}

export function createProjectStore(
  database: Database,
  numbers: ProjectNumbers,
): Pick<ProjectStore, 'project' | 'projects' | 'updateProject'> {
  const inTurn = createTurns()

  async function readState(query: Database['query'], project: number | undefined): Promise<StateRow> {
    const [row] = project === undefined ? [] : await query<StateRow>('project-state', [project])
    return row ?? { version: null, state: null }
  }

  return {
    async project(projectId) {
      return parseState((await readState(database.query, await numbers.find(projectId))).state)
    },

    async projects() {
      const rows = await database.query<{ project_id: string }>('projects')
      return rows.map((row) => row.project_id)
    },

    updateProject(projectId, decide) {
      return inTurn(projectId, async () => {
        let { query } = database
        for (;;) {
          const existing = await numbers.find(projectId)
          const { version, state } = await readState(query, existing)
          const { project, result } = decide(parseState(state))
          if (!project) {
            if (query === database.queryConfirmed) return result
            query = database.queryConfirmed
            continue
          }
          const number = existing ?? (await numbers.create(projectId))
          const values = [number, version, randomUUID(), JSON.stringify(project)]
          const [row] = await database.query<{ written: boolean }>('put-project', values)
          if (row?.written) return result
          numbers.forget(projectId)
        }
      })
    },
  }
}

function parseState(state: string | null): Project | undefined {
  return state === null ? undefined : JSON.parse(state)
}
