import type { ProjectStore } from '@ingest/core'
import { createTurns } from '@ingest/core/internal'
import type { SnapshotReader } from './read-snapshot.ts'
import type { Projects } from './tables/projects.ts'
import type { Writer } from './writer/writer-client.ts'

export interface ProjectStoreOptions {
  projects: Projects
  writer: Writer
  reader: SnapshotReader
  nextReadStep(projectId: string): Promise<unknown>
}

/** About 2 milliseconds. */
const idsPerStep = 500

export function createProjectStore({ projects, writer, reader, nextReadStep }: ProjectStoreOptions): ProjectStore {
  const { readSnapshot } = reader
  const inTurn = createTurns()

  return {
    async project(projectId) {
      return readSnapshot(() => projects.get(projectId))
    },

    async projects() {
      const ids: string[] = []
      for (;;) {
        const slice = readSnapshot(() => projects.ids({ after: ids.at(-1), limit: idsPerStep }))
        ids.push(...slice)
        if (slice.length < idsPerStep) return ids
        await nextReadStep('')
      }
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
