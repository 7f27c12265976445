import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { serve } from '@ingest/server'
import { answerCalls } from '../src/answer-calls.js'
import { memoryAtRest } from './memory-at-rest.js'

// Ingest as `ingest serve` runs it, without rate limits and logs.
/** @type {import('@ingest/core').EmbeddedIngest} */
let ingest
/** @type {import('@ingest/core').Store} */
let store
/** @type {import('@ingest/server').Served} */
let server
let projectId = ''

answerCalls({
  async start(options) {
    projectId = options.projectId
    const before = performance.now()
    store = await openLmdbStore(options.directory)
    const openMs = performance.now() - before
    ingest = createIngest({ store })
    const { key } = await ingest.keys.create(projectId)
    server = await serve({ ingest, port: 0 })
    const { events } = await store.totals(projectId)
    const headers = { 'X-Project-Id': projectId, 'X-Ingestion-Key': key }
    return { port: server.port, headers, openMs, events }
  },
  events: async () => (await store.totals(projectId)).events,
  memory: memoryAtRest,
  async stop() {
    await server?.close()
    await ingest?.close()
  },
})
