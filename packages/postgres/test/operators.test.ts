import { readFileSync } from 'node:fs'
import pg from 'pg'
import t from 'tap'
import { openPostgresStore } from '../src/open-postgres-store.ts'
import { migratePostgres } from '../src/schema/migrate.ts'
import { batchOf } from './batches.ts'
import { createDatabase, noPostgres } from './database.ts'

const text = readFileSync(new URL('../sql/operators.sql', import.meta.url), 'utf8')

t.test('the queries for operators find what they are about', { skip: noPostgres }, async (t) => {
  for (const keyPartitions of [1, 2]) {
    const url = await createDatabase()
    await migratePostgres(url, { keyPartitions })
    const store = await openPostgresStore(url)
    t.teardown(() => store.close())
    await store.append('p', batchOf('a', 'b'))
    const client = new pg.Client(url)
    await client.connect()
    t.teardown(() => client.end())
    const waiting = client.query('SELECT pg_sleep(60)').catch(() => {})
    const other = new pg.Client(url)
    await other.connect()
    const results = (await other.query(text)) as unknown as pg.QueryResult[]
    await other.query("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'")
    await Promise.all([waiting, other.end()])
    const [ages, hits, waits, , density] = results.map(({ rows }) => rows)
    t.ok(ages?.some(({ relname, transactions }) => relname.startsWith('event_keys') && transactions >= 0))
    t.equal(hits?.length, keyPartitions)
    t.match(waits, [{ wait_event_type: 'Timeout', wait_event: 'PgSleep', statements: '1' }])
    t.equal(density?.length, keyPartitions)
  }
})
