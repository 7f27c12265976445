import type { Project, ProjectStore } from '@ingest/core'
import type { Database } from '../connection/database.ts'
import type { ProjectNumbers } from './project-numbers.ts'
import { createProjectState } from './project-state.ts'
import { listProjects } from './read-projects.ts'

export function createProjectStore(
  database: Database,
  numbers: ProjectNumbers,
): Pick<ProjectStore, 'project' | 'projects' | 'updateProject'> {
  const states = createProjectState(database, numbers, { read: 'project-state', write: 'put-project' })

  return {
    async project(projectId) {
      return parseState(await states.read(projectId))
    },

    projects: () => listProjects(database, 'projects'),

    updateProject(projectId, decide) {
      return states.update(projectId, (before) => {
        const { project, result } = decide(parseState(before))
        return { ...(project && { state: JSON.stringify(project) }), result }
      })
    },
  }
}

function parseState(state: string | null): Project | undefined {
  return state === null ? undefined : JSON.parse(state)
}
