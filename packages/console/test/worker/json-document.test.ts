import fc from 'fast-check'
import t, { type Test } from 'tap'
import { NotJson } from '../../page/worker/json-bytes.ts'
import {
  findPointer,
  type JsonDocument,
  type JsonValue,
  openDocument,
  readChildren,
  readPointer,
  readRoot,
  readText,
} from '../../page/worker/json-document.ts'

const encode = (text: string) => new TextEncoder().encode(text)
const open = (text: string) => openDocument(encode(text))

/** Where the text is not JSON; undefined if it is. */
function errorAt(bytes: Uint8Array): number | undefined {
  try {
    openDocument(bytes)
    return undefined
  } catch (error) {
    if (error instanceof NotJson) return error.at
    throw error
  }
}

/** The value that the tree shows, as `JSON.parse` would return it. */
function rebuild(document: JsonDocument, value: JsonValue): unknown {
  if (value.type === 'string') return readText(document, value.at).text
  if (value.type !== 'object' && value.type !== 'array') return JSON.parse(value.text.text)
  const children: JsonValue[] = []
  while (children.length < value.count) children.push(...readChildren(document, value.at, children.length))
  if (value.type === 'array') return children.map((child) => rebuild(document, child))
  return Object.fromEntries(children.map((child) => [child.name?.text, rebuild(document, child)]))
}

t.test('what is shown is what JSON.parse returns', async (t) => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 4 }), fc.constantFrom(undefined, 2), (text, indent) => {
      const expected = JSON.parse(text) as unknown
      const document = open(JSON.stringify(expected, null, indent))
      t.strictSame(rebuild(document, readRoot(document)), expected)
    }),
  )
})

t.test('accepts what JSON.parse accepts, and nothing else', async (t) => {
  const token = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"a"',
    '1',
    '-',
    '.5',
    'e1',
    'true',
    'nul',
    ' ',
    '\n',
    '"\\u12',
    '"\t"',
    '01',
  )
  fc.assert(
    fc.property(fc.array(token, { maxLength: 8 }), (tokens) => {
      const text = tokens.join('')
      let isValid = true
      try {
        JSON.parse(text)
      } catch {
        isValid = false
      }
      t.equal(errorAt(encode(text)) === undefined, isValid, text)
    }),
    { numRuns: 2_000 },
  )
})

t.test('says where it is not JSON', async (t) => {
  t.equal(errorAt(encode('{"a":1,}')), 7)
  t.equal(errorAt(encode('[1] x')), 4)
  t.equal(errorAt(encode('{"a":')), 5)
  t.equal(errorAt(encode('')), 0)
  t.equal(errorAt(Uint8Array.of(0x22, 0x61, 0xff, 0x22)), 2, 'not UTF-8')
  const late = encode(`["${'é'.repeat(600_000)}"]`)
  t.equal(errorAt(late), undefined, 'a character over the end of a block')
  late[1_100_000] = 0xff
  t.equal(errorAt(late), 1_100_000, 'not UTF-8, in a later block')
})

t.test('numbers keep their spelling', async (t) => {
  const spellings = ['12345678901234567890', '1.50', '-0', '1E400', '0.1e-7']
  const document = open(`[${spellings}]`)
  t.strictSame(
    readChildren(document, 0, 0).map(({ text }) => text.text),
    spellings,
  )
})

t.test('members and elements come in slices from any position', async (t) => {
  const document = open(JSON.stringify(Array.from({ length: 1_050 }, (_, index) => ({ index }))))
  t.equal(readRoot(document).count, 1_050)
  const indexesFrom = (from: number) =>
    readChildren(document, 0, from).map(({ at }) => readChildren(document, at, 0)[0]?.text.text)
  const expected = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => String(from + index))
  t.strictSame(indexesFrom(1_000), expected(1_000, 1_050), 'the last, before those ahead of it')
  t.strictSame(indexesFrom(250), expected(250, 350))
  t.strictSame(indexesFrom(0), expected(0, 100))
  t.strictSame(indexesFrom(1_050), [])
})

t.test('long strings and names are cut between characters', async (t) => {
  for (const long of ['x'.repeat(1_000), 'é🎮'.repeat(500), '\\"\n'.repeat(500), '\u0001'.repeat(500)]) {
    const document = open(JSON.stringify({ [long]: long }))
    const [member] = readChildren(document, 0, 0)
    t.match(member, { name: { isCut: true }, text: { isCut: true } })
    t.ok(long.startsWith(member?.text.text ?? '?'))
    t.ok(long.startsWith(member?.name?.text ?? '?'))
    t.strictSame(readText(document, member?.at ?? 0), { text: long, isCut: false })
  }
})

function pathTo(t: Test, document: JsonDocument, path: readonly number[]): string {
  let value = readRoot(document)
  const steps = path.map((index) => {
    value = readChildren(document, value.at, index, 1)[0] as JsonValue
    t.ok(value)
    return { index, nameAt: value.nameAt }
  })
  return readPointer(document, steps)
}

t.test('JSON Pointers lead to values and back', async (t) => {
  const document = open('{"a":[{},{"b/c~d":{"__proto__":[1,2]}}],"":{"0":true},"e\\u0066":null}')
  for (const pointer of ['', '/a', '/a/1', '/a/1/b~1c~0d', '/a/1/b~1c~0d/__proto__/1', '/', '//0', '/ef']) {
    const path = findPointer(document, pointer)
    t.ok(path, pointer)
    t.equal(pathTo(t, document, path ?? []), pointer)
  }
  for (const pointer of ['a', '/b', '/a/2', '/a/01', '/a/-', '/a/1/b', '/ef/x', '//1']) {
    t.equal(findPointer(document, pointer), undefined, pointer)
  }
  t.equal(findPointer(open('{"~2":1}'), '/~2'), undefined, 'no JSON Pointer')
})

t.test('any depth is read', async (t) => {
  const levels = 200_000
  const document = open(`${'['.repeat(levels)}${']'.repeat(levels)}`)
  t.match(readRoot(document), { count: 1, bytes: 2 * levels })
})
