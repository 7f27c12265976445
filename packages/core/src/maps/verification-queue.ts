import { IngestError } from '../error.ts'

/** The most verifications of one project that wait for the one that is running. */
export const verificationsWaitingMax = 16

/** A verification, shared by all concurrent calls for the same work. */
export interface Verification<T> {
  projectId: string
  /** Identifies the work within the project: concurrent calls with one name share one run. */
  name: string
  /** Charges the caller before the work is queued. What it throws is what `run` rejects with. */
  admit(): void | Promise<void>
  work(signal: AbortSignal): Promise<T>
}

/** Runs verifications one at a time per project, first come, first served. */
export interface VerificationQueue {
  /**
   * Resolves with the result of the work; rejects with the reason of `signal` once that is aborted. The work is
   * cancelled when all of its callers have aborted.
   *
   * @throws {IngestError} `overloaded` when {@link verificationsWaitingMax} others wait already
   */
  run<T>(verification: Verification<T>, signal?: AbortSignal): Promise<T>
  /** Whether a verification of the project is running. */
  isBusy(projectId: string): boolean
}

interface Job {
  name: string
  callers: number
  result: Promise<unknown>
  start(): void
  cancel(reason: unknown): void
}

export function createVerificationQueue(): VerificationQueue {
  /** By project: the first one is running. */
  const jobsByProject = new Map<string, Job[]>()

  /** The job that a verification can join; throws if there is none and no other can wait. */
  function findJob({ projectId, name }: Verification<unknown>): Job | undefined {
    const jobs = jobsByProject.get(projectId) ?? []
    const job = jobs.find((each) => each.name === name)
    if (!job && jobs.length > verificationsWaitingMax) throw tooMany()
    return job
  }

  function enqueue<T>({ projectId, name, work }: Verification<T>): Job {
    const jobs = jobsByProject.get(projectId) ?? []
    const canceller = new AbortController()
    const { promise, resolve, reject } = deferred<T>()
    let isStarted = false
    const job: Job = {
      name,
      callers: 0,
      result: promise,
      start() {
        isStarted = true
        work(canceller.signal).then(resolve, reject).finally(leave)
      },
      cancel(reason) {
        // no later call may join it
        job.name = ''
        canceller.abort(reason)
        if (isStarted) return
        reject(reason)
        leave()
      },
    }
    function leave(): void {
      jobs.splice(jobs.indexOf(job), 1)
      if (jobs.length === 0) jobsByProject.delete(projectId)
      else if (isStarted) jobs[0]?.start()
    }
    // callers handle the rejection; a cancelled job has none
    promise.catch(() => {})
    jobsByProject.set(projectId, jobs)
    if (jobs.push(job) === 1) job.start()
    return job
  }

  return {
    async run<T>(verification: Verification<T>, signal?: AbortSignal) {
      signal?.throwIfAborted()
      const job = findJob(verification)
      if (job) return join<T>(job, signal)
      const admitted = verification.admit()
      // not awaited if synchronous, so that concurrent calls are charged once
      if (admitted === undefined) return join<T>(enqueue(verification), signal)
      await admitted
      signal?.throwIfAborted()
      // a concurrent call may have been admitted meanwhile
      return join<T>(findJob(verification) ?? enqueue(verification), signal)
    },
    isBusy: (projectId) => jobsByProject.has(projectId),
  }
}

/** Waits for a job until it is done, or until `signal` is aborted. */
async function join<T>(job: Job, signal: AbortSignal | undefined): Promise<T> {
  job.callers++
  const { promise, reject } = deferred<never>()
  function leave(): void {
    reject(signal?.reason)
    if (--job.callers === 0) job.cancel(signal?.reason)
  }
  signal?.addEventListener('abort', leave, { once: true })
  try {
    return (await Promise.race([job.result, promise])) as T
  } finally {
    signal?.removeEventListener('abort', leave)
  }
}

function tooMany(): IngestError {
  const message = `${verificationsWaitingMax} maps of the project wait to be verified: try again later.`
  return new IngestError('overloaded', message, { retryAfterSeconds: 1 })
}

// Promise.withResolvers is not in Node 20
function deferred<T>() {
  let resolve: (value: T) => void = () => {}
  let reject: (reason: unknown) => void = () => {}
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { promise, resolve, reject }
}
