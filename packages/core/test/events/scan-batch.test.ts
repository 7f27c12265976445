import assert from 'node:assert/strict'
import t from 'tap'
import { IngestError } from '../../src/error.ts'
import { type BatchEvents, decodeEvents, encodeEvents } from '../../src/events/batch-events.ts'
import { classifyEvents } from '../../src/events/classify-events.ts'
import { eventIdBytesMax, type KnownField, knownFields } from '../../src/events/known-fields.ts'
import { parseBatch } from '../../src/events/parse-batch.ts'
import { scanBatch } from '../../src/events/scan-batch.ts'
import { isTimestamp } from '../../src/validation.ts'

const projectId = 'pro_ject-1'
const start = `{"projectId":"${projectId}","eventId":"e-1"`
/** An event with these further members. */
const event = (...members: string[]) => `${[start, ...members]}}`
const batch = (...events: string[]) => `{"events":[${events}]}`
const nested = (levels: number, open: string, close: string) => open.repeat(levels) + close.repeat(levels)

const hashKey = Buffer.from('0123456789abcdef')
const scan = (body: Buffer) => scanBatch(body, projectId, hashKey)

/** The events of a body by parseBatch and classifyEvents, if all of them are valid. */
function decide(body: Buffer): (BatchEvents & { isRepeating: boolean }) | undefined {
  try {
    const { unidentified, invalid, valid, repeated } = classifyEvents(projectId, parseBatch(body))
    if (unidentified.length + invalid.length > 0) return undefined
    return { ...encodeEvents(valid, hashKey), isRepeating: repeated.length > 0 }
  } catch (error) {
    if (error instanceof IngestError) return undefined
    throw error
  }
}

/** Accepted, with the same events. */
function accepts(body: string, message = body): void {
  const bytes = Buffer.from(body)
  const scanned = scan(bytes)
  assert.ok(scanned, `accepted: ${message}`)
  assert.deepEqual({ ...scanned, isRepeating: false }, decide(bytes), message)
}

/** Not accepted, because it is invalid. */
function refuses(body: string | Buffer, message = String(body)): void {
  const bytes = Buffer.from(body)
  assert.equal(decide(bytes), undefined, `not valid: ${message}`)
  assert.equal(scan(bytes), undefined, `not accepted: ${message}`)
}

/** Not accepted, although it is valid: left to parseBatch. */
function leaves(body: string, message = body): void {
  const bytes = Buffer.from(body)
  assert.ok(decide(bytes), `valid: ${message}`)
  assert.equal(scan(bytes), undefined, `not accepted: ${message}`)
}

t.test('an event has its id, its build and its range', async (t) => {
  const body = Buffer.from(
    batch(
      `{"projectId":"${projectId}","eventId":"a","type":"kill","buildId":"2026.1","n":1}`,
      `{"eventId":"b","projectId":"${projectId}"}`,
      `{"buildId":null,"eventId":"c","projectId":"${projectId}"}`,
    ),
  )
  const scanned = scan(body) as BatchEvents
  t.strictSame(
    decodeEvents(body, scanned).map(({ start, end, idStart, idEnd, ...ids }) => [
      ids,
      JSON.parse(body.toString('utf8', start, end)).eventId,
    ]),
    [
      [{ eventId: 'a', buildId: '2026.1' }, 'a'],
      [{ eventId: 'b' }, 'b'],
      [{ eventId: 'c' }, 'c'],
    ],
  )
  accepts(body.toString())
})

t.test('a batch may be empty', async () => {
  accepts('{"events":[]}')
  accepts(' { "events" : [ ] } ')
})

