import t from 'tap'
import { findPointer, readChildren, readText, readValue } from '../../page/worker/json-document.ts'
import { parseMap } from '../../page/worker/map-calls.ts'

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
