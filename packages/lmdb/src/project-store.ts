import type { ProjectStore } from '@ingest/core'
import { createTurns } from '@ingest/core/internal'
import type { SnapshotReader } from './read-snapshot.ts'
import type { Projects } from './tables/projects.ts'
import type { Writer } from './writer/writer-client.ts'

export interface ProjectStoreOptions {
  projects: Projects
  writer: Writer
  reader: SnapshotReader
}

export function createProjectStore({ projects, writer, reader }: ProjectStoreOptions): ProjectStore {
  const { readSnapshot } = reader
  const inTurn = createTurns()

  return {
    async project(projectId) {
      return readSnapshot(() => projects.get(projectId))
    },

    async projects() {
      return readSnapshot(() => projects.ids())
    },

    updateProject(projectId, decide) {
      return inTurn(projectId, async () => {
        for (;;) {
          const [version, before] = readSnapshot(
            () => [projects.version(projectId), projects.current(projectId)] as const,
          )
          const { project, result } = decide(before)
          if (!project || (await writer.run({ type: 'putProject', projectId, version, project }))) return result
        }
      })
    },
  }
}
