import { IngestError } from '@ingest/core'
import type { Environment } from '../environment/environment.ts'
import { asDamage, readersFull } from '../threads/error-transfer.ts'
import type { RequestClient } from '../threads/request-client.ts'
import type { EventLog } from './event-log.ts'
import { lossBetween } from './log-end.ts'

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
  /** Like {@link ProjectNumbers.numberToBe}. */
  numberToBe(projectId: string): number
}

/** A long read of a project in steps, each on the latest snapshot. */
export interface SlicedReads extends Pick<SnapshotReader, 'readSnapshot'> {
  /** Resolves when the next step may begin. */
  nextStep(): Promise<unknown>
}

/** The most rows that one step reads in the order of their keys. */
export const stepRowsMax = 256
/** The most rows that one step looks up: each may be on a page of its own. */
export const stepLookupsMax = 64

/** The numbers that identify projects in tables. */
export interface ProjectNumbers {
  /**
   * The number of a project; undefined if it has stored nothing.
   *
   * @throws {IngestError} `store-damaged`
   */
  numberOf(projectId: string): number | undefined
  /**
   * The number of a project; for one without, the number that it gets unless another project gets it before.
   *
   * @throws {IngestError} `store-damaged`
   */
  numberToBe(projectId: string): number
}

/** The writer of this process, which fails with the reads. */
export interface SeenWriter extends Pick<RequestClient<never>, 'failure' | 'fail'> {
  /** The number of the last record that this process knows to be committed. */
  lastSeen(): number
}

/** The most numbers that are cached. */
const numbersMax = 100_000

export function createSnapshotReader(
  { root }: Environment,
  writer: SeenWriter,
  projects: ProjectNumbers,
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
