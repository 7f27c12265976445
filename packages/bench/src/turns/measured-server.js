import { closeSync, openSync, readSync } from 'node:fs'
import { argv, pid } from 'node:process'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { serve } from '@ingest/server'

// Serves a store, and measures the processor time of each turn of the event loop. Started by turns.js.

const [directory = '', adminToken = ''] = argv.slice(2)
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

function endTurn() {
  const nowMs = threadMs()
  longestMs = Math.max(longestMs, nowMs - turnBeganMs)
  turnBeganMs = nowMs
  setImmediate(endTurn)
}

const ingest = createIngest({ store: await openLmdbStore(directory), rejected: { keepEvents: true } })
const rateLimits = Object.fromEntries(
  ['requests', 'events', 'batchBytes', 'mapRequests', 'mapBytes', 'readRequests', 'readBytes'].map((name) => [
    name,
    limit,
  ]),
)
const served = await serve({ ingest, port: 0, rateLimits, admin: { port: 0, token: adminToken } })

process.on('message', (/** @type {string} */ message) => {
  if (message === 'begin') {
    longestMs = 0
    process.send?.({ begun: true })
  }
  if (message === 'end') process.send?.({ longestMs })
})
process.once('disconnect', () => {
  closeSync(schedstat)
  process.exit()
})
setImmediate(endTurn)
process.send?.({ url: served.url, adminUrl: served.admin?.url })
