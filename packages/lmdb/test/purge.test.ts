import { spawnSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createIngest, type Store } from '@ingest/core'
import { open } from 'lmdb'
import t from 'tap'
import { openLmdbStore } from './built-store.ts'
import { startStoreProcess } from './store-process.ts'

/** How many events a batch has. */
const sizes = { 'small records, in leaf pages': 1, 'large records, on pages of their own': 100 }

for (const [name, perBatch] of Object.entries(sizes)) {
  t.test(`no file contains erased bytes after a purge beside another process: ${name}`, async (t) => {
    const directory = t.testdir()
    const server = await startStoreProcess(directory)
    const store = await openLmdbStore(directory)
    t.teardown(async () => {
      await server.end()
      await store.close()
    })
    await fill(store, 'p', 2 * perBatch * 40, perBatch)
    await server.submit(['other-1'])
    t.ok(countIn(directory, 'canary-') > 0)
    const odd = range(perBatch * 80).filter((i) => i % 2 === 1)
    for (let from = 0; from < odd.length; from += 1000) {
      await store.erase('p', odd.slice(from, from + 1000).map(idOf))
    }
    await store.purge?.()
    t.equal(countIn(directory, 'canary-[0-9]*[13579]-'), 0)
    t.ok(countIn(directory, 'canary-[0-9]*[02468]-') >= odd.length, 'others are there')
    await server.submit(['other-2'])
    while (!(await store.expire('p', 1e15)).isDone) {}
    await store.purge?.()
    await server.submit(['other-3'])
    t.equal(countIn(directory, 'canary-'), 0, 'also after another process has written')
    t.strictSame(await server.known([idOf(0), idOf(1), 'e-x']), [true, true, false])
  })
}

t.test('the data file does not grow while new events take the space of erased ones', async (t) => {
  const directory = t.testdir()
  const store = await openLmdbStore(directory)
  t.teardown(() => store.close())
  const bytes = () => statSync(join(directory, 'events/data.mdb')).size
  await fill(store, 'p', 10_000, 100)
  while (!(await store.expire('p', 1e15)).isDone) {}
  await store.purge?.()
  const before = bytes()
  await fill(store, 'q', 5_000, 100)
  t.equal(bytes(), before)
})

t.test('a purge waits for a snapshot of the last erasure, which keeps what that freed', async (t) => {
  const directory = t.testdir()
  const reader = await startStoreProcess(directory)
  const store = await openLmdbStore(directory)
  t.teardown(() => store.close())
  await fill(store, 'p', 100, 100)
  await store.erase('p', range(50).map(idOf))
  await reader.ask('look')
  let isPurged = false
  const purging = store.purge?.().then(() => {
    isPurged = true
  })
  // no commit, which would be a later snapshot to wait for
  for (let i = 0; i < 2_000 && !isPurged; i++) await store.known('p', ['e-0'])
  await reader.kill()
  await purging
  t.equal(countIn(directory, 'canary-[1-4][0-9]-'), 0)
})

t.test('a purge beside large appends of the same process fills all free pages', async (t) => {
  const directory = t.testdir()
  const store = await openLmdbStore(directory)
  t.teardown(() => store.close())
  const submit = (projectId: string, batch: number, secret: string) =>
    createIngest({ store })
      .project(projectId)
      .submitBatch({ events: range(100).map((i) => ({ projectId, eventId: idOf(batch * 100 + i), secret })) })
  for (const batch of range(70)) await submit('p', batch, `canary-${batch % 2}-${'x'.repeat(2000)}`)
  // leaves holes that are too small for the appends
  for (const batch of range(35))
    await store.erase(
      'p',
      range(100).map((i) => idOf((2 * batch + 1) * 100 + i)),
    )
  let isPurged = false
  const purging = store.purge?.().then(() => {
    isPurged = true
  })
  const text = 'x'.repeat(2400)
  const appending = range(8).map(async (sender) => {
    for (let i = 0; !isPurged; i++) await submit(`q-${sender}`, i, text)
  })
  await Promise.all([purging, ...appending])
  t.equal(countIn(directory, 'canary-1-'), 0)
})

t.test('what a purge that was interrupted has filled is free after the next one', async (t) => {
  const directory = t.testdir()
  const created = await openLmdbStore(directory)
  await fill(created, 'p', 10, 10)
  await created.close()
  const root = open({ path: join(directory, 'events'), noSubdir: false, overlappingSync: false })
  const scratch = root.openDB('scratch', { encoding: 'binary', keyEncoding: 'binary' })
  const keyOf = (i: number) => Buffer.from(`${Math.floor(i / 500)}`.padStart(12, '0') + String(i).padStart(4, '0'))
  root.transactionSync(() => range(1_000).map((i) => scratch.put(keyOf(i), Buffer.alloc(4064))))
  await root.close()
  const store = await openLmdbStore(directory)
  t.teardown(() => store.close())
  await store.purge?.()
  const bytes = () => statSync(join(directory, 'events/data.mdb')).size
  const before = bytes()
  await fill(store, 'q', 10_000, 100)
  t.equal(bytes(), before)
})

t.test('a process that is killed while it erases and purges leaves each event whole or erased', async (t) => {
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
      victim.operate('expire', 'p', 1e15).then(() => victim.operate('purge')),
    ].map((call) => call.catch(() => {}))
    for (let i = 0; i < turns; i++) await nextTurn()
    await victim.kill()
    await Promise.all(calls)
    store = await openLmdbStore(directory)
    const seen = { events: 0, bytes: 0 }
    for await (const { bytes, erased } of store.read('p', { erased: true })) {
      seen.events++
      if (erased === undefined) seen.bytes += JSON.parse(Buffer.from(bytes).toString()).eventId ? 1 : 0
    }
    const { events, bytes } = await store.totals('p')
    t.equal(seen.events, 2_000)
    t.equal(events, 2_000)
    t.equal(bytes === 0, seen.bytes === 0)
    await store.purge?.()
    await store.close()
  }
})

async function fill(store: Store, projectId: string, count: number, perBatch: number): Promise<void> {
  const project = createIngest({ store }).project(projectId)
  const batches = range(count / perBatch).map((batch) =>
    range(perBatch).map((i) => {
      const number = batch * perBatch + i
      return { projectId, eventId: idOf(number), secret: `canary-${number}-${'x'.repeat(200)}` }
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

/**
 * How often the files of a directory contain a pattern. Another process reads them: closing the lock file would release
 * the locks of this one.
 */
function countIn(directory: string, pattern: string): number {
  const { status, stdout } = spawnSync('grep', ['-raoE', pattern, directory], { maxBuffer: 2 ** 28 })
  t.ok(status === 0 || status === 1)
  return stdout.toString().split('\n').length - 1
}
