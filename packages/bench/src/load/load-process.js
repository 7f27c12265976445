import { randomFillSync } from 'node:crypto'
import { createClient } from '@ingest/client'
import { projectId } from '../contenders/find-contenders.js'
import { serveCalls } from '../contenders/serve-calls.js'
import { sendLoad } from './send-load.js'

// The load, in a process of its own: batches of events, and maps.

/** @type {import('@ingest/client').Client | undefined} */
let client
let builds = 0

serveCalls({
  /** @param {{ port: number, headers?: Record<string, string> }} server */
  start({ port, headers }) {
    const key = headers?.['X-Ingestion-Key']
    if (key !== undefined) client = createClient({ url: `http://127.0.0.1:${port}`, projectId, key })
  },

  send: sendLoad,

  /** Publishes a map of random bytes, then publishes it again under the same build. @param {{ bytes: number }} options */
  async publish({ bytes }) {
    const source = randomFillSync(Buffer.allocUnsafe(bytes))
    const buildId = `build-${builds++}`
    return { bytes, newMs: await publish(source, buildId), againMs: await publish(source, buildId) }
  },

  /**
   * Publishes one new map after another.
   *
   * @param {{ seconds: number, bytes: number }} options @returns {Promise<number>} the sum of their bytes
   */
  async upload({ seconds, bytes }) {
    const end = performance.now() + seconds * 1000
    let sum = 0
    for (; performance.now() < end; sum += bytes) {
      await publish(randomFillSync(Buffer.allocUnsafe(bytes)), `build-${builds++}`)
    }
    return sum
  },

  stop: () => client?.close(),
})

/** @param {Buffer} source @param {string} buildId @returns {Promise<number>} milliseconds */
async function publish(source, buildId) {
  const start = performance.now()
  await client?.publishMap({ placeId: '1', buildId, source, contentType: 'application/octet-stream' })
  return performance.now() - start
}
