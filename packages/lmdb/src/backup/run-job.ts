import { type ChildProcess, fork } from 'node:child_process'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { IngestError } from '@ingest/core'
import { deserializeError, type SerializedError } from '../threads/error-transfer.ts'
import type { StoreReport } from './store-report.ts'
import type { VerifyProgress } from './verify-directory.ts'

/*
 * Backups, restores and verification. LMDB crashes over some damage, so a job reads the store in a process of its own,
 * with a low priority, while servers run.
 *
 * - job: verifies a directory, or copies it and verifies the copy (`job-worker.ts`)
 * - copy: the rows of one snapshot of each environment (`copy-directory.ts`), so it has no free pages and no erased
 *   bytes
 * - staging: the directory beside the target that is filled, verified and synced before it gets its name (`staging.ts`)
 * - report: the counts of a verification, and the problems that it has found (`store-report.ts`)
 * - verification: `check-log.ts` reads each record and looks up each id, `check-maps.ts` hashes each chunk and each map
 * - epoch: a restored store begins a new one, which invalidates earlier cursors
 *
 * Start with `back-up-lmdb-store.ts`, then `verify-directory.ts`. `repair/` copies a store that is damaged.
 */

/** A directory to verify, or to copy; a copy is verified too. */
export interface Job {
  directory: string
  to?: string
}

/** In the phase `copy`, `done` counts bytes of rows. */
export type JobProgress = VerifyProgress | { phase: 'copy'; done: number; total?: undefined }

export type JobMessage =
  | { type: 'progress'; progress: JobProgress }
  | { type: 'done'; report: StoreReport }
  | { type: 'failed'; error: SerializedError }

export interface JobOptions {
  /** Stops the job; its reason is thrown. */
  signal?: AbortSignal
  onProgress?: (progress: JobProgress) => void
}

const module = fileURLToPath(new URL('./job-worker.js', import.meta.url))

/**
 * Runs a job in a process of its own, with a low priority: some damage makes LMDB crash the process, and a copy can
 * only be stopped by ending its process.
 *
 * @throws {IngestError} those of the job, `store-damaged` if LMDB has crashed, and `store-unavailable` if a signal from
 *   outside ended the process
 */
export async function runJob(job: Job, { signal, onProgress = () => {} }: JobOptions): Promise<StoreReport> {
  signal?.throwIfAborted()
  const child = forkReader(module)
  const stop = () => void child.kill('SIGKILL')
  signal?.addEventListener('abort', stop)
  let phase = 'opening'
  try {
    return await new Promise<StoreReport>((resolve, reject) => {
      child.on('message', (message: JobMessage) => {
        if (message.type === 'done') return resolve(message.report)
        if (message.type === 'failed') return reject(deserializeError(message.error))
        phase = describe(message.progress)
        onProgress(message.progress)
      })
      child.once('error', reject)
      child.once('exit', (code, name) => {
        reject(endedFromOutside(job.directory, name) ?? crashed(job.directory, phase, name ?? `exit code ${code}`))
      })
      sendTo(child, job)
    })
  } catch (error) {
    return await throwUnlessAborted(error, signal)
  } finally {
    signal?.removeEventListener('abort', stop)
    await new Promise<void>((resolve) => {
      if (child.exitCode !== null || child.signalCode !== null) return resolve()
      child.once('exit', () => resolve())
      stop()
    })
  }
}

/** Forks a process for reads that may crash it. */
export function forkReader(program: string): ChildProcess {
  const { SystemRoot } = process.env
  return fork(program, {
    execArgv: [],
    env: SystemRoot ? { SystemRoot } : {},
    serialization: 'advanced',
    // LMDB writes plain text about damage to standard error
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
}

/** Sends a message to a process for reads. If that fails, the process has ended, and its `exit` tells why. */
export function sendTo(child: ChildProcess, message: object): void {
  child.send(message, () => {})
}

/** Throws the reason of `signal` if it is aborted, and otherwise `error`, with which a process for reads has failed. */
export async function throwUnlessAborted(error: unknown, signal: AbortSignal | undefined): Promise<never> {
  // a signal of the terminal goes to both processes, and this one may notice the end of the other first
  await nextTurn()
  signal?.throwIfAborted()
  throw error
}

/** A terminal, a service manager, or the kernel when memory is short sends these. A crash of LMDB is another signal. */
const signalsFromOutside: readonly (NodeJS.Signals | null)[] = ['SIGHUP', 'SIGINT', 'SIGKILL', 'SIGTERM']

/** The error if a signal from outside ended a process that reads a store; undefined if LMDB may have crashed. */
export function endedFromOutside(directory: string, signal: NodeJS.Signals | null): IngestError | undefined {
  if (!signalsFromOutside.includes(signal)) return undefined
  return new IngestError('store-unavailable', `The process that reads ${directory} was ended by ${signal}: try again.`)
}

function describe(progress: JobProgress): string {
  return progress.phase === 'copy'
    ? `copying, at ${progress.done}`
    : `reading the ${progress.phase}, at ${progress.done}`
}

function crashed(directory: string, phase: string, how: string): IngestError {
  return new IngestError(
    'store-damaged',
    `LMDB crashed over ${directory} (${phase}: ${how}): save what is left with \`ingest repair\`, or restore a backup.`,
  )
}
