import t from 'tap'
import { escapeControlCharacters } from '../../src/terminal/format.ts'

t.test('what a terminal would obey is written out, and what people write is left', async (t) => {
  t.equal(escapeControlCharacters('\x1b[2J\x9b\u202e\u{e0001}\ud800'), '\\u001b[2J\\u009b\\u202e\\udb40\\udc01\\ud800')
  t.equal(escapeControlCharacters('é 日本 😀 e\u0301'), 'é 日本 😀 e\u0301')
})

t.test('JSON that was made visible means the same', async (t) => {
  const json = '{"a":"\x7f\x9b\u202e\u{e0001}😀","\u2028":"\\u001b"}'
  t.notMatch(escapeControlCharacters(json), /[\p{Cc}\p{Cf}]/u)
  t.strictSame(JSON.parse(escapeControlCharacters(json)), JSON.parse(json))
})
