import t from 'tap'
import { Compile } from 'typebox/compile'
import { EventSchema, eventIdIssue, eventIssues, identityIssues } from '../../src/events/event.ts'
import { eventLine } from '../../src/events/event-line.ts'
import { eventIdBytesMax } from '../../src/events/known-fields.ts'

/** Issues as `code path`. */
const toCodes = (issues: readonly { code: string; path: string }[]) => issues.map(({ code, path }) => `${code} ${path}`)
const codesOf = (members: object) => toCodes(eventIssues({ projectId: 'p', eventId: 'e', ...members }, undefined))
const identityCodes = (event: unknown) => toCodes(identityIssues(event, 'p'))

t.test('an eventId is 1 to 256 bytes of UTF-8', async (t) => {
  const texts = [
    'e',
    'x'.repeat(256),
    'é'.repeat(128),
    '日'.repeat(85),
    '😀'.repeat(64),
    ' ',
    '"\\/',
    '\u0080',
    '__proto__',
  ]
  for (const text of texts) t.equal(eventIdIssue(text), undefined, text)
  t.match(eventIdIssue(''), { code: 'too_short', path: '/eventId' })
  for (const text of ['x'.repeat(257), `${'é'.repeat(128)}x`, `${'日'.repeat(85)}xx`, `${'😀'.repeat(64)}x`]) {
    t.match(eventIdIssue(text), { code: 'too_long', path: '/eventId' }, text)
  }
  t.equal(eventIdBytesMax, 256)
})

t.test('an eventId has no control characters and no lone surrogates', async (t) => {
  for (const text of ['\u0000', 'a\nb', '\u001f', '\u007f', '\ud800', 'a\udc00', '\ude00\ud83d']) {
    t.match(eventIdIssue(text), { code: 'invalid_format', path: '/eventId' }, JSON.stringify(text))
  }
})

t.test('an eventId is a string, and numbers are not converted', async (t) => {
  t.match(eventIdIssue(undefined), { code: 'required', path: '/eventId' })
  for (const value of [1, 0, null, true, [], {}, ['e']]) t.match(eventIdIssue(value), { code: 'invalid_type' })
})

t.test('an event that is not an object has no identity', async (t) => {
  for (const event of [null, 1, 'e', true, [], [{ projectId: 'p', eventId: 'e' }]]) {
    t.strictSame(identityCodes(event), ['not_object '])
  }
})

t.test('an identity is an eventId and the projectId of the request', async (t) => {
  t.strictSame(identityCodes({ projectId: 'p', eventId: 'e' }), [])
  t.strictSame(identityCodes({ projectId: 'p' }), ['required /eventId'])
  t.strictSame(identityCodes({ eventId: 'e' }), ['required /projectId'])
  t.strictSame(identityCodes({}), ['required /eventId', 'required /projectId'])
  t.strictSame(identityCodes({ projectId: 1, eventId: 'e' }), ['invalid_type /projectId'])
  t.strictSame(identityCodes({ projectId: null, eventId: 'e' }), ['invalid_type /projectId'])
  for (const projectId of ['q', 'P', 'p ', ' p', 'pp', '']) {
    t.strictSame(identityCodes({ projectId, eventId: 'e' }), ['project_mismatch /projectId'], projectId)
  }
})

t.test('inherited members do not identify an event', async (t) => {
  const event: unknown = JSON.parse('{"__proto__":{"projectId":"p","eventId":"e"}}')
  t.strictSame(identityCodes(event), ['required /eventId', 'required /projectId'])
})

t.test('an event needs only its identity, and may have any other members', async (t) => {
  t.strictSame(codesOf({}), [])
  t.strictSame(codesOf({ other: 1, nested: { buildId: 5 }, Type: 7, timestamp_: 'x', constructor: null }), [])
})

t.test('a well-known field that is null counts as missing', async (t) => {
  for (const name of ['type', 'timestamp', 'buildId', 'placeId', 'sessionId', 'serverId', 'playerId']) {
    t.strictSame(codesOf({ [name]: null }), [], name)
    for (const value of [true, false, [], {}]) t.strictSame(codesOf({ [name]: value }), [`invalid_type /${name}`], name)
  }
})

