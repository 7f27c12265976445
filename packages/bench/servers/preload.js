import { setTimeout as sleep } from 'node:timers/promises'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { answerCalls } from '../src/answer-calls.js'
import { makeBatch, makeSmallEvent, newSeed, stampBatch } from '../src/make-batch.js'
import { percentile } from '../src/statistics.js'
import { memoryAtRest } from './memory-at-rest.js'

// Fills a store without HTTP.
const inFlight = 64
const eventsPerBatch = 100
const seed = newSeed()
/** @type {import('@ingest/core').Store} */
let store
/** @type {import('@ingest/core').EmbeddedIngest} */
let ingest
let projectId = ''
/** @type {object} */
let options = {}
let number = 0
/** Of the batches of the last append, in milliseconds. @type {number[]} */
let latencies = []

answerCalls({
  async start({ directory, isSmall, ...rest }) {
    projectId = rest.projectId
    options = isSmall ? { event: makeSmallEvent } : {}
    const before = performance.now()
    store = await openLmdbStore(directory)
    const openMs = performance.now() - before
    ingest = createIngest({ store })
    // as in a server, the project is there before its events
    await ingest.keys.create(projectId)
    return { openMs, events: (await store.totals(projectId)).events }
  },

  /** Appends so many new events, or for so many seconds, and says how many are stored then. */
  async append({ events = Number.POSITIVE_INFINITY, seconds = Number.POSITIVE_INFINITY }) {
    const until = number + Math.ceil(events / eventsPerBatch)
    const latest = performance.now() + seconds * 1000
    latencies = []
    await Promise.all(Array.from({ length: inFlight }, () => submitUntil(until, latest)))
    return (await store.totals(projectId)).events
  },

  /** How many events the last `append` has stored, and the 99th percentile of its batches. */
  last: () => ({
    events: latencies.length * eventsPerBatch,
    p99Ms: percentile(
      latencies.sort((x, y) => x - y),
      0.99,
    ),
  }),

  memory: memoryAtRest,

  stop: () => ingest?.close(),
})

/** @param {number} until @param {number} latest */
async function submitUntil(until, latest) {
  const batch = makeBatch(projectId, eventsPerBatch, options)
  for (let before = performance.now(); number < until && before < latest; before = performance.now()) {
    stampBatch(batch, seed, number++)
    const { accepted } = await submit(batch.body)
    if (accepted !== eventsPerBatch) throw new Error('a new event was taken for a duplicate')
    latencies.push(performance.now() - before)
  }
}

/** Submits a batch, again when the store asks for it. @param {Buffer} body */
async function submit(body) {
  for (;;) {
    try {
      return await ingest.project(projectId).submitBatch(body)
    } catch (error) {
      const { code, retryAfterSeconds = 1 } = /** @type {import('@ingest/core').IngestError} */ (error)
      if (code !== 'overloaded') throw error
      await sleep(retryAfterSeconds * 1000)
    }
  }
}
