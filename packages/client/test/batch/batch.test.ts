import vm from 'node:vm'
import { type BatchResult, batchBytesMax } from '@ingest/core'
import fc from 'fast-check'
import t from 'tap'
import { createEventIds } from '../../src/batch/event-ids.ts'
import { checkResult, eventBytesMax, fillBatch, isBatchFull } from '../../src/batch/fill-batch.ts'
import { addMissingMembers, serializeEvent } from '../../src/batch/serialize-event.ts'

const serialize = (event: never) => {
  const { eventId, bytes } = serializeEvent(event, { projectId: 'game-1', makeEventId: () => 'made' })
  return [eventId, bytes.toString()]
}
const fromText = (text: string) => serialize(Buffer.from(text) as never)

t.test('missing members are prepended', async (t) => {
  t.strictSame(serialize({ type: 'a' } as never), ['made', '{"projectId":"game-1","eventId":"made","type":"a"}'])
  t.strictSame(serialize({ eventId: 'e', type: 'é' } as never), [
    'e',
    '{"projectId":"game-1","eventId":"e","type":"é"}',
  ])
  t.strictSame(serialize({ eventId: undefined, projectId: 'other' } as never), [
    'made',
    '{"eventId":"made","projectId":"other"}',
  ])
})

t.test('an event in bytes is kept, in one line', async (t) => {
  const whole = '{ "eventId" : "e",\r\n "projectId":"p", "n": 12345678901234567890.0, "s":"\\n" }'
  t.strictSame(fromText(whole), ['e', whole.replace('\r\n', '  ')])
  t.strictSame(fromText(' { "n":1 }'), ['made', '{"projectId":"game-1","eventId":"made", "n":1 }'])
  t.strictSame(fromText('{"eventId":"e"}'), ['e', '{"projectId":"game-1","eventId":"e"}'])
  t.strictSame(fromText('\ufeff{ }'), ['made', '{"projectId":"game-1","eventId":"made" }'])
  const { bytes } = serializeEvent(Buffer.from(' {"a":"{"}'), { projectId: 'p', makeEventId: () => 'e' })
  t.strictSame(JSON.parse(bytes.toString()), { projectId: 'p', eventId: 'e', a: '{' })
})

t.test('invalid events throw', async (t) => {
  const circle: Record<string, unknown> = {}
  circle.circle = circle
  for (const event of [null, undefined, 'a', 1, [], { n: 1n }, circle]) {
    t.throws(() => serialize(event as never), { code: 'invalid-argument' })
  }
  for (const eventId of ['', 7, null, 'a\n', '\ud800', 'é'.repeat(129)]) {
    t.throws(() => serialize({ eventId } as never), { code: 'invalid-argument', issues: [{ path: '/eventId' }] })
  }
  t.throws(() => fromText('{"eventId":7}'), { code: 'invalid-argument', issues: [{ path: '/eventId' }] })
  t.throws(() => fromText('[1]'), { code: 'invalid-argument' })
  for (const text of ['', '{', '{}{}']) t.throws(() => fromText(text), { code: 'malformed-body' })
  t.throws(() => serialize(Buffer.from([0x7b, 0xff, 0x7d]) as never), { code: 'malformed-body' })
})

/** A value without a JSON form of its own. */
class Vector {
  x = 1
  get length() {
    return 1
  }
  toJSON() {
    return { x: this.x }
  }
}

