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

function parseBatch(input: Uint8Array | BatchInput) {
  const body = batchBody(input)
  return { body, events: parseEvents(body) }
}

const parse = (body: string | Uint8Array) => parseBatch(Buffer.from(body))
const refusal = (code: string) => ({ name: 'IngestError', code })

t.test('a batch is an object with an array of events', async (t) => {
  const body = Buffer.from(' {"events":[{"a":1},2,null],"more":true} ')
  const parsed = parseBatch(body)
  t.strictSame(parsed.events, [{ a: 1 }, 2, null])
  t.ok(parsed.body.equals(body), 'the bytes are kept as they came')
  t.equal(parsed.body.buffer, body.buffer, 'and not copied')
  t.strictSame(parse('{"events":[]}').events, [])
})

t.test('the last of several members called events counts', async (t) => {
  t.strictSame(parse('{"events":[1],"\\u0065vents":[2]}').events, [2])
  t.throws(() => parse('{"events":[],"events":1}'), refusal('invalid-envelope'))
})

t.test('a batch may be an object, which is written as JSON once', async (t) => {
  const { body, events } = parseBatch({ events: [{ at: new Date(0), skip: undefined }, undefined] })
  t.equal(Buffer.from(body).toString(), '{"events":[{"at":"1970-01-01T00:00:00.000Z"},null]}')
  t.strictSame(events, [{ at: '1970-01-01T00:00:00.000Z' }, null])
})

t.test('an object that JSON cannot write is refused', async (t) => {
  const circle: { events: unknown[] } = { events: [] }
  circle.events.push(circle)
  t.throws(() => parseBatch(circle), refusal('malformed-body'))
  t.throws(() => parseBatch({ events: [1n] }), refusal('malformed-body'))
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
    t.throws(() => parse(body), refusal('malformed-body'), body)
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
    t.throws(() => parse(body), refusal('malformed-body'))
  }
  t.throws(() => parse(Buffer.from('{"events":[]}', 'utf16le')), refusal('malformed-body'))
  t.strictSame(parse(bytes(0xc3, 0xa9)).events, ['é'])
})

t.test('a lone surrogate written as an escape is JSON', async (t) => {
  t.strictSame(parse('{"events":["\\ud800"]}').events, ['\ud800'])
})

t.test('JSON that is no object with an array of events has no envelope', async (t) => {
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
    t.throws(() => parse(body), refusal('invalid-envelope'), body)
  }
})

t.test('one byte order mark is let by, and is no part of the batch', async (t) => {
  t.equal(Buffer.from(parse('\ufeff{"events":[]}').body).toString(), '{"events":[]}')
  t.throws(() => parse('\ufeff\ufeff{"events":[]}'), refusal('malformed-body'))
  t.throws(() => parse('{"events":\ufeff[]}'), refusal('malformed-body'))
})

t.test('a body holds at most 262,144 bytes', async (t) => {
  const ofBytes = (bytes: number, before = '') => `${before}{"events":[]}`.padEnd(bytes - 2 * before.length)
  t.equal(batchBytesMax, 262_144)
  for (const bytes of [262_143, 262_144]) t.equal(parse(ofBytes(bytes)).body.length, bytes)
  t.throws(() => parse(ofBytes(262_145)), { ...refusal('batch-too-large'), limit: 262_144, actual: 262_145 })
  t.equal(Buffer.byteLength(ofBytes(262_145, '\ufeff')), 262_145)
  t.throws(
    () => parse(ofBytes(262_145, '\ufeff')),
    { ...refusal('batch-too-large'), actual: 262_145 },
    'a byte order mark is counted',
  )
  t.throws(() => parseBatch({ events: ['é'.repeat(131_100)] }), refusal('batch-too-large'))
  t.throws(() => parse('x'.repeat(262_145)), refusal('batch-too-large'), 'the size is looked at first')
  t.match(batchTooLarge(300_000), { limit: 262_144, actual: 300_000, code: 'batch-too-large' })
})

t.test('a batch holds at most 100 events', async (t) => {
  const ofEvents = (count: number) => JSON.stringify({ events: Array.from({ length: count }, () => 1) })
  t.equal(batchEventsMax, 100)
  for (const count of [99, 100]) t.equal(parse(ofEvents(count)).events.length, count)
  t.throws(() => parse(ofEvents(101)), { ...refusal('too-many-events'), limit: 100, actual: 101 })
})

t.test('a refusal does not quote the body', async (t) => {
  for (const body of ['hunter2', '{"events":hunter2}', '"hunter2"', '{"hunter2":1}']) {
    try {
      parse(body)
      t.fail('it was not refused')
    } catch (error) {
      t.ok(error instanceof IngestError)
      t.notMatch(String(error), 'hunter2')
      t.equal((error as Error).cause, undefined)
    }
  }
})

t.test('a body may be a part of a larger buffer', async (t) => {
  const larger = Uint8Array.from(Buffer.from('xx{"events":["é"]}yy'))
  t.strictSame(parseBatch(larger.subarray(2, larger.length - 2)).events, ['é'])
})

t.test('no bytes throw anything but a refusal of the closed set', async (t) => {
  const good = Buffer.from(
    '{"events":[{"projectId":"p","eventId":"é\\u0041","a":[1.5e3,null,true]}],"x":{"events":"y"}}',
  )
  const mutated = fc.array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), { maxLength: 4 }).map((changes) => {
    const bytes = Buffer.from(good)
    for (const [at, byte] of changes) bytes[at] = byte
    return bytes
  })
  const cut = fc.nat(good.length).map((end) => good.subarray(0, end))
  const bodies = fc.oneof(fc.uint8Array({ maxLength: 60 }), mutated, cut, fc.json().map(Buffer.from))
  const codes = ['malformed-body', 'invalid-envelope', 'too-many-events']
  fc.assert(
    fc.property(bodies, (body) => {
      try {
        return Array.isArray(parseBatch(body).events)
      } catch (error) {
        return error instanceof IngestError && codes.includes(error.code)
      }
    }),
    { numRuns: 3_000 },
  )
  t.pass('3,000 bodies')
})
