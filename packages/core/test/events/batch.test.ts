import assert from 'node:assert/strict'
import fc from 'fast-check'
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
import { eventIssues, identityIssues, knownFields } from '../../src/events/event.ts'
import { type ParsedEvent, parseBatch } from '../../src/events/parse-batch.ts'
import { isObject } from '../../src/validation.ts'
import { escaped, member, number, space, spaced, string, value } from '../json/json-text.ts'
import { sliceEvents } from '../json/slice-events.ts'

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

t.test('any bytes are parsed, or rejected with one of three codes', async (t) => {
  const valid = Buffer.from(
    '{"events":[{"projectId":"p","eventId":"é\\u0041","a":[1.5e3,null,true]}],"x":{"events":"y"}}',
  )
  const mutated = fc.array(fc.tuple(fc.nat(valid.length - 1), fc.nat(255)), { maxLength: 4 }).map((changes) => {
    const bytes = Buffer.from(valid)
    for (const [at, byte] of changes) bytes[at] = byte
    return bytes
  })
  const cut = fc.nat(valid.length).map((end) => valid.subarray(0, end))
  const bodies = fc.oneof(fc.uint8Array({ maxLength: 60 }), mutated, cut, fc.json().map(Buffer.from))
  const codes = ['malformed-body', 'invalid-envelope', 'too-many-events']
  fc.assert(
    fc.property(bodies, (body) => {
      try {
        return Array.isArray(read(body).events)
      } catch (thrown) {
        return thrown instanceof IngestError && codes.includes(thrown.code)
      }
    }),
    { numRuns: 3_000 },
  )
  t.pass('3,000 bodies')
})

const names = ['projectId', 'eventId', ...knownFields.map(({ name }) => name)]

/** The result or the error of parsing. */
function outcomeOf<T>(parse: () => T): T | string {
  try {
    return parse()
  } catch (error) {
    if (error instanceof IngestError) return `${error.code}: ${error.message} ${error.actual}`
    throw error
  }
}

/** The deepest nesting of JSON. */
function levelsOf(json: string): number {
  let [levels, most] = [0, 0]
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[[{\]}]/g)) {
    if (token === '[' || token === '{') most = Math.max(most, ++levels)
    else if (token === ']' || token === '}') levels--
  }
  return most
}

/** Parses as `JSON.parse` does, and finds the same issues in the events. */
function agrees(text: string | Buffer): void {
  const body = Buffer.from(text)
  const parsed = outcomeOf(() => parseBatch(body))
  const expected = outcomeOf(() => parseEvents(body))
  if (typeof parsed === 'string' || typeof expected === 'string') {
    assert.equal(parsed, expected)
    return
  }
  const slices = sliceEvents(body)
  assert.deepEqual(
    parsed.map(({ start, end }) => ({ start, end })),
    slices,
  )
  for (const [i, { event, start, end, tooDeepAt }] of parsed.entries()) {
    const whole: unknown = expected[i]
    assert.deepEqual(identityIssues(event, 'p'), identityIssues(whole, 'p'))
    if (!isObject(whole) || !event) {
      assert.equal(isObject(whole), event !== undefined)
      continue
    }
    const isDeep = levelsOf(body.toString('utf8', start, end)) > 32
    assert.equal(tooDeepAt !== undefined, isDeep)
    const shallow = ({ code }: { code: string }) => code !== 'too_deep'
    assert.deepEqual(eventIssues(event, tooDeepAt).filter(shallow), eventIssues(whole, undefined).filter(shallow))
    for (const name of names) {
      const mine: unknown = event[name]
      const theirs: unknown = whole[name]
      if (typeof theirs === 'object' && theirs !== null) assert.equal(Array.isArray(mine), Array.isArray(theirs))
      else assert.deepEqual(mine, theirs)
    }
    assert.deepEqual(Object.keys(event).sort(), names.filter((name) => Object.hasOwn(whole, name)).sort())
  }
}

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

t.test('parseBatch reads an envelope as JSON.parse does', async () => {
  for (const body of [
    '',
    ' ',
    '1',
    '"events"',
    '[]',
    '[',
    '{}',
    ' { } ',
    '{"events":1}',
    '{"events":[]}',
    '{"events":[1],"events":[2,3]}',
    '{"events":[1],"events":{}}',
    '{"events":{},"\\u0065vents":[{}]}',
    '{"event":[1],"a":{"events":[2]}}',
    '{"events":[]}}',
    '{"events":[],}',
    '{"events":[1,]}',
    '{"events":[,1]}',
    '{"events":[1 2]}',
    '{"events":[{"a":1,}]}',
    '{"events":[{"a" 1}]}',
    '{"events":[{a:1}]}',
    '{"events":[01,-,1.,.5,1e]}',
    '{"events":["\\x"]}',
    '{"events":["\t"]}',
    '{"events":["\\u00c4\\u00C4\\u00g0"]}',
    '{"events":["\\u00c4\\uFFFF"]}',
    '{"events":[tru]}',
    '{"events":[]} x',
    '{"events":[[}]}',
    '{"events":[{]]}',
    `{"events":[${new Array(100).fill(1)}]}`,
    `{"events":[${new Array(101).fill(1)}]}`,
    `{"events":[${new Array(101).fill(1)}],"x"}`,
    `{"events":[${new Array(101).fill('{}')}],"events":[]}`,
    nested(100_000),
    '['.repeat(100_000),
  ]) {
    agrees(body)
  }
})

const known = fc
  .constantFrom(...names, 'd')
  .chain((name) =>
    fc.constantFrom(
      `"${name}"`,
      `"${name}"`,
      `"\\u00${name.charCodeAt(0).toString(16)}${name.slice(1)}"`,
      `"${name}x"`,
    ),
  )
const deep = fc.nat(40).map(nested)
const knownValue = fc.oneof(value, string, number, deep, fc.constantFrom('"p"', '"2026-11-20T17:51:00Z"', '{}', '[]'))
const eventText = fc.array(member(known, knownValue), { maxLength: 8 }).map((members) => `{${members}}`)
const batchText = fc
  .array(fc.oneof({ weight: 4, arbitrary: eventText }, { weight: 1, arbitrary: value }), { maxLength: 5 })
  .chain((events) =>
    fc.array(member(string, value), { maxLength: 1 }).map((more) => `{${[...more, `"events":[${events}]`].join(',')}}`),
  )

t.test('parseBatch agrees with JSON.parse and the checks on any JSON', async () => {
  fc.assert(fc.property(spaced(batchText), agrees), { numRuns: 1000 })
})

t.test('parseBatch agrees with JSON.parse and the checks on changed bytes', async () => {
  const change = fc.record({
    at: fc.nat(),
    removed: fc.nat(3),
    inserted: fc.oneof(
      fc.constantFrom('"', '\\', '{', '}', '[', ']', ',', ':', '0', '-', '\u007f', '\n'),
      escaped,
      space,
    ),
  })
  fc.assert(
    fc.property(batchText, fc.array(change, { minLength: 1, maxLength: 3 }), (text, changes) => {
      let changed = text
      for (const { at, removed, inserted } of changes) {
        const index = at % (changed.length + 1)
        changed = changed.slice(0, index) + inserted + changed.slice(index + removed)
      }
      if (changed.isWellFormed()) agrees(changed)
    }),
    { numRuns: 2000 },
  )
})
