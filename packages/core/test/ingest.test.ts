import assert from 'node:assert/strict'
import { mock } from 'node:test'
import fc from 'fast-check'
import t from 'tap'
import { Type } from 'typebox'
import { errorCodes, IngestError, type IssueCode } from '../src/error.ts'
import type { BatchResult } from '../src/events/batch.ts'
import { createIngest, type IngestOptions } from '../src/ingest.ts'
import { openMemoryStore } from '../src/memory/memory-store.ts'
import type { Store } from '../src/store.ts'

function setUp(options: Partial<IngestOptions> = {}) {
  const store = openMemoryStore()
  const clock = { now: 1_000_000 }
  const ingest = createIngest({ store, now: () => clock.now, ...options })
  const project = ingest.project('p')
  const submit = (...events: unknown[]) => project.submitBatch(bodyOf(events))
  let count = 0
  return {
    store,
    clock,
    ingest,
    project,
    submit,
    /** Submits a batch of this many new events. */
    submitNew: (events: number) => submit(...Array.from({ length: events }, () => event(`new-${count++}`))),
    async read(): Promise<string[]> {
      const texts: string[] = []
      for await (const { bytes } of project.readEvents()) texts.push(Buffer.from(bytes).toString())
      return texts
    },
    rate: async () => (await project.getStats()).eventsPerSecond,
  }
}

const bodyOf = (events: unknown[]) => Buffer.from(JSON.stringify({ events }))
const event = (eventId: string, members: object = {}) => ({ projectId: 'p', eventId, ...members })
const turn = () => new Promise((resolve) => setImmediate(resolve))
const invalidProjectIds = ['', 'a b', 'é', 'x'.repeat(65), 'a/b', '../p']

t.test('an event is stored with the time of the clock, by default the real one', async (t) => {
  const { ingest, submit, read } = setUp()
  await submit(event('a'))
  t.match(await ingest.project('p').findEvent('a'), { receivedAt: 1_000_000 })
  t.strictSame(await read(), [JSON.stringify(event('a'))])
  const real = createIngest({ store: openMemoryStore() }).project('p')
  const before = Date.now()
  await real.submitBatch({ events: [event('a')] })
  const { receivedAt = 0 } = (await real.findEvent('a')) ?? {}
  t.ok(receivedAt >= before && receivedAt <= Date.now())
})