t.test('space is allowed wherever JSON allows it', async () => {
  const tokens = ['{', '"events"', ':', '[', '{', '"projectId"', ':', `"${projectId}"`, ',', '"eventId"', ':', '"a"']
  tokens.push(',', '"list"', ':', '[', '1', ',', '{', '"a"', ':', 'null', ',', '"b"', ':', '[', ']', '}', ']', '}')
  tokens.push(',', ...tokens.slice(4, 11), '"b"', '}', ']', '}')
  for (const space of [' ', '\t', '\n', '\r', '\r\n  \t']) accepts(`${space}${tokens.join(space)}${space}`)
  for (let i = 0; i <= tokens.length; i++) {
    accepts([...tokens.slice(0, i), ' ', ...tokens.slice(i)].join(''))
    // nothing else is space
    for (const no of ['\v', '\f', '\0', '\u00a0', '\u2028', '\ufeff', '\u001f', '\u007f', '/**/']) {
      refuses([...tokens.slice(0, i), no, ...tokens.slice(i)].join(''))
    }
  }
})

t.test('ids and texts may have any letters', async () => {
  for (const text of [
    'é',
    'e\u0301',
    '日本',
    '🎮',
    '\u0080',
    '\u00a0',
    '\ufeff',
    '\u2028',
    ' ',
    "'",
    '/',
    '__proto__',
  ]) {
    accepts(batch(`{"projectId":"${projectId}","eventId":"${text}","buildId":"${text}","type":"${text}"}`))
    accepts(batch(event(`"${text}":"${text}"`)))
  }
})

t.test('escapes in unknown members are accepted', async () => {
  for (const text of [
    '\\"',
    '\\\\',
    '\\/',
    '\\b\\f\\n\\r\\t',
    '\\u0000',
    '\\uD83C\\udfae',
    '\\ud800',
    '\\u00Ff',
    '\\\\"',
  ]) {
    const body = batch(event(`"other":"${text}"`, '"more":[{"a":"}]"}]'))
    if (text.endsWith('\\\\"')) refuses(body)
    else accepts(body)
    if (text.endsWith('\\\\"')) continue
    accepts(batch(event(`"other":{"${text}":["${text}"]}`)))
    accepts(batch(event(`"other":"${text}"`), `{"projectId":"${projectId}","eventId":"b","type":"kill"}`))
  }
})

t.test('escapes in known members and in names are left to parseBatch', async () => {
  for (const name of ['type', 'buildId', 'placeId', 'sessionId', 'serverId', 'playerId']) {
    leaves(batch(event(`"${name}":"a\\u0062"`)))
    leaves(batch(event(`"${name}":"\\\\"`)))
  }
  leaves(batch(`{"projectId":"${projectId}","eventId":"\\u0061"}`))
  leaves(batch(`{"projectId":"${projectId.replace('_', '\\u005f')}","eventId":"a"}`))
  leaves(batch(event('"timestamp":"2026-11-20T17:51:00\\u005a"')))
  leaves(batch(event('"\\u0074ype":"a"')))
  leaves(batch(event('"\\n":1')))
  leaves(`{"\\u0065vents":[${event()}]}`)
  leaves(batch(`{"projectId":"${projectId}","eventId":"a","event\\u0049d":"b"}`), 'an eventId in disguise')
  refuses(batch(event('"\\u0062uildId":5')))
  refuses(batch(`{"projectId":"${projectId}","eventId":"\\u0000"}`))
  refuses(batch(`{"projectId":"${projectId}","eventId":"\\ud800"}`))
  refuses(batch(event('"buildId":"\\u007f"')))
})

t.test('well-known members may be null, but the ids may not', async () => {
  const names = ['type', 'timestamp', 'buildId', 'placeId', 'sessionId', 'serverId', 'playerId']
  accepts(batch(event(...names.map((name) => `"${name}":null`))))
  for (const name of names) accepts(batch(event(`"${name}":null`)))
  refuses(batch(`{"projectId":null,"eventId":"a"}`))
  refuses(batch(`{"projectId":"${projectId}","eventId":null}`))
})

