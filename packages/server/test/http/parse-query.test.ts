import t from 'tap'
import { parseLimit, parseQuery, parseTimeOf, parseWait } from '../../src/http/query.ts'

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

t.test('a wait is a whole number of seconds, and none is none', async (t) => {
  t.equal(parseWait(undefined), undefined)
  t.equal(parseWait('0'), 0)
  t.equal(parseWait('60'), 60_000)
  for (const value of ['', '61', '-1', '1.5', '1s', ' 1', '100', '1e1']) {
    t.throws(() => parseWait(value), { code: 'invalid-argument', limit: 60, message: /0 to 60/ }, value)
  }
})

t.test('a time may have the plus of its zone as it is, which decoding makes a space', async (t) => {
  const { from } = parseQuery('from=2026-11-20T18:51:00+01:00', ['from'])
  t.equal(parseTimeOf('from', from), Date.UTC(2026, 10, 20, 17, 51))
  t.equal(parseTimeOf('from', '1795197060000'), Date.UTC(2026, 10, 20, 17, 51))
  t.equal(parseTimeOf('from', undefined), undefined)
  for (const value of ['', '10m', '2026-11-20', '2026-11-20T18:51:00', '-1']) {
    t.throws(() => parseTimeOf('from', value), { code: 'invalid-argument', message: /^from is/ }, value)
  }
})
