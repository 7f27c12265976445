import { join } from 'node:path'
import t from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import { sequenceKey } from '../../src/environment/row-keys.ts'
import { overwriteFreePages } from '../../src/pages/free-pages.ts'

t.test('pages that a snapshot still needs are not overwritten', async (t) => {
  const directory = join(t.testdir(), 'environment')
  const environment = await openEnvironment(directory)
  t.teardown(() => environment.close())
  const { root } = environment
  const rows = environment.table('log')
  const keys = Array.from({ length: 60 }, (_, i) => sequenceKey(i))
  const [replaced, removed] = [keys.slice(0, 20), keys.slice(20)]
  // on pages of its own
  const value = (byte: number) => Buffer.alloc(9000, byte)
  const commit = (work: () => void) => {
    environment.write(work)
    root.resetReadTxn()
    return (root.getStats() as { lastTxnId: number }).lastTxnId
  }
  const overwrite = (before: number) =>
    environment.write(() => overwriteFreePages(environment, join(directory, 'data.mdb'), before, 0))

  commit(() => {
    for (const key of keys) rows.put(key, value(1))
  })
  commit(() => {
    for (const key of removed) rows.remove(key)
  })
  const before = commit(() => {
    for (const key of replaced) rows.put(key, value(2))
  })
  const snapshot = root.useReadTransaction()
  const after = commit(() => {
    for (const key of replaced) rows.put(key, value(3))
  })
  t.ok(overwrite(before).pages > 0, 'those that were free before it are')
  // the types of lmdb know no transaction of a table's reads
  const read = rows.get.bind(rows) as (key: Buffer, options: object) => Buffer | undefined
  t.ok(replaced.every((key) => read(key, { transaction: snapshot })?.equals(value(2))))
  t.ok(replaced.every((key) => rows.get(key)?.equals(value(3))))
  t.throws(() => overwrite(after), { code: 'overloaded' })
  snapshot.done()
})