t.test('some ids may be integers', async () => {
  const withIntegers = knownFields.filter(({ text, integerMin }) => text !== 'timestamp' && integerMin !== undefined)
  for (const { name } of withIntegers) {
    for (const digits of ['0', '-0', '7', '-7', '920587237', '999999999999999', '-999999999999999']) {
      accepts(batch(event(`"${name}":${digits}`)))
    }
    for (const odd of ['9007199254740991', '-9007199254740991', '1000000000000000', '1e3', '1.0', '10E-1', '0e0']) {
      leaves(batch(event(`"${name}":${odd}`)))
    }
    for (const no of ['9007199254740992', '-9007199254740992', '0.5', '1e400', '-1e-1']) {
      refuses(batch(event(`"${name}":${no}`)))
    }
  }
  for (const { name } of knownFields.filter(({ integerMin }) => integerMin === undefined)) {
    refuses(batch(event(`"${name}":1`)))
  }
  refuses(batch(`{"projectId":1,"eventId":"a"}`))
  refuses(batch(`{"projectId":"${projectId}","eventId":1}`))
})

t.test('a timestamp is an RFC 3339 time or milliseconds since 1970', async () => {
  for (const time of ['"2026-11-20T17:51:00Z"', '"2024-02-29t23:59:60.123456789+14:00"', '0', '1795203225083']) {
    accepts(batch(event(`"timestamp":${time}`)))
  }
  for (const time of ['""', '"2026-11-20"', '"2026-02-29T00:00:00Z"', '"2026-11-20T17:51:00"', '-1', '0.5', '"é"']) {
    refuses(batch(event(`"timestamp":${time}`)))
  }
  leaves(batch(event('"timestamp":1795203225083.0')))
  leaves(batch(event('"timestamp":9007199254740991')))
})

t.test('a time is checked to the day and the minute', async () => {
  const at = (time: string) => batch(event(`"timestamp":"${time}"`))
  for (const year of ['0000', '1900', '2000', '2024', '2026', '2100', '9999']) {
    for (let month = 0; month <= 13; month++) {
      for (const day of ['00', '01', '28', '29', '30', '31', '32']) {
        const time = `${year}-${String(month).padStart(2, '0')}-${day}T00:00:00Z`
        if (isTimestamp(time)) accepts(at(time))
        else refuses(at(time))
      }
    }
  }
  for (const clock of [
    '23:59:59',
    '24:00:00',
    '00:60:00',
    '00:00:60',
    '00:00:61',
    '0a:00:00',
    '00:00:0/',
    '00-00-00',
  ]) {
    if (isTimestamp(`2026-11-20T${clock}Z`)) accepts(at(`2026-11-20T${clock}Z`))
    else refuses(at(`2026-11-20T${clock}Z`))
  }
  for (const zone of ['Z', 'z', '+00:00', '-23:59', '.1Z', `.${'0'.repeat(40)}+01:00`])
    accepts(at(`2026-11-20T17:51:00${zone}`))
  for (const zone of ['', 'ZZ', '+24:00', '+00:60', '+0100', '+1:00', '.Z', '.', '.1', ' Z', 'Z ', '.1.1Z', '\u2212']) {
    refuses(at(`2026-11-20T17:51:00${zone}`))
  }
})

t.test('bytes of an earlier, longer batch are not read', async () => {
  accepts(`{"events":[${event()}]}${' '.repeat(40)}`)
  accepts(`{"events":[${event()}]}`)
  const events = `{"events":[${event()}]}`
  for (let end = events.length; end > 0; end--) {
    accepts(`${events}${' '.repeat(end)}`)
    refuses(events.slice(0, end - 1))
  }
})

t.test('a batch may have any size up to the limit', async () => {
  const filled = (bytes: number) => {
    const around = batch(event('"a":""'))
    return around.replace('"a":""', `"a":"${'x'.repeat(bytes - around.length)}"`)
  }
  for (let bytes = 100; bytes < 140; bytes++) accepts(filled(bytes))
  for (const bytes of [65_536, 262_143, 262_144]) accepts(filled(bytes), `${bytes} bytes`)
  leaves(filled(262_145), '262,145 bytes')
  const spaced = (bytes: number) => `{"events":[]${' '.repeat(bytes - 13)}}`
  accepts(spaced(262_144), 'space')
  refuses(`{"events":["${'x'.repeat(262_132)}`, 'a string without an end')
  refuses(`{"events":[{"a":${'['.repeat(262_128)}`, 'arrays without an end')
})

