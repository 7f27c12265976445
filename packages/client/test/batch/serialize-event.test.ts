import type { IngestError } from '@ingest/core'
import t from 'tap'
import { createEventIds } from '../../src/batch/event-ids.ts'
import { addMissingMembers, serializeEvent, toSingleLine } from '../../src/batch/serialize-event.ts'

const serialize = (event: never) => {
  const { eventId, bytes } = serializeEvent(event, 'game-1', () => 'made')
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
  const { bytes } = serializeEvent(Buffer.from(' {"a":"{"}'), 'p', () => 'e')
  t.strictSame(JSON.parse(bytes.toString()), { projectId: 'p', eventId: 'e', a: '{' })
})

t.test('input bytes are not changed', async (t) => {
  const given = Buffer.from('{"eventId":"e",\n"projectId":"p"}')
  const copy = Buffer.from(given)
  const { bytes } = serializeEvent(given, 'p', () => '')
  t.ok(given.equals(copy))
  given.fill(0)
  t.match(bytes.toString(), 'eventId')
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

function failure(run: () => unknown): IngestError {
  try {
    run()
  } catch (error) {
    return error as IngestError
  }
  throw new Error('nothing was thrown')
}

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
    const error = failure(() => serialize(event as never))
    t.match(error, { name: 'IngestError', code: 'invalid-argument', message }, path)
    t.strictSame(
      error.issues?.map(({ code, path }) => [code, path]),
      [['invalid_type', path]],
    )
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

t.test('the object is not changed, and later changes have no effect', async (t) => {
  const event = { list: [1], inner: { a: 1 } }
  Object.freeze(event)
  const { bytes } = serializeEvent(event, 'p', () => 'e')
  event.list.push(2)
  event.inner.a = 2
  t.equal(bytes.toString(), '{"projectId":"p","eventId":"e","list":[1],"inner":{"a":1}}')
  t.strictSame(event, { list: [1, 2], inner: { a: 2 } })
})

const add = (text: string, members: object) =>
  addMissingMembers(Buffer.from(text), JSON.parse(text), { ...members }).toString()

t.test('addMissingMembers prepends missing members and keeps the rest', async (t) => {
  t.equal(add('{ "n": 1.0 }', { projectId: 'p', eventId: 'e' }), '{"projectId":"p","eventId":"e", "n": 1.0 }')
  t.equal(add('{"eventId":"x"}', { projectId: 'p', eventId: 'e' }), '{"projectId":"p","eventId":"x"}')
  t.equal(add('{ }', { eventId: 'e' }), '{"eventId":"e" }')
  t.equal(add('{"a":"{"}', { b: 1 }), '{"b":1,"a":"{"}')
})

t.test('existing members are kept, in any spelling', async (t) => {
  for (const text of ['{"eventId":null}', '{"\\u0065ventId":7}', '{\n"eventId" : "x"}']) {
    t.equal(add(text, { eventId: 'e' }), text)
  }
})

t.test('toSingleLine copies, with spaces for line breaks', async (t) => {
  const text = Buffer.from('{\r\n\t"a" : "\\n"\n}')
  t.equal(toSingleLine(text).toString(), '{  \t"a" : "\\n" }')
  t.equal(text[1], 0x0d)
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
