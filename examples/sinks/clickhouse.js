// Inserts the events of a project into ClickHouse, each exactly once: node clickhouse.js http://USER:PASSWORD@HOST:8123
import { createClient } from '@ingest/client'

const { INGEST_URL: url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key } = process.env
const ingest = createClient({ url, projectId, key })
const { origin, username, password } = new URL(process.argv[2] ?? '')
const headers = { 'X-ClickHouse-User': username || 'default', 'X-ClickHouse-Key': password }

/** @param {string} query @param {string} [body] @param {Record<string, string>} [settings] */
async function run(query, body = '', settings = {}) {
  const search = new URLSearchParams({ query, ...settings })
  const response = await fetch(`${origin}/?${search}`, { method: 'POST', headers, body })
  const text = await response.text()
  if (!response.ok) throw new Error(text)
  return text.trim()
}

// an INSERT of a killed process may still be running
await run("KILL QUERY WHERE query_id LIKE 'ingest-sink-%' SYNC")
const columns = 'number UInt64, cursor String, received_at DateTime64(3), event String'
await run(`CREATE TABLE IF NOT EXISTS events (${columns}) ENGINE = MergeTree ORDER BY number`)
const last = await run('SELECT number, cursor FROM events ORDER BY number DESC LIMIT 1 FORMAT TSV')
const [count = '', after] = last.split('\t')
let number = Number(count)

for await (const { events, cursor } of ingest.readBatches({
  ...(after && { after }),
  follow: true,
  maxWaitMs: 1_000,
})) {
  if (events.length === 0) continue
  const rows = events.map(({ cursor, receivedAt, bytes }) => {
    const received_at = new Date(receivedAt).toISOString()
    return JSON.stringify({ number: ++number, cursor, received_at, event: Buffer.from(bytes).toString() })
  })
  // one block of one partition: ClickHouse stores all of it or nothing
  const block = { input_format_parallel_parsing: '0', async_insert: '0', date_time_input_format: 'best_effort' }
  await run('INSERT INTO events FORMAT JSONEachRow', rows.join('\n'), { ...block, query_id: `ingest-sink-${number}` })
  console.log(`${events.length} events, up to ${cursor}`)
}
