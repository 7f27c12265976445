import { randomFillSync } from 'node:crypto'
import { createClient } from '@ingest/client'
import { answerCalls } from './answer-calls.js'
import { projectId } from './contenders.js'

// Publishing of maps as a process of its own.
/** @type {import('@ingest/client').Client} */
let client
let builds = 0

answerCalls({
  start({ port, headers }) {
    client = createClient({ url: `http://127.0.0.1:${port}`, projectId, key: headers['X-Ingestion-Key'] })
  },

  /** Publishes a map of so many random bytes, and the same again under the same build. */
  async publish({ bytes }) {
    const source = randomFillSync(Buffer.allocUnsafe(bytes))
    const buildId = `build-${builds++}`
    return { bytes, newMs: await timed(() => put(source, buildId)), againMs: await timed(() => put(source, buildId)) }
  },

  /** Publishes one new map after another, and says how many bytes they were. */
  async upload({ seconds, bytes }) {
    const end = performance.now() + seconds * 1000
    let sum = 0
    for (; performance.now() < end; sum += bytes) {
      await put(randomFillSync(Buffer.allocUnsafe(bytes)), `build-${builds++}`)
    }
    return sum
  },

  stop: () => client.close(),
})

/** @param {Buffer} source @param {string} buildId */
function put(source, buildId) {
  return client.publishMap({ placeId: '1', buildId, source, contentType: 'application/octet-stream' })
}

/** @param {() => Promise<unknown>} work */
async function timed(work) {
  const start = performance.now()
  await work()
  return performance.now() - start
}
