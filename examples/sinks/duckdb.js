// Copies the events of a project into a DuckDB file, each exactly once: node duckdb.js FILE
import { DuckDBInstance, DuckDBTimestampMillisecondsValue } from '@duckdb/node-api'
import { createClient } from '@ingest/client'

const { INGEST_URL: url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key } = process.env
const ingest = createClient({ url, projectId, key })
// DuckDB locks the file: a second process ends here
const instance = await DuckDBInstance.create(process.argv[2])
const db = await instance.connect()
await db.run('CREATE TABLE IF NOT EXISTS events (received_at TIMESTAMP_MS, event JSON)')
await db.run('CREATE TABLE IF NOT EXISTS position AS SELECT NULL::VARCHAR AS cursor')
const position = await db.runAndReadAll('SELECT cursor FROM position')
const after = position.getRows()[0]?.[0]

const batches = ingest.readBatches({
  ...(typeof after === 'string' && { after }),
  follow: true,
  eventsMax: 5_000,
  maxWaitMs: 1_000,
})
for await (const { events, cursor } of batches) {
  await db.run('BEGIN')
  const rows = await db.createAppender('events')
  for (const { receivedAt, bytes } of events) {
    rows.appendTimestampMilliseconds(new DuckDBTimestampMillisecondsValue(BigInt(receivedAt)))
    rows.appendVarchar(Buffer.from(bytes).toString())
    rows.endRow()
  }
  rows.closeSync()
  await db.run('UPDATE position SET cursor = $1', [cursor])
  await db.run('COMMIT')
  console.log(`${events.length} events, up to ${cursor}`)
}