t.test('type is a string of 1 to 200 bytes', async (t) => {
  for (const type of ['t', 'x'.repeat(200), 'é'.repeat(100), 'a\nb']) t.strictSame(codesOf({ type }), [])
  t.strictSame(codesOf({ type: '' }), ['too_short /type'])
  for (const type of ['x'.repeat(201), `${'é'.repeat(100)}x`]) t.strictSame(codesOf({ type }), ['too_long /type'])
  t.strictSame(codesOf({ type: 1 }), ['invalid_type /type'])
})

t.test('buildId is a string of 1 to 128 bytes with the characters of an eventId', async (t) => {
  for (const buildId of ['b', 'x'.repeat(128), 'é'.repeat(64), '😀'.repeat(32)]) t.strictSame(codesOf({ buildId }), [])
  t.strictSame(codesOf({ buildId: '' }), ['too_short /buildId'])
  for (const buildId of ['x'.repeat(129), `${'é'.repeat(64)}x`, `${'😀'.repeat(32)}x`]) {
    t.strictSame(codesOf({ buildId }), ['too_long /buildId'])
  }
  for (const buildId of ['\u0000', 'a\n', '\u007f', '\ud800'])
    t.strictSame(codesOf({ buildId }), ['invalid_format /buildId'])
  t.strictSame(codesOf({ buildId: 1 }), ['invalid_type /buildId'])
})

t.test('placeId is a string of 1 to 128 bytes or a safe integer', async (t) => {
  for (const placeId of ['p', 'x'.repeat(128), 'é'.repeat(64), 0, 920587237, 2 ** 53 - 1, -(2 ** 53 - 1)]) {
    t.strictSame(codesOf({ placeId }), [])
  }
  t.strictSame(codesOf({ placeId: '' }), ['too_short /placeId'])
  for (const placeId of ['x'.repeat(129), `${'é'.repeat(64)}x`])
    t.strictSame(codesOf({ placeId }), ['too_long /placeId'])
  t.strictSame(codesOf({ placeId: 1.5 }), ['invalid_type /placeId'])
  for (const placeId of [2 ** 53, -(2 ** 53)]) t.strictSame(codesOf({ placeId }), ['out_of_range /placeId'])
})

t.test('sessionId, serverId and playerId are strings of at most 256 bytes or safe integers', async (t) => {
  for (const name of ['sessionId', 'serverId', 'playerId']) {
    for (const value of ['', 'x'.repeat(256), 'é'.repeat(128), 0, -1, 2 ** 53 - 1])
      t.strictSame(codesOf({ [name]: value }), [])
    for (const value of ['x'.repeat(257), `${'é'.repeat(128)}x`])
      t.strictSame(codesOf({ [name]: value }), [`too_long /${name}`])
    t.strictSame(codesOf({ [name]: 0.5 }), [`invalid_type /${name}`])
    t.strictSame(codesOf({ [name]: 2 ** 53 }), [`out_of_range /${name}`])
  }
})

t.test('a timestamp may be an RFC 3339 time with a zone', async (t) => {
  const timestamps = [
    ...[
      '2026-11-20T17:51:00Z',
      '2026-11-20T17:51:00.123456789Z',
      '2026-11-20T17:51:00.1+05:30',
      '2026-11-20T17:51:00-00:00',
    ],
    ...['2026-11-20t17:51:00z', '0000-01-01T00:00:00Z', '9999-12-31T23:59:59+23:59'],
    // leap seconds, at midnight in UTC and elsewhere
    ...['2016-12-31T23:59:60Z', '1990-12-31T15:59:60-08:00'],
    ...['2024-02-29T00:00:00Z', '2000-02-29T00:00:00Z', '2026-01-31T00:00:00Z', '2026-04-30T00:00:00Z'],
  ]
  for (const timestamp of timestamps) t.strictSame(codesOf({ timestamp }), [], timestamp)
})

