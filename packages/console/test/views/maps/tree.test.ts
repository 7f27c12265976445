import t from 'tap'
import { createTree, pressKey, type Row } from '../../../page/views/maps/tree.ts'
import { readChildren, readValue, sliceLength } from '../../../page/worker/json-document.ts'

function plant(value: unknown) {
  const load = async (pointer: string, from: number) => readChildren(value, pointer, from)
  const tree = createTree(readValue(value), { load, sliceLength, onChange: () => {} })
  return {
    tree,
    lines: () => tree.rows().map(lineOf),
    active: () => lineOf(tree.active()),
    /** Resolves when the slice that a key loads is in the tree. */
    async press(...keys: string[]) {
      for (const key of keys) {
        t.ok(pressKey(tree, key, 10), key)
        await new Promise((resolve) => setImmediate(resolve))
      }
    },
  }
}

function lineOf({ item, more }: Row): string {
  const name = `${'  '.repeat(item.level - 1)}${item.value.name?.text ?? item.index}`
  return more ? `${name}: ${more}` : name
}

t.test('only what is open is loaded', async (t) => {
  const { tree, lines } = plant({ a: { b: 1 }, c: [] })
  t.strictSame(lines(), ['0'])
  await tree.toggle(tree.active())
  t.strictSame(lines(), ['0', '  a', '  c'])
  await tree.toggle(tree.rows()[1] as Row)
  t.strictSame(lines(), ['0', '  a', '    b', '  c'])
  await tree.toggle(tree.rows()[0] as Row)
  t.strictSame(lines(), ['0'])
})

t.test('keys move, open and close as in the tree pattern of ARIA', async (t) => {
  const { press, active, lines } = plant({ a: { b: 1, c: 2 }, d: 3 })
  await press('ArrowRight')
  t.equal(active(), '0', 'the first opens')
  await press('ArrowRight')
  t.equal(active(), '  a', 'the second moves to the first member')
  await press('Enter', 'ArrowDown', 'ArrowDown')
  t.equal(active(), '    c')
  await press('ArrowRight')
  t.equal(active(), '    c', 'there is nothing to open')
  await press('ArrowLeft')
  t.equal(active(), '  a', 'to the parent')
  await press('ArrowLeft')
  t.strictSame(lines(), ['0', '  a', '  d'], 'closed')
  await press('End')
  t.equal(active(), '  d')
  await press('ArrowDown')
  t.equal(active(), '  d')
  await press('Home', 'ArrowUp')
  t.equal(active(), '0')
  await press('PageDown')
  t.equal(active(), '  d')
})

t.test('a value that closes takes over from what was active in it', async (t) => {
  const { tree, press, active } = plant({ a: { b: 1 } })
  await press('ArrowRight', 'ArrowDown', 'ArrowRight', 'ArrowDown')
  t.equal(active(), '    b')
  await tree.toggle(tree.rows()[1] as Row)
  t.equal(active(), '  a')
})

t.test('a long list shows a slice, and the next on request', async (t) => {
  const { tree, press, active, lines } = plant(Array.from({ length: 250 }, (_, index) => index))
  await press('Enter')
  t.equal(tree.rows().length, 1 + 100 + 1)
  await press('End')
  t.equal(active(), '0: after')
  await press('Enter')
  t.equal(active(), '  100', 'continues where the slice begins')
  await press('End', 'Enter')
  t.equal(tree.rows().length, 1 + 250)
  t.equal(lines().at(-1), '  249')
})

t.test('two requests for the same slice add it once', async (t) => {
  const { tree } = plant(Array.from({ length: 250 }, (_, index) => index))
  await tree.toggle(tree.active())
  const more = tree.rows().at(-1) as Row
  await Promise.all([tree.toggle(more), tree.toggle(more)])
  t.equal(tree.rows().length, 1 + 200 + 1)
})

t.test('a value far down is revealed with the slice around it', async (t) => {
  const { tree, press, active, lines } = plant({ parts: Array.from({ length: 1_000 }, (_, id) => ({ id })) })
  await tree.reveal([0, 555, 0])
  t.equal(active(), '      id')
  t.strictSame(lines().slice(0, 4), ['0', '  parts', '  parts: before', '    500'])
  await press('Home', 'ArrowDown', 'ArrowDown', 'Enter')
  t.equal(active(), '    499', 'continues before the slice')
  t.equal(lines()[3], '    400')
})
