import t from 'tap'
import type { TSchema } from 'typebox'
import Schemas from 'typebox/schema'
import {
  Activity,
  BatchResult,
  fromWire,
  isBody,
  MapPage,
  PutChunksResult,
  Rejections,
  Stats,
  toWire,
} from '../src/wire.ts'

const at = Date.UTC(2026, 10, 20, 17, 51, 0, 25)
const time = '2026-11-20T17:51:00.025Z'

t.test('times are RFC 3339 in bodies and milliseconds in values, at any depth; null stays null', async (t) => {
  const contents = { digest: 'd', size: 1, contentType: 'c', chunks: 1, missing: ['d'] }
  const map = { placeId: time, buildId: 'b', state: 'complete', ...contents, frozen: true } as const
  const pageOf = <Time>(published: Time) => ({
    maps: [
      { ...map, publishedAt: published, frozenAt: null, pending: contents },
      { ...map, publishedAt: null, frozenAt: published, pending: null },
    ],
    next: null,
  })
  t.strictSame(toWire(MapPage, pageOf(at)), pageOf(time))
  t.strictSame(fromWire(MapPage, pageOf(time)), pageOf(at))
  const issue = { code: 'required', path: time, message: time } as const
  const rejectionsOf = <Time>(received: Time) => ({
    from: received,
    to: received,
    stepSeconds: 60,
    total: 1,
    steps: [{ at: received, rejected: 1 }],
    groups: [
      {
        ...{
          ...issue,
          buildId: null,
          type: time,
          keyId: time,
          keyName: time,
          count: 1,
          serverIds: [{ serverId: time, count: 1 }],
          counts: [1],
        },
        ...{ firstAt: received, lastAt: received },
        samples: [{ receivedAt: received, eventId: null, issues: [issue], event: time, further: 1 }],
      },
    ],
    other: 0,
  })
  t.strictSame(toWire(Rejections, rejectionsOf(at)), rejectionsOf(time))
  t.strictSame(fromWire(Rejections, rejectionsOf(time)), rejectionsOf(at))
})

t.test('missing members stay missing, and the value itself is not changed', async (t) => {
  const stats = { events: 1, firstAt: time }
  t.strictSame(fromWire(Stats, stats), { events: 1, firstAt: at })
  t.strictSame(stats, { events: 1, firstAt: time })
})

t.test('a body without times is returned as it is', async (t) => {
  const result = { accepted: 1, duplicates: 0, rejected: [] }
  t.equal(toWire(BatchResult, result), result)
  t.equal(fromWire(BatchResult, result), result)
})

/** The body, and the body with each of its values, at any depth, left out or replaced. */
function* variantsOf(body: unknown): Generator<unknown> {
  yield body
  yield* [null, -1, 0, 1.5, 'x', time, true, [], {}]
  if (typeof body !== 'object' || body === null) return
  const entries = Object.entries(body)
  for (const [index, [name, value]] of entries.entries()) {
    const others = entries.toSpliced(index, 1)
    const rebuilt = (members: [string, unknown][]) =>
      Array.isArray(body) ? members.map(([, each]) => each) : Object.fromEntries(members)
    yield rebuilt(others)
    for (const variant of variantsOf(value)) yield rebuilt(entries.with(index, [name, variant]))
  }
}

t.test('isBody agrees with TypeBox, except that it accepts new issue codes', async (t) => {
  const digest = `sha256:${'0a'.repeat(32)}`
  const issue = { code: 'required', path: '/a', message: 'b' }
  const contents = { digest, size: 1, contentType: 'c', chunks: 1, missing: [digest] }
  const map = { placeId: '1', buildId: 'b', state: 'complete', ...contents, frozen: true, publishedAt: time }
  const rejected = { index: 0, eventId: null, issues: [issue] }
  const totals = { events: 1, batches: 1, bytes: 1 }
  const range = { from: time, to: time, stepSeconds: 60 }
  const times = { firstAt: time, lastAt: time, counts: [1] }
  const source = {
    buildId: null,
    type: 'a',
    keyId: null,
    keyName: null,
    count: 1,
    serverIds: [{ serverId: 'b', count: 1 }],
  }
  const group = { ...issue, ...source, ...times, samples: [{ receivedAt: time, eventId: null, issues: [] }] }
  const bodies: [TSchema, object][] = [
    [BatchResult, { accepted: 1, duplicates: 0, rejected: [rejected] }],
    [MapPage, { maps: [{ ...map, frozenAt: null, pending: contents }], next: null }],
    [PutChunksResult, { stored: 1, existing: 0, rejected: [], completed: [{ ...map, outcome: 'created' }] }],
    [Stats, { ...totals, eventsPerSecond: 0.5, firstAt: time, lastAt: null }],
    [Activity, { ...range, servers: 1, steps: [], groups: [{ ...times, name: null, accepted: 1, rejected: 0 }] }],
    [Rejections, { ...range, total: 1, steps: [{ at: time, rejected: 1 }], groups: [group], other: 0 }],
  ]
  for (const [schema, body] of bodies) {
    const exact = Schemas.Compile(schema)
    t.ok(isBody(schema, body))
    for (const variant of variantsOf(body)) {
      const text = JSON.stringify(variant)
      if (/"code":"(?!required)/.test(text)) t.ok(isBody(schema, variant), `a new code: ${text}`)
      else t.equal(isBody(schema, variant), exact.Check(variant), text)
    }
  }
})

t.test('the schema of a list is searched for times once, not for each of its items', async (t) => {
  let searches = 0
  const plain = {
    type: 'object',
    get properties() {
      searches++
      return {}
    },
  }
  const item = { type: 'object', properties: { plain, at: { type: 'string', format: 'date-time' } } }
  const list = { type: 'array', items: item } as unknown as TSchema
  const values = Array.from({ length: 1_000 }, () => ({ plain: {}, at }))
  t.strictSame(
    toWire(list, values as never),
    values.map((value) => ({ ...value, at: time })),
  )
  t.ok(searches < 10)
})
