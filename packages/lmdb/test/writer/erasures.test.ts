import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createIngest, type Store } from '@ingest/core'
import t from 'tap'
import { openLmdbStore } from '../built-store.ts'
import { startStoreProcess } from '../store-process.ts'

t.test('expiries of several projects share commits with each other and with appends', async (t) => {
  const store = await openLmdbStore(t.testdir())
  t.teardown(() => store.close())
  const projects = range(40).map((i) => `p-${i}`)
  for (let i = 0; i < 3; i++) await Promise.all(projects.map((projectId) => fill(store, projectId, 4, 1, 4 * i)))
  let requests = 0
  let commits = 0
  const unwatch = store.watchCommits?.((commit) => {
    requests += commit.requests
    commits++
  })
  const appended = createIngest({ store }).project('other')
  const steps = projects.map(async (projectId, i) => {
    const events = [{ projectId: 'other', eventId: `e-${i}` }]
    return (await Promise.all([store.expire(projectId, 1e15), appended.submitBatch({ events })]))[0]
  })
  for (const step of await Promise.all(steps)) t.match(step, { events: 12, isDone: true })
  t.ok(commits < projects.length, `${commits} commits of ${requests} requests`)
  unwatch?.()
  t.strictSame(
    await store.known(
      'other',
      projects.map((_, i) => idOf(i)),
    ),
    projects.map(() => true),
  )
})

t.test('an expiry that finds nothing to erase commits nothing', async (t) => {
  const store = await openLmdbStore(t.testdir())
  t.teardown(() => store.close())
  await fill(store, 'p', 10, 1)
  let commits = 0
  store.watchCommits?.(() => commits++)
  for (const projectId of ['p', 'unknown']) {
    t.strictSame(await store.expire(projectId, 1), { events: 0, bytes: 0, isDone: true })
  }
  t.equal(commits, 0)
  t.equal((await store.expire('p', 1e15)).events, 10)
  t.strictSame(await store.expire('p', 1e15), { events: 0, bytes: 0, isDone: true })
  t.equal(commits, 1)
})

t.test('new events take the space of erased ones', async (t) => {
  const directory = t.testdir()
  const store = await openLmdbStore(directory)
  t.teardown(() => store.close())
  await fill(store, 'p', 10_000, 100)
  while (!(await store.expire('p', 1e15)).isDone) {}
  const before = dataBytes(directory)
  await fill(store, 'q', 5_000, 100)
  const grown = dataBytes(directory) - before
  t.ok(grown < 2 ** 18, `${grown} bytes of 1.2 million`)
})

t.test('a process that is killed while it erases leaves each event whole or erased', async (t) => {
  const directory = t.testdir()
  let store = await openLmdbStore(directory)
  await fill(store, 'p', 2_000, 20)
  await store.close()
  for (const turns of [1, 20, 200]) {
    const victim = await startStoreProcess(directory)
    const calls = [
      victim.operate(
        'erase',
        'p',
        range(50).map((i) => idOf(i * turns)),
      ),
      victim.operate('expire', 'p', 1e15),
    ].map((call) => call.catch(() => {}))
    for (let i = 0; i < turns; i++) await nextTurn()
    await victim.kill()
    await Promise.all(calls)
    store = await openLmdbStore(directory)
    const seen = { events: 0, bytes: 0 }
    for await (const page of store.read('p', { erased: true })) {
      for (const { bytes, erased } of page) {
        seen.events++
        if (erased === undefined) seen.bytes += JSON.parse(Buffer.from(bytes).toString()).eventId ? 1 : 0
      }
    }
    const { events, bytes } = await store.totals('p')
    t.equal(seen.events, 2_000)
    t.equal(events, 2_000)
    t.equal(bytes === 0, seen.bytes === 0)
    await store.close()
  }
})

async function fill(store: Store, projectId: string, count: number, perBatch: number, from = 0): Promise<void> {
  const project = createIngest({ store }).project(projectId)
  const batches = range(count / perBatch).map((batch) =>
    range(perBatch).map((i) => {
      const number = from + batch * perBatch + i
      return { projectId, eventId: idOf(number), text: 'x'.repeat(200) }
    }),
  )
  await Promise.all(batches.map((events) => project.submitBatch({ events })))
}

function idOf(number: number): string {
  return `e-${number}`
}

function range(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i)
}

function dataBytes(directory: string): number {
  return statSync(join(directory, 'events/data.mdb')).size
}
