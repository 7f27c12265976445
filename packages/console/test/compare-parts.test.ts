import t from 'tap'
import { compareParts, differingMembers, findKnownParts } from '../page/heat/compare-parts.ts'

const at = (x: number, members: object = {}) => ({ position: [x, 0, 0], size: [1, 1, 1], ...members })

/** What changed, as `kind before > after` with the positions. */
function changesOf(before: unknown, after: unknown): string[] {
  const [old, now] = [findKnownParts(before), findKnownParts(after)]
  const show = (parts: typeof old, index: number | undefined) => (index === undefined ? '' : parts.centers[3 * index])
  return compareParts(old, now).map((change) => `${change.kind} ${show(old, change.before)}>${show(now, change.after)}`)
}

t.test('a part is known by its id, else by its name, else by its path', async (t) => {
  const before = [at(1, { id: 7, name: 'a' }), at(2, { name: 'b' }), at(3)]
  const after = [at(30), at(20, { name: 'b' }), at(10, { id: 7, name: 'c' })]
  t.strictSame(changesOf(before, after), ['moved 1>10', 'moved 2>20', 'moved 3>30'])
  t.strictSame(changesOf({ walls: [at(1)] }, { doors: [at(1)] }), ['removed 1>', 'added >1'])
  t.strictSame(changesOf([at(1)], [at(0), at(1)]), ['added >0'], 'one that is inserted moves no other')
})

t.test('of parts with one name, those that stay cancel out, and the nearest of the rest are pairs', async (t) => {
  const lamps = (...places: number[]) => places.map((x) => at(x, { name: 'lamp' }))
  t.strictSame(changesOf(lamps(1, 2, 3), lamps(3, 1)), ['removed 2>'])
  t.strictSame(changesOf(lamps(1, 50, 100), lamps(98, 1, 53)), ['moved 50>53', 'moved 100>98'])
  t.strictSame(changesOf(lamps(5, 5), lamps(5, 5, 5)), ['added >5'])
  const many = Array.from({ length: 300 }, (_, i) => i)
  t.strictSame(changesOf(lamps(...many), lamps(...many.slice(1))), ['removed 0>'])
  t.equal(changesOf(lamps(...many), lamps(...many.map((i) => i + 1_000))).length, 300, 'beyond, the order decides')
})

t.test('a turn, a size and other members are changes, but not the parts of a part', async (t) => {
  const one = (members: object) => ({ id: 1, position: { x: 0, y: 0, z: 0 }, size: [1, 2, 3], ...members })
  t.strictSame(changesOf(one({}), one({})), [])
  t.strictSame(changesOf(one({}), one({ rotation: [0, 90, 0] })), ['moved 0>0'])
  t.strictSame(changesOf(one({ rotation: [0, 0, 0] }), one({ rotation: [10, 0, 0] })), ['changed 0>0'])
  t.strictSame(changesOf(one({}), one({ size: [1, 2, 4] })), ['changed 0>0'])
  t.strictSame(changesOf(one({ material: { name: 'ice' } }), one({ material: { name: 'mud' } })), ['changed 0>0'])
  const texture = (id: number) => one({ material: { texture: { id } }, children: [at(1)], door: at(5) })
  t.strictSame(changesOf(texture(1), texture(2)), ['changed 0>0'])
  t.strictSame(changesOf(one({ door: at(1) }), one({ door: at(2) })), ['moved 1>2'])
  t.strictSame(changesOf(one({ children: [at(1)] }), one({ children: [at(2)] })), ['moved 1>2'])
  t.strictSame(changesOf([{ x: 1, y: 2, width: 3, height: 4 }], [{ x: 1, y: 5, width: 3, height: 4 }]), [
    'moved 2.5>2.5',
  ])
})

t.test('members that differ are listed, as far as the limit', async (t) => {
  t.strictSame(differingMembers('{"a":1,"b":2}', '{"b":2,"a":3,"c":null}', 99), {
    before: 'a: 1',
    after: 'a: 3, c: null',
  })
  t.strictSame(differingMembers('', '{"a":"xxxx"}', 5), { before: '', after: 'a: "x…' })
})
