import t from 'tap'
import { batchOf } from '../../../checks/src/store/sample-events.ts'
import type { BatchInput, BatchResult } from '../../src/events/batch.ts'
import { compileEventSchemas, type EventSchemas } from '../../src/events/event-schemas.ts'
import { createRecentOutcomes } from '../../src/events/recent-outcomes.ts'
import { submitBatch } from '../../src/events/submit-batch.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'

const recent = createRecentOutcomes({ now: () => 1_000, startedAt: 0, serverCount: () => 1, keepEvents: false })

function setUp(schemas: EventSchemas = {}, store = openMemoryStore()) {
  const checkBySchema = compileEventSchemas(schemas)
  const context = { store, hashKey: Buffer.alloc(16), checkBySchema, now: () => 1_000, recent }
  return {
    store,
    /** Submits events, each as JSON or as a value, or a whole batch. */
    submit: (batch: readonly unknown[] | Uint8Array | BatchInput<unknown>, admit: (count: number) => void = () => {}) =>
      submitBatch(context, 'p', Array.isArray(batch) ? bodyOf(batch) : (batch as Uint8Array), { admit }),
    async stored(): Promise<string[]> {
      const texts: string[] = []
      for await (const { bytes } of store.read('p')) texts.push(Buffer.from(bytes).toString())
      return texts
    },
  }
}

function bodyOf(events: readonly unknown[]): Uint8Array {
  return Buffer.from(`{"events":[${events.map((each) => (typeof each === 'string' ? each : JSON.stringify(each)))}]}`)
}

const event = (eventId: string, members: object = {}) => JSON.stringify({ projectId: 'p', eventId, ...members })
const invalid = (eventId: string) => event(eventId, { buildId: 5 })
const outcome = ({ accepted, duplicates, rejected }: BatchResult) => [
  accepted,
  duplicates,
  rejected.map(({ index }) => index),
]

t.test('new events are accepted, and the same batch again is all duplicates', async (t) => {
  const { submit, stored } = setUp()
  const body = bodyOf([event('a'), event('b', { buildId: 'x' })])
  t.match(await submit(body), { result: { accepted: 2, duplicates: 0, rejected: [] }, conflicts: 0, frozen: ['x'] })
  t.match(await submit(body), { result: { accepted: 0, duplicates: 2, rejected: [] }, conflicts: 0, frozen: [] })
  t.strictSame(await stored(), [event('a'), event('b', { buildId: 'x' })])
})

t.test('a member that nests too deep is an issue, also where a later one of its name replaces it', async (t) => {
  const deep = `${'['.repeat(32)}${']'.repeat(32)}`
  for (const schemas of [{}, { kill: { required: ['d'] } }]) {
    const { submit, stored } = setUp(schemas)
    const replaced = `{"projectId":"p","eventId":"a","type":"kill","d":${deep},"d":1}`
    const { result } = await submit([replaced, event('b')])
    t.strictSame(outcome(result), [1, 0, [0]])
    t.match(result.rejected, [{ eventId: 'a', issues: [{ code: 'too_deep', path: `/d${'/0'.repeat(31)}` }] }])
    const asValue = { projectId: 'p', eventId: 'c', d: JSON.parse(deep) }
    t.match((await submit({ events: [asValue] })).result.rejected, [{ issues: [{ code: 'too_deep' }] }])
    t.strictSame(await stored(), [event('b')])
  }
})

t.test('an empty batch is a result of zeros', async (t) => {
  const { submit, store } = setUp()
  t.match(await submit([]), { result: { accepted: 0, duplicates: 0, rejected: [] }, conflicts: 0, appendMs: 0 })
  t.match(await store.totals('p'), { events: 0, batches: 0 })
})

t.test('a batch of invalid events is a result, and stores nothing', async (t) => {
  const { submit, store } = setUp()
  const { result } = await submit([invalid('a'), 1, '{}'])
  t.strictSame(outcome(result), [0, 0, [0, 1, 2]])
  t.match(await store.totals('p'), { events: 0, batches: 0 })
})

t.test('an invalid event does not fail the batch', async (t) => {
  const { submit, stored } = setUp()
  const { result } = await submit([event('a'), invalid('b'), event('c')])
  t.strictSame(outcome(result), [2, 0, [1]])
  t.strictSame(await stored(), [event('a'), event('c')])
})

