// Publishes the events of a project to a JetStream stream, each exactly once: node nats.js nats://…
import { createClient } from '@ingest/client'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, headers } from '@nats-io/transport-node'

const { INGEST_URL: url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key } = process.env
const ingest = createClient({ url, projectId, key })
const nats = await connect({ servers: process.argv[2] ?? '', reconnect: false })
const manager = await jetstreamManager(nats)
await manager.streams.add({ name: 'EVENTS', subjects: ['events'] })
const { state } = await manager.streams.info('EVENTS')
const last = state.messages > 0 ? await manager.streams.getMessage('EVENTS', { seq: state.last_seq }) : null
const after = last?.header.get('Ingest-Cursor')
if (!after && state.last_seq > 0) throw new Error('the stream has lost its last message, and with it the cursor')

const stream = jetstream(nats)
let sequence = state.last_seq
for await (const { events, cursor } of ingest.readBatches({ ...(after && { after }), follow: true })) {
  const published = events.map(({ cursor, bytes }) => {
    const header = headers()
    header.set('Ingest-Cursor', cursor)
    // refused if another process has published meanwhile
    return stream.publish('events', bytes, { headers: header, expect: { lastSequence: sequence++ } })
  })
  await Promise.all(published)
  console.log(`${events.length} events, up to ${cursor}`)
}
