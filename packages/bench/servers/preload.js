import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { answerCalls } from '../src/answer-calls.js'
import { makeBatch, makeSmallEvent, newSeed, stampBatch } from '../src/make-batch.js'
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

answerCalls({
  async start({ directory, isSmall, ...rest }) {
    projectId = rest.projectId
    options = isSmall ? { event: makeSmallEvent } : {}
    store = await openLmdbStore(directory)
    ingest = createIngest({ store })
    // as in a server, the project is there before its events
    await ingest.keys.create(projectId)
    return { events: (await store.totals(projectId)).events }
  },

  /** Appends so many new events, and says how many are stored then. */
  async append({ events }) {
    const until = number + Math.ceil(events / eventsPerBatch)
    await Promise.all(Array.from({ length: inFlight }, () => submitUntil(until)))
    return (await store.totals(projectId)).events
  },

  memory: memoryAtRest,

  stop: () => ingest?.close(),
})

/** @param {number} until */
async function submitUntil(until) {
  const batch = makeBatch(projectId, eventsPerBatch, options)
  while (number < until) {
    stampBatch(batch, seed, number++)
    const { accepted } = await ingest.project(projectId).submitBatch(batch.body)
    if (accepted !== eventsPerBatch) throw new Error('a new event was taken for a duplicate')
  }
}