t.test('a rejected entry has its index, its eventId and its issues', async (t) => {
  const { submit } = setUp()
  const { result } = await submit([event('a'), event('e-17', { buildId: 5 }), { projectId: 'p' }])
  t.strictSame(result.rejected, [
    { index: 1, eventId: 'e-17', issues: [{ code: 'invalid_type', path: '/buildId', message: 'Expected a string.' }] },
    {
      index: 2,
      eventId: null,
      issues: [{ code: 'required', path: '/eventId', message: 'Every event needs an eventId.' }],
    },
  ])
})

t.test('rejected entries are in the order of the request', async (t) => {
  const { submit } = setUp()
  const { result } = await submit([invalid('a'), 1, invalid('b'), event('c'), null, invalid('d'), '{}'])
  t.strictSame(outcome(result), [1, 0, [0, 1, 2, 4, 5, 6]])
})

t.test('an event of another project is rejected, even if that project has it', async (t) => {
  const { submit, store } = setUp()
  await store.append('q', batchOf([event('a')]))
  const { result } = await submit([event('a', { projectId: 'q' }), event('a')])
  t.strictSame(outcome(result), [1, 0, [0]])
  t.match(result.rejected, [{ eventId: 'a', issues: [{ code: 'project_mismatch', path: '/projectId' }] }])
})

t.test('a stored id with a foreign projectId is rejected: identity comes first', async (t) => {
  const { submit } = setUp()
  await submit([event('a')])
  t.strictSame(outcome((await submit([event('a', { projectId: 'q' })])).result), [0, 0, [0]])
})

t.test('an event with a stored id is a duplicate, whatever else it has', async (t) => {
  const { submit, stored } = setUp()
  await submit([event('a'), event('b')])
  const { result } = await submit([invalid('a'), invalid('new'), event('b', { type: '' }), event('c')])
  t.strictSame(outcome(result), [1, 2, [1]])
  t.strictSame(await stored(), [event('a'), event('b'), event('c')])
})

t.test('a retry has the same result after a schema became stricter', async (t) => {
  const { submit, store } = setUp()
  const batch = [event('a', { type: 'kill' })]
  await submit(batch)
  const stricter = setUp({ kill: { required: ['weapon'] } }, store)
  t.strictSame(outcome((await stricter.submit(batch)).result), [0, 1, []])
  t.strictSame(outcome((await stricter.submit([event('b', { type: 'kill' })])).result), [0, 0, [0]])
})

t.test('a retry has duplicates for the stored events, and the same rejections', async (t) => {
  const { submit } = setUp()
  const batch = [event('a'), invalid('b'), event('c'), 7]
  const first = await submit(batch)
  const second = await submit(batch)
  t.strictSame(outcome(first.result), [2, 0, [1, 3]])
  t.strictSame(outcome(second.result), [0, 2, [1, 3]])
  t.strictSame(second.result.rejected, first.result.rejected)
})

t.test('within a batch the first valid event of an id is stored, and later ones are duplicates', async (t) => {
  const { submit, stored } = setUp()
  const { result, conflicts } = await submit([
    event('a', { n: 1 }),
    event('a', { n: 2 }),
    event('b'),
    event('a', { n: 1 }),
  ])
  t.strictSame(outcome(result), [2, 2, []])
  t.equal(conflicts, 0, 'a repeat within the batch is not compared')
  t.strictSame(await stored(), [event('a', { n: 1 }), event('b')])
})

t.test('an invalid event before a valid one with its id is rejected, and the valid one is stored', async (t) => {
  const { submit, stored } = setUp()
  t.strictSame(outcome((await submit([invalid('a'), event('a')])).result), [1, 0, [0]])
  t.strictSame(await stored(), [event('a')])
})

t.test(
  'an invalid event behind a valid one with its id is rejected: only an earlier batch makes it a duplicate',
  async (t) => {
    const { submit, stored } = setUp()
    t.strictSame(outcome((await submit([event('a'), invalid('a')])).result), [1, 0, [1]])
    t.strictSame(await stored(), [event('a')])
    t.strictSame(outcome((await submit([event('a'), invalid('a')])).result), [0, 2, []])
  },
)