t.test('each build is returned once', async (t) => {
  const builds = ['a', 'b', 'a', 'x'.repeat(128), undefined, 'b', 'x'.repeat(127), 'a', null, 'é']
  const body = batch(...builds.map((buildId, i) => JSON.stringify({ projectId, eventId: `e-${i}`, buildId })))
  accepts(body)
  t.strictSame(scan(Buffer.from(body))?.builds, ['a', 'b', 'x'.repeat(128), 'x'.repeat(127), 'é'])
  const distinct = Array.from({ length: 100 }, (_, i) =>
    JSON.stringify({ projectId, eventId: `e-${i}`, buildId: `b-${i}` }),
  )
  accepts(batch(...distinct), '100 builds')
})

t.test('events may have other keys than the one before', async () => {
  const member = (i: number) => [
    `"${'k'.repeat(i % 20)}":${i}`,
    `"type":"t"`,
    `"n":{"${'k'.repeat(i % 17)}":1,"k":[{}]}`,
  ]
  for (let shift = 0; shift < 40; shift++) {
    accepts(
      batch(
        ...Array.from({ length: 20 }, (_, i) => {
          const members = [`"eventId":"e-${i}"`, `"projectId":"${projectId}"`, ...member(i + shift)]
          return `{${[...members.slice((i * shift) % 5), ...members.slice(0, (i * shift) % 5)].join(i % 3 === 0 ? ' , ' : ',')}}`
        }),
      ),
    )
  }
  const many = Array.from({ length: 300 }, (_, i) => `"k${i}":{"a":${i}}`)
  accepts(batch(event(...many), `{${many},"eventId":"b","projectId":"${projectId}"}`), '300 keys')
})

t.test('events may have other space around their keys than the one before', async () => {
  const spaced = (id: number, [a, b, c]: string[]) =>
    `{"projectId":"${projectId}","eventId":"e-${id}",${a}"n"${b}:${c}{"a":0,${a}"b"${b}:${c}1}}`
  for (let i = 0; i < 3; i++) {
    const spaces = [0, 1, 0, 2, 20, 3, 9].map((count) => ['', '', ''].with(i, ' '.repeat(count)))
    accepts(batch(...spaces.map((space, id) => spaced(id, space))))
  }
})

t.test('a known key counts only as a member of the event itself', async () => {
  const nested = (count: number, key: string) =>
    `{"projectId":"${projectId}","eventId":"e","n":{${[...Array.from({ length: count }, (_, i) => `"a${i}":1`), `"${key}":[]`]}}}`
  const others = (count: number) => Array.from({ length: count }, (_, i) => `"a${i}":1`)
  for (const { name } of knownFields) {
    for (let count = 1; count < 6; count++) {
      const valid = `{${[...others(count), `"${name}":null`, `"projectId":"${projectId}"`, '"eventId":"b"']}}`
      accepts(batch(nested(count, name), valid))
      refuses(batch(nested(count, name), valid.replace('null', '[]')))
      accepts(batch(valid, nested(count, name), nested(count, 'a').replace('"e"', '"c"')))
    }
  }
})

t.test('a batch for an invalid project id is not accepted', async (t) => {
  for (const id of ['', 'é', 'a"b', 'x'.repeat(65), 'a b']) {
    t.equal(scanBatch(Buffer.from(batch(JSON.stringify({ projectId: id, eventId: 'a' }))), id, hashKey), undefined)
  }
  t.ok(
    scanBatch(Buffer.from(batch(JSON.stringify({ projectId: 'x'.repeat(64), eventId: 'a' }))), 'x'.repeat(64), hashKey),
  )
})

