import { renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createIngest, IngestError } from '../../src/index.ts'
import { openEnvironment } from '../../src/lmdb/environment.ts'
import { createGroupCommit } from '../../src/lmdb/group-commit.ts'
import { openLmdbStore } from '../../src/lmdb/open-lmdb-store.ts'
import { startStoreProcess } from './store-process.ts'

const ids = (name: string, count = 20) => Array.from({ length: count }, (_, i) => `${name}-${i}`)

function open(directory: string) {
  const environment = openEnvironment(directory)
  const rows = environment.table('rows')
  const seen = { begun: 0, undone: 0, fatal: [] as string[] }
  let full = false
  const writer = createGroupCommit({
    environment,
    timeoutMs: 10_000,
    room: async () => {
      if (full) throw new IngestError('overloaded', 'No room.')
    },
    begin: () => {
      seen.begun++
    },
    undone: () => {
      seen.undone++
    },
    onFatal: ({ code }) => seen.fatal.push(code),
  })
  const put = (name: string) => {
    rows.put(Buffer.from(name), Buffer.from(name))
    return name
  }
  const names = () => [...rows.getKeys()].map(String)
  const refuseRoom = (refuse: boolean) => {
    full = refuse
  }
  return { environment, writer, put, names, seen, refuseRoom }
}

t.test('jobs that wait share a transaction, in their order, and each gets its own result', async (t) => {
  const { environment, writer, put, names, seen } = open(t.testdir())
  const first = writer.commit(1, () => put('a'))
  const others = ['b', 'c', 'd'].map((name) => writer.commit(1, () => `${put(name)} after ${names().length}`))
  t.equal(await first, 'a')
  t.strictSame(await Promise.all(others), ['b after 2', 'c after 3', 'd after 4'], 'what came before is seen')
  t.strictSame(names(), ['a', 'b', 'c', 'd'])
  t.ok(seen.begun < 4, `${seen.begun} transactions for four jobs`)
  await writer.close()
  await environment.root.close()
})

t.test('a job that throws undoes the whole transaction, and everybody in it is told', async (t) => {
  const { environment, writer, put, names, seen } = open(t.testdir())
  const outcomes = await Promise.allSettled([
    writer.commit(1, () => put('a')),
    writer.commit(1, () => {
      put('b')
      throw new IngestError('overloaded', 'Not now.')
    }),
    writer.commit(1, () => put('c')),
  ])
  t.strictSame(
    outcomes.map(({ status }) => status),
    ['rejected', 'rejected', 'rejected'],
  )
  t.strictSame(names(), [])
  t.equal(seen.undone, 1)
  t.equal(await writer.commit(1, () => put('d')), 'd', 'a refusal of one job is no failure of the store')
  t.strictSame(seen.fatal, [])
  await writer.close()
  await environment.root.close()
})

t.test('a writer that has to wait for room in vain has undone nothing', async (t) => {
  const { environment, writer, put, seen, refuseRoom } = open(t.testdir())
  refuseRoom(true)
  await t.rejects(
    writer.commit(1, () => put('a')),
    { code: 'overloaded' },
  )
  t.equal(seen.undone, 0)
  refuseRoom(false)
  t.equal(await writer.commit(1, () => put('a')), 'a')
  await writer.close()
  await environment.root.close()
})

t.test('large jobs are not put into one transaction', async (t) => {
  const { environment, writer, put, seen } = open(t.testdir())
  await Promise.all(ids('large', 6).map((name) => writer.commit(10 * 2 ** 20, () => put(name))))
  t.ok(seen.begun >= 3, `${seen.begun} transactions for 60 MiB`)
  await writer.close()
  await environment.root.close()
})

t.test('closing finishes what waits, and takes nothing more', async (t) => {
  const { environment, writer, put, names } = open(t.testdir())
  const before = writer.commit(1, () => put('before'))
  const closed = writer.close()
  await t.rejects(
    writer.commit(1, () => put('after')),
    { code: 'store-closed' },
  )
  await closed
  t.equal(await before, 'before')
  t.strictSame(names(), ['before'])
  await environment.root.close()
})

t.test('a commit that does not end is given up, and the store has failed', async (t) => {
  const directory = t.testdir()
  const fatal: string[] = []
  const store = await openLmdbStore(directory, { commitTimeoutMs: 500, onFatal: ({ code }) => fatal.push(code) })
  const ingest = createIngest({ store })
  await ingest.submitBatch('p', { events: [{ projectId: 'p', eventId: 'before' }] })
  const holder = await startStoreProcess(directory)
  await holder.ask('hold')
  const stuck = ids('stuck').map((eventId) => ingest.submitBatch('p', { events: [{ projectId: 'p', eventId }] }))
  for (const each of stuck) await t.rejects(each, { code: 'store-failed' })
  await t.rejects(ingest.submitBatch('p', { events: [{ projectId: 'p', eventId: 'later' }] }), { code: 'store-failed' })
  await t.rejects(store.known('p', ['before']), { code: 'store-failed' })
  t.same(fatal, ['store-failed'])
  await holder.kill()
  await ingest.close()
})

t.test('what waits to be written is bounded: the rest is refused at once, and loses nothing', async (t) => {
  const directory = t.testdir()
  const store = await openLmdbStore(directory)
  const ingest = createIngest({ store })
  const holder = await startStoreProcess(directory)
  await holder.ask('hold')
  const body = (i: number) => ({ events: [{ projectId: 'p', eventId: `wait-${i}`, pad: 'x'.repeat(250_000) }] })
  const settled = Array.from({ length: 400 }, (_, i) => ingest.submitBatch('p', body(i)))
  const outcomes = Promise.allSettled(settled)
  await t.rejects(settled.at(-1) as Promise<unknown>, { code: 'overloaded', retryAfterSeconds: 1 })
  await holder.kill()
  const stored = (await outcomes).filter(({ status }) => status === 'fulfilled').length
  t.ok(stored >= 200 && stored < 400, `${stored} of 400 were stored once the lock was free`)
  t.equal((await store.totals('p')).events, stored)
  await ingest.close()
})

t.test('a data file that is deleted while it is open ends the acknowledgements', async (t) => {
  const directory = t.testdir()
  const fatal: string[] = []
  const store = await openLmdbStore(directory, { onFatal: ({ code }) => fatal.push(code) })
  const ingest = createIngest({ store })
  const submit = (eventId: string) => ingest.submitBatch('p', { events: [{ projectId: 'p', eventId }] })
  await submit('before')
  renameSync(join(directory, 'events', 'data.mdb'), join(directory, 'events', 'gone.mdb'))
  await t.rejects(submit('after'), { code: 'store-failed', message: 'deleted or replaced' })
  t.same(fatal, ['store-failed'])
  await ingest.close()
  rmSync(directory, { recursive: true, force: true })
})
