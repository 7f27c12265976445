import t from 'tap'
import { IngestError } from '../../src/error.ts'
import {
  type BatchInput,
  batchBody,
  batchBytesMax,
  batchEventsMax,
  batchTooLarge,
  parseEvents,
} from '../../src/events/batch.ts'
import { type ParsedEvent, parseBatch } from '../../src/events/parse-batch.ts'

function read(input: Uint8Array | BatchInput<unknown>) {
  const body = batchBody(input)
  return { body, events: parseEvents(body) }
}

const readBody = (body: string | Uint8Array) => read(Buffer.from(body))
const error = (code: string) => ({ name: 'IngestError', code })

t.test('a batch is an object with an array of events', async (t) => {
  const body = Buffer.from(' {"events":[{"a":1},2,null],"more":true} ')
  const parsed = read(body)
  t.strictSame(parsed.events, [{ a: 1 }, 2, null])
  t.ok(parsed.body.equals(body), 'the bytes are kept as they came')
  t.equal(parsed.body.buffer, body.buffer, 'and not copied')
  t.strictSame(readBody('{"events":[]}').events, [])
})

t.test('the last of several members called events counts', async (t) => {
  t.strictSame(readBody('{"events":[1],"\\u0065vents":[2]}').events, [2])
  t.throws(() => readBody('{"events":[],"events":1}'), error('invalid-envelope'))
})

t.test('a batch may be an object, which is serialized once', async (t) => {
  const { body, events } = read({ events: [{ at: new Date(0), skip: undefined }, undefined] })
  t.equal(Buffer.from(body).toString(), '{"events":[{"at":"1970-01-01T00:00:00.000Z"},null]}')
  t.strictSame(events, [{ at: '1970-01-01T00:00:00.000Z' }, null])
})

t.test('an object that JSON cannot represent is malformed', async (t) => {
  const circle: { events: unknown[] } = { events: [] }
  circle.events.push(circle)
  t.throws(() => read(circle), error('malformed-body'))
  t.throws(() => read({ events: [1n] }), error('malformed-body'))
})

t.test('what is not JSON in UTF-8 is malformed', async (t) => {
  for (const body of [
    '',
    ' ',
    '{',
    '{"events":[]',
    '{"events":[]}}',
    "{'events':[]}",
    '{"events":[1,]}',
    '{"events":[NaN]}',
    '{"events":["\n"]}',
  ]) {
    t.throws(() => readBody(body), error('malformed-body'), body)
  }
  const bytes = (...inner: number[]) =>
    Buffer.concat([Buffer.from('{"events":["'), Buffer.from(inner), Buffer.from('"]}')])
  for (const body of [
    bytes(0xff),
    bytes(0xc3),
    bytes(0xc0, 0x80),
    bytes(0xed, 0xa0, 0x80),
    bytes(0xf4, 0x90, 0x80, 0x80),
  ]) {
    t.throws(() => readBody(body), error('malformed-body'))
  }
  t.throws(() => readBody(Buffer.from('{"events":[]}', 'utf16le')), error('malformed-body'))
  t.strictSame(readBody(bytes(0xc3, 0xa9)).events, ['é'])
})

t.test('a lone surrogate written as an escape is JSON', async (t) => {
  t.strictSame(readBody('{"events":["\\ud800"]}').events, ['\ud800'])
})

t.test('JSON without an array of events in an object has an invalid envelope', async (t) => {
  const bodies = [
    '1',
    'null',
    '"events"',
    '[]',
    '[{"events":[]}]',
    '{}',
    '{"Events":[]}',
    '{"events":null}',
    '{"events":{}}',
    '{"events":"[]"}',
  ]
  for (const body of [...bodies, '{"__proto__":{"events":[]}}', '{"batch":{"events":[]}}']) {
    t.throws(() => readBody(body), error('invalid-envelope'), body)
  }
})

t.test('one byte order mark is allowed, and is not part of the body', async (t) => {
  t.equal(Buffer.from(readBody('\ufeff{"events":[]}').body).toString(), '{"events":[]}')
  t.throws(() => readBody('\ufeff\ufeff{"events":[]}'), error('malformed-body'))
  t.throws(() => readBody('{"events":\ufeff[]}'), error('malformed-body'))
})