t.test('duplicates and rejected events freeze nothing, stored ones freeze their build', async (t) => {
  const { submit, store } = setUp()
  const frozen = (buildId: string) => store.map({ projectId: 'p', placeId: 'x', buildId })
  await submit([event('a'), event('a', { buildId: 'repeat' }), event('b', { buildId: 'rejected', type: '' })])
  await submit([event('a', { buildId: 'duplicate' }), event('c', { buildId: 'stored' })])
  for (const buildId of ['repeat', 'rejected', 'duplicate']) t.strictSame(await frozen(buildId), {}, buildId)
  t.strictSame(await frozen('stored'), { frozenAt: 1_000 })
})

t.test('duplicates with other content are counted as conflicts, and change nothing', async (t) => {
  const { submit, stored } = setUp()
  await submit([event('a', { n: 1 }), event('b')])
  t.equal((await submit([event('a', { n: 1 }), event('b')])).conflicts, 0)
  t.equal((await submit([event('a', { n: 2 }), event('b')])).conflicts, 1)
  t.strictSame(await stored(), [event('a', { n: 1 }), event('b')])
})

t.test('events are stored byte for byte, next to rejected ones and repeats', async (t) => {
  const { submit, stored } = setUp()
  const odd = [
    '{ "projectId" : "p",\n"eventId":"a", "n":12345678901234567890, "x":1.0 }',
    '{"eventId":"\\u0062","projectId":"\\u0070","a":1,"a":2,"__proto__":{"eventId":"z"}}',
  ]
  const { result } = await submit([invalid('x'), odd[0], event('a'), 'null', odd[1]])
  t.strictSame(outcome(result), [2, 1, [0, 3]])
  t.strictSame(await stored(), odd)
})

t.test('members called __proto__ do not identify an event', async (t) => {
  const { submit } = setUp()
  const { result } = await submit([
    '{"__proto__":{"projectId":"p","eventId":"a"}}',
    '{"projectId":"p","eventId":"__proto__"}',
  ])
  t.strictSame(outcome(result), [1, 0, [0]])
})

t.test('a batch may be an object', async (t) => {
  const { submit, stored } = setUp()
  const { result } = await submit({ events: [{ projectId: 'p', eventId: 'a', at: new Date(0) }, undefined] })
  t.strictSame(outcome(result), [1, 0, [1]])
  t.strictSame(await stored(), ['{"projectId":"p","eventId":"a","at":"1970-01-01T00:00:00.000Z"}'])
})

t.test('a batch of 100 events is stored', async (t) => {
  const { submit, stored } = setUp()
  const events = Array.from({ length: 100 }, (_, i) => event(`e-${i}`))
  t.strictSame(outcome((await submit(events)).result), [100, 0, []])
  t.strictSame(await stored(), events)
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

t.test('a batch is admitted with the number of its events, valid or not, before they are checked', async (t) => {
  const steps: unknown[] = []
  const store = openMemoryStore()
  const context = {
    store,
    hashKey: Buffer.alloc(16),
    checkBySchema: () => {
      steps.push('checked')
      return []
    },
    now: () => 0,
    recent,
  }
  await submitBatch(context, 'p', bodyOf([event('a'), 1]), { admit: (count) => void steps.push(count) })
  t.strictSame(steps, [2, 'checked'])
})

t.test('a batch that is not admitted is not stored, and rejects with the error of admit', async (t) => {
  const { submit, store } = setUp()
  const error = new Error('slow down')
  const submitted = submit([event('a')], () => {
    throw error
  })
  t.equal(await submitted.catch((thrown: unknown) => thrown), error)
  t.match(await store.totals('p'), { events: 0 })
})

t.test('an error of the store is passed on', async (t) => {
  const { submit, store } = setUp()
  await store.close()
  await t.rejects(submit([event('a')]), { code: 'store-closed' })
  await t.rejects(submit([invalid('a')]), { code: 'store-closed' })
})

t.test('concurrent batches with one id accept it once', async (t) => {
  const { submit } = setUp()
  const reports = await Promise.all(Array.from({ length: 16 }, () => submit([event('a'), invalid('b')])))
  t.equal(
    reports.reduce((sum, { result }) => sum + result.accepted, 0),
    1,
  )
  t.equal(
    reports.reduce((sum, { result }) => sum + result.duplicates, 0),
    15,
  )
})
