import type { ConsumerRecord, ConsumerStore } from '@ingest/core'
import type { Database } from '../connection/database.ts'
import type { ProjectNumbers } from '../projects/project-numbers.ts'
import { createProjectState } from '../projects/project-state.ts'
import { listProjects } from '../projects/read-projects.ts'

export function createConsumerStore(database: Database, numbers: ProjectNumbers): ConsumerStore {
  const states = createProjectState(database, numbers, { read: 'consumers', write: 'put-consumers' })

  return {
    async consumers(projectId) {
      return parseState(await states.read(projectId))
    },

    consumerProjects: () => listProjects(database, 'consumer-projects'),

    updateConsumers(projectId, decide) {
      return states.update(projectId, (before) => {
        const { consumers, result } = decide(parseState(before))
        return { ...(consumers && { state: consumers.length > 0 ? JSON.stringify(consumers) : null }), result }
      })
    },
  }
}

function parseState(state: string | null): readonly ConsumerRecord[] {
  return state === null ? [] : JSON.parse(state)
}