t.test('an event is serialized exactly as by JSON.stringify', async (t) => {
  const events: [string, object][] = [
    ['a toJSON of its own', { eventId: 'old', toJSON: () => ({ eventId: 'e', a: 1 }) }],
    ['an instance', new Vector()],
    ['members with toJSON', { at: new Date(0), v: new Vector(), url: new URL('http://a/'), bytes: Buffer.from('a') }],
    [
      'members that JSON has no form for',
      { a: undefined, b: () => 1, c: Symbol('c'), [Symbol('d')]: 1, e: [undefined] },
    ],
    ['numbers', { zero: -0, nan: Number.NaN, infinite: -Infinity, big: 1e300, half: 0.5 }],
    ['boxed primitives', { a: Object(1), b: Object('b'), c: Object(true) }],
    // biome-ignore lint/suspicious/noSparseArray: it is what is tested
    ['sparse arrays', { list: [1, , 3] }],
    ['empty collections', { map: new Map([[1, 2]]), set: new Set([1]), pattern: /a/, error: new Error('a') }],
    ['text', { lone: '\ud800', line: 'a\nb\u2028', euro: '€' }],
    ['integers as names', { b: 1, 1: 'one', a: 2 }],
    ['no prototype', Object.assign(Object.create(null), { a: 1 })],
    ['a proxy', new Proxy({ a: 1 }, { get: (target, name) => (name === 'a' ? 2 : Reflect.get(target, name)) })],
    ['a getter', Object.defineProperty({}, 'a', { enumerable: true, get: () => 7 })],
    ['inherited and hidden members', Object.defineProperty(Object.create({ a: 1 }), 'b', { value: 1 })],
    ['__proto__', JSON.parse('{"__proto__":{"eventId":"no"},"constructor":1}')],
  ]
  for (const [name, event] of events) {
    if (name.startsWith('inherited')) Object.assign(event, { c: 1 })
    const text = JSON.stringify(event)
    const made = text.startsWith('{"eventId":') ? '' : '"eventId":"made",'
    t.equal(serialize(event as never)[1], `{"projectId":"game-1",${made}${text.slice(1)}`, name)
  }
})

t.test('each member is read once, so the returned id is the sent id', async (t) => {
  let reads = 0
  const event = {
    get eventId() {
      return `e-${++reads}`
    },
  }
  t.strictSame(serialize(event as never), ['e-1', '{"projectId":"game-1","eventId":"e-1"}'])
})

t.test('the error of an event that cannot be serialized names the member', async (t) => {
  const circle: Record<string, unknown> = { a: [0] }
  ;(circle.a as unknown[]).push({ back: circle })
  let deep: unknown[] = []
  for (let depth = 0; depth < 100_000; depth++) deep = [deep]
  const fail = (what: unknown) => ({
    get b(): never {
      throw what
    },
  })
  const toJSON = () => {
    throw new Error('in toJSON')
  }
  const events: [string, object, RegExp][] = [
    ['/n', { a: 1, n: 1n }, /BigInt/],
    ['/a/1/n~1m', { a: [1, { 'n/m': 1n }] }, /BigInt/],
    ['/a/1/back', circle, /circular/],
    ['/a/b', { a: fail(new Error('in a getter')) }, /in a getter/],
    ['/a/b', { a: fail(Object.create(null)) }, /not an Error/],
    ['/a/0', { a: [{ toJSON }] }, /in toJSON/],
    ['', { a: 1, toJSON }, /in toJSON/],
    ['/when', { when: { toJSON: new Date(Number.NaN).toISOString } }, /./],
    ['', new Proxy({}, { ownKeys: () => fail(new Error('in a trap')).b }), /in a trap/],
    ['', new Proxy({}, { get: () => fail(new Error('in a trap')).b }), /in a trap/],
  ]
  for (const [path, event, message] of events) {
    const issues = [{ code: 'invalid_type', path }]
    t.throws(() => serialize(event as never), { name: 'IngestError', code: 'invalid-argument', message, issues }, path)
  }
  t.throws(() => serialize({ deep } as never), { name: 'IngestError', code: 'invalid-argument', message: /\/deep\/0/ })
})

t.test('objects that JSON would write without their content throw', async (t) => {
  const events: [string, unknown][] = [
    ['Map', new Map([['type', 'a']])],
    ['Set', new Set(['a'])],
    ['Promise', Promise.resolve({ type: 'a' })],
    ['Error', new Error('a')],
    ['RegExp', /a/],
  ]
  for (const [name, event] of events) {
    t.throws(() => serialize(event as never), { code: 'invalid-argument', message: name }, name)
  }
  for (const event of [
    new Date(0),
    new Date(Number.NaN),
    () => ({}),
    Symbol('a'),
    1n,
    Object('a'),
    new URL('http://a/'),
    { toJSON: () => undefined },
    { toJSON: () => [] },
    { toJSON: () => 'a' },
  ]) {
    t.throws(() => serialize(event as never), { code: 'invalid-argument', message: /An event must be an object/ })
  }
  t.strictSame(serialize({} as never), ['made', '{"projectId":"game-1","eventId":"made"}'])
})

