import t from 'tap'
import { createSpareMemory } from '../../src/limits/spare-memory.ts'

t.test('memory that was given back is used again, as much of it as is kept', async (t) => {
  const { take, giveBack } = createSpareMemory(10, 2)
  const taken = [take(), take(), take()]
  t.strictSame(
    taken.map(({ length }) => length),
    [10, 10, 10],
  )
  t.equal(new Set(taken.map(({ buffer }) => buffer)).size, 3, 'nobody shares')
  for (const memory of taken) giveBack(memory)
  const again = [take(), take(), take()]
  t.equal(again.filter((memory) => taken.includes(memory)).length, 2)
  t.equal(new Set(again).size, 3)
})
