import t from 'tap'
import { parseLimit, parseQuery } from '../src/parse-query.ts'

t.test('parameters are decoded as forms are', async (t) => {
  const query = 'placeId=a%20b%2F%C3%A4&buildId=1+2&'
  t.strictSame(parseQuery(query, ['placeId', 'buildId', 'cursor']), { placeId: 'a b/ä', buildId: '1 2' })
  t.strictSame(parseQuery('', ['placeId']), {})
  t.strictSame(parseQuery('placeId=', ['placeId']), { placeId: '' })
})

t.test('a parameter that is unknown, or comes twice, is refused', async (t) => {
  for (const query of [
    'dryrun=true',
    'dryRun=true&dryRun=true',
    'dryRun=&dryRun=',
    '__proto__=1',
    'a',
    'dryRun=true&b=1',
  ]) {
    t.throws(() => parseQuery(query, ['dryRun']), { code: 'invalid-argument' }, query)
  }
  t.throws(() => parseQuery('a=1', []), { code: 'invalid-argument', message: /takes none/ })
})

t.test('a limit is a whole number within its bounds', async (t) => {
  t.equal(parseLimit(undefined, 10), undefined)
  t.equal(parseLimit('1', 10), 1)
  t.equal(parseLimit('10', 10), 10)
  for (const value of ['', '0', '11', '-1', '1.5', '1e1', ' 1', '0x1', 'many', '9'.repeat(400)]) {
    t.throws(() => parseLimit(value, 10), { code: 'invalid-argument', limit: 10 }, value)
  }
})
