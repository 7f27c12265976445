import fc from 'fast-check'
import t from 'tap'
import { Compile } from 'typebox/compile'
import { EventSchema, eventDepthMax, eventIdIssue, eventIssues, identityIssues } from '../../src/events/event.ts'
import { eventIdBytesMax, knownFields } from '../../src/events/known-fields.ts'
import { eventLine } from '../../src/read/read-events.ts'
import { exceedsBytes, isName, isObject, isProjectId, issuesMax, parseTime, pointer } from '../../src/validation.ts'

/** Issues as `code path`. */
const toCodes = (issues: readonly { code: string; path: string }[]) => issues.map(({ code, path }) => `${code} ${path}`)
const codesOf = (members: object) => toCodes(eventIssues({ projectId: 'p', eventId: 'e', ...members }, undefined))
const identityCodes = (event: unknown) => toCodes(identityIssues(event, 'p'))

const oddNames = ['\u0000', 'a\nb', '\u001f', '\u007f', '\ud800', 'a\udc00', '\ude00\ud83d', '😀\ud83d']

t.test('an eventId is a string of 1 to 256 bytes without control characters and lone surrogates', async (t) => {
  t.strictSame([eventIdBytesMax, issuesMax, eventDepthMax], [256, 20, 32])
  const texts = ['e', 'x'.repeat(256), 'é'.repeat(128), '日'.repeat(85), '😀'.repeat(64), ' ', '"\\/', '\u0080']
  for (const text of [...texts, '__proto__']) t.equal(eventIdIssue(text), undefined, text)
  t.match(eventIdIssue(''), { code: 'too_short', path: '/eventId' })
  for (const text of ['x'.repeat(257), `${'é'.repeat(128)}x`, `${'日'.repeat(85)}xx`, `${'😀'.repeat(64)}x`]) {
    t.match(eventIdIssue(text), { code: 'too_long', path: '/eventId' }, text)
  }
  for (const text of oddNames) t.match(eventIdIssue(text), { code: 'invalid_format' }, JSON.stringify(text))
  t.match(eventIdIssue(undefined), { code: 'required', path: '/eventId' })
  for (const value of [1, 0, null, true, [], {}, ['e']]) t.match(eventIdIssue(value), { code: 'invalid_type' })
})

t.test('an identity is an eventId and the projectId of the request', async (t) => {
  for (const event of [null, 1, 'e', true, [], [{ projectId: 'p', eventId: 'e' }]]) {
    t.strictSame(identityCodes(event), ['not_object '])
  }
  t.strictSame(identityCodes({ projectId: 'p', eventId: 'e' }), [])
  t.strictSame(identityCodes({ projectId: 'p' }), ['required /eventId'])
  t.strictSame(identityCodes({ eventId: 'e' }), ['required /projectId'])
  for (const projectId of [1, null])
    t.strictSame(identityCodes({ projectId, eventId: 'e' }), ['invalid_type /projectId'])
  for (const projectId of ['q', 'P', 'p ', ' p', 'pp', '']) {
    t.strictSame(identityCodes({ projectId, eventId: 'e' }), ['project_mismatch /projectId'], projectId)
  }
  const inherited: unknown = JSON.parse('{"__proto__":{"projectId":"p","eventId":"e"}}')
  t.strictSame(identityCodes(inherited), ['required /eventId', 'required /projectId'])
})

t.test('an event needs only its identity, and may have any other members', async (t) => {
  t.strictSame(codesOf({}), [])
  t.strictSame(codesOf({ other: 1, nested: { buildId: 5 }, Type: 7, timestamp_: 'x', constructor: null }), [])
})

const integers = [0, -1, 920587237, 2 ** 53 - 1, -(2 ** 53 - 1)]

/** The limits of each known field. */
const texts: [name: string, bytesMin: number, bytesMax: number, isName: boolean, mayBeInteger: boolean][] = [
  ['type', 1, 200, false, false],
  ['buildId', 1, 128, true, false],
  ['placeId', 1, 128, false, true],
  ['sessionId', 0, 256, false, true],
  ['serverId', 0, 256, false, true],
  ['playerId', 0, 256, false, true],
]

