import { spawnSync } from 'node:child_process'
import t from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import {
  createClaim,
  emptyRunList,
  openIdTables,
  readRevision,
  readRunList,
  writeRunList,
} from '../../src/ids/run-list.ts'

t.test('a list is read as it was written, with its revision beside it', async (t) => {
  const tables = openIdTables(openEnvironment(t.testdir()))
  t.equal(readRunList(tables), undefined)
  t.equal(readRevision(tables), 0)
  const list = {
    ...emptyRunList('seed'),
    revision: 4,
    watermark: 2 ** 40,
    runs: [{ id: 1, nonce: 2, level: 0, count: 5 }],
  }
  tables.environment.root.transactionSync(() => writeRunList(tables, list))
  t.strictSame(readRunList(tables), list)
  t.equal(readRevision(tables), 4)
  await tables.environment.root.close()
})

t.test('one worker at a time has the right to work', async (t) => {
  const tables = openIdTables(openEnvironment(t.testdir()))
  let now = 1_000_000
  const clock = () => now
  const [one, other] = [createClaim(tables, clock), createClaim(tables, clock)]
  const hold = (claim: typeof one) => tables.environment.root.transactionSync(() => claim.acquire())
  const release = (claim: typeof one) => tables.environment.root.transactionSync(() => claim.release())
  t.equal(hold(one), 'taken')
  t.equal(hold(other), 'busy', 'it is taken')
  t.equal(hold(one), 'kept', 'whoever has it may renew it')
  release(other)
  t.equal(hold(other), 'busy', 'nobody gives back what is not theirs')
  now += 9_000
  t.equal(hold(one), 'kept')
  now += 9_000
  t.equal(hold(other), 'busy', 'it was renewed')
  now += 9_000
  t.equal(hold(one), 'kept', 'it ran out, and nobody took it')
  release(one)
  t.equal(hold(other), 'taken', 'it was given back')
  release(other)
  t.equal(hold(one), 'taken', 'somebody else had it in between')
  now += 10_001
  t.equal(hold(other), 'taken', 'who does not renew it has left')
  now -= 3_600_000
  t.equal(hold(one), 'taken', 'a clock that was set back locks nobody out')
  await tables.environment.root.close()
})

t.test('the right of a process that has ended is free at once', async (t) => {
  const tables = openIdTables(openEnvironment(t.testdir()))
  const { pid } = spawnSync(process.execPath, ['--version'])
  tables.environment.root.transactionSync(() => {
    const bytes = Buffer.alloc(24)
    bytes.writeDoubleLE(7, 0)
    bytes.writeDoubleLE(pid, 8)
    bytes.writeDoubleLE(Date.now() + 9000, 16)
    tables.meta.put(Buffer.from('claim'), bytes)
  })
  const claim = createClaim(tables)
  t.equal(
    tables.environment.root.transactionSync(() => claim.acquire()),
    'taken',
  )
  await tables.environment.root.close()
})
