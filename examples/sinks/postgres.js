// Copies the events of a project into PostgreSQL, each exactly once: node postgres.js postgres://…
import { createClient } from '@ingest/client'
import pg from 'pg'

const { INGEST_URL: url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key } = process.env
const ingest = createClient({ url, projectId, key })
const db = new pg.Client(process.argv[2])
await db.connect()
// json keeps every event; jsonb refuses \u0000
await db.query('CREATE TABLE IF NOT EXISTS events (id text, received_at timestamptz, event json)')
await db.query('CREATE TABLE IF NOT EXISTS position AS SELECT NULL::text AS cursor')
let { cursor: after } = (await db.query('SELECT cursor FROM position')).rows[0]

const batches = ingest.readBatches({ ...(after && { after }), follow: true, eventsMax: 5_000, maxWaitMs: 1_000 })
for await (const { events, cursor } of batches) {
  await db.query('BEGIN')
  // waits for a transaction of a process that is still running, and then finds another cursor
  const move = 'UPDATE position SET cursor = $1 WHERE cursor IS NOT DISTINCT FROM $2'
  const { rowCount } = await db.query(move, [cursor, after])
  if (rowCount !== 1) throw new Error('another process copies into this database')
  const texts = events.map(({ bytes }) => Buffer.from(bytes).toString())
  await db.query('INSERT INTO events SELECT * FROM unnest($1::text[], $2::timestamptz[], $3::json[])', [
    texts.map((text) => JSON.parse(text).eventId),
    events.map(({ receivedAt }) => new Date(receivedAt)),
    texts,
  ])
  await db.query('COMMIT')
  after = cursor
  console.log(`${events.length} events, up to ${cursor}`)
}