t.test('a known field is a text of its length, some also an integer; null counts as missing', async (t) => {
  t.strictSame(knownFields.map(({ name }) => name).sort(), ['timestamp', ...texts.map(([name]) => name)].sort())
  for (const { name } of knownFields) {
    t.strictSame(codesOf({ [name]: null }), [], name)
    for (const value of [true, false, [], {}]) t.strictSame(codesOf({ [name]: value }), [`invalid_type /${name}`], name)
  }
  for (const [name, bytesMin, bytesMax, isName, mayBeInteger] of texts) {
    const none = undefined
    const check = (code: string | undefined, ...values: unknown[]) => {
      const expected = code === undefined ? [] : [`${code} /${name}`]
      for (const value of values) t.strictSame(codesOf({ [name]: value }), expected, `${name} ${value}`)
    }
    check(none, 'x', 'x'.repeat(bytesMax), 'é'.repeat(bytesMax / 2), '😀'.repeat(bytesMax / 4))
    check('too_long', 'x'.repeat(bytesMax + 1), `${'é'.repeat(bytesMax / 2)}x`, `${'😀'.repeat(bytesMax / 4)}x`)
    check(bytesMin === 0 ? none : 'too_short', '')
    check(isName ? 'invalid_format' : none, ...oddNames)
    check(mayBeInteger ? none : 'invalid_type', ...integers)
    check('invalid_type', 1.5, 0.5)
    check(mayBeInteger ? 'out_of_range' : 'invalid_type', 2 ** 53, -(2 ** 53))
  }
})

t.test('a timestamp is an RFC 3339 time with a zone, or integer milliseconds since 1970', async (t) => {
  const codeOf = (timestamp: unknown) => codesOf({ timestamp })[0]?.replace(' /timestamp', '')
  const good = `2026-11-20T17:51:00Z 2026-11-20T17:51:00.123456789Z 2026-11-20T17:51:00.1+05:30
    2026-11-20T17:51:00-00:00 2026-11-20t17:51:00z 0000-01-01T00:00:00Z 9999-12-31T23:59:59+23:59
    2024-02-29T00:00:00Z 2000-02-29T00:00:00Z 2026-01-31T00:00:00Z 2026-04-30T00:00:00Z`
  // the last ones are leap seconds, at midnight in UTC and elsewhere
  for (const time of [...good.split(/\s+/), '2016-12-31T23:59:60Z', '1990-12-31T15:59:60-08:00']) {
    t.equal(codeOf(time), undefined, time)
  }
  const bad = `2026-11-20 2026-11-20T17:51:00 2026-11-20T17:51Z 20261120T175100Z 2026-11-20T17:51:00+0530
    2026-11-20T17:51:00+05 2026-11-20T17:51:00+24:00 2026-11-20T17:51:00+05:60 2026-11-20T24:00:00Z
    2026-11-20T17:60:00Z 2026-11-20T17:51:61Z 2026-11-20T17:51:00.Z 2026-11-20T17:51:00,5Z 2026-00-20T17:51:00Z
    2026-13-20T17:51:00Z 2026-11-00T17:51:00Z 2026-01-32T00:00:00Z 2026-04-31T00:00:00Z 2026-06-31T00:00:00Z
    2026-09-31T00:00:00Z 2026-11-31T00:00:00Z 2026-02-29T00:00:00Z 2024-02-30T00:00:00Z 1900-02-29T00:00:00Z
    2100-02-29T00:00:00Z 12026-11-20T17:51:00Z -026-11-20T17:51:00Z 1795203225083 ２０２６-11-20T17:51:00Z now`
  const spaced = [
    '',
    '2026-11-20 17:51:00Z',
    ' 2026-11-20T17:51:00Z',
    '2026-11-20T17:51:00Z ',
    '2026-11-20T17:51:00Z\n',
  ]
  for (const time of [...bad.split(/\s+/), ...spaced]) t.equal(codeOf(time), 'invalid_format', time)
  for (const time of [0, 1795203225083, 2 ** 53 - 1]) t.equal(codeOf(time), undefined)
  for (const time of [-1, 2 ** 53]) t.equal(codeOf(time), 'out_of_range')
  for (const time of [1.5, 1e-3]) t.equal(codeOf(time), 'invalid_type')
})

t.test('parseTime reads RFC 3339 with a zone, and milliseconds since 1970', async (t) => {
  const time = Date.UTC(2026, 10, 20, 17, 51, 0, 250)
  t.equal(parseTime('2026-11-20T17:51:00.250Z'), time)
  t.equal(parseTime('2026-11-20t17:51:00.2509z'), time)
  t.equal(parseTime('2026-11-20T19:21:00.25+01:30'), time)
  t.equal(parseTime('2026-11-20T17:51:00-00:00'), time - 250)
  t.equal(parseTime(String(time)), time)
  t.equal(parseTime('0'), 0)
  const invalid = ['', ' ', 'now', '-1', '1.5', '1e3', '2026-11-20', '2026-11-20T17:51:00', '2026-02-30T00:00:00Z', 'Z']
  for (const text of [...invalid, '2026-11-20 17:51:00Z', '2016-12-31T23:59:60Z', '9'.repeat(16)]) {
    t.equal(parseTime(text), undefined, text)
  }
})

