import { IngestError } from '@ingest/core'
import t from 'tap'
import { checkBodyHeaders } from '../../src/http/body.ts'
import { parseLimit, parseQuery, parseTimeParameter, parseWait } from '../../src/http/query.ts'
import { checkRepeated, parseFetchHeaders, parseRawHeaders } from '../../src/http/request.ts'

t.test('header names are case-insensitive, and unknown headers are left out', async (t) => {
  t.strictSame(parseRawHeaders(['HOST', 'a', 'Content-type', 'application/json', 'Cookie', 'b']), {
    values: { host: 'a', 'content-type': 'application/json' },
    repeated: [],
  })
})

t.test('every repeated header is found, with equal values or not', async (t) => {
  const names = ['content-encoding', 'content-length', 'content-type', 'host', 'x-ingestion-key', 'x-project-id']
  for (const name of names) {
    t.strictSame(parseRawHeaders([name, '1', name.toUpperCase(), '1']).repeated, [name])
    t.strictSame(parseRawHeaders([name, '', name, '2']).repeated, [name])
    t.strictSame(parseFetchHeaders(new Headers([[name, '1'] as [string, string], [name, '2']])).repeated, [name])
    t.strictSame(parseFetchHeaders(new Headers({ [name]: '1' })), { values: { [name]: '1' }, repeated: [] })
  }
})

t.test('a comma in a quoted string is not a repeat (RFC 9110 section 5.6.4)', async (t) => {
  const contentType = (...values: string[]) => {
    const headers = values.map((value): [string, string] => ['Content-Type', value])
    return parseFetchHeaders(new Headers(headers)).repeated.length > 0
  }
  for (const value of ['a/b; c="d,e"', 'a/b; c="d\\",e"', 'a/b; c=","; d=",,"', 'a/b; c=""', 'a/b; c="\\\\"']) {
    t.notOk(contentType(value), value)
    t.ok(contentType(value, 'a/b'), `${value}, then another`)
    t.ok(contentType('a/b', value), `another, then ${value}`)
  }
  for (const value of [
    'a/b, c/d',
    'a/b; c="d", e/f',
    'a/b; c="d\\\\",e"',
    'a/b; c="d,e',
    'a/b; c="d,e\\"',
    ',',
    'a"b,c',
  ]) {
    t.ok(contentType(value), value)
  }
  t.notOk(contentType('a"b'))
})

t.test('a repeated header is refused by its name', async (t) => {
  checkRepeated(parseRawHeaders(['Host', 'a', 'If-Match', 'b', 'If-Match', 'c']))
  t.throws(() => checkRepeated(parseRawHeaders(['Host', 'a', 'Host', 'a'])), {
    code: 'repeated-header',
    message: /header host /,
  })
})

t.test('names of the prototype are unknown headers', async (t) => {
  t.strictSame(parseRawHeaders(['__proto__', '1', 'constructor', '2']), { values: {}, repeated: [] })
})

t.test('repeated list headers are joined (RFC 9110 section 5.3)', async (t) => {
  for (const name of ['if-match', 'if-none-match', 'if-range', 'range'] as const) {
    const joined = { values: { [name]: '"a", "b"' }, repeated: [] }
    t.strictSame(parseRawHeaders([name, '"a"', name.toUpperCase(), '"b"']), joined)
    t.strictSame(parseFetchHeaders(new Headers([[name, '"a"'] as [string, string], [name, '"b"']])), joined)
  }
})

const kinds = new Map([
  ['application/json', { limit: { bytesMax: 100, tooLarge: () => new IngestError('body-too-large', '') } }],
])
const check = (...headers: string[]) => checkBodyHeaders(parseRawHeaders(headers), kinds)

t.test('a transfer coding other than chunked is refused', async (t) => {
  t.throws(() => check('Content-Type', 'application/json', 'Transfer-Encoding', 'gzip, chunked'), {
    code: 'unsupported-coding',
  })
  check('Content-Type', 'application/json', 'Transfer-Encoding', 'Chunked')
})

t.test('parameters are decoded as form data', async (t) => {
  const query = 'placeId=a%20b%2F%C3%A4&buildId=1+2&'
  t.strictSame(parseQuery(query, ['placeId', 'buildId', 'cursor']), { placeId: 'a b/ä', buildId: '1 2' })
  t.strictSame(parseQuery('', ['placeId']), {})
  t.strictSame(parseQuery('placeId=', ['placeId']), { placeId: '' })
})

t.test('unknown and repeated parameters are refused', async (t) => {
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

t.test('limit and wait are whole numbers within their bounds', async (t) => {
  t.strictSame(parseLimit(undefined, 10), {})
  t.strictSame(parseLimit('1', 10), { limit: 1 })
  t.strictSame(parseLimit('10', 10), { limit: 10 })
  for (const value of ['', '0', '11', '-1', '1.5', '1e1', ' 1', '0x1', 'many', '9'.repeat(400)]) {
    t.throws(() => parseLimit(value, 10), { code: 'invalid-argument', limit: 10 }, value)
  }
  t.strictSame(parseWait(undefined), {})
  t.strictSame(parseWait('0'), { waitMs: 0 })
  t.strictSame(parseWait('60'), { waitMs: 60_000 })
  for (const value of ['', '61', '-1', '1.5', '1s', ' 1', '100', '1e1']) {
    t.throws(() => parseWait(value), { code: 'invalid-argument', limit: 60, message: /0 to 60/ }, value)
  }
})

t.test('the plus of a zone need not be escaped', async (t) => {
  const { from } = parseQuery('from=2026-11-20T18:51:00+01:00', ['from'])
  t.strictSame(parseTimeParameter('from', from), { from: Date.UTC(2026, 10, 20, 17, 51) })
  t.strictSame(parseTimeParameter('from', '1795197060000'), { from: Date.UTC(2026, 10, 20, 17, 51) })
  t.strictSame(parseTimeParameter('from', undefined), {})
  for (const value of ['', '10m', '2026-11-20', '2026-11-20T18:51:00', '-1']) {
    t.throws(() => parseTimeParameter('from', value), { code: 'invalid-argument', message: /^from must be/ }, value)
  }
})
