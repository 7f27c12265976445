import t from 'tap'
import { Type } from 'typebox'
import { batchOf } from '../../../checks/src/store/sample-events.ts'
import { createActivityCounter } from '../../src/activity/activity-counter.ts'
import type { BatchInput, BatchResult } from '../../src/events/batch.ts'
import { compileEventSchemas, type EventSchemas } from '../../src/events/event-schemas.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'
import { submitBatch } from '../../src/submit/submit-batch.ts'

const counter = createActivityCounter({
  ...{ store: openMemoryStore(), now: () => 1_000, server: 's', keepEvents: false },
  onError(error) {
    throw error
  },
})

function setUp(schemas: EventSchemas = {}, store = openMemoryStore()) {
  const checkBySchema = compileEventSchemas(schemas)
  const context = { store, hashKey: Buffer.alloc(16), checkBySchema, now: () => 1_000, counter }
  return {
    store,
    context,
    /** Submits events, each as JSON or as a value, or a whole batch. */
    submit: (batch: readonly unknown[] | Uint8Array | BatchInput<unknown>, admit: (count: number) => void = () => {}) =>
      submitBatch(context, 'p', Array.isArray(batch) ? bodyOf(batch) : (batch as Uint8Array), { admit }),
    async stored(): Promise<string[]> {
      const texts: string[] = []
      for await (const page of store.read('p')) for (const { bytes } of page) texts.push(Buffer.from(bytes).toString())
      return texts
    },
  }
}

function bodyOf(events: readonly unknown[]): Uint8Array {
  return Buffer.from(`{"events":[${events.map((each) => (typeof each === 'string' ? each : JSON.stringify(each)))}]}`)
}

const event = (eventId: string, members: object = {}) => JSON.stringify({ projectId: 'p', eventId, ...members })
const outcome = ({ accepted, duplicates, rejected }: BatchResult) => [
  accepted,
  duplicates,
  rejected.map(({ index }) => index),
]
const codesOf = (issues: readonly { code: string; path: string }[] = []) =>
  issues.map(({ code, path }) => `${code} ${path}`)

type Submitted = [events: string, accepted: number, duplicates: number, rejected: number[]]

/** Batches sent one after another, and the ids stored in the end: `a` is an event, `!a` an invalid one. */
const histories: [fact: string, stored: string[], ...batches: Submitted[]][] = [
  ['an empty batch is a result', [], ['', 0, 0, []]],
  ['a batch of invalid events is a result', [], ['!a 1 {}', 0, 0, [0, 1, 2]]],
  ['rejected events are in the order of the request', ['c'], ['!a 1 !b c null !d {}', 1, 0, [0, 1, 2, 4, 5, 6]]],
  ['a retry has the same result', ['a', 'c'], ['a !b c 7', 2, 0, [1, 3]], ['a !b c 7', 0, 2, [1, 3]]],
  ['a stored id is a duplicate', ['a', 'b', 'c'], ['a b', 2, 0, []], ['!a !new b c', 1, 2, [1]]],
  ['a repeat is a duplicate', ['a', 'b'], ['a a b a', 2, 2, []]],
  ['an invalid event before a valid one with its id is rejected', ['a'], ['!a a', 1, 0, [0]]],
  ['an invalid event after a valid one with its id is rejected too', ['a'], ['a !a', 1, 0, [1]], ['a !a', 0, 2, []]],
  ['invalid events with one id are all rejected', [], ['!a !a', 0, 0, [0, 1]]],
  ['similar ids are different', ['a', 'A', '\u00e9', 'e\u0301', '01'], ['a A \u00e9 e\u0301 01', 5, 0, []]],
]

t.test('each event of a batch is accepted, a duplicate or rejected', async (t) => {
  for (const [fact, ids, ...batches] of histories) {
    const { submit, store, stored } = setUp()
    for (const [names, ...expected] of batches) {
      const events = names.split(' ').map((name) => {
        if (['', '1', '7', 'null', '{}'].includes(name)) return name
        return name.startsWith('!') ? event(name.slice(1), { buildId: 5 }) : event(name)
      })
      t.strictSame(outcome((await submit(events)).result), expected, fact)
    }
    t.strictSame(
      (await stored()).map((text) => JSON.parse(text).eventId),
      ids,
      fact,
    )
    if (ids.length === 0) t.match(await store.totals('p'), { events: 0, batches: 0 }, fact)
  }
})

