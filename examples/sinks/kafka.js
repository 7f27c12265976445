// Produces the events of a project to a Kafka topic, each exactly once: node kafka.js BROKER:9092
import { createClient } from '@ingest/client'
import { Kafka } from 'kafkajs'

const { INGEST_URL: url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key } = process.env
const ingest = createClient({ url, projectId, key })
const kafka = new Kafka({ brokers: [process.argv[2] ?? ''] })
const [topic, group] = ['events', 'ingest-sink']
const producer = kafka.producer({ transactionalId: group, idempotent: true, maxInFlightRequests: 1 })
const admin = kafka.admin()
await Promise.all([producer.connect(), admin.connect()])
// ends the transaction of a killed process, and fences one that is still running
let transaction = await producer.transaction()
const [offsets] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
const after = offsets?.partitions.find(({ partition }) => partition === 0)?.metadata

for await (const { events, cursor } of ingest.readBatches({ ...(after && { after }), follow: true, maxWaitMs: 100 })) {
  if (events.length === 0) continue
  const messages = events.map(({ bytes }) => ({ value: Buffer.from(bytes), partition: 0 }))
  await transaction.send({ topic, messages })
  // the cursor is the metadata of an offset that the transaction commits
  const position = { partition: 0, offset: '0', metadata: cursor }
  await transaction.sendOffsets({ consumerGroupId: group, topics: [{ topic, partitions: [position] }] })
  await transaction.commit()
  transaction = await producer.transaction()
  console.log(`${events.length} events, up to ${cursor}`)
}
