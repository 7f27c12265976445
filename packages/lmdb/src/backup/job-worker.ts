import { readdirSync } from 'node:fs'
import { setPriority } from 'node:os'
import { asDamage, serializeError, toRequestError } from '../threads/error-transfer.ts'
import { copyDirectory } from './copy-directory.ts'
import type { Job, JobMessage } from './run-job.ts'
import { verifyDirectory } from './verify-directory.ts'

// A process that reads a store on behalf of another one, which survives if LMDB crashes this one.

const niceness = 10

// the parent process decides what a signal of the terminal means
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {})
// a copy can only be stopped by ending its process
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
process.once('message', (job: Job) => void run(job))

async function run(job: Job): Promise<void> {
  lowerPriority()
  send(
    await resultOf(job).catch(
      (error): JobMessage => ({ type: 'failed', error: serializeError(toRequestError(asDamage(error))) }),
    ),
  )
}

async function resultOf(job: Job): Promise<JobMessage> {
  if (job.to !== undefined) {
    let done = 0
    await copyDirectory(job.directory, job.to, (bytes) => {
      done += bytes
      send({ type: 'progress', progress: { phase: 'copy', done } })
    })
  }
  const report = await verifyDirectory(job.to ?? job.directory, (progress) => send({ type: 'progress', progress }))
  return { type: 'done', report }
}

function send(message: JobMessage): void {
  process.send?.(message)
}

/** Yields to servers. On Linux each thread has its own priority, and threads that start later inherit it. */
function lowerPriority(): void {
  const threads = process.platform === 'linux' ? readdirSync('/proc/self/task').map(Number) : [0]
  for (const thread of threads) {
    try {
      setPriority(thread, niceness)
    } catch {
      // the thread has ended, or the priority is lower already
    }
  }
}