t.test('the first event of an id is stored, and another content in a later batch is a conflict', async (t) => {
  const { submit, stored } = setUp()
  const events = [event('a', { n: 1 }), event('b')]
  const first = await submit([...events, event('a', { n: 2 }), '7'])
  const storedBytes = events.join('').length
  t.match(first, { conflicts: 0, storedBytes }, 'a repeat within the batch is not compared')
  t.match(await submit(events), { conflicts: 0, storedBytes: 0, appendMs: Number })
  t.match(await submit([event('a', { n: 2 }), event('b')]), { conflicts: 1, frozen: { length: 0 } })
  t.match(await submit([]), { storedBytes: 0, appendMs: 0 })
  t.strictSame(await stored(), [event('a', { n: 1 }), event('b')])
})

t.test('a rejected entry has its index, its eventId if that is valid, and its issues', async (t) => {
  const rejected: [event: unknown, eventId: string | null, ...issues: string[]][] = [
    [1, null, 'not_object '],
    [null, null, 'not_object '],
    [[], null, 'not_object '],
    [{}, null, 'required /eventId', 'required /projectId'],
    ['{"__proto__":{"projectId":"p","eventId":"a"}}', null, 'required /eventId', 'required /projectId'],
    [{ projectId: 'p', eventId: 5 }, null, 'invalid_type /eventId'],
    [{ eventId: 'b\n' }, null, 'invalid_format /eventId', 'required /projectId'],
    // identity comes first: other rules are not checked, and what is stored does not matter
    [{ projectId: 'q', eventId: 'stored', buildId: 5 }, 'stored', 'project_mismatch /projectId'],
    [
      { projectId: 'p', eventId: 'e', buildId: 5, placeId: true },
      'e',
      'invalid_type /buildId',
      'invalid_type /placeId',
    ],
  ]
  const { submit, store } = setUp()
  for (const projectId of ['p', 'q']) await store.append(projectId, batchOf([event('stored')]))
  const { result } = await submit(rejected.map(([event]) => event))
  t.strictSame(
    result.rejected.map(({ index, eventId, issues }) => [rejected[index]?.[0], eventId, ...codesOf(issues)]),
    rejected,
  )
  t.strictSame((await submit([{ projectId: 'p' }])).result.rejected, [
    {
      index: 0,
      eventId: null,
      issues: [{ code: 'required', path: '/eventId', message: 'Every event needs an eventId.' }],
    },
  ])
})

t.test('an invalid event has the issues of its fields and then of its schema, at most 20', async (t) => {
  const names = Array.from({ length: 30 }, (_, i) => `m${i}`)
  const many = Type.Object(Object.fromEntries(names.map((name) => [name, Type.String()])))
  const restricting = { required: ['buildId'], properties: { placeId: { type: 'string' } } }
  const { submit } = setUp({ kill: Type.Object({ weapon: Type.String() }), many, restricting })
  const { result } = await submit([
    event('a', { type: 'kill', buildId: 1 }),
    event('b', { type: 'kill', weapon: 'x' }),
    event('c', { type: 'restricting', placeId: 1 }),
    event('d', { type: 'many', buildId: 1, placeId: true }),
  ])
  t.strictSame(outcome(result), [1, 0, [0, 2, 3]])
  const [a, c, d] = result.rejected.map(({ issues }) => codesOf(issues))
  t.strictSame(a, ['invalid_type /buildId', 'required /weapon'])
  t.strictSame(c?.sort(), ['invalid_type /placeId', 'required /buildId'])
  t.equal(d?.length, 20)
  t.strictSame(d?.slice(0, 3), ['invalid_type /buildId', 'invalid_type /placeId', 'required /m0'])
})

t.test('an event that nests too deeply is not checked by a schema, which may be recursive', async (t) => {
  const node = { type: 'object', properties: { child: { $ref: 'node' } } }
  const { submit, stored } = setUp({ tree: { $defs: { node: { $id: 'node', ...node } }, $ref: 'node' } })
  const tree = (eventId: string, child: string) => `${event(eventId, { type: 'tree' }).slice(0, -1)},${child}}`
  const deep = `${'{"child":'.repeat(32)}1${'}'.repeat(32)}`
  const { result } = await submit([
    tree('a', `"child":${'{"child":'.repeat(25_000)}1${'}'.repeat(25_000)}`),
    tree('b', '"child":{"child":1}'),
    tree('replaced', `"child":${deep},"child":{}`),
    event('c'),
  ])
  const tooDeep = [`too_deep /child${'/child'.repeat(31)}`]
  t.strictSame(
    result.rejected.map(({ issues }) => codesOf(issues)),
    [tooDeep, ['invalid_type /child/child'], tooDeep],
  )
  const asValue = { projectId: 'p', eventId: 'd', child: JSON.parse(deep) }
  t.match((await submit({ events: [asValue] })).result.rejected, [{ issues: [{ code: 'too_deep' }] }])
  t.strictSame(await stored(), [event('c')])
})

