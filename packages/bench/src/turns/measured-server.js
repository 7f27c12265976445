import { closeSync, openSync, readSync } from 'node:fs'
import { argv, pid } from 'node:process'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { serve } from '@ingest/server'

// Serves a store without rate limits, and measures the processor time of each turn of the event loop. Its arguments:
// the directory, the administrators' token, and the module that creates the console, if it serves one.

const [directory = '', adminToken = '', consoleModule] = argv.slice(2)
const schedstat = openSync(`/proc/self/task/${pid}/schedstat`, 'r')
const buffer = Buffer.alloc(64)
const limit = { perSecond: 1_000_000_000, burst: 1_000_000_000 }

const never = new Int32Array(new SharedArrayBuffer(4))

/** The processor time of the main thread in milliseconds, which other processes do not distort. */
function threadMs() {
  // the kernel updates the time of a thread when it blocks, otherwise only every few milliseconds
  Atomics.wait(never, 0, 0, 0.001)
  const length = readSync(schedstat, buffer, 0, buffer.length, 0)
  return Number(buffer.toString('latin1', 0, buffer.indexOf(32)).slice(0, length)) / 1e6
}

let turnBeganMs = threadMs()
let longestMs = 0
/** Measured turns follow each other without a pause, which would slow down other work. */
let isMeasuring = false
/** The sum of the turns that are not idle. */
let busyMs = 0
/** An idle turn is shorter than this, including its measurement. */
const idleMs = 0.1

function endTurn() {
  const nowMs = threadMs()
  const turnMs = nowMs - turnBeganMs
  longestMs = Math.max(longestMs, turnMs)
  if (turnMs > idleMs) busyMs += turnMs
  turnBeganMs = nowMs
  if (isMeasuring) setImmediate(endTurn)
}

const ingest = createIngest({ store: await openLmdbStore(directory), rejected: { keepEvents: true } })
const rateLimits = Object.fromEntries(
  ['requests', 'events', 'batchBytes', 'mapRequests', 'mapBytes', 'readRequests', 'readBytes'].map((name) => [
    name,
    limit,
  ]),
)
const page = consoleModule && (await import(consoleModule)).createConsole()
const served = await serve({ ingest, port: 0, rateLimits, console: page, admin: { port: 0, token: adminToken } })

process.on('message', (/** @type {string} */ message) => {
  if (message === 'begin') {
    longestMs = 0
    busyMs = 0
    isMeasuring = true
    turnBeganMs = threadMs()
    setImmediate(endTurn)
    process.send?.({ begun: true })
  }
  if (message === 'end') {
    isMeasuring = false
    process.send?.({ longestMs, busyMs })
  }
})
process.once('disconnect', () => {
  closeSync(schedstat)
  process.exit()
})
process.send?.({ url: served.url, adminUrl: served.admin?.url })
