import { setTimeout as sleep } from 'node:timers/promises'
import type { AppendBatch, Store, StoreCommit } from '@ingest/core'
import t, { type Test } from 'tap'
import { eventKey } from '../../src/events/event-key.ts'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { numberOf } from '../../src/projects/project-numbers.ts'
import { batchOf, batchWith, idsOf } from '../batches.ts'
import { createDatabase, noPostgres } from '../database.ts'
import { holdLock } from '../hold-lock.ts'

const project = numberOf('p', 0)
const head = `SELECT 1 FROM ingest.heads WHERE project = ${project} FOR UPDATE`

async function open(t: Test, connectionsMax?: number): Promise<{ url: string; store: Store; commits: StoreCommit[] }> {
  const url = await createDatabase()
  const store = await openPostgresStore(url, connectionsMax === undefined ? {} : { connectionsMax })
  t.teardown(() => store.close())
  await store.append('p', batchOf('first'))
  const commits: StoreCommit[] = []
  store.watchCommits?.((commit) => commits.push(commit))
  return { url, store, commits }
}

/** An insert of these ids that is not committed, for which another one waits. */
function inserting(ids: readonly string[]): string {
  const rows = ids.map((id) => `(${project}, '\\x${eventKey(id).toString('hex')}', 1, 0)`)
  return `INSERT INTO ingest.event_keys (project, key, batch, idx) VALUES ${rows.join(', ')}`
}

async function inFlight(store: Store): Promise<number> {
  const metrics = (await store.measure?.()) ?? []
  return metrics.find(({ name }) => name === 'ingest_store_appends_in_flight')?.values[0]?.value ?? 0
}

t.test('batches that wait share a commit up to 1000 events or 1 MiB', { skip: noPostgres }, async (t) => {
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

t.test('more statements run at once while ids are slow, but for some connections', { skip: noPostgres }, async (t) => {
  for (const [connectionsMax, least, most] of [
    [undefined, 7, 16],
    [10, 3, 6],
    [3, 2, 2],
  ] as const) {
    const { url, store } = await open(t, connectionsMax)
    const ids = Array.from({ length: 30 }, (_, i) => `e-${i}`)
    const slow = await holdLock(t, url, inserting(['slow']))
    const rest = await holdLock(t, url, inserting(ids))
    const first = store.append('p', batchOf('slow'))
    const appends = ids.map((id) => store.append('p', batchOf(id)))
    t.equal(await inFlight(store), 2)
    // the database measures it: many times as long as the commit
    await sleep(1000)
    await slow.release()
    await first
    const more = await inFlight(store)
    t.ok(more >= least && more <= most, `${more} statements over ${connectionsMax} connections`)
    t.equal((await store.totals('p')).events, 2, 'a read has a connection')
    await rest.release()
    await Promise.all(appends)
    t.equal((await store.totals('p')).events, 32)
  }
})

t.test('what waits is bounded over all projects, in events and in bytes', { skip: noPostgres }, async (t) => {
  const { store, url } = await open(t)
  for (const [make, count] of [
    [hundred, 1000],
    [large, 259],
  ] as const) {
    const lock = await holdLock(t, url, 'LOCK TABLE ingest.event_keys')
    const appends = Array.from({ length: count }, (_, i) => store.append(`game-${i % 5}`, make(`${count}-${i}`)))
    for (const projectId of ['game-0', 'other']) {
      await t.rejects(store.append(projectId, batchOf('late')), { code: 'overloaded', retryAfterSeconds: 1 })
    }
    await lock.release()
    await Promise.all(appends)
    t.match(await store.append('other', batchOf(`late-${count}`)), { stored: [true] })
  }
})
