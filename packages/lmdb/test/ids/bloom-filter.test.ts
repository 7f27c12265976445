import { randomFillSync } from 'node:crypto'
import t from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import { addToFilter, createFilter, getFilter, mayHave, putFilter } from '../../src/ids/bloom-filter.ts'

function filled(count: number) {
  const filter = createFilter(count)
  const ids = randomFillSync(new Uint32Array(count * 2))
  for (let i = 0; i < count; i++) addToFilter(filter, ids[i * 2] as number, ids[i * 2 + 1] as number)
  return { filter, ids }
}

t.test('what was added is never denied, and about one in a hundred of the others is not', async (t) => {
  const count = 100_000
  const { filter, ids } = filled(count)
  t.equal(filter.length, Math.ceil((count * 10) / 512) * 16, '10 bits an id')
  let denied = 0
  for (let i = 0; i < count; i++) if (!mayHave(filter, ids[i * 2] as number, ids[i * 2 + 1] as number)) denied++
  t.equal(denied, 0)
  const others = randomFillSync(new Uint32Array(count * 2))
  let perhaps = 0
  for (let i = 0; i < count; i++) if (mayHave(filter, others[i * 2] as number, others[i * 2 + 1] as number)) perhaps++
  t.ok(perhaps < count * 0.025, `${perhaps} of ${count} by chance`)
})

t.test('a filter for nothing denies everything', async (t) => {
  t.equal(mayHave(createFilter(0), 1, 2), false)
})

t.test('a filter is read as it was written, in several parts', async (t) => {
  const environment = openEnvironment(t.testdir())
  const table = environment.table('filters')
  const count = 600_000
  const { filter } = filled(count)
  const run = { id: 3, nonce: 4, level: 1, count }
  environment.root.transactionSync(() => putFilter(table, run, filter))
  t.ok([...table.getKeys()].length > 1, 'it takes more than one part')
  t.ok(Buffer.from(getFilter(table, run).buffer).equals(Buffer.from(filter.buffer)))
  await environment.root.close()
})
