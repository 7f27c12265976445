import t from 'tap'
import { isEmptyAt, positionAt, putEntry } from '../../src/ids/entry.ts'

t.test('an entry is read as it was put, at every size of its numbers', async (t) => {
  const words = new Uint32Array(12)
  for (const sequence of [1, 2 ** 24 - 1, 2 ** 24, 2 ** 32, 2 ** 40 + 5, Number.MAX_SAFE_INTEGER]) {
    for (const index of [0, 99, 255]) {
      putEntry(words, 4, 0xffffffff, 7, sequence, index)
      t.same([...words.subarray(4, 6)], [0xffffffff, 7])
      t.same(positionAt(words, 4), { sequence, index })
      t.equal(isEmptyAt(words, 4), false)
    }
  }
  t.equal(isEmptyAt(words, 0), true)
  t.equal(isEmptyAt(words, 8), true)
})