t.test('a retry has the same result after a schema became stricter', async (t) => {
  const { submit, store } = setUp()
  const batch = [event('a', { type: 'kill' })]
  await submit(batch)
  const stricter = setUp({ kill: { required: ['weapon'] } }, store)
  t.strictSame(outcome((await stricter.submit(batch)).result), [0, 1, []])
  t.strictSame(outcome((await stricter.submit([event('b', { type: 'kill' })])).result), [0, 0, [0]])
})

t.test('duplicates and rejected events freeze nothing, stored ones freeze their build', async (t) => {
  const { submit, store } = setUp()
  const frozen = (buildId: string) => store.map({ projectId: 'p', placeId: 'x', buildId })
  await submit([event('a'), event('a', { buildId: 'repeat' }), event('b', { buildId: 'rejected', type: '' })])
  t.match(await submit([event('a', { buildId: 'duplicate' }), event('c', { buildId: 'stored' })]), {
    frozen: ['stored'],
  })
  for (const buildId of ['repeat', 'rejected', 'duplicate']) t.strictSame(await frozen(buildId), {}, buildId)
  t.strictSame(await frozen('stored'), { frozenAt: 1_000 })
})

t.test('events are stored byte for byte, next to rejected ones and repeats', async (t) => {
  const { submit, stored } = setUp()
  const odd = [
    '{ "projectId" : "p",\n"eventId":"a", "n":12345678901234567890, "x":1.0 }',
    '{"eventId":"\\u0062","projectId":"\\u0070","a":1,"a":2,"__proto__":{"eventId":"z"}}',
  ]
  const { result } = await submit([event('x', { type: 5 }), odd[0], event('a'), 'null', odd[1]])
  t.strictSame(outcome(result), [2, 1, [0, 3]])
  const asObject = await submit({ events: [{ projectId: 'p', eventId: 'c', at: new Date(0) }, undefined] })
  t.strictSame(outcome(asObject.result), [1, 0, [1]])
  t.strictSame(await stored(), [...odd, '{"projectId":"p","eventId":"c","at":"1970-01-01T00:00:00.000Z"}'])
})

t.test('a batch that is not well-formed stores nothing and is not admitted', async (t) => {
  const { submit, store } = setUp()
  const admitted: number[] = []
  const tooMany = bodyOf(Array.from({ length: 101 }, (_, i) => event(`e-${i}`)))
  const tooLarge = bodyOf([event('a', { fill: 'x'.repeat(262_144) })])
  const notUtf8 = Buffer.from('{"events":[{"projectId":"p","eventId":"a","text":"\xff"}]}', 'latin1')
  for (const [body, code] of [
    [Buffer.from(`{"events":[${event('a')}`), 'malformed-body'],
    [notUtf8, 'malformed-body'],
    [Buffer.from(`[${event('a')}]`), 'invalid-envelope'],
    [tooMany, 'too-many-events'],
    [tooLarge, 'batch-too-large'],
  ] as const) {
    await t.rejects(
      submit(body, (count) => admitted.push(count)),
      { name: 'IngestError', code },
    )
  }
  t.strictSame(admitted, [])
  t.match(await store.totals('p'), { events: 0 })
})

t.test('a batch is admitted with the number of its events before they are checked, or not stored', async (t) => {
  const steps: unknown[] = []
  const { context, submit, store } = setUp()
  const checkBySchema = () => {
    steps.push('checked')
    return []
  }
  const admit = (count: number) => void steps.push(count)
  await submitBatch({ ...context, checkBySchema }, 'p', bodyOf([event('a'), 1]), { admit })
  t.strictSame(steps, [2, 'checked'])
  const error = new Error('slow down')
  const refuse = () => {
    throw error
  }
  t.equal(await submit([event('b')], refuse).catch((thrown: unknown) => thrown), error)
  t.match(await store.totals('p'), { events: 1 })
})

t.test('an error of the store is passed on', async (t) => {
  const { submit, store } = setUp()
  await store.close()
  await t.rejects(submit([event('a')]), { code: 'store-closed' })
  await t.rejects(submit([event('a', { type: 5 })]), { code: 'store-closed' })
})

t.test('concurrent batches with one id accept it once', async (t) => {
  const { submit } = setUp()
  const reports = await Promise.all(Array.from({ length: 16 }, () => submit([event('a'), event('b', { type: 5 })])))
  const sum = (count: (result: BatchResult) => number) => reports.reduce((sum, { result }) => sum + count(result), 0)
  t.equal(
    sum(({ accepted }) => accepted),
    1,
  )
  t.equal(
    sum(({ duplicates }) => duplicates),
    15,
  )
})
