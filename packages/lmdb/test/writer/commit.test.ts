import { copyFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { IngestError } from '@ingest/core'
import t, { type Test } from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import { createCommit } from '../../src/writer/commit.ts'

const requests = [{ id: 7 }, { id: 8 }]

let opened = 0

function open(t: Test) {
  const directory = join(t.testdir(), String(++opened))
  const environment = openEnvironment(directory)
  t.teardown(() => environment.close())
  const rows = environment.table('rows')
  return {
    directory,
    ...createCommit(environment),
    put(name: string) {
      rows.put(Buffer.from(name), Buffer.from(name))
      return name
    },
    names: () => [...rows.getKeys()].map(String),
    /** How many transactions were committed. */
    transactions: () => (environment.root.getStats() as { lastTxnId: number }).lastTxnId,
  }
}

t.test('requests share one transaction, and each gets its value', async (t) => {
  const { commit, put, names, transactions } = open(t)
  const before = transactions()
  t.strictSame(
    commit(requests, () => [put('a'), put('b')]),
    [
      { id: 7, value: 'a' },
      { id: 8, value: 'b' },
    ],
  )
  t.equal(transactions() - before, 1)
  t.strictSame(names(), ['a', 'b'])
})

t.test('an error rolls back the transaction, and refuses every request', async (t) => {
  const { commit, put, names, failure } = open(t)
  let undone = 0
  const outcomes = commit(
    requests,
    () => {
      put('a')
      throw new IngestError('overloaded', 'Not now.')
    },
    () => undone++,
  )
  t.match(outcomes, [
    { id: 7, error: { code: 'overloaded' } },
    { id: 8, error: { code: 'overloaded' } },
  ])
  t.equal(undone, 1)
  t.strictSame(names(), [])
  t.equal(failure(), undefined)
  t.match(
    commit([{ id: 9 }], () => [put('b')]),
    [{ id: 9, value: 'b' }],
    'a refusal is no failure of the store',
  )
})

for (const file of ['data.mdb', 'lock.mdb']) {
  t.test(`after ${file} is deleted, nothing is acknowledged or retried`, async (t) => {
    const { directory, commit, put, failure } = open(t)
    commit([{ id: 1 }], () => [put('before')])
    renameSync(join(directory, file), join(directory, 'gone.mdb'))
    const refused = [{ id: 2, error: { code: 'store-failed', message: /deleted or replaced/ } }]
    t.match(
      commit([{ id: 2 }], () => [put('after')]),
      refused,
    )
    t.match(failure(), { code: 'store-failed' })
    t.match(
      commit([{ id: 2 }], () => t.fail('it is not tried') as never),
      refused,
    )
  })
}

for (const file of ['data.mdb', 'lock.mdb']) {
  t.test(
    `what is written while ${file} is replaced is not acknowledged, and a write after that is not tried`,
    async (t) => {
      const { directory, commit, put } = open(t)
      const replace = () => {
        copyFileSync(join(directory, file), join(directory, 'copy'))
        renameSync(join(directory, 'copy'), join(directory, file))
      }
      const refused = [{ id: 1, error: { code: 'store-failed', message: /deleted or replaced/ } }]
      const during = commit([{ id: 1 }], () => {
        replace()
        return [put('during')]
      })
      t.match(during, refused)
      const other = open(t)
      copyFileSync(join(other.directory, file), join(other.directory, 'copy'))
      renameSync(join(other.directory, 'copy'), join(other.directory, file))
      t.match(
        other.commit([{ id: 1 }], () => t.fail('it is not tried') as never),
        refused,
      )
    },
  )
}

t.test('an error before the transaction refuses the requests', async (t) => {
  const { refuse, failure } = open(t)
  t.match(refuse(requests, new IngestError('disk-full', 'Full.')), [
    { id: 7, error: { code: 'disk-full' } },
    { id: 8, error: { code: 'disk-full' } },
  ])
  t.equal(failure(), undefined)
  refuse(requests, new Error('What is this?'))
  t.match(failure(), { code: 'store-failed', message: /What is this/ })
})