t.test('texts are limited in bytes', async () => {
  const fields: KnownField[] = [
    { name: 'eventId', text: 'name', bytesMin: 1, bytesMax: eventIdBytesMax },
    ...knownFields,
  ]
  for (const { name, text, bytesMin, bytesMax } of fields) {
    if (text === 'timestamp') continue
    const withText = (text: string) =>
      batch(`{"projectId":"${projectId}"${name === 'eventId' ? '' : ',"eventId":"a"'},"${name}":"${text}"}`)
    accepts(withText('x'.repeat(bytesMax)))
    accepts(withText('é'.repeat(bytesMax / 2)))
    accepts(withText('x'))
    refuses(withText('x'.repeat(bytesMax + 1)))
    refuses(withText(`x${'é'.repeat(bytesMax / 2)}`))
    if (bytesMin === 0) accepts(withText(''))
    else refuses(withText(''))
    // control characters are escaped, DEL is not
    if (text === 'name') refuses(withText('x\u007f'))
    else accepts(withText('x\u007f'))
  }
})

t.test('well-known members of another type are refused', async () => {
  for (const name of ['type', 'timestamp', 'buildId', 'placeId', 'sessionId', 'serverId', 'playerId', 'eventId']) {
    for (const no of ['true', 'false', '{}', '[]', '["a"]', '{"a":1}']) {
      const others = name === 'eventId' ? `{"projectId":"${projectId}"` : start
      refuses(batch(`${others},"${name}":${no}}`))
    }
  }
})

t.test('members with similar names are unknown', async () => {
  for (const name of [
    'Type',
    'types',
    'typ',
    'buildid',
    'buildId ',
    'eventID',
    'tipe',
    'xuildId',
    '',
    'timestamps',
    '4ype',
  ]) {
    accepts(batch(event(`"${name}":true`)))
  }
  accepts(batch(event(`"${'x'.repeat(1000)}":true`)))
  accepts(batch(event('"__proto__":{"buildId":5}', '"constructor":1')))
  accepts(batch(event('"nested":{"eventId":1,"projectId":2,"buildId":3,"events":[4]}')))
})

t.test('repeated known members are left to parseBatch', async () => {
  for (const name of ['type', 'timestamp', 'buildId', 'placeId', 'sessionId', 'serverId', 'playerId']) {
    leaves(batch(event(`"${name}":null`, `"${name}":null`)))
    refuses(batch(event(`"${name}":null`, `"${name}":true`)))
  }
  leaves(batch(event('"eventId":"b"')))
  leaves(batch(event(`"projectId":"${projectId}"`)))
  refuses(batch(event('"eventId":5')))
  refuses(batch(event('"projectId":"other"')))
  accepts(batch(event('"other":1', '"other":2', '"more":{"a":1,"a":2}')), 'unknown members may repeat')
})

t.test('a batch that repeats an id is left to parseBatch', async () => {
  leaves(batch(event(), event('"a":1'), `{"projectId":"${projectId}","eventId":"b"}`, event()))
  const events = Array.from({ length: 99 }, (_, i) => `{"projectId":"${projectId}","eventId":"e-${i}"}`)
  for (const i of [0, 1, 50, 98]) leaves(batch(...events, events[i] as string), `the first and event ${i}`)
})

t.test('an envelope with other members is left to parseBatch', async () => {
  leaves(`{"events":[${event()}],"more":1}`)
  leaves(`{"more":1,"events":[${event()}]}`)
  leaves(`{"events":[],"events":[${event()}]}`)
  leaves(`{"events":[${event()}],"\\u0065vents":[]}`)
  leaves(`{"events":[],"":0}`)
  refuses(`{"events":[${event()}],"events":5}`)
  for (const body of ['', ' ', '{}', '[]', 'null', '{"event":[]}', '{"events":{}}', '{"events":null}', '{"events"}']) {
    refuses(body)
  }
  for (const body of ['{"events" []}', '{events:[]}', "{'events':[]}", '"events":[]', '{"events":[]', '{"events":[}']) {
    refuses(body)
  }
})

t.test('100 events are a batch, and 101 are refused', async () => {
  const events = Array.from({ length: 101 }, (_, i) => `{"projectId":"${projectId}","eventId":"e-${i}"}`)
  accepts(batch(...events.slice(1)), '100')
  refuses(batch(...events), '101')
  refuses(`{"events":[${events.join(' , ')}]}`, '101')
})