t.test('an invalid project id, event id or limit is an invalid argument', async (t) => {
  const { ingest, store } = setUp()
  const invalid = { name: 'IngestError', code: 'invalid-argument' }
  for (const projectId of invalidProjectIds) t.throws(() => ingest.project(projectId), invalid, projectId)
  t.throws(() => ingest.project(undefined as never), invalid)
  for (const eventId of ['', 'a\n', '\ud800', 'x'.repeat(257)])
    await t.rejects(ingest.project('p').findEvent(eventId), invalid)
  const project = ingest.project('p')
  for (const limit of [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
    await t.rejects(first(project.readEvents({ limit })), invalid)
  }
  type List = (options: { limit: number }) => Promise<unknown>
  for (const list of [project.listBuilds, project.listMaps] as List[]) {
    for (const limit of [0, 1_001, 1.5, Number.NaN, '5' as never]) await t.rejects(list({ limit }), invalid)
    for (const limit of [1, 1_000]) await list({ limit })
  }
  t.match(await store.totals('p'), { events: 0 })
})

t.test('an invalid store is an invalid argument, such as one that was not awaited', async (t) => {
  for (const store of [undefined, {}, Promise.resolve(openMemoryStore())]) {
    t.throws(() => createIngest({ store: store as never }), { code: 'invalid-argument', message: 'await' })
  }
  t.throws(() => createIngest(undefined as never), { code: 'invalid-argument', message: 'await' })
})

function first(events: AsyncIterable<unknown>): Promise<unknown> {
  return events[Symbol.asyncIterator]().next()
}

t.test('createIngest throws for a schema that does not compile', async (t) => {
  t.throws(() => setUp({ schemas: { kill: { pattern: '(' } } }), { code: 'invalid-argument' })
})

t.test('a batch that is not admitted, at once or later, stores nothing and is not tallied', async (t) => {
  const { ingest, submit, read } = setUp()
  const error = new IngestError('rate-limited', 'Too fast.', { retryAfterSeconds: 1 })
  const counts: number[] = []
  const refuseAtOnce = (count: number) => {
    counts.push(count)
    throw error
  }
  const refuseLater = async (count: number) => {
    await turn()
    refuseAtOnce(count)
  }
  for (const admit of [refuseAtOnce, refuseLater]) {
    for (const body of [bodyOf([event('a')]), bodyOf([event('a'), 5])]) {
      const submitted = ingest.project('p').submitBatch(body, { admit })
      t.equal(await submitted.catch((thrown: unknown) => thrown), error)
    }
  }
  t.strictSame(counts, [1, 2, 1, 2])
  t.strictSame(await read(), [])
  t.strictSame(ingest.tally(), { accepted: 0, duplicates: 0, rejected: 0, conflicts: 0 })
  t.match(await ingest.project('p').submitBatch(bodyOf([event('a')]), { admit: async () => {} }), { accepted: 1 })
  t.match(await submit(event('a')), { duplicates: 1 })
})

t.test('the tally counts the outcomes of the events of all projects; a returned tally does not change', async (t) => {
  const { ingest, submit } = setUp()
  await submit(event('a'), event('a'), event('b', { buildId: 5 }), 1)
  const before = ingest.tally()
  t.strictSame(before, { accepted: 1, duplicates: 1, rejected: 2, conflicts: 0 })
  await submit(event('a', { other: 1 }))
  await ingest.project('q').submitBatch({ events: [{ projectId: 'q', eventId: 'a' }] })
  t.strictSame(ingest.tally(), { accepted: 2, duplicates: 2, rejected: 2, conflicts: 1 })
  t.equal(before.accepted, 1)
})

t.test('the keyring checks credentials, unless the option authenticate replaces it', async (t) => {
  for (const authenticate of [undefined, ({ key }: { key: string }) => key === 'mine']) {
    const { ingest } = setUp(authenticate && { authenticate })
    const { key } = await ingest.keys.create('p')
    const opens = (key: string, projectId = 'p') => ingest.authenticate({ projectId, key, scope: 'read' })
    const keyId = key.slice(3, 11)
    const expected = authenticate ? [false, false, true] : [{ keyId }, false, false]
    t.strictSame([await opens(key), await opens(key, 'q'), await opens('mine')], expected)
  }
})

t.test('checkReady resolves until the store is closed', async (t) => {
  const { ingest, submit } = setUp()
  await ingest.checkReady()
  await ingest.close()
  await t.rejects(ingest.checkReady(), { code: 'store-closed' })
  await t.rejects(submit(event('a')), { code: 'store-closed' })
  await ingest.close()
})

t.test('checkReady rejects with store-unavailable when the store does not respond for 2 s', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  let respond = (_?: Error) => {}
  const check = () =>
    new Promise<void>((resolve, reject) => {
      respond = (error) => (error ? reject(error) : resolve())
    })
  const ingest = createIngest({ store: { ...openMemoryStore(), check } })
  const ready = ingest.checkReady()
  mock.timers.tick(1999)
  respond()
  await ready
  const unready = ingest.checkReady()
  mock.timers.tick(2000)
  await t.rejects(unready, { code: 'store-unavailable', retryAfterSeconds: 1 })
  // a rejection that comes too late is handled
  respond(new Error('late'))
  await turn()
})

t.test('a process registers once as a server; a store that does not count servers has one', async (t) => {
  t.equal(setUp().ingest.registerServer()(), 1)
  let registered = 0
  const store: Store = { ...openMemoryStore(), registerServer: () => () => ++registered }
  const ingest = createIngest({ store })
  t.strictSame([ingest.registerServer()(), ingest.registerServer()()], [1, 2])
  t.equal(ingest.registerServer(), ingest.registerServer())
})