t.test('bytes of another realm are bytes; any other binary data throws', async (t) => {
  const text = '{"type":"vm","n":9007199254740993}'
  const bytes = vm.runInNewContext('Uint8Array.from(codes)', { codes: [...Buffer.from(text)] })
  t.notOk(bytes instanceof Uint8Array)
  t.strictSame(serialize(bytes as never), ['made', `{"projectId":"game-1","eventId":"made",${text.slice(1)}`])
  const binary = [
    new Float64Array([1.5]),
    new Uint16Array([1]),
    new BigInt64Array([1n]),
    new Uint8ClampedArray(Buffer.from(text)),
    new DataView(new ArrayBuffer(4)),
    new ArrayBuffer(4),
    new SharedArrayBuffer(4),
    vm.runInNewContext('new Float64Array(1)'),
    vm.runInNewContext('new ArrayBuffer(4)'),
  ]
  for (const value of binary) {
    t.throws(() => serialize(value as never), { code: 'invalid-argument', message: value.constructor.name })
  }
})

t.test('unusual values are serialized as the table of clients/README.md says', async (t) => {
  let deep: unknown = 0
  for (let level = 0; level < 40; level++) deep = [deep]
  const values: [value: unknown, text: string][] = [
    ['\ud800', '"\\ud800"'],
    [-0, '0'],
    [[Number.NaN, Number.POSITIVE_INFINITY, Number('1e400')], '[null,null,null]'],
    [deep, '['.repeat(40) + 0 + ']'.repeat(40)],
    [new Date(0), '"1970-01-01T00:00:00.000Z"'],
    [[Buffer.from([7]), new Uint8Array([7])], '[{"type":"Buffer","data":[7]},{"0":7}]'],
    [[new Set([1]), new Map([[1, 2]])], '[{},{}]'],
    [[[], {}], '[[],{}]'],
    [[null, undefined], '[null,null]'],
  ]
  for (const [value, expected] of values) t.equal(memberOf({ value }), expected)
  t.strictSame(memberOf({ value: undefined }), undefined)
  for (const number of ['1e400', '-0', '9007199254740993'])
    t.equal(memberOf(Buffer.from(`{"value":${number}}`)), number)

  for (let level = 0; level < 100_000; level++) deep = [deep]
  const itself: unknown[] = []
  itself.push(itself)
  for (const value of [deep, itself, 2n ** 53n + 1n]) {
    t.throws(() => memberOf({ value }), { code: 'invalid-argument', issues: [{ path: /^\/value/ }] })
  }
  t.throws(() => serialize({ eventId: '\ud800' } as never), { code: 'invalid-argument' })

  /** The text of the member `value`, the last one. */
  function memberOf(event: object): string | undefined {
    return /"value":(.*)\}$/.exec(serialize(event as never)[1] as string)?.[1]
  }
})

t.test('the input is not changed, and later changes have no effect', async (t) => {
  const event = { list: [1], inner: { a: 1 } }
  Object.freeze(event)
  const { bytes } = serializeEvent(event, { projectId: 'p', makeEventId: () => 'e' })
  event.list.push(2)
  t.equal(bytes.toString(), '{"projectId":"p","eventId":"e","list":[1],"inner":{"a":1}}')
  t.strictSame(event, { list: [1, 2], inner: { a: 1 } })
  const given = Buffer.from('{"eventId":"e",\n"projectId":"p"}')
  const copy = Buffer.from(given)
  const fromBytes = serializeEvent(given, { projectId: 'p', makeEventId: () => '' }).bytes
  t.ok(given.equals(copy))
  given.fill(0)
  t.match(fromBytes.toString(), 'eventId')
})

t.test('members that are there are kept, in any spelling', async (t) => {
  for (const text of ['{"eventId":null}', '{"\\u0065ventId":7}', '{\n"eventId" : "x"}']) {
    t.equal(addMissingMembers(Buffer.from(text), JSON.parse(text), { eventId: 'e' }).toString(), text)
  }
})

const uuidv7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const timeOf = (id: string) => Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)

t.test('an id is a UUIDv7 of the current time', async (t) => {
  const before = Date.now()
  const id = createEventIds()()
  t.match(id, uuidv7)
  t.ok(timeOf(id) >= before && timeOf(id) <= Date.now())
})

t.test('any number of ids of one millisecond are distinct and in order', async (t) => {
  const makeEventId = createEventIds(() => 1_763_000_000_000.75)
  const ids = Array.from({ length: 10_000 }, makeEventId)
  t.ok(ids.every((id) => uuidv7.test(id)))
  t.strictSame(ids, [...new Set(ids)].sort())
  t.equal(timeOf(ids[0] ?? ''), 1_763_000_000_000)
  t.equal(timeOf(ids[2000] ?? ''), 1_763_000_000_000)
})

