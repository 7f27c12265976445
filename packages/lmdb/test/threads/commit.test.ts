import { copyFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { IngestError } from '@ingest/core'
import t, { type Test } from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import { createCommit, type Transaction } from '../../src/threads/commit.ts'
import { createCommitState, roundOf, withdrawRequests } from '../../src/threads/commit-state.ts'
import type { Outcome } from '../../src/threads/request-loop.ts'

/** A request that writes a row of a name, and then calls `run`. */
interface Request {
  id: number
  name: string
  run?: () => void
  round?: number
}

const requests: Request[] = [
  { id: 7, name: 'a' },
  { id: 8, name: 'b' },
]

let opened = 0

async function open(t: Test, steps: Partial<Transaction<Request, string>> = {}) {
  const directory = join(t.testdir(), String(++opened))
  const environment = await openEnvironment(directory)
  t.teardown(() => environment.close())
  const rows = environment.table('log')
  const state = createCommitState()
  const { commit, ...rest } = createCommit<Request, string>(environment, state, {
    write({ name, run }) {
      rows.put(Buffer.from(name), Buffer.from(name))
      run?.()
      return name
    },
    ...steps,
  })
  return {
    directory,
    state,
    ...rest,
    commit(requests: readonly Request[]) {
      const outcomes: Outcome<string>[] = []
      commit(requests, (handled) => outcomes.push(...handled.outcomes))
      return outcomes
    },
    names: () => [...rows.getKeys()].map(String),
    /** How many transactions were committed. */
    transactions: () => (environment.root.getStats() as { lastTxnId: number }).lastTxnId,
  }
}

t.test('requests share one transaction, and each gets its value', async (t) => {
  const { commit, names, transactions } = await open(t)
  const before = transactions()
  t.strictSame(commit(requests), [
    { id: 7, value: 'a' },
    { id: 8, value: 'b' },
  ])
  t.equal(transactions() - before, 1)
  t.strictSame(names(), ['a', 'b'])
})

const full = () => {
  throw new IngestError('overloaded', 'Not now.')
}

t.test('an error that is not of one request undoes the transaction, and refuses every request', async (t) => {
  let undone = 0
  const { commit, names, failure } = await open(t, { onUndone: () => undone++ })
  t.match(commit([...requests, { id: 9, name: 'c', run: full }]), [
    { id: 7, error: { code: 'overloaded' } },
    { id: 8, error: { code: 'overloaded' } },
    { id: 9, error: { code: 'overloaded' } },
  ])
  t.equal(undone, 1)
  t.strictSame(names(), [])
  t.equal(failure(), undefined)
  t.match(commit([{ id: 9, name: 'd' }]), [{ id: 9, value: 'd' }], 'a refusal is no failure of the store')
})

t.test('a process that may open no more files refuses requests for now', async (t) => {
  const { commit, failure } = await open(t)
  const run = () => {
    throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE', syscall: 'open' })
  }
  t.match(commit([{ id: 7, name: 'a', run }]), [{ id: 7, error: { code: 'overloaded', message: 'ulimit -n' } }])
  t.equal(failure(), undefined)
  t.match(commit([{ id: 8, name: 'b' }]), [{ id: 8, value: 'b' }])
})

t.test('a request that throws is refused alone, and leaves nothing behind', async (t) => {
  const { commit, names, failure, transactions } = await open(t)
  const damaged = () => {
    throw new IngestError('store-damaged', 'A record is damaged.')
  }
  const bug = () => (undefined as unknown as { missing: () => void }).missing()
  const before = transactions()
  const outcomes = commit([
    { id: 1, name: 'a' },
    { id: 2, name: 'b', run: damaged },
    { id: 3, name: 'c' },
    { id: 4, name: 'd' },
    { id: 5, name: 'e', run: bug },
    { id: 6, name: 'f' },
  ])
  t.match(outcomes, [
    { id: 1, value: 'a' },
    { id: 2, error: { code: 'store-damaged' } },
    { id: 3, value: 'c' },
    { id: 4, value: 'd' },
    { id: 5, error: { code: 'internal-error', details: { cause: /missing/ } } },
    { id: 6, value: 'f' },
  ])
  t.strictSame(names(), ['a', 'c', 'd', 'f'])
  t.equal(transactions() - before, 3, 'one for those before, between and behind them')
  t.equal(failure(), undefined)
})

t.test('a request that fails because of another in its transaction is tried again after it', async (t) => {
  let committed = 0
  const { commit, names } = await open(t, { begin: () => committed++ })
  const conflict = () => {
    if (committed === 1) throw new Error('It does not expect the other one.')
  }
  t.strictSame(
    commit([...requests, { id: 9, name: 'c', run: conflict }]).map(({ id }) => id),
    [7, 8, 9],
  )
  t.strictSame(names(), ['a', 'b', 'c'])
})

t.test('every request may fail', async (t) => {
  const { commit, names } = await open(t)
  const run = () => {
    throw new RangeError('too far')
  }
  const all = Array.from({ length: 500 }, (_, id) => ({ id, name: String(id), ...(id % 5 > 0 && { run }) }))
  const outcomes = commit(all)
  t.strictSame(
    outcomes.map(({ id }) => id),
    all.map(({ id }) => id),
  )
  t.equal(outcomes.filter((outcome) => 'value' in outcome).length, 100)
  t.equal(names().length, 100)
})

t.test('requests that were withdrawn before the transaction are not written', async (t) => {
  const { commit, state, names } = await open(t)
  const round = roundOf(state)
  t.ok(withdrawRequests(state))
  const outcomes = commit([
    { id: 1, name: 'a', round },
    { id: 2, name: 'b', round: roundOf(state) },
    { id: 3, name: 'c', round },
  ])
  t.match(outcomes, [{ error: { code: 'store-locked' } }, { value: 'b' }, { error: { code: 'store-locked' } }])
  t.strictSame(names(), ['b'])
})

t.test('requests in a transaction cannot be withdrawn', async (t) => {
  const { commit, state, names } = await open(t)
  let isWithdrawn: boolean | undefined
  const run = () => {
    isWithdrawn = withdrawRequests(state)
  }
  t.match(commit([{ id: 1, name: 'a', round: roundOf(state), run }]), [{ value: 'a' }])
  t.equal(isWithdrawn, false)
  t.strictSame(names(), ['a'])
})

for (const file of ['data.mdb', 'lock.mdb']) {
  t.test(`after ${file} is deleted, nothing is acknowledged or retried`, async (t) => {
    let tried = 0
    const { directory, commit, failure } = await open(t, { begin: () => tried++ })
    commit([{ id: 1, name: 'before' }])
    renameSync(join(directory, file), join(directory, 'gone.mdb'))
    const refused = [{ id: 2, error: { code: 'store-failed', message: /deleted or replaced/ } }]
    for (const name of ['after', 'later']) t.match(commit([{ id: 2, name }]), refused)
    t.match(failure(), { code: 'store-failed' })
    t.equal(tried, 1, 'nothing was tried')
  })

  t.test(`what is written while ${file} is replaced is not acknowledged`, async (t) => {
    const { directory, commit } = await open(t)
    const replace = () => {
      copyFileSync(join(directory, file), join(directory, 'copy'))
      renameSync(join(directory, 'copy'), join(directory, file))
    }
    const refused = [{ id: 1, error: { code: 'store-failed', message: /deleted or replaced/ } }]
    t.match(commit([{ id: 1, name: 'during', run: replace }]), refused)
  })
}

t.test('an error before the transaction refuses the requests', async (t) => {
  const { refuse, failure } = await open(t)
  t.match(refuse(requests, new IngestError('disk-full', 'Full.')), [
    { id: 7, error: { code: 'disk-full' } },
    { id: 8, error: { code: 'disk-full' } },
  ])
  t.equal(failure(), undefined)
  refuse(requests, new Error('What is this?'))
  t.match(failure(), { code: 'store-failed', message: /What is this/ })
})
