import t from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { batchOf, idsOf } from '../batches.ts'
import { createDatabase, noPostgres } from '../database.ts'
import { startCuttingProxy } from '../faults/cutting-proxy.ts'

t.test('readers that wake at once share their statements', { skip: noPostgres }, async (t) => {
  const proxy = await startCuttingProxy(t, await createDatabase())
  const store = await openPostgresStore(proxy.url)
  t.teardown(() => store.close())
  await store.append('p', batchOf('a', 'b'))
  const before = proxy.statements()
  t.strictSame(await idsOf(store), ['a', 'b'])
  const ofOne = proxy.statements() - before
  const all = await Promise.all(Array.from({ length: 50 }, () => idsOf(store)))
  t.strictSame(all, Array(50).fill(['a', 'b']))
  t.equal(proxy.statements() - before, 2 * ofOne)
})
