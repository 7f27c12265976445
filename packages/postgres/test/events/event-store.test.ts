import { setTimeout as sleep } from 'node:timers/promises'
import { type AppendBatch, createIngest, type Store, type StoreCommit } from '@ingest/core'
import t, { type Test } from 'tap'
import { eventKey } from '../../src/events/event-key.ts'
import { openPostgresStore, type PostgresStoreOptions } from '../../src/open-postgres-store.ts'
import { numberOf } from '../../src/projects/project-numbers.ts'
import { batchOf, batchWith, idsOf } from '../batches.ts'
import { createDatabase, holdLock, noPostgres, runSql } from '../database.ts'
import { startProxy } from '../proxy.ts'

const skip = noPostgres
const project = numberOf('p', 0)
const head = `SELECT 1 FROM ingest.heads WHERE project = ${project} FOR UPDATE`

async function open(
  t: Test,
  options: PostgresStoreOptions = {},
): Promise<{ url: string; store: Store; commits: StoreCommit[] }> {
  const url = await createDatabase()
  const store = await openPostgresStore(url, options)
  t.teardown(() => store.close())
  await store.append('p', batchOf('first'))
  const commits: StoreCommit[] = []
  store.watchCommits?.((commit) => commits.push(commit))
  return { url, store, commits }
}

/** An uncommitted insert of these ids, for which other inserts wait. */
function inserting(ids: readonly string[]): string {
  const rows = ids.map((id) => `(${project}, '\\x${eventKey(id).toString('hex')}', 1, 0)`)
  return `INSERT INTO ingest.event_keys (project, key, batch, idx) VALUES ${rows.join(', ')}`
}

async function inFlight(store: Store): Promise<number> {
  const metrics = (await store.measure?.()) ?? []
  return metrics.find(({ name }) => name === 'ingest_store_appends_in_flight')?.values[0]?.value ?? 0
}

t.test('a clock that is ahead of the one of the database is doubted', { skip }, async (t) => {
  const { store } = await open(t)
  const doubtAt = (now: number) => store.findClockDoubt?.(0, now)
  t.equal(await doubtAt(Date.now()), undefined)
  t.equal(await doubtAt(0), undefined, 'nothing is too old by a clock that is behind')
  t.match(await doubtAt(Date.parse('2099-01-01T00:00:00Z')), {
    mayBeAhead: true,
    message: /this machine is at 2099-01-01T00:00:00.000Z, and that of the database at 20/,
  })
})

t.test('batches that wait share a commit up to 1000 events or 1 MiB', { skip }, async (t) => {
  const { url, store, commits } = await open(t)
  const cases: [what: string, batches: AppendBatch[], shared: number][] = [
    ['single events', Array.from({ length: 300 }, (_, i) => batchOf(`single-${i}`)), 298],
    ['events', Array.from({ length: 30 }, (_, i) => hundred(`many-${i}`)), 10],
    ['bytes', Array.from({ length: 12 }, (_, i) => large(`large-${i}`)), 4],
  ]
  for (const [what, batches, shared] of cases) {
    commits.length = 0
    const lock = await holdLock(t, url, head)
    const appends = batches.map((batch) => store.append('p', batch))
    await lock.release()
    const results = await Promise.all(appends)
    t.ok(results.every(({ stored }) => stored.every(Boolean)))
    t.equal(Math.max(...commits.map(({ requests }) => requests)), shared, what)
  }
  t.equal((await idsOf(store)).length, 1 + 300 + 3000 + 12)
})

function hundred(name: string): AppendBatch {
  return batchOf(...Array.from({ length: 100 }, (_, i) => `${name}-${i}`))
}

/** Just below a quarter of 1 MiB. */
function large(eventId: string): AppendBatch {
  return batchWith([{ eventId, filler: 'x'.repeat(260_000) }])
}

t.test('more statements run at once while ids are slow, but leave some connections free', { skip }, async (t) => {
  for (const [connectionsMax, least, most] of [
    [undefined, 7, 16],
    [10, 3, 6],
    [3, 2, 2],
  ] as const) {
    const { url, store } = await open(t, connectionsMax === undefined ? {} : { connectionsMax })
    const startedAt = performance.now()
    await store.append('p', batchOf('second'))
    const commitMs = performance.now() - startedAt
    const ids = Array.from({ length: 30 }, (_, i) => `e-${i}`)
    const slow = await holdLock(t, url, inserting(['slow']))
    const rest = await holdLock(t, url, inserting(ids))
    const first = store.append('p', batchOf('slow'))
    const appends = ids.map((id) => store.append('p', batchOf(id)))
    t.equal(await inFlight(store), 2)
    // many times as long as a commit, because the database measures the time of the ids
    await sleep(Math.max(1500, 20 * commitMs))
    await slow.release()
    await first
    const more = await inFlight(store)
    t.ok(more >= least && more <= most, `${more} statements over ${connectionsMax} connections`)
    t.equal((await store.totals('p')).events, 3, 'a read has a connection')
    await rest.release()
    await Promise.all(appends)
    t.equal((await store.totals('p')).events, 33)
  }
})