t.test('an event is an object of the project with an id', async () => {
  for (const no of ['1', 'null', '"a"', '[]', '{}', `[${event()}]`, 'true', '']) {
    refuses(batch(no, event()))
    refuses(batch(event(), no))
  }
  refuses(batch('{"eventId":"a"}'))
  refuses(batch(`{"projectId":"${projectId}"}`))
  for (const other of [
    'other',
    '',
    projectId.slice(0, -1),
    `${projectId}x`,
    projectId.toUpperCase(),
    ` ${projectId}`,
  ]) {
    refuses(batch(`{"projectId":"${other}","eventId":"a"}`))
  }
  refuses(batch(`{"projectId":1,"eventId":"a"}`))
})

t.test('an event nests at most 32 levels deep', async () => {
  for (const [open, close] of [
    ['[', ']'],
    ['{"a":', '}'],
    ['[{"a":', '}]'],
  ] as const) {
    const step = open.length > 5 ? 2 : 1
    const filled = (levels: number) => `${open.repeat(levels / step)}1${close.repeat(levels / step)}`
    const deepest = step === 2 ? 30 : 31
    accepts(batch(event(`"a":${filled(deepest)}`)))
    refuses(batch(event(`"a":${filled(deepest + step)}`)))
    refuses(batch(event(`"a":${filled(deepest + step)}`, '"a":1')), 'too deep, also where another replaces it')
  }
  accepts(batch(event(`"a":${nested(31, '[', ']')}`)))
  refuses(batch(event(`"a":${nested(32, '[', ']')}`)))
  accepts(batch(event(`"a":${'['.repeat(30)}{}${']'.repeat(30)}`)))
  refuses(batch(event(`"a":${'['.repeat(31)}{}${']'.repeat(31)}`)))
  refuses(batch(event(`"a":${nested(100_000, '[', ']')}`)), 'does not exhaust the stack')
})

/** Contexts of a value: an unknown member, a known member, and nested. */
const contexts: ((value: string) => string)[] = [
  (value) => batch(event(`"a":${value}`)),
  (value) => batch(event(`"a":${value}`, '"b":1')),
  (value) => batch(event(`"playerId":${value}`)),
  (value) => batch(event(`"a":[${value}]`)),
  (value) => batch(event(`"a":[1,${value},2]`)),
  (value) => batch(event(`"a":{"b":${value}}`)),
  (value) => batch(event(`"a":{"b":1,"c":${value},"d":[]}`)),
]

t.test('numbers are those of JSON', async () => {
  for (const number of [
    '0',
    '-0',
    '10',
    '0.0',
    '-0.50',
    '1e5',
    '1E+05',
    '1e-0',
    '12.34E-56',
    '1e999',
    '9'.repeat(400),
  ]) {
    accepts(batch(event(`"a":${number}`)))
    accepts(batch(event(`"a":[${number}]`)))
  }
  const no = [
    '01',
    '-01',
    '00',
    '-',
    '--1',
    '+1',
    '1.',
    '.5',
    '-.5',
    '1.e5',
    '1e',
    '1E+',
    '1e-',
    '1e5.5',
    '1e+-5',
    '1.2.3',
  ]
  no.push('0x1', '1_0', 'NaN', 'Infinity', '-Infinity', '1n', '１', '1a', '- 1', '1 2', '1-', '0-', '1e5e5', '１0')
  for (const number of no) for (const inContext of contexts) refuses(inContext(number))
})

t.test('literals are those of JSON', async () => {
  for (const literal of ['true', 'false', 'null']) accepts(batch(event(`"a":${literal}`, `"b":[${literal}]`)))
  const no = [
    'True',
    'TRUE',
    'tru',
    'truee',
    'trux',
    't',
    'fals',
    'falsey',
    'False',
    'nul',
    'nulll',
    'nil',
    'n',
    'Null',
  ]
  no.push('undefined', 'truefalse', 'null null', 'nan', 'tr ue')
  for (const literal of no) for (const inContext of contexts) refuses(inContext(literal))
})

