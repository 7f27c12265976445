import t from 'tap'
import { IngestError } from '../../src/error.ts'
import { type BatchInput, batchBody, batchBytesMax, batchEventsMax, parseEvents } from '../../src/events/batch.ts'
import { parseBatch } from '../../src/events/parse-batch.ts'
import { sliceMember } from '../../src/json/json-scanner.ts'
import { parseJson, stripByteOrderMark } from '../../src/json/parse-json.ts'

function read(input: Uint8Array | BatchInput<unknown>) {
  const body = batchBody(input)
  return { body, events: parseEvents(body) }
}

const readBody = (body: string | Uint8Array) => read(Buffer.from(body))
const error = (code: string) => ({ name: 'IngestError', code })
const nested = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)

t.test('a batch is an object with an array `events`; the last member of that name counts', async (t) => {
  const body = Buffer.from(' {"events":[{"a":1},2,null],"more":true} ')
  const parsed = read(body)
  t.strictSame(parsed.events, [{ a: 1 }, 2, null])
  t.ok(parsed.body.equals(body), 'the bytes are kept as they came')
  t.equal(parsed.body.buffer, body.buffer, 'and not copied')
  t.strictSame(readBody('{"events":[]}').events, [])
  t.strictSame(readBody('{"events":[1],"\\u0065vents":[2]}').events, [2])
  t.strictSame(readBody('{"events":["\\ud800"]}').events, ['\ud800'], 'a lone surrogate as an escape is JSON')
})

t.test('a batch may be an object, which is serialized once', async (t) => {
  const { body, events } = read({ events: [{ at: new Date(0), skip: undefined }, undefined] })
  t.equal(Buffer.from(body).toString(), '{"events":[{"at":"1970-01-01T00:00:00.000Z"},null]}')
  t.strictSame(events, [{ at: '1970-01-01T00:00:00.000Z' }, null])
  const circle: { events: unknown[] } = { events: [] }
  circle.events.push(circle)
  t.throws(() => read(circle), error('malformed-body'))
  t.throws(() => read({ events: [1n] }), error('malformed-body'))
})

/** Bodies that are parsed, or refused with a code. */
const bodies: [outcome: string | number, ...bodies: string[]][] = [
  ['malformed-body', '', ' ', '{', '[', '{"events":[]', '{"events":[]}}', "{'events':[]}", '{"events":[],}'],
  ['malformed-body', '{"events":[1,]}', '{"events":[,1]}', '{"events":[1 2]}', '{"events":[NaN]}', '{"events":["\n"]}'],
  ['malformed-body', '{"events":[{"a":1,}]}', '{"events":[{"a" 1}]}', '{"events":[{a:1}]}', '{"events":["\\x"]}'],
  ['malformed-body', '{"events":[01,-,1.,.5,1e]}', '{"events":["\\u00c4\\u00C4\\u00g0"]}', '{"events":[tru]}'],
  ['malformed-body', '{"events":[]} x', '{"events":[[}]}', '{"events":[{]]}', '['.repeat(100_000)],
  ['malformed-body', `{"events":[${new Array(101).fill(1)}],"x"}`, '{"events":\ufeff[]}'],
  ['invalid-envelope', '1', 'null', '"events"', '[]', '[{"events":[]}]', '{}', ' { } ', '{"Events":[]}'],
  [
    'invalid-envelope',
    '{"events":null}',
    '{"events":{}}',
    '{"events":"[]"}',
    '{"events":1}',
    '{"events":[],"events":1}',
  ],
  ['invalid-envelope', '{"__proto__":{"events":[]}}', '{"event":[1],"a":{"events":[2]}}', nested(100_000)],
  ['too-many-events', `{"events":[${new Array(101).fill(1)}]}`],
  [0, '{"events":[]}', `{"events":[${new Array(101).fill('{}')}],"events":[]}`],
  [1, '{"events":["\\u00c4\\uFFFF"]}', '{"events":{},"\\u0065vents":[{}]}', `{"a":"[","events":[${nested(9999)}]}`],
  [2, '{"events":[1],"events":[2,3]}', '{"a":{"events":[1]},"events":[{"events":[2]},"}"],"c":{"events":[4]}}'],
  [100, `{"events":[${new Array(100).fill(1)}]}`],
]

t.test('parseBatch and JSON.parse read or refuse the same bodies', async (t) => {
  for (const [outcome, ...texts] of bodies) {
    for (const parse of [parseEvents, parseBatch]) {
      for (const text of texts) {
        const read = () => parse(Buffer.from(text))
        if (typeof outcome === 'string') t.throws(read, error(outcome), text.slice(0, 100))
        else t.equal(read().length, outcome, text.slice(0, 100))
      }
    }
  }
})

