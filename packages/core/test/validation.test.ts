import fc from 'fast-check'
import t from 'tap'
import { exceedsBytes, isName, isObject, isProjectId, issuesMax, parseTime, pointer } from '../src/validation.ts'

t.test('a project id is 1 to 64 of A-Z a-z 0-9 . _ -', async (t) => {
  for (const id of ['p', '0', 'AZaz09._-', '.', '..', '-', 'x'.repeat(64)]) t.equal(isProjectId(id), true, id)
  for (const id of [
    '',
    'x'.repeat(65),
    'a b',
    'a/b',
    'é',
    'a\n',
    '\na',
    'a\u0000',
    '😀',
    1,
    null,
    undefined,
    ['p'],
    {},
  ]) {
    t.equal(isProjectId(id), false, JSON.stringify(id))
  }
})

t.test('an object is neither an array nor null', async (t) => {
  t.equal(isObject({}), true)
  for (const value of [[], null, undefined, 1, '{}', true]) t.equal(isObject(value), false)
})

t.test('a pointer grows token by token', async (t) => {
  t.equal(pointer('', 'a'), '/a')
  t.equal(pointer('/a', 0), '/a/0')
  t.equal(pointer('/a', ''), '/a/')
})

t.test('a token is escaped as in RFC 6901, the tilde first', async (t) => {
  t.equal(pointer('', 'a/b'), '/a~1b')
  t.equal(pointer('', 'm~n'), '/m~0n')
  t.equal(pointer('', '~1'), '/~01')
  t.equal(pointer('/x~1y', '/~/'), '/x~1y/~1~0~1')
})

t.test('at most 20 issues are reported', async (t) => {
  t.equal(issuesMax, 20)
})

t.test('exceedsBytes counts bytes of UTF-8', async (t) => {
  t.equal(exceedsBytes('', 0), false)
  for (const [character, bytes] of [
    ['a', 1],
    ['é', 2],
    ['日', 3],
    ['😀', 4],
  ] as const) {
    t.equal(exceedsBytes(character.repeat(10), 10 * bytes), false, character)
    t.equal(exceedsBytes(character.repeat(10), 10 * bytes - 1), true, character)
  }
})

t.test('exceedsBytes agrees with Buffer.byteLength', async () => {
  const texts = fc.string({ unit: fc.constantFrom('a', 'é', '日', '😀', '\ud800', '\udc00'), maxLength: 30 })
  fc.assert(
    fc.property(
      texts,
      fc.nat(90),
      (text, bytesMax) => exceedsBytes(text, bytesMax) === Buffer.byteLength(text) > bytesMax,
    ),
  )
})

t.test('a name has no control characters', async (t) => {
  for (let unit = 0; unit < 0x100; unit++) {
    const isControl = unit <= 0x1f || unit === 0x7f
    t.equal(isName(`a${String.fromCharCode(unit)}b`), !isControl, `U+${unit.toString(16)}`)
  }
})

t.test('a name has surrogates in pairs only', async (t) => {
  t.equal(isName('😀'), true)
  for (const text of ['\ud800', '\udc00', 'a\udfff', '\ud83d', '\ude00\ud83d', '😀\ud83d']) t.equal(isName(text), false)
})

t.test('parseTime reads RFC 3339 with a zone, and milliseconds since 1970', async (t) => {
  const time = Date.UTC(2026, 10, 20, 17, 51, 0, 250)
  t.equal(parseTime('2026-11-20T17:51:00.250Z'), time)
  t.equal(parseTime('2026-11-20t17:51:00.2509z'), time)
  t.equal(parseTime('2026-11-20T19:21:00.25+01:30'), time)
  t.equal(parseTime('2026-11-20T17:51:00-00:00'), time - 250)
  t.equal(parseTime(String(time)), time)
  t.equal(parseTime('0'), 0)
})

t.test('parseTime reads nothing else', async (t) => {
  const invalid = ['', ' ', 'now', '-1', '1.5', '1e3', '2026-11-20', '2026-11-20T17:51:00', '2026-02-30T00:00:00Z', 'Z']
  for (const text of [...invalid, '2026-11-20 17:51:00Z', '2016-12-31T23:59:60Z', '9'.repeat(16)]) {
    t.equal(parseTime(text), undefined, text)
  }
})
