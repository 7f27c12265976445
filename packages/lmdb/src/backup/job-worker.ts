import { readdirSync } from 'node:fs'
import { setPriority } from 'node:os'
import { asDamage, serializeError, toRequestError } from '../threads/error-transfer.ts'
import { copyDirectory } from './copy-directory.ts'
import type { Job, JobMessage } from './run-job.ts'
import { verifyDirectory } from './verify-directory.ts'

// A process that reads a store for another one, which goes on if LMDB crashes this one.

const niceness = 10

// the process that waits for the result decides what a signal of the terminal means
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => {})
// a copy cannot be stopped in any other way
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

/** Servers come first. On Linux each thread has a priority of its own, and those started later inherit it. */
function lowerPriority(): void {
  const threads = process.platform === 'linux' ? readdirSync('/proc/self/task').map(Number) : [0]
  for (const thread of threads) {
    try {
      setPriority(thread, niceness)
    } catch {
      // the thread has ended, or the process has a lower priority already
    }
  }
}
