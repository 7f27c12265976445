import { IngestError } from '@ingest/core'
import type { Environment } from './environment/environment.ts'
import type { Projects } from './tables/projects.ts'
import type { Writer } from './writer/writer-client.ts'

/** Reads of the log's environment, each on the latest snapshot: it has everything that any process has committed. */
export interface SnapshotReader {
  /** @throws {IngestError} `store-failed` when the store can no longer be read */
  readSnapshot<T>(read: () => T): T
  /** Reads with the number of a project; `none` for a project that has stored nothing. */
  readProject<T>(projectId: string, none: T, read: (project: number) => T): T
  /** The number of a project, which never changes once it is assigned. */
  numberOf(projectId: string): number | undefined
}

export function createSnapshotReader({ root }: Environment, writer: Writer, projects: Projects): SnapshotReader {
  const numbers = new Map<string, number>()

  function readSnapshot<T>(read: () => T): T {
    const failure = writer.failure()
    if (failure) throw failure
    try {
      root.resetReadTxn()
      return read()
    } catch (cause) {
      // errors of lmdb have a number as their code; any other error is the caller's
      if (typeof (cause as { code?: unknown }).code !== 'number') throw cause
      const failed = new IngestError('store-failed', `A read failed: ${(cause as Error).message}.`, { cause })
      writer.fail(failed)
      throw failed
    }
  }

  function storedNumber(projectId: string): number | undefined {
    const number = numbers.get(projectId) ?? projects.numberOf(projectId)
    if (number !== undefined) numbers.set(projectId, number)
    return number
  }

  return {
    readSnapshot,
    readProject(projectId, none, read) {
      return readSnapshot(() => {
        const project = storedNumber(projectId)
        return project === undefined ? none : read(project)
      })
    },
    numberOf: (projectId) => numbers.get(projectId) ?? readSnapshot(() => storedNumber(projectId)),
  }
}
