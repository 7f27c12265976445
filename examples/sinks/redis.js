// Adds the events of a project to a Redis stream, each exactly once: node redis.js redis://…
import { createClient } from '@ingest/client'
import { createClient as createRedis } from '@redis/client'

const { INGEST_URL: url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key } = process.env
const ingest = createClient({ url, projectId, key })
// a transaction whose outcome is unknown ends the process: the next one reads the cursor again
const redis = createRedis({ url: process.argv[2] ?? '', socket: { reconnectStrategy: false } })
redis.on('error', (error) => console.error(error.message))
await redis.connect()
let after = await redis.get('events:cursor')

const batches = ingest.readBatches({ ...(after && { after }), follow: true, maxWaitMs: 100 })
for await (const { events, cursor } of batches) {
  // EXEC does nothing if another process moves the cursor from here on
  await redis.watch('events:cursor')
  if ((await redis.get('events:cursor')) !== after) throw new Error('another process copies into this stream')
  const transaction = redis.multi()
  for (const { receivedAt, bytes } of events) {
    transaction.xAdd('events', '*', { receivedAt: String(receivedAt), event: Buffer.from(bytes) })
  }
  await transaction.set('events:cursor', cursor).exec()
  after = cursor
  console.log(`${events.length} events, up to ${cursor}`)
}
