import t from 'tap'
import { countAdded, keysOfParts } from '../page/heat/compare-parts.ts'

const at = (x: number, members: object = {}) => ({ position: [x, 0, 0], size: [1, 1, 1], ...members })

/** How many parts were added and removed. */
function changesOf(before: unknown, after: unknown): [added: number, removed: number] {
  const [old, now] = [keysOfParts(before), keysOfParts(after)]
  return [countAdded(old, now), countAdded(now, old)]
}

t.test('a part is identified by its id, or else its name, or else its path', async (t) => {
  const before = [at(1, { id: 7, name: 'a' }), at(2, { name: 'b' }), at(3)]
  t.strictSame(changesOf(before, [at(30), at(20, { name: 'b' }), at(10, { id: 7, name: 'c' })]), [0, 0], 'all moved')
  t.strictSame(changesOf({ walls: [at(1)] }, { doors: [at(1)] }), [1, 1])
  t.strictSame(changesOf([at(1)], [at(0), at(1)]), [1, 0])
  t.strictSame(changesOf([at(1, { id: 7 })], [at(1, { name: 'id 7' })]), [1, 1], 'a name is not an id')
})

t.test('parts that share a name are counted', async (t) => {
  const lamps = (count: number) => Array.from({ length: count }, (_, x) => at(x, { name: 'lamp' }))
  t.strictSame(changesOf(lamps(3), lamps(5)), [2, 0])
  t.strictSame(changesOf(lamps(300), lamps(1)), [0, 299])
})

t.test('an object without a position and a size is not a part', async (t) => {
  t.strictSame(changesOf({ name: 'Town' }, { name: 'City', seed: 7 }), [0, 0])
  t.match(keysOfParts([at(1), { position: [1, 2, 3] }]), { length: 1, isCut: false })
})