t.test('ids keep their order when the clock steps back', async (t) => {
  const times = [5000, 4000, 4999, 5000, 6000]
  const makeEventId = createEventIds(() => times.shift() ?? 0)
  const ids = Array.from({ length: 5 }, makeEventId)
  t.strictSame(ids, [...ids].sort())
  t.strictSame(ids.map(timeOf), [5000, 5000, 5000, 5000, 6000])
})

t.test('two generators do not generate the same ids', async (t) => {
  const [one, other] = [createEventIds(() => 1), createEventIds(() => 1)]
  t.equal(new Set(Array.from({ length: 1000 }, () => [one(), other()]).flat()).size, 2000)
})

const ofBytes = (bytes: number) => ({ bytes: Buffer.from(`"${'x'.repeat(bytes - 2)}"`) })

t.test('a batch has the bytes of its events, in their order', async (t) => {
  const { body, count } = fillBatch(['{"a":"é"}', '{ }'].map((text) => ({ bytes: Buffer.from(text) })))
  t.equal(body.toString(), '{"events":[{"a":"é"},{ }]}')
  t.equal(count, 2)
})

t.test('a batch has at most 100 events', async (t) => {
  t.equal(fillBatch(Array(100).fill(ofBytes(2))).count, 100)
  t.equal(fillBatch(Array(101).fill(ofBytes(2))).count, 100)
  t.notOk(isBatchFull(99, 99 * 2))
  t.ok(isBatchFull(100, 200))
})

t.test('a batch has at most 262,144 bytes, including its envelope', async (t) => {
  t.equal(fillBatch([ofBytes(eventBytesMax)]).body.length, batchBytesMax)
  const half = (eventBytesMax - 1) / 2
  t.strictSame([half, eventBytesMax], [131_065, 262_131])
  const exact = fillBatch([ofBytes(half), ofBytes(half)])
  t.strictSame([exact.count, exact.body.length], [2, batchBytesMax])
  const over = fillBatch([ofBytes(half), ofBytes(half + 1), ofBytes(2)])
  t.strictSame([over.count, over.body.length], [1, half + 13])
  t.ok(isBatchFull(2, half + half))
  t.notOk(isBatchFull(2, half + half - 3))
})

t.test('a random batch is as full as its limits allow', async (t) => {
  const sizes = fc.oneof(
    ...[10, 5000, 200_000].map((max) => fc.array(fc.integer({ min: 2, max }), { minLength: 1, maxLength: 150 })),
  )
  fc.assert(
    fc.property(sizes, (sizes) => {
      const events = sizes.map(ofBytes)
      const { body, count } = fillBatch(events)
      const next = events[count]
      t.ok(count >= 1 && count <= 100 && body.length <= batchBytesMax)
      if (count < 100 && next) t.ok(body.length + 1 + next.bytes.length > batchBytesMax)
      t.equal(JSON.parse(body.toString()).events.length, count)
    }),
    { numRuns: 100 },
  )
})

const rejection = (index: number) => ({ index, eventId: null, issues: [] })

t.test('a result has one outcome for each event', async (t) => {
  const valid: [BatchResult, count: number][] = [
    [{ accepted: 2, duplicates: 1, rejected: [rejection(0), rejection(4)] }, 5],
    [{ accepted: 0, duplicates: 0, rejected: [] }, 0],
  ]
  for (const [result, count] of valid) t.equal(checkResult(result, count), result)
  const invalid: [BatchResult, count: number][] = [
    [{ accepted: 2, duplicates: 1, rejected: [] }, 5],
    [{ accepted: 2, duplicates: 1, rejected: [rejection(1), rejection(1)] }, 5],
    [{ accepted: 2, duplicates: 1, rejected: [rejection(1), rejection(1)] }, 4],
    ...[-1, 5, 0.5].map((index): [BatchResult, number] => [
      { accepted: 4, duplicates: 0, rejected: [rejection(index)] },
      5,
    ]),
    [{ accepted: 4, duplicates: 0, rejected: [{ ...rejection(0), issues: 'none' as never }] }, 5],
  ]
  for (const [result, count] of invalid) t.throws(() => checkResult(result, count), { code: 'unexpected-response' })
})
