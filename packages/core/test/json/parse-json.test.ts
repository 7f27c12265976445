import t from 'tap'
import { parseJson, stripByteOrderMark } from '../../src/json/parse-json.ts'

t.test('any JSON in UTF-8 is parsed', async (t) => {
  for (const value of [null, 1, 'äö😀', [], { a: [{ b: false }] }]) {
    t.strictSame(parseJson(Buffer.from(JSON.stringify(value))), value)
  }
})

t.test('what is not JSON in UTF-8 is malformed, and is not quoted', async (t) => {
  for (const body of [
    Buffer.alloc(0),
    Buffer.from('{secret'),
    Buffer.from('"\xe4"', 'latin1'),
    Buffer.from('\ufeff1'),
  ]) {
    t.throws(() => parseJson(body), { code: 'malformed-body', message: /^((?!secret).)*$/ })
  }
})

t.test('one byte order mark is stripped', async (t) => {
  t.equal(parseJson(stripByteOrderMark(Buffer.from('\ufeff1'))), 1)
  t.equal(parseJson(stripByteOrderMark(Buffer.from('1'))), 1)
  t.throws(() => parseJson(stripByteOrderMark(Buffer.from('\ufeff\ufeff1'))), { code: 'malformed-body' })
})