t.test('a body that is not UTF-8 is malformed, and one byte order mark is not part of the body', async (t) => {
  const bytes = (...inner: number[]) =>
    Buffer.concat([Buffer.from('{"events":["'), Buffer.from(inner), Buffer.from('"]}')])
  for (const inner of [[0xff], [0xc3], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80]]) {
    t.throws(() => readBody(bytes(...inner)), error('malformed-body'))
  }
  t.throws(() => readBody(Buffer.from('{"events":[]}', 'utf16le')), error('malformed-body'))
  t.strictSame(readBody(bytes(0xc3, 0xa9)).events, ['é'])
  t.equal(Buffer.from(readBody('\ufeff{"events":[]}').body).toString(), '{"events":[]}')
  t.throws(() => readBody('\ufeff\ufeff{"events":[]}'), error('malformed-body'))
})

t.test('a body has at most 262,144 bytes and 100 events', async (t) => {
  const ofBytes = (bytes: number, before = '') => `${before}{"events":[]}`.padEnd(bytes - 2 * before.length)
  t.strictSame([batchBytesMax, batchEventsMax], [262_144, 100])
  for (const bytes of [262_143, 262_144]) t.equal(readBody(ofBytes(bytes)).body.length, bytes)
  const tooLarge = { ...error('batch-too-large'), limit: 262_144, actual: 262_145 }
  t.throws(() => readBody(ofBytes(262_145)), tooLarge)
  t.throws(() => readBody(ofBytes(262_145, '\ufeff')), tooLarge, 'a byte order mark is counted')
  t.throws(() => read({ events: ['é'.repeat(131_100)] }), error('batch-too-large'))
  t.throws(() => readBody('x'.repeat(262_145)), error('batch-too-large'), 'the size is checked first')
  const tooMany = { ...error('too-many-events'), limit: 100, actual: 101 }
  t.throws(() => readBody(JSON.stringify({ events: new Array(101).fill(1) })), tooMany)
})

t.test('an error does not quote the body', async (t) => {
  for (const body of ['hunter2', '{"events":hunter2}', '"hunter2"', '{"hunter2":1}']) {
    for (const parse of [readBody, (text: string) => parseJson(Buffer.from(`${text}}`))]) {
      const thrown = t.throws(() => parse(body)) as unknown as IngestError
      t.ok(thrown instanceof IngestError)
      t.notMatch(String(thrown), 'hunter2')
      t.equal(thrown.cause, undefined)
    }
  }
})

t.test('a body may be a part of a larger buffer', async (t) => {
  const larger = Uint8Array.from(Buffer.from('xx{"events":["é"]}yy'))
  const body = read(larger.subarray(2, larger.length - 2)).body
  t.strictSame(parseEvents(body), ['é'])
  t.match(parseBatch(body), [{ start: 11, end: 15 }])
})

t.test('JSON in UTF-8 is parsed, after one byte order mark', async (t) => {
  for (const value of [null, 1, 'äö😀', [], { a: [{ b: false }] }]) {
    t.strictSame(parseJson(Buffer.from(JSON.stringify(value))), value)
  }
  t.equal(parseJson(stripByteOrderMark(Buffer.from('\ufeff1'))), 1)
  for (const body of [Buffer.alloc(0), Buffer.from('"\xe4"', 'latin1'), Buffer.from('\ufeff1')]) {
    t.throws(() => parseJson(body), error('malformed-body'))
  }
})

const parse = (...events: string[]) => parseBatch(Buffer.from(`{"events":[${events}]}`))

t.test('parseBatch returns well-known members, the last of a name, without the content of containers', async (t) => {
  const [first, second] = parse(
    '{"eventId":"a","x":{"eventId":"b"},"typ\\u0065":"k\\n","bui\\u006CdId":"1","playerId":{"a":1},"serverId":[1],"eventId":"c"}',
    '[{"eventId":"d"}]',
  )
  t.strictSame(first?.event, { eventId: 'c', type: 'k\n', buildId: '1', playerId: {}, serverId: [] })
  t.equal(second?.event, undefined)
})

t.test('the depth counts in all bytes, also in a member that a later one of its name replaces', async (t) => {
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
    [`{"a/b":${'{"__proto__":'.repeat(32)}null${'}'.repeat(32)}}`, `/a~1b${'/__proto__'.repeat(31)}`],
    [`{"d":${nested(100_000)},"e":${nested(40)}}`, `/d${'/0'.repeat(31)}`],
  ] as const) {
    const [parsed, other] = parse(json, '{}')
    t.equal(parsed?.tooDeepAt, path, json.slice(0, 100))
    t.equal(other?.tooDeepAt, undefined)
  }
})

t.test('sliceMember returns the exact bytes of the last member of a name', async (t) => {
  const object = Buffer.from(' { "a" : {"b":1} , "b":[ 1 ] , "\\u0061" : "}," , "c" : -1.0 } ')
  const memberOf = (name: string) => sliceMember(object, name)?.toString()
  t.strictSame(['a', 'b', 'c', 'd'].map(memberOf), ['"},"', '[ 1 ]', '-1.0', undefined])
  t.equal(sliceMember(Buffer.from('{ }'), 'a'), undefined)
})