t.test('every invalid field is reported, in a sentence without values of the event', async (t) => {
  const secret = 'hunter2'
  const event = { type: secret.repeat(50), timestamp: secret, buildId: `${secret}\n`, placeId: '', playerId: 0.5 }
  const issues = [
    ...identityIssues({ projectId: secret, eventId: `${secret}\n` }, 'p'),
    ...eventIssues(event, `/${'0'.repeat(3)}`),
  ]
  t.strictSame(toCodes(issues), [
    'invalid_format /eventId',
    'project_mismatch /projectId',
    'too_long /type',
    'invalid_format /timestamp',
    'invalid_format /buildId',
    'too_short /placeId',
    'invalid_type /playerId',
    'too_deep /000',
  ])
  for (const { message } of issues) {
    t.match(message, /^[A-Z].*\.$/)
    t.notMatch(message, secret)
  }
})

t.test('EventSchema agrees with the rules on plain events', async (t) => {
  const schema = Compile(EventSchema)
  const known = { type: 't', timestamp: 5, buildId: 'b', placeId: 1, sessionId: null }
  const good = { projectId: 'p', eventId: 'e', ...known, other: {} }
  t.equal(schema.Check(good), true)
  const wrong = [{ eventId: '' }, { eventId: 1 }, { projectId: 'a b' }, { buildId: 5 }, { type: '' }, { placeId: 1.5 }]
  for (const members of wrong) t.equal(schema.Check({ ...good, ...members }), false, JSON.stringify(members))
})

t.test('a project id is 1 to 64 of A-Z a-z 0-9 . _ -', async (t) => {
  for (const id of ['p', '0', 'AZaz09._-', '.', '..', '-', 'x'.repeat(64)]) t.equal(isProjectId(id), true, id)
  const texts = ['', 'x'.repeat(65), 'a b', 'a/b', 'é', 'a\n', '\na', 'a\u0000', '😀']
  for (const id of [...texts, 1, null, undefined, ['p'], {}]) t.equal(isProjectId(id), false, JSON.stringify(id))
})

t.test('an object is neither an array nor null', async (t) => {
  t.equal(isObject({}), true)
  for (const value of [[], null, undefined, 1, '{}', true]) t.equal(isObject(value), false)
})

t.test('a pointer grows token by token, escaped as in RFC 6901, the tilde first', async (t) => {
  for (const [path, token, pointed] of [
    ['', 'a', '/a'],
    ['/a', 0, '/a/0'],
    ['/a', '', '/a/'],
    ['', 'a/b', '/a~1b'],
    ['', 'm~n', '/m~0n'],
    ['', '~1', '/~01'],
    ['/x~1y', '/~/', '/x~1y/~1~0~1'],
  ] as const) {
    t.equal(pointer(path, token), pointed)
  }
})

t.test('exceedsBytes agrees with Buffer.byteLength', async () => {
  const texts = fc.string({ unit: fc.constantFrom('a', 'é', '日', '😀', '\ud800', '\udc00'), maxLength: 30 })
  fc.assert(fc.property(texts, fc.nat(90), (text, max) => exceedsBytes(text, max) === Buffer.byteLength(text) > max))
})

t.test('a name has no control characters', async (t) => {
  for (let unit = 0; unit < 0x100; unit++) {
    const isControl = unit <= 0x1f || unit === 0x7f
    t.equal(isName(`a${String.fromCharCode(unit)}b`), !isControl, `U+${unit.toString(16)}`)
  }
})

const lineOf = (event: string, cursor = 'c') =>
  eventLine({ cursor, receivedAt: 1_000, bytes: Buffer.from(event) }).toString()

t.test('a line of NDJSON is JSON with the cursor, the time and the bytes of the event, and a line feed', async (t) => {
  const event = '{"eventId" : "a","n":12345678901234567890,"a":1,"a":2}'
  t.equal(lineOf(event, '1-2'), `{"cursor":"1-2","receivedAt":1000,"event":${event}}\n`)
  t.equal(JSON.parse(lineOf('{}', '"\\\n')).cursor, '"\\\n', 'a cursor is escaped')
})

t.test('a line break between tokens becomes a space in the line, and not in the stored bytes', async (t) => {
  t.equal(lineOf('{\r\n\t"a":\n1}'), '{"cursor":"c","receivedAt":1000,"event":{  \t"a": 1}}\n')
  t.same(JSON.parse(lineOf('{"text":"\\n\\r","é":"\u2028"}')).event, { text: '\n\r', é: '\u2028' })
  const bytes = Buffer.from('{\n}')
  eventLine({ cursor: 'c', receivedAt: 1_000, bytes })
  t.equal(bytes.toString(), '{\n}')
})
