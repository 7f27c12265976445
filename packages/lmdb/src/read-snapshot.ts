import { IngestError } from '@ingest/core'
import type { Environment } from './environment/environment.ts'
import type { EventLog } from './log/event-log.ts'
import { lossBetween } from './log/log-end.ts'
import type { Projects } from './tables/projects.ts'
import { asDamage, readersFull } from './threads/error-transfer.ts'
import type { Writer } from './writer/writer-client.ts'

/** Reads of the log's environment, each on the latest snapshot, which has everything that any process has committed. */
export interface SnapshotReader {
  /** @throws {IngestError} `store-failed` or `store-damaged` when the store can no longer be read */
  readSnapshot<T>(read: () => T): T
  /** Reads with the number of a project; returns `none` for a project that has stored nothing. */
  readProject<T>(projectId: string, none: T, read: (project: number) => T): T
  /**
   * Like {@link readProject}, for reads of the log.
   *
   * @throws {IngestError} `store-failed`, also if the log has lost records that this process has seen
   */
  readLog<T>(projectId: string, none: T, read: (project: number) => T): T
  /** The number of a project, which never changes once it is assigned. */
  numberOf(projectId: string): number | undefined
  /** Like {@link Projects.numberToBe}. */
  numberToBe(projectId: string): number
}

/** The most numbers that are cached. */
const numbersMax = 100_000

export function createSnapshotReader(
  { root }: Environment,
  writer: Writer,
  projects: Projects,
  log: EventLog,
): SnapshotReader {
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
      const refusal = readersFull(cause)
      if (refusal) throw refusal
      const damage = asDamage(cause)
      const failed =
        damage instanceof IngestError
          ? damage
          : new IngestError('store-failed', `A read failed: ${(cause as Error).message}.`, { cause })
      writer.fail(failed)
      throw failed
    }
  }

  function storedNumber(projectId: string): number | undefined {
    const known = numbers.get(projectId)
    if (known !== undefined) return known
    const number = projects.numberOf(projectId)
    if (number === undefined) return undefined
    if (numbers.size >= numbersMax) numbers.clear()
    numbers.set(projectId, number)
    return number
  }

  function readProject<T>(projectId: string, none: T, read: (project: number) => T): T {
    return readSnapshot(() => {
      const project = storedNumber(projectId)
      return project === undefined ? none : read(project)
    })
  }

  return {
    readSnapshot,
    readProject,
    readLog(projectId, none, read) {
      // read before the snapshot begins, so that the snapshot includes this record
      const seen = writer.lastSeen()
      return readProject(projectId, none, (project) => {
        const loss = lossBetween(seen, log.lastSequence())
        if (loss) {
          writer.fail(loss)
          throw loss
        }
        return read(project)
      })
    },
    numberOf: (projectId) => numbers.get(projectId) ?? readSnapshot(() => storedNumber(projectId)),
    numberToBe: (projectId) => numbers.get(projectId) ?? readSnapshot(() => projects.numberToBe(projectId)),
  }
}
