import t from 'tap'
import { parseFetchHeaders, parseRawHeaders } from '../../src/http/request.ts'

t.test('names are compared without case, and headers that decide nothing are left out', async (t) => {
  t.strictSame(parseRawHeaders(['HOST', 'a', 'Content-type', 'application/json', 'Cookie', 'b']), {
    values: { host: 'a', 'content-type': 'application/json' },
    repeated: [],
  })
})

t.test('every header that must come once is found when it comes twice, equal or not', async (t) => {
  const names = ['content-encoding', 'content-length', 'content-type', 'host', 'x-ingestion-key', 'x-project-id']
  for (const name of names) {
    t.strictSame(parseRawHeaders([name, '1', name.toUpperCase(), '1']).repeated, [name])
    t.strictSame(parseRawHeaders([name, '', name, '2']).repeated, [name])
    t.strictSame(parseFetchHeaders(new Headers([[name, '1'] as [string, string], [name, '2']])).repeated, [name])
    t.strictSame(parseFetchHeaders(new Headers({ [name]: '1' })), { values: { [name]: '1' }, repeated: [] })
  }
})

t.test('a comma in a quoted string is no repeat, as RFC 9110 section 5.6.4 says', async (t) => {
  const contentType = (...values: string[]) => {
    const headers = values.map((value): [string, string] => ['Content-Type', value])
    return parseFetchHeaders(new Headers(headers)).repeated.length > 0
  }
  for (const value of ['a/b; c="d,e"', 'a/b; c="d\\",e"', 'a/b; c=","; d=",,"', 'a/b; c=""', 'a/b; c="\\\\"']) {
    t.notOk(contentType(value), value)
    t.ok(contentType(value, 'a/b'), `${value}, and once more`)
    t.ok(contentType('a/b', value), `once more, and ${value}`)
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

t.test('names of the prototype are nothing special', async (t) => {
  t.strictSame(parseRawHeaders(['__proto__', '1', 'constructor', '2']), { values: {}, repeated: [] })
})

t.test('headers that may be repeated are joined, as RFC 9110 section 5.3 says', async (t) => {
  for (const name of ['if-match', 'if-none-match', 'if-range', 'range'] as const) {
    const joined = { values: { [name]: '"a", "b"' }, repeated: [] }
    t.strictSame(parseRawHeaders([name, '"a"', name.toUpperCase(), '"b"']), joined)
    t.strictSame(parseFetchHeaders(new Headers([[name, '"a"'] as [string, string], [name, '"b"']])), joined)
  }
})