t.test('any batch has one outcome for each of its events', async (t) => {
  const issueCodes: IssueCode[] = [
    ...(['invalid_format', 'invalid_type', 'not_allowed', 'not_object', 'out_of_range'] as const),
    ...(['project_mismatch', 'required', 'too_complex', 'too_deep', 'too_long', 'too_short'] as const),
  ]
  const field = fc.oneof(
    fc.string(),
    fc.integer(),
    fc.double(),
    fc.constantFrom(null, true, '', 'x'.repeat(300)),
    fc.jsonValue(),
  )
  const names = ['type', 'timestamp', 'buildId', 'placeId', 'sessionId', 'serverId', 'playerId', '__proto__', 'x']
  const members = fc.dictionary(fc.constantFrom(...names), field, { maxKeys: 4 })
  const anyEvent = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.tuple(fc.constantFrom('a', 'b', 'c'), members).map(([id, rest]) => ({ ...rest, ...event(id) })),
    },
    { weight: 1, arbitrary: fc.jsonValue() },
    { weight: 1, arbitrary: fc.record({ projectId: field, eventId: field }, { requiredKeys: [] }) },
  )
  const batches = fc.array(fc.array(anyEvent, { maxLength: 6 }), { minLength: 1, maxLength: 3 })
  const schemas = { kill: Type.Object({ x: Type.String() }) }
  await fc.assert(
    fc.asyncProperty(batches, async (sent) => {
      const { ingest, read } = setUp({ schemas })
      let acceptedBefore = 0
      for (const events of sent) {
        const body = Buffer.from(JSON.stringify({ events }))
        const first = await ingest.project('p').submitBatch(body)
        assertOutcomes(first, events.length)
        const ids = (await read()).map((text) => (JSON.parse(text) as { eventId: string }).eventId)
        acceptedBefore += first.accepted
        assert.equal(ids.length, acceptedBefore)
        assert.equal(new Set(ids).size, ids.length)
        const second = await ingest.project('p').submitBatch(body)
        assertOutcomes(second, events.length)
        assert.equal(second.accepted, 0)
        // an event with a stored id is a duplicate, however invalid it is
        const invalid = second.rejected.filter(({ issues }) => !issues.some(({ path }) => path === '/projectId'))
        assert.deepEqual(
          invalid.filter(({ eventId }) => ids.includes(eventId ?? '')),
          [],
        )
      }
    }),
    { numRuns: 1_000 },
  )
  t.pass('1,000 runs')

  function assertOutcomes({ accepted, duplicates, rejected }: BatchResult, count: number): void {
    assert.equal(accepted + duplicates + rejected.length, count)
    const indexes = rejected.map(({ index }) => index)
    assert.deepEqual(
      indexes,
      [...new Set(indexes)].sort((a, b) => a - b),
    )
    assert.ok(indexes.every((index) => index >= 0 && index < count))
    for (const { issues } of rejected) {
      assert.ok(issues.length > 0 && issues.length <= 20)
      for (const { code } of issues) assert.ok(issueCodes.includes(code), code)
    }
  }
})

t.test('any bytes are a batch, or rejected with a permanent error and nothing stored', async (t) => {
  const valid = Buffer.from(
    '{"events":[{"projectId":"p","eventId":"é","a":[1.5e3,null]},{"projectId":"p","eventId":"b","buildId":"x"}]}',
  )
  const mutated = fc
    .array(fc.tuple(fc.nat(valid.length - 1), fc.constantFrom(...Buffer.from('{}[]",:\\e0 \u0000n'), 0xff)), {
      maxLength: 3,
    })
    .map((changes) => {
      const bytes = Buffer.from(valid)
      for (const [at, byte] of changes) bytes[at] = byte
      return bytes
    })
  await fc.assert(
    fc.asyncProperty(fc.oneof(mutated, fc.uint8Array({ maxLength: 40 })), async (body) => {
      const { ingest, read } = setUp()
      try {
        const { accepted } = await ingest.project('p').submitBatch(body)
        return (await read()).length === accepted
      } catch (error) {
        return (
          error instanceof IngestError &&
          errorCodes.includes(error.code) &&
          !error.retryable &&
          (await read()).length === 0
        )
      }
    }),
    { numRuns: 2_000 },
  )
  t.pass('2,000 bodies')
})

