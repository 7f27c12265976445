import t from 'tap'
import { indentJson, joinTokens, summarizeMembers } from '../page/json-text.ts'
import { createTree, pressKey, type Row } from '../page/views/maps/tree.ts'
import { findPointer, readChildren, readText, readValue, sliceLength } from '../page/worker/json-document.ts'
import { parseMap } from '../page/worker/map-calls.ts'

const indent = (text: string) => joinTokens(indentJson(text))

t.test('members and elements stand on lines of their own', async (t) => {
  t.equal(
    indent('{"a":1,"b":{"c":"x"},"d":[{"e":null},{}],"f":[],"g":""}'),
    `{
  "a": 1,
  "b": {
    "c": "x"
  },
  "d": [
    {
      "e": null
    },
    {}
  ],
  "f": [],
  "g": ""
}`,
  )
  t.equal(indent(' {\t"a" :\r\n 1 } '), '{\n  "a": 1\n}', 'whatever space was there')
  t.equal(indent('"alone"'), '"alone"')
  t.equal(indent(''), '')
})

t.test('a short list of scalars stays on one line', async (t) => {
  t.equal(indent('{"position":[12.50,-3,"a]\\"b"],"z":1}'), '{\n  "position": [12.50, -3, "a]\\"b"],\n  "z": 1\n}')
  t.equal(indent('[1,[2],{"a":[3]}]'), '[\n  1,\n  [2],\n  {\n    "a": [3]\n  }\n]')
  const long = Array.from({ length: 30 }, (_, index) => 100 + index)
  t.equal(indent(JSON.stringify(long)), JSON.stringify(long, null, 2))
})

t.test('numbers, escapes, order and repeated members stay as they were sent', async (t) => {
  const spellings = [
    '123456789012345678901234567890',
    '1E400',
    '-0',
    '1.50',
    '"\\u0041\\/"',
    '"a,b:{}[] \\" \\\\"',
    '"🎮"',
  ]
  for (const spelling of spellings) {
    t.equal(
      indent(`{"b":${spelling},"a":${spelling},"a":1}`),
      `{\n  "b": ${spelling},\n  "a": ${spelling},\n  "a": 1\n}`,
    )
  }
})

t.test('only space changes', async (t) => {
  const text = String.raw`{"x":[[1,2,[3]],{"y":"\"","z":[]}],"deep":${'['.repeat(200)}${']'.repeat(200)}}`
  t.equal(indent(text).replace(/\s/g, ''), text)
  t.strictSame(JSON.parse(indent(text)), JSON.parse(text))
})

t.test('the text of a million levels is not indented at each', async (t) => {
  const levels = 1_000_000
  t.ok(indent('['.repeat(levels) + ']'.repeat(levels)).length < 3 * levels)
})

t.test('each token has its kind', async (t) => {
  t.strictSame(indentJson('{"a":"b","c":[1,true]}'), [
    { kind: 'punctuation', text: '{\n  ' },
    { kind: 'name', text: '"a"' },
    { kind: 'punctuation', text: ': ' },
    { kind: 'string', text: '"b"' },
    { kind: 'punctuation', text: ',\n  ' },
    { kind: 'name', text: '"c"' },
    { kind: 'punctuation', text: ': [' },
    { kind: 'number', text: '1' },
    { kind: 'punctuation', text: ', ' },
    { kind: 'literal', text: 'true' },
    { kind: 'punctuation', text: ']\n}' },
  ])
})

t.test('text that is not JSON does not throw', async (t) => {
  for (const text of ['}}}', '{"a', 'a b', '"\\', '[1,]', ':', ']['.repeat(10)])
    t.doesNotThrow(() => indent(text), text)
})

t.test('a summary names the members in their exact spelling', async (t) => {
  const without = new Set(['eventId', 'type'])
  const summary = (text: string, charsMax = 300) => summarizeMembers(text, without, charsMax)
  t.equal(
    summary('{"eventId":"e","n": 12345678901234567890.10,"type":{"a":[1]},"at":{"x":1,"y":[2,3]},"s":"a, b"}'),
    'n: 12345678901234567890.10  at: {"x": 1, "y": [2, 3]}  s: "a, b"',
  )
  t.equal(summary('{}'), '')
  t.equal(summary(`{"a":1,"b":[${'1,'.repeat(1_000)}1],"c":1}`, 20), 'a: 1  b: [1, 1, 1, 1…', 'and is cut off')
})

t.test('only JSON in UTF-8 is parsed, with a byte order mark or without', async (t) => {
  const encode = (text: string) => new TextEncoder().encode(text)
  t.strictSame(parseMap(encode('\ufeff{"a":["é🎮"]}')), { a: ['é🎮'] })
  for (const bytes of [encode('{"a":1,}'), encode(''), Uint8Array.of(0x22, 0xff, 0x22)]) t.throws(() => parseMap(bytes))
})

t.test('each type has its text or its count', async (t) => {
  const values = readChildren(JSON.parse('{"o":{"a":1},"l":[1,2],"s":"x","n":1.50,"t":true,"z":null}'), '', 0)
  t.strictSame(
    values.map(({ name, type, count, text }) => [name?.text, type, count, text.text]),
    [
      ['o', 'object', 1, ''],
      ['l', 'array', 2, ''],
      ['s', 'string', 0, 'x'],
      ['n', 'number', 0, '1.5'],
      ['t', 'boolean', 0, 'true'],
      ['z', 'null', 0, 'null'],
    ],
  )
})

t.test('members and elements come in slices from any position', async (t) => {
  const elements = Array.from({ length: 1_050 }, (_, index) => index)
  for (const document of [elements, Object.fromEntries(elements.map((index) => [`m${index}`, index]))]) {
    t.equal(readValue(document).count, 1_050)
    const textsFrom = (from: number) => readChildren(document, '', from).map(({ text }) => text.text)
    for (const from of [1_000, 250, 0, 1_050])
      t.strictSame(textsFrom(from), elements.slice(from, from + 100).map(String))
  }
})

t.test('long strings and names are cut between characters', async (t) => {
  for (const long of ['x'.repeat(1_000), `x${'🎮'.repeat(500)}`]) {
    const document = { [long]: long }
    const [member] = readChildren(document, '', 0)
    t.match(member, { name: { isCut: true }, text: { isCut: true } })
    for (const { text = '' } of [member?.name ?? {}, member?.text ?? {}])
      t.ok(text.isWellFormed() && long.startsWith(text))
    t.strictSame(readText(document, `/${long}`), { text: long, isCut: false })
  }
})

t.test('JSON Pointers lead to values and back', async (t) => {
  const document = JSON.parse('{"a":[{},{"b/c~d":{"__proto__":[1,2]}}],"":{"0":true},"e\\u0066":null}')
  for (const pointer of ['', '/a', '/a/1', '/a/1/b~1c~0d', '/a/1/b~1c~0d/__proto__/1', '/', '//0', '/ef']) {
    let at = ''
    for (const index of findPointer(document, pointer) ?? []) at = readChildren(document, at, index)[0]?.pointer ?? '?'
    t.equal(at, pointer)
  }
  for (const pointer of ['a', '/b', '/a/2', '/a/01', '/a/-', '/a/1/b', '/ef/x', '//1', '/~2']) {
    t.equal(findPointer(document, pointer), undefined, pointer)
  }
})

t.test('any depth is read', async (t) => {
  const levels = 200_000
  t.match(readValue(JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`)), { count: 1 })
})

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
