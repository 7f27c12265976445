import { setTimeout as sleep } from 'node:timers/promises'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { openPostgresStore } from '@ingest/postgres'
import { serve } from '@ingest/server'
import { serveCalls } from '../src/contenders/serve-calls.js'
import { makeBatch, newSeed, stampBatch } from '../src/load/make-batch.js'
import { memoryAtRest } from './memory-at-rest.js'

// Ingest as `ingest serve` runs it, but without rate limits and logs.
const preloadsInFlight = 64
/** @type {import('@ingest/core').EmbeddedIngest} */
let ingest
/** @type {import('@ingest/server').Served} */
let server
let projectId = ''

serveCalls({
  /** @param {{ projectId: string, directory: string, url?: string }} options `url` is that of a database to use instead of the directory */
  async start({ directory, url, ...options }) {
    projectId = options.projectId
    const before = performance.now()
    const store = url === undefined ? await openLmdbStore(directory) : await openPostgresStore(url)
    const openMs = performance.now() - before
    ingest = createIngest({ store })
    const { key } = await ingest.keys.create(projectId)
    server = await serve({ ingest, port: 0 })
    const { events } = await store.totals(projectId)
    return { port: server.port, headers: { 'X-Project-Id': projectId, 'X-Ingestion-Key': key }, openMs, events }
  },

  /** Stores new events without HTTP. @param {{ events: number }} options a multiple of 100 */
  async preload({ events }) {
    const seed = newSeed()
    let number = 0
    async function submitAll() {
      const batch = makeBatch(projectId, 100)
      while (number * batch.count < events) {
        stampBatch(batch, seed, number++)
        const { accepted } = await submit(batch.body)
        if (accepted !== batch.count) throw new Error('a new event was taken for a duplicate')
      }
    }
    await Promise.all(Array.from({ length: preloadsInFlight }, submitAll))
  },

  memory: memoryAtRest,

  async stop() {
    await server?.close()
    await ingest?.close()
  },
})

/** Submits a batch, and repeats it if it is refused because of too many others. @param {Buffer} body */
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