t.test('an invalid time of the clock is an internal-error, and nothing is stored', async (t) => {
  const store = openMemoryStore()
  for (const time of [Number.NaN, Number.POSITIVE_INFINITY, -1, 8.64e15 + 1, '1', undefined, null, new Date()]) {
    const ingest = createIngest({ store, now: () => time as number })
    await t.rejects(ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'a' }] }), {
      code: 'internal-error',
    })
    await t.rejects(ingest.keys.create('p'), { code: 'internal-error' })
    await t.rejects(ingest.project('p').publishMap({ placeId: '1', buildId: 'b', map: 1 }), { code: 'internal-error' })
  }
  t.equal((await store.totals('p')).events, 0)
  t.strictSame(await store.projects(), [])
})

t.test('the rate is that of the last minute', async (t) => {
  const { clock, submitNew, rate } = setUp()
  t.equal(await rate(), 0)
  await submitNew(60)
  t.equal(await rate(), 1)
  clock.now += 30_000
  await submitNew(30)
  t.equal(await rate(), 1.5)
  clock.now += 30_000
  t.equal(await rate(), 1.5, 'a minute has both of its ends')
  clock.now += 1
  t.equal(await rate(), 0.5)
  clock.now += 30_000
  t.equal(await rate(), 0)
})

t.test('of more than 10,000 batches in a minute, the rate is estimated from the first 10,000', async (t) => {
  const { clock, submitNew, rate } = setUp()
  await submitNew(100)
  clock.now += 1_000
  for (let i = 0; i < 9_998; i++) await submitNew(1)
  clock.now += 4_000
  t.equal(await rate(), 10_098 / 60)
  await submitNew(1)
  t.equal(await rate(), 10_099 / 60)
  for (let i = 0; i < 100; i++) await submitNew(2)
  t.equal(await rate(), (10_099 * 1.01) / 60, 'as if the 100 others were like them')
})

t.test('a clock that goes backwards does not raise the rate', async (t) => {
  const { clock, submitNew, rate } = setUp()
  await submitNew(60)
  clock.now -= 500_000
  t.equal(await rate(), 1)
})

t.test('statistics read no builds and no maps', async (t) => {
  const store = openMemoryStore()
  const listed = () => Promise.reject(new Error('listed'))
  const ingest = createIngest({ store: { ...store, builds: listed, maps: listed } })
  t.match(await ingest.project('p').getStats(), { events: 0 })
})

t.test('hasProject finds a project with an event, a map or a key, and lists none', async (t) => {
  const store = openMemoryStore()
  const ingest = createIngest({ store: { ...store, projects: () => Promise.reject(new Error('listed')) } })
  await ingest.project('events').submitBatch({ events: [{ projectId: 'events', eventId: 'e' }] })
  await ingest.project('maps').publishMap({ placeId: '1', buildId: 'b', map: {} })
  await ingest.keys.create('keys')
  for (const projectId of ['events', 'maps', 'keys']) t.equal(await ingest.hasProject(projectId), true, projectId)
  t.equal(await ingest.hasProject('other'), false)
})

t.test('the memory store keeps copies of the bytes of events, and counts them', async (t) => {
  const { store, ingest } = setUp()
  const texts = ['{"projectId":"p","eventId":"a", "text":"é"}', '{"projectId":"p","eventId":"b"}']
  const body = Buffer.from(`{"events":[${texts}]}`)
  await ingest.project('p').submitBatch(body)
  body.fill(0)
  t.equal(Buffer.from((await store.find('p', 'a'))?.bytes ?? '').toString(), texts[0])
  t.match(await store.totals('p'), { events: 2, batches: 1, bytes: Buffer.byteLength(texts.join('')) })
})