t.test('a body has at most 262,144 bytes', async (t) => {
  const ofBytes = (bytes: number, before = '') => `${before}{"events":[]}`.padEnd(bytes - 2 * before.length)
  t.equal(batchBytesMax, 262_144)
  for (const bytes of [262_143, 262_144]) t.equal(readBody(ofBytes(bytes)).body.length, bytes)
  t.throws(() => readBody(ofBytes(262_145)), { ...error('batch-too-large'), limit: 262_144, actual: 262_145 })
  t.equal(Buffer.byteLength(ofBytes(262_145, '\ufeff')), 262_145)
  t.throws(
    () => readBody(ofBytes(262_145, '\ufeff')),
    { ...error('batch-too-large'), actual: 262_145 },
    'a byte order mark is counted',
  )
  t.throws(() => read({ events: ['é'.repeat(131_100)] }), error('batch-too-large'))
  t.throws(() => readBody('x'.repeat(262_145)), error('batch-too-large'), 'the size is checked first')
  t.match(batchTooLarge(300_000), { limit: 262_144, actual: 300_000, code: 'batch-too-large' })
})

t.test('a batch has at most 100 events', async (t) => {
  const ofEvents = (count: number) => JSON.stringify({ events: Array.from({ length: count }, () => 1) })
  t.equal(batchEventsMax, 100)
  for (const count of [99, 100]) t.equal(readBody(ofEvents(count)).events.length, count)
  t.throws(() => readBody(ofEvents(101)), { ...error('too-many-events'), limit: 100, actual: 101 })
})

t.test('an error does not quote the body', async (t) => {
  for (const body of ['hunter2', '{"events":hunter2}', '"hunter2"', '{"hunter2":1}']) {
    try {
      readBody(body)
      t.fail('no error')
    } catch (thrown) {
      t.ok(thrown instanceof IngestError)
      t.notMatch(String(thrown), 'hunter2')
      t.equal((thrown as Error).cause, undefined)
    }
  }
})

t.test('a body may be a part of a larger buffer', async (t) => {
  const larger = Uint8Array.from(Buffer.from('xx{"events":["é"]}yy'))
  t.strictSame(read(larger.subarray(2, larger.length - 2)).events, ['é'])
})

const parse = (...events: string[]) => parseBatch(Buffer.from(`{"events":[${events}]}`)) as ParsedEvent[]
const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)

t.test(
  'parseBatch returns well-known members, the last of each name, without the content of objects and arrays',
  async (t) => {
    const [first, second] = parse(
      '{"eventId":"a","x":{"eventId":"b"},"typ\\u0065":"k\\n","bui\\u006CdId":"1","playerId":{"a":1},"serverId":[1],"eventId":"c"}',
      '[{"eventId":"d"}]',
    )
    t.strictSame(first?.event, { eventId: 'c', type: 'k\n', buildId: '1', playerId: {}, serverId: [] })
    t.equal(second?.event, undefined)
  },
)

t.test('depth is that of the bytes, also inside a member that a later one replaces', async (t) => {
  for (const [json, path] of [
    [`{"d":${nested(31)}}`, undefined],
    [`{"d":${nested(32)}}`, `/d${'/0'.repeat(31)}`],
    [`{"d":${nested(32)},"d":1}`, `/d${'/0'.repeat(31)}`],
    [`{"type":${nested(32)},"type":"a"}`, `/type${'/0'.repeat(31)}`],
    [
      `{"d":${nested(31)},"a/~b":[1,{"x":"[[","\\u0063":${nested(30)}},${nested(50)}]}`,
      `/a~1~0b/1/c${'/0'.repeat(29)}`,
    ],
    [`{"d":[${nested(30)},${nested(31)}]}`, `/d/1${'/0'.repeat(30)}`],
    [`{"d":[{},{"a":[]},"\\"[",${nested(31)}]}`, `/d/3${'/0'.repeat(30)}`],
    [`{"d":${nested(100_000)}}`, `/d${'/0'.repeat(31)}`],
  ] as const) {
    const [parsed, other] = parse(json, '{}')
    t.equal(parsed?.tooDeepAt, path, json.slice(0, 100))
    t.equal(other?.tooDeepAt, undefined)
  }
})
