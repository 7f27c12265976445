import pg from 'pg'
import t from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { numberOf } from '../../src/projects/project-numbers.ts'
import { batchOf, batchWith, idsOf } from '../batches.ts'
import { createDatabase, noPostgres, runSql } from '../database.ts'
import { createForRoles } from '../roles.ts'

const uuid = '0b25c1a8-6c5e-4a3e-9d4f-2f3b8c7d6e5a'

t.test('the view shows of an erased event its id alone', { skip: noPostgres }, async (t) => {
  const url = await createDatabase()
  const store = await openPostgresStore(url)
  const ids = ['a', uuid, 'quote " and é\u2028', 'kept']
  await store.append('p', batchWith(ids.map((eventId) => ({ eventId, secret: 'canary' }))))
  t.equal(await store.erase('p', ids.slice(0, 3)), 3)
  await store.close()
  const rows = await runSql(url, 'SELECT event, erased FROM ingest.events ORDER BY seq, idx')
  t.strictSame(rows, [
    ...ids.slice(0, 3).map((erased) => ({ event: null, erased })),
    { event: '{"eventId":"kept","secret":"canary"}', erased: null },
  ])
})

t.test('appends do not wait for an erasure that runs', { skip: noPostgres }, async (t) => {
  const url = await createDatabase()
  const store = await openPostgresStore(url)
  await store.append('p', batchOf('a'))
  await store.erase('p', ['a'])
  const client = new pg.Client(url)
  await client.connect()
  await client.query('BEGIN')
  await client.query(`SELECT 1 FROM ingest.erasures WHERE project = ${numberOf('p', 0)} FOR UPDATE`)
  t.strictSame((await store.append('p', batchOf('b'))).stored, [true])
  const erasing = store.erase('p', ['b'])
  t.strictSame((await store.append('p', batchOf('c'))).stored, [true])
  await client.query('ROLLBACK')
  await client.end()
  t.equal(await erasing, 1)
  t.strictSame(await idsOf(store), ['c'])
  await store.close()
})

t.test('how far an expiry came is kept, and not past an event that came back', { skip: noPostgres }, async (t) => {
  const url = await createDatabase()
  const store = await openPostgresStore(url)
  for (let i = 0; i < 40; i++) await store.append('p', batchWith([{ eventId: `e-${i}` }], 1_000 + i))
  const expired = async () => {
    const [row] = await runSql<{ expired: string }>(url, 'SELECT expired FROM ingest.erasures')
    return Number(row?.expired)
  }
  t.match(await store.expire('p', 1_020), { events: 16, isDone: false })
  t.equal(await expired(), 16)
  t.match(await store.expire('p', 1_020), { events: 4, isDone: true })
  t.equal(await expired(), 20)
  await store.erase('p', ['e-30'])
  t.equal(await expired(), 20, 'erasing moves it not')
  // as a server that read before an event was there would call it
  await runSql(url, `SELECT ingest.erase_1(${numberOf('p', 0)}, gen_random_uuid(), '{}', 25)`)
  t.equal(await expired(), 20)
  t.equal((await idsOf(store)).length, 19)
  await store.close()
})

t.test('a role that may not erase changes nothing', { skip: noPostgres }, async (t) => {
  const { asOwner, asServer } = await createForRoles()
  const store = await openPostgresStore(asServer, { migrate: false })
  await store.append('p', batchOf('a', 'b'))
  t.equal(await store.erase('p', ['a']), 1)
  const server = decodeURIComponent(new URL(asServer).username)
  await runSql(asOwner, `REVOKE EXECUTE ON FUNCTION ingest.erase_1 FROM PUBLIC, "${server}"`)
  await t.rejects(store.erase('p', ['b']), { code: 'store-failed', message: /permission denied/ })
  await t.rejects(store.expire('p', Date.now() + 60_000), { code: 'store-failed' })
  t.strictSame(await idsOf(store), ['b'])
  t.strictSame((await store.append('p', batchOf('c'))).stored, [true])
  await store.close()
})
