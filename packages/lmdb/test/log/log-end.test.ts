import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import t, { type Test } from 'tap'
import { openLmdbStore } from '../../src/open-lmdb-store.ts'
import { writeAt } from '../damaged-store.ts'
import { startStoreProcess } from '../store-process.ts'

async function openStore(t: Test) {
  const directory = t.testdir()
  const fatal: string[] = []
  const store = await openLmdbStore(directory, { onFatal: ({ message }) => fatal.push(message) })
  // the clock stands still: activity is written when a minute ends
  const ingest = createIngest({ store, now: () => 0 })
  t.teardown(() => ingest.close())
  const submit = (eventId: string) => ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId }] })

  /** Stores four events; the file then loses the last one. */
  async function loseLast(): Promise<void> {
    for (const eventId of ['a', 'b', 'c']) await submit(eventId)
    const path = join(directory, 'events', 'data.mdb')
    const before = readFileSync(path)
    await submit('d')
    writeAt(path, 0, before)
  }

  return { directory, store, fatal, submit, loseLast }
}

const gone = /^Records [34] to 4 of the log were stored and are lost: stop every process/

t.test('a log that loses commits fails the store at the next write, which stores nothing', async (t) => {
  const { directory, store, fatal, submit, loseLast } = await openStore(t)
  await loseLast()
  await t.rejects(submit('e'), { code: 'store-failed', message: gone })
  t.match(fatal, [gone])
  await t.rejects(submit('e'), { code: 'store-failed', message: gone })
  await t.rejects(store.check(), { code: 'store-failed' })
  t.strictSame(fatal.length, 1)
  const other = await startStoreProcess(directory)
  t.strictSame(await other.known(['a', 'b', 'd', 'e']), [true, true, false, false])
  await other.kill()
})

const reads: Record<string, (store: Awaited<ReturnType<typeof openStore>>['store']) => unknown> = {
  'a read': (store) => store.read('p')[Symbol.asyncIterator]().next(),
  'a look-up': (store) => store.known('p', ['a']),
  totals: (store) => store.totals('p'),
}

for (const [name, read] of Object.entries(reads)) {
  t.test(`a log that loses commits fails the store at the next read: ${name}`, async (t) => {
    const { store, fatal, submit, loseLast } = await openStore(t)
    await loseLast()
    await t.rejects(Promise.resolve(read(store)), { code: 'store-failed', message: gone })
    t.match(fatal, [gone])
    await t.rejects(submit('e'), { code: 'store-failed' })
  })
}

t.test('a log whose last record was replaced fails the store', async (t) => {
  const { directory, store, fatal, submit, loseLast } = await openStore(t)
  await loseLast()
  const other = await startStoreProcess(directory)
  for (const eventId of ['v', 'w', 'x']) await other.submit([eventId])
  await t.rejects(submit('e'), {
    code: 'store-failed',
    message: /^Record 4 of the log is not the one that was stored|^Records 3 to 4 of the log were stored and are lost/,
  })
  t.equal(fatal.length, 1)
  await t.rejects(store.check(), { code: 'store-failed' })
  t.strictSame(await other.known(['e']), [false])
  await other.kill()
})

t.test('a damaged last record fails the store at the next write, and refuses no batch permanently', async (t) => {
  const { directory, fatal, submit } = await openStore(t)
  await submit('a')
  damageHeads(join(directory, 'events', 'data.mdb'), 'a')
  const error = { code: 'store-failed', message: /^Record 1 of the log is damaged/ }
  await t.rejects(submit('b'), error)
  t.match(fatal, [error.message])
})

/** Changes the project number of each record whose only event has this id. */
function damageHeads(path: string, eventId: string): void {
  const bytes = readFileSync(path)
  const payload = JSON.stringify({ projectId: 'p', eventId })
  // the fifth of the 44 bytes before the payload
  for (let at = bytes.indexOf(payload); at !== -1; at = bytes.indexOf(payload, at + 1)) {
    writeAt(path, at - 40, Buffer.from('x'))
  }
}

t.test('an erasure of the last event, and appends of other processes, do not look like a loss', async (t) => {
  const { directory, store, fatal, submit } = await openStore(t)
  await submit('a')
  t.equal(await store.erase('p', ['a']), 1)
  await submit('b')
  const other = await startStoreProcess(directory)
  await other.submit(['c'])
  t.equal(await store.erase('p', ['c']), 1)
  t.equal((await other.submit(['d', 'a'])).duplicates, 1)
  await other.kill()
  await submit('e')
  t.strictSame(await store.known('p', ['a', 'b', 'c', 'd', 'e']), Array(5).fill(true))
  t.strictSame(fatal, [])
})
