import { renameSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { IngestError } from '../../src/index.ts'
import { openEnvironment } from '../../src/lmdb/environment.ts'
import { createGroupCommit } from '../../src/lmdb/group-commit.ts'
import { startStoreProcess } from './store-process.ts'

function open(directory: string, timeoutMs = 10_000) {
  const environment = openEnvironment(directory)
  const rows = environment.table('rows')
  const fatal: string[] = []
  const writer = createGroupCommit({ environment, timeoutMs, onFatal: ({ code }) => fatal.push(code) })
  return {
    environment,
    writer,
    fatal,
    put(name: string) {
      rows.put(Buffer.from(name), Buffer.from(name))
      return name
    },
    names: () => [...rows.getKeys()].map(String),
    /** How many transactions were committed. */
    transactions: () => (environment.root.getStats() as { lastTxnId: number }).lastTxnId,
    async close() {
      await writer.close()
      await environment.root.close()
    },
  }
}

t.test('jobs that wait share a transaction, in their order, and each gets its own result', async (t) => {
  const { writer, put, names, transactions, close } = open(t.testdir())
  const before = transactions()
  const first = writer.commit(1, () => put('a'))
  const others = ['b', 'c', 'd'].map((name) => writer.commit(1, () => `${put(name)} after ${names().length}`))
  t.equal(await first, 'a')
  t.strictSame(await Promise.all(others), ['b after 2', 'c after 3', 'd after 4'], 'what came before is seen')
  t.strictSame(names(), ['a', 'b', 'c', 'd'])
  t.ok(transactions() - before < 4, `${transactions() - before} transactions for four jobs`)
  await close()
})

t.test('a job that throws undoes the whole transaction, and everybody in it is told', async (t) => {
  const { writer, put, names, fatal, close } = open(t.testdir())
  const outcomes = await Promise.allSettled([
    writer.commit(1, () => put('a')),
    writer.commit(1, () => {
      put('b')
      throw new IngestError('overloaded', 'Not now.')
    }),
    writer.commit(1, () => put('c')),
  ])
  t.strictSame(
    outcomes.map((outcome) => outcome.status === 'rejected' && outcome.reason.code),
    ['overloaded', 'overloaded', 'overloaded'],
  )
  t.strictSame(names(), [])
  t.equal(await writer.commit(1, () => put('d')), 'd', 'a refusal of one job is no failure of the store')
  t.strictSame(fatal, [])
  await close()
})

t.test('large jobs are not put into one transaction', async (t) => {
  const { writer, put, transactions, close } = open(t.testdir())
  const before = transactions()
  const names = Array.from({ length: 6 }, (_, i) => `large-${i}`)
  await Promise.all(names.map((name) => writer.commit(10 * 2 ** 20, () => put(name))))
  t.ok(transactions() - before >= 3, `${transactions() - before} transactions for 60 MiB`)
  await close()
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

t.test('what waits is bounded, and a commit that does not end is given up: the store has failed', async (t) => {
  const directory = t.testdir()
  const holder = await startStoreProcess(directory)
  const { writer, put, fatal, close } = open(join(directory, 'events'), 2000)
  await holder.ask('hold')
  const job = () => writer.commit(30 * 2 ** 20, () => put('stuck'))
  const stuck = [job(), job()]
  await t.rejects(job(), { code: 'overloaded', retryAfterSeconds: 1 })
  for (const each of stuck) await t.rejects(each, { code: 'store-failed', message: 'has not ended' })
  await t.rejects(job(), { code: 'store-failed' })
  t.equal(writer.failure()?.code, 'store-failed')
  t.strictSame(fatal, ['store-failed'])
  await holder.kill()
  await close()
})

t.test('a data file that is deleted while it is open ends the acknowledgements', async (t) => {
  const directory = t.testdir()
  const { writer, put, fatal, close } = open(directory)
  await writer.commit(1, () => put('before'))
  renameSync(join(directory, 'data.mdb'), join(directory, 'gone.mdb'))
  await t.rejects(
    writer.commit(1, () => put('after')),
    { code: 'store-failed', message: 'deleted or replaced' },
  )
  t.strictSame(fatal, ['store-failed'])
  await close()
})

t.test('a failure that was found elsewhere is everybody’s, and told once', async (t) => {
  const { writer, put, fatal, close } = open(t.testdir())
  writer.fail(new IngestError('store-failed', 'It is gone.'))
  writer.fail(new IngestError('store-failed', 'Another.'))
  await t.rejects(
    writer.commit(1, () => put('after')),
    { message: 'It is gone.' },
  )
  t.strictSame(fatal, ['store-failed'])
  await close()
})