t.test('strings are those of JSON', async () => {
  const no = [
    '"',
    '"a',
    'a',
    "'a'",
    '"a"b"',
    '"a""',
    '""""',
    '"\\"',
    '"\\\\\\"',
    '"\\x"',
    '"\\0"',
    '"\\\'"',
    '"\\U0041"',
  ]
  no.push(
    '"\\u"',
    '"\\u1"',
    '"\\u12"',
    '"\\u123"',
    '"\\u123g"',
    '"\\u12 4"',
    '"\\uG234"',
    '"\\u{61}"',
    '"\\ u0061"',
    '"\\',
  )
  for (const string of no) for (const inContext of contexts) refuses(inContext(string))
  for (let byte = 0; byte < 0x20; byte++) {
    const character = String.fromCharCode(byte)
    for (const inContext of contexts) refuses(inContext(`"${character}"`))
    refuses(batch(event(`"${character}":1`)))
    refuses(batch(`{"projectId":"${projectId}","eventId":"a${character}"}`))
    refuses(batch(event(`"a":"\\${character}"`)))
  }
  for (const name of ['projectId', 'eventId', ...knownFields.map(({ name }) => name), 'other']) {
    const members = [`"${name}":\0`, `"${name}":\0\0`, `"${name}":\0"a"`]
    for (const nul of members) refuses(batch(event(nul)), `a NUL as the value of ${name}`)
  }
  refuses(batch(event('"buildId":"a"'), `{"projectId":"${projectId}","eventId":"b","buildId":\0}`))
  // DEL may stand in a string, but not in a name
  refuses(batch(`{"projectId":"${projectId}","eventId":"a\u007f"}`))
  refuses(batch(event('"buildId":"a\u007f"')))
  accepts(batch(event('"type":"a\u007f"')))
  accepts(batch(event('"a\u007f":"\u007f"')))
})

t.test('objects and arrays are those of JSON', async () => {
  const no = [
    '[',
    ']',
    '[1',
    '[1,',
    '[1,]',
    '[,]',
    '[,1]',
    '[1 2]',
    '[1,,2]',
    '[1}',
    '[:]',
    '[1:2]',
    '{',
    '}',
    '{"a"',
    '{"a"}',
  ]
  no.push(
    '{"a":}',
    '{"a":1',
    '{"a":1,',
    '{"a":1,}',
    '{,}',
    '{a:1}',
    '{1:1}',
    '{"a" 1}',
    '{"a":1 "b":2}',
    '{"a":1,,"b":2}',
  )
  no.push(
    '{"a":1]',
    '{"a"::1}',
    '{"a":1:2}',
    '{"a",1}',
    '{null:1}',
    '{[]:1}',
    '{:1}',
    '[]]',
    '{}}',
    '[[]',
    '{{}}',
    '()',
    '<>',
  )
  for (const text of no) for (const inContext of contexts) refuses(inContext(text))
})

const usual = batch(
  event('"type":"kill"', '"timestamp":"2026-11-20T17:51:00Z"', '"buildId":"2026.1"', '"placeId":1', '"at":[1.5,-2e3]'),
  `{"projectId":"${projectId}", "eventId":"日本", "note":"a\\n\\u00e9", "nested":{"a":{},"b":[true,false,null]}}`,
)

t.test('a truncated batch and one with trailing bytes are refused', async () => {
  accepts(usual)
  const bytes = Buffer.from(usual)
  for (let end = 0; end < bytes.length; end++) refuses(bytes.subarray(0, end), `the first ${end} bytes`)
  for (const junk of ['}', ']', ',', '{}', '0', '"', 'null', '\0', '\u00a0', ';', '{"events":[]}']) {
    refuses(`${usual}${junk}`)
    refuses(`${usual} ${junk}`)
    refuses(`${junk}${usual}`)
  }
})

t.test('a body may be a part of a larger buffer', async (t) => {
  const larger = Buffer.from(`[${usual}]`)
  t.strictSame(scan(larger.subarray(1, -1)), scan(Buffer.from(usual)))
})