t.test('a timestamp that is almost RFC 3339 is invalid', async (t) => {
  const timestamps = [
    ...['', '2026-11-20', '2026-11-20T17:51:00', '2026-11-20T17:51Z', '2026-11-20 17:51:00Z', '20261120T175100Z'],
    ...['2026-11-20T17:51:00+0530', '2026-11-20T17:51:00+05', '2026-11-20T17:51:00+24:00', '2026-11-20T17:51:00+05:60'],
    ...[
      '2026-11-20T24:00:00Z',
      '2026-11-20T17:60:00Z',
      '2026-11-20T17:51:61Z',
      '2026-11-20T17:51:00.Z',
      '2026-11-20T17:51:00,5Z',
    ],
    ...['2026-00-20T17:51:00Z', '2026-13-20T17:51:00Z', '2026-11-00T17:51:00Z', '2026-01-32T00:00:00Z'],
    ...['2026-04-31T00:00:00Z', '2026-06-31T00:00:00Z', '2026-09-31T00:00:00Z', '2026-11-31T00:00:00Z'],
    ...['2026-02-29T00:00:00Z', '2024-02-30T00:00:00Z', '1900-02-29T00:00:00Z', '2100-02-29T00:00:00Z'],
    ...[
      ' 2026-11-20T17:51:00Z',
      '2026-11-20T17:51:00Z ',
      '2026-11-20T17:51:00Z\n',
      '12026-11-20T17:51:00Z',
      '-026-11-20T17:51:00Z',
    ],
    ...['1795203225083', '２０２６-11-20T17:51:00Z', 'now'],
  ]
  for (const timestamp of timestamps) t.strictSame(codesOf({ timestamp }), ['invalid_format /timestamp'], timestamp)
})

t.test('a timestamp may be integer milliseconds since 1970', async (t) => {
  for (const timestamp of [0, 1795203225083, 2 ** 53 - 1]) t.strictSame(codesOf({ timestamp }), [])
  for (const timestamp of [-1, 2 ** 53]) t.strictSame(codesOf({ timestamp }), ['out_of_range /timestamp'])
  for (const timestamp of [1.5, 1e-3]) t.strictSame(codesOf({ timestamp }), ['invalid_type /timestamp'])
})

t.test('every invalid field is reported', async (t) => {
  t.strictSame(codesOf({ type: 1, timestamp: 'x', buildId: 2, placeId: '', playerId: 0.5 }), [
    'invalid_type /type',
    'invalid_format /timestamp',
    'invalid_type /buildId',
    'too_short /placeId',
    'invalid_type /playerId',
  ])
})

t.test('a message is a sentence without values of the event', async (t) => {
  const secret = 'hunter2'
  const issues = [
    ...identityIssues({ projectId: secret, eventId: `${secret}\n` }, 'p'),
    ...eventIssues(
      { type: secret.repeat(50), timestamp: secret, buildId: `${secret}\n`, placeId: secret.repeat(50) },
      `/${'0'.repeat(3)}`,
    ),
  ]
  t.equal(issues.length, 7)
  for (const { message } of issues) {
    t.match(message, /^[A-Z].*\.$/)
    t.notMatch(message, secret)
  }
})

t.test('EventSchema agrees with the rules on plain events', async (t) => {
  const schema = Compile(EventSchema)
  const good = {
    projectId: 'p',
    eventId: 'e',
    type: 't',
    timestamp: 5,
    buildId: 'b',
    placeId: 1,
    sessionId: null,
    other: {},
  }
  t.equal(schema.Check(good), true)
  for (const members of [
    { eventId: '' },
    { eventId: 1 },
    { projectId: 'a b' },
    { buildId: 5 },
    { type: '' },
    { placeId: 1.5 },
  ]) {
    t.equal(schema.Check({ ...good, ...members }), false, JSON.stringify(members))
  }
})

const lineOf = (event: string, cursor = 'c') =>
  eventLine({ cursor, receivedAt: 1_000, bytes: Buffer.from(event) }).toString()

t.test('a line of NDJSON is JSON with the cursor, the time and the bytes of the event, and a line feed', async (t) => {
  const event = '{"eventId" : "a","n":12345678901234567890,"a":1,"a":2}'
  t.equal(lineOf(event, '1-2'), `{"cursor":"1-2","receivedAt":1000,"event":${event}}\n`)
})

t.test('a cursor in a line is escaped', async (t) => {
  t.equal(JSON.parse(lineOf('{}', '"\\\n')).cursor, '"\\\n')
})

t.test('a line break between tokens becomes a space, so that an event is one line', async (t) => {
  t.equal(lineOf('{\r\n\t"a":\n1}'), '{"cursor":"c","receivedAt":1000,"event":{  \t"a": 1}}\n')
  t.same(JSON.parse(lineOf('{"text":"\\n\\r","é":"\u2028"}')).event, { text: '\n\r', é: '\u2028' })
})

t.test('writing a line does not change the stored bytes', async (t) => {
  const bytes = Buffer.from('{\n}')
  eventLine({ cursor: 'c', receivedAt: 1_000, bytes })
  t.equal(bytes.toString(), '{\n}')
})
