import t from 'tap'
import { escapeControlCharacters, formatBytes, formatTable } from '../../src/terminal/format.ts'

t.test('sizes have one decimal and a unit', async (t) => {
  const cases: [number, string][] = [
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1.0 kB'],
    [20_480, '20.5 kB'],
    [999_949, '999.9 kB'],
    [999_950, '1.0 MB'],
    [55_412_345, '55.4 MB'],
    [3e9, '3.0 GB'],
    [5e15, '5000.0 TB'],
  ]
  for (const [bytes, text] of cases) t.equal(formatBytes(bytes), text)
})

const lines = [
  ['A', 'NUMBER', 'LAST'],
  ['long', '7', ''],
  ['', '12,345,678', 'x'],
]

t.test('columns are as wide as their widest cell, and no line ends with spaces', async (t) => {
  t.strictSame(formatTable(lines), ['A     NUMBER      LAST', 'long  7', '      12,345,678  x'])
})

t.test('numbers are aligned to the right', async (t) => {
  t.strictSame(formatTable(lines, [1]), ['A         NUMBER  LAST', 'long           7', '      12,345,678  x'])
})

t.test('a table may be empty', async (t) => {
  t.strictSame(formatTable([]), [])
})

t.test('escaped control characters count for the width', async (t) => {
  t.strictSame(
    formatTable([
      ['\u009b2J', 'x'],
      ['longer than it', 'y'],
    ]),
    ['\\u009b2J        x', 'longer than it  y'],
  )
})

t.test('control characters are escaped, other text is not', async (t) => {
  t.equal(escapeControlCharacters('\x1b[2J\x9b\u202e\u{e0001}\ud800'), '\\u001b[2J\\u009b\\u202e\\udb40\\udc01\\ud800')
  t.equal(escapeControlCharacters('é 日本 😀 e\u0301'), 'é 日本 😀 e\u0301')
})

t.test('escaped JSON has the same meaning', async (t) => {
  const json = '{"a":"\x7f\x9b\u202e\u{e0001}😀","\u2028":"\\u001b"}'
  t.notMatch(escapeControlCharacters(json), /[\p{Cc}\p{Cf}]/u)
  t.strictSame(JSON.parse(escapeControlCharacters(json)), JSON.parse(json))
})
