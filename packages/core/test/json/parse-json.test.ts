import t from 'tap'
import { parseJson, withoutMark } from '../../src/json/parse-json.ts'

t.test('any JSON in UTF-8 is read', async (t) => {
  for (const value of [null, 1, 'äö😀', [], { a: [{ b: false }] }]) {
    t.strictSame(parseJson(Buffer.from(JSON.stringify(value))), value)
  }
})

t.test('what is not JSON in UTF-8 is malformed, and is not repeated', async (t) => {
  for (const body of [
    Buffer.alloc(0),
    Buffer.from('{secret'),
    Buffer.from('"\xe4"', 'latin1'),
    Buffer.from('\ufeff1'),
  ]) {
    t.throws(() => parseJson(body), { code: 'malformed-body', message: /^((?!secret).)*$/ })
  }
})

t.test('one byte order mark is taken off', async (t) => {
  t.equal(parseJson(withoutMark(Buffer.from('\ufeff1'))), 1)
  t.equal(parseJson(withoutMark(Buffer.from('1'))), 1)
  t.throws(() => parseJson(withoutMark(Buffer.from('\ufeff\ufeff1'))), { code: 'malformed-body' })
})
