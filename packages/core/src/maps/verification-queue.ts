import { IngestError } from '../error.ts'
import { createTurns } from '../operations.ts'

/** Maximum number of verifications of one project that wait while another one runs. */
export const verificationsWaitingMax = 16

/** A verification. Concurrent calls for the same work share it. */
export interface Verification<T> {
  projectId: string
  /** Identifies the work within the project: concurrent calls with the same name share one run. */
  name: string
  /** Charges the caller before the work is queued. `run` rejects with the error that it throws. */
  admit(): void | Promise<void>
  work(signal: AbortSignal): Promise<T>
}

/** Runs verifications one at a time per project, first come, first served. */
export interface VerificationQueue {
  /**
   * Resolves with the result of the work; rejects with the reason of `signal` once it has aborted. The work is
   * cancelled when all of its callers have aborted.
   *
   * @throws {IngestError} `overloaded` when {@link verificationsWaitingMax} others are waiting
   */
  run<T>(verification: Verification<T>, signal?: AbortSignal): Promise<T>
  /** Whether a verification of the project is running. */
  isBusy(projectId: string): boolean
}

interface Job {
  name: string
  callers: number
  result: Promise<unknown>
  cancel(reason: unknown): void
}

export function createVerificationQueue(): VerificationQueue {
  const runInTurn = createTurns()
  /** By project; the first job is running. */
  const jobsByProject = new Map<string, Set<Job>>()

  /** The job that a verification can join; throws if there is none and no other can wait. */
  function findJob({ projectId, name }: Verification<unknown>): Job | undefined {
    const jobs = [...(jobsByProject.get(projectId) ?? [])]
    const job = jobs.find((each) => each.name === name)
    if (!job && jobs.length > verificationsWaitingMax) throw tooMany()
    return job
  }

  function enqueue<T>({ projectId, name, work }: Verification<T>): Job {
    const jobs = jobsByProject.get(projectId) ?? new Set()
    const canceller = new AbortController()
    const job: Job = {
      name,
      callers: 0,
      result: runInTurn(projectId, async () => {
        canceller.signal.throwIfAborted()
        return work(canceller.signal)
      }),
      cancel(reason) {
        // no later call may join the job
        job.name = ''
        canceller.abort(reason)
        // a running job leaves the queue when it has ended
        const [running] = jobs
        if (job !== running) leave()
      },
    }
    function leave(): void {
      jobs.delete(job)
      if (jobs.size === 0) jobsByProject.delete(projectId)
    }
    // callers handle the rejection; a cancelled job has no callers
    job.result.then(leave, leave)
    jobsByProject.set(projectId, jobs.add(job))
    return job
  }

  return {
    async run<T>(verification: Verification<T>, signal?: AbortSignal) {
      signal?.throwIfAborted()
      const job = findJob(verification)
      if (job) return join<T>(job, signal)
      const admitted = verification.admit()
      // awaited only if asynchronous, so that concurrent calls are charged once
      if (admitted === undefined) return join<T>(enqueue(verification), signal)
      await admitted
      signal?.throwIfAborted()
      // a concurrent call may have been admitted in the meantime
      return join<T>(findJob(verification) ?? enqueue(verification), signal)
    },
    isBusy: (projectId) => jobsByProject.has(projectId),
  }
}

/** Waits for a job until it is done or `signal` aborts. */
async function join<T>(job: Job, signal: AbortSignal | undefined): Promise<T> {
  job.callers++
  let leave = () => {}
  const left = new Promise<never>((_, reject) => {
    leave = () => {
      reject(signal?.reason)
      if (--job.callers === 0) job.cancel(signal?.reason)
    }
  })
  signal?.addEventListener('abort', leave, { once: true })
  try {
    return (await Promise.race([job.result, left])) as T
  } finally {
    signal?.removeEventListener('abort', leave)
  }
}

function tooMany(): IngestError {
  const message = `${verificationsWaitingMax} maps of the project wait to be verified: try again later.`
  return new IngestError('overloaded', message, { retryAfterSeconds: 1 })
}
