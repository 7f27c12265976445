import { createIngest } from '@ingest/core'
import { migratePostgres, openPostgresStore } from '@ingest/postgres'
import { serve } from '@ingest/server'
import { answerCalls } from '../src/answer-calls.js'
import { makeBatch, newSeed, stampBatch } from '../src/make-batch.js'

// Ingest on PostgreSQL as `ingest serve --store` runs it, without rate limits and logs.
const preloadsInFlight = 32
/** @type {import('@ingest/core').EmbeddedIngest} */
let ingest
/** @type {import('@ingest/server').Served} */
let server
let projectId = ''

answerCalls({
  async start({ url, keyPartitions, ...options }) {
    projectId = options.projectId
    if (keyPartitions !== undefined && options.isFresh) await migratePostgres(url, { keyPartitions })
    ingest = createIngest({ store: await openPostgresStore(url) })
    const { key } = await ingest.keys.create(projectId)
    server = await serve({ ingest, port: 0 })
    return { port: server.port, headers: { 'X-Project-Id': projectId, 'X-Ingestion-Key': key } }
  },

  /** Through the store itself, without HTTP. @param {{ events: number, idVersion: 4 | 7 }} options */
  async preload({ events, idVersion }) {
    const seed = newSeed()
    let number = 0
    async function submitAll() {
      const batch = makeBatch(projectId, 100, { idVersion })
      while (number * batch.count < events) {
        stampBatch(batch, seed, number++)
        const { accepted } = await ingest.project(projectId).submitBatch(batch.body)
        if (accepted !== batch.count) throw new Error('a new event was taken for a duplicate')
      }
    }
    await Promise.all(Array.from({ length: preloadsInFlight }, submitAll))
  },

  async stop() {
    await server?.close()
    await ingest?.close()
  },
})