t.test('waiting appends are bounded over all projects, in events and in bytes', { skip }, async (t) => {
  const { store, url } = await open(t, { statementTimeoutMs: 60_000 })
  for (const [make, count] of [
    [hundred, 1000],
    [large, 259],
  ] as const) {
    const lock = await holdLock(t, url, 'LOCK TABLE ingest.event_keys')
    const appends = Array.from({ length: count }, (_, i) => store.append(`game-${i % 5}`, make(`${count}`)))
    for (const projectId of ['game-0', 'other']) {
      await t.rejects(store.append(projectId, batchOf('late')), { code: 'overloaded', retryAfterSeconds: 1 })
    }
    await lock.release()
    await Promise.all(appends)
    t.match(await store.append('other', batchOf(`late-${count}`)), { stored: [true] })
  }
})

t.test('a held lock makes only the appends of its project unavailable', { skip }, async (t) => {
  const url = await createDatabase()
  const ingest = createIngest({ store: await openPostgresStore(url) })
  t.teardown(() => ingest.close())
  await runSql(url, "ALTER FUNCTION ingest.append_1 SET lock_timeout = '300ms'")
  const submit = (projectId: string, ids: string[]) =>
    ingest.project(projectId).submitBatch({
      events: ids.map((eventId) => ({ projectId, eventId, buildId: 'build-1', placeId: 'place-1' })),
    })
  await submit('p', ['a'])
  // an open build, which the append must freeze
  await runSql(url, 'UPDATE ingest.builds SET frozen_at = NULL')
  for (const [i, [name, sql]] of Object.entries({
    'the head': head,
    'an event id': inserting(['id-1']),
    'a build': 'SELECT 1 FROM ingest.builds FOR UPDATE',
  }).entries()) {
    const holder = await holdLock(t, url, sql)
    const blocked = submit('p', ['a', `id-${i}`])
    t.match(await submit('other', [`id-${i}`]), { accepted: 1 })
    await t.rejects(blocked, { code: 'store-unavailable', retryAfterSeconds: 1 }, name)
    await holder.release()
  }
  t.match(await submit('p', ['a', 'id-0', 'id-1', 'id-2']), { accepted: 3, duplicates: 1 })
})

t.test('readers that wake at once share their statements', { skip }, async (t) => {
  const proxy = await startProxy(t, await createDatabase())
  const store = await openPostgresStore(proxy.url)
  t.teardown(() => store.close())
  await store.append('p', batchOf('a', 'b'))
  const before = proxy.statements()
  t.strictSame(await idsOf(store), ['a', 'b'])
  const ofOne = proxy.statements() - before
  const all = await Promise.all(Array.from({ length: 50 }, () => idsOf(store)))
  t.strictSame(all, Array(50).fill(['a', 'b']))
  t.equal(proxy.statements() - before, 2 * ofOne)
})

t.test('a read with the limit 0 sends one statement, however many batches are stored', { skip }, async (t) => {
  const proxy = await startProxy(t, await createDatabase())
  const store = await openPostgresStore(proxy.url)
  t.teardown(() => store.close())
  const statementsOf = async (limit: number) => {
    const before = proxy.statements()
    t.equal((await idsOf(store, { limit })).length, limit)
    return proxy.statements() - before
  }
  for (let i = 0; i < 9; i++) await store.append('p', batchOf(`${i}`))
  const ofOne = await statementsOf(1)
  t.equal(await statementsOf(0), ofOne)
})

t.test('the view shows only the id of an erased event', { skip }, async (t) => {
  const { url, store } = await open(t)
  const ids = ['a', '0b25c1a8-6c5e-4a3e-9d4f-2f3b8c7d6e5a', 'quote " and é\u2028', 'kept']
  await store.append('p', batchWith(ids.map((eventId) => ({ eventId, secret: 'canary' }))))
  t.equal(await store.erase('p', ids.slice(0, 3)), 3)
  const rows = await runSql(url, 'SELECT event, erased FROM ingest.events WHERE seq > 1 ORDER BY seq, idx')
  t.strictSame(rows, [
    ...ids.slice(0, 3).map((erased) => ({ event: null, erased })),
    { event: '{"eventId":"kept","secret":"canary"}', erased: null },
  ])
})

t.test('appends do not wait for a running erasure', { skip }, async (t) => {
  const { url, store } = await open(t)
  await store.erase('p', ['first'])
  const row = await holdLock(t, url, 'SELECT 1 FROM ingest.erasures FOR UPDATE')
  t.strictSame((await store.append('p', batchOf('b'))).stored, [true])
  const erasing = store.erase('p', ['b'])
  t.strictSame((await store.append('p', batchOf('c'))).stored, [true])
  await row.release()
  t.equal(await erasing, 1)
  t.strictSame(await idsOf(store), ['c'])
})

t.test('the progress of an expiry is kept, but does not pass a later event', { skip }, async (t) => {
  const url = await createDatabase()
  const store = await openPostgresStore(url)
  t.teardown(() => store.close())
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
  // the call of a server that read before the event was there
  await runSql(url, `SELECT ingest.erase_1(${project}, gen_random_uuid(), '{}', 25)`)
  t.equal(await expired(), 20)
  t.equal((await idsOf(store)).length, 19)
})
