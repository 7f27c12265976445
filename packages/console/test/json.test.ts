import t from 'tap'
import { indentJson, summarizeMembers } from '../page/json-text.ts'
import { parseMap } from '../page/worker/map-calls.ts'

t.test('each member and element has its own line', async (t) => {
  t.equal(
    indentJson('{"a":1,"b":{"c":"x"},"d":[{"e":null},{}],"f":[],"g":""}'),
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
  t.equal(indentJson(' {\t"a" :\r\n 1 } '), '{\n  "a": 1\n}', 'whatever the whitespace was')
  t.equal(indentJson('"alone"'), '"alone"')
  t.equal(indentJson(''), '')
})

t.test('a short list of scalars stays on one line', async (t) => {
  t.equal(indentJson('{"position":[12.50,-3,"a]\\"b"],"z":1}'), '{\n  "position": [12.50, -3, "a]\\"b"],\n  "z": 1\n}')
  t.equal(indentJson('[1,[2],{"a":[3]}]'), '[\n  1,\n  [2],\n  {\n    "a": [3]\n  }\n]')
  const long = Array.from({ length: 30 }, (_, index) => 100 + index)
  t.equal(indentJson(JSON.stringify(long)), JSON.stringify(long, null, 2))
})

t.test('numbers, escapes, order and repeated members are unchanged', async (t) => {
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
      indentJson(`{"b":${spelling},"a":${spelling},"a":1}`),
      `{\n  "b": ${spelling},\n  "a": ${spelling},\n  "a": 1\n}`,
    )
  }
})

t.test('only whitespace changes', async (t) => {
  const text = String.raw`{"x":[[1,2,[3]],{"y":"\"","z":[]}],"deep":${'['.repeat(200)}${']'.repeat(200)}}`
  t.equal(indentJson(text).replace(/\s/g, ''), text)
  t.strictSame(JSON.parse(indentJson(text)), JSON.parse(text))
})

t.test('the indentation of a million levels is not quadratic in size', async (t) => {
  const levels = 1_000_000
  t.ok(indentJson('['.repeat(levels) + ']'.repeat(levels)).length < 3 * levels)
})

t.test('text that is not JSON does not throw', async (t) => {
  for (const text of ['}}}', '{"a', 'a b', '"\\', '[1,]', ':', ']['.repeat(10)])
    t.doesNotThrow(() => indentJson(text), text)
})

t.test('a summary names the members in their exact spelling', async (t) => {
  const without = new Set(['eventId', 'type'])
  const summary = (text: string, charsMax = 300) => summarizeMembers(text, without, charsMax)
  t.equal(
    summary('{"eventId":"e","n": 12345678901234567890.10,"type":{"a":[1]},"at":{"x":1,"y":[2,3]},"s":"a, b"}'),
    'n: 12345678901234567890.10  at: {"x": 1, "y": [2, 3]}  s: "a, b"',
  )
  t.equal(summary('{}'), '')
  t.equal(summary(`{"a":1,"b":[${'1,'.repeat(1_000)}1],"c":1}`, 20), 'a: 1  b: [1, 1, 1, 1…', 'truncated')
})

t.test('only JSON in UTF-8 is parsed, with a byte order mark or without', async (t) => {
  const encode = (text: string) => new TextEncoder().encode(text)
  t.strictSame(parseMap(encode('\ufeff{"a":["é🎮"]}')), { a: ['é🎮'] })
  for (const bytes of [encode('{"a":1,}'), encode(''), Uint8Array.of(0x22, 0xff, 0x22)]) t.throws(() => parseMap(bytes))
})
