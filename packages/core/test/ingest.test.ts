import assert from 'node:assert/strict'
import { mock } from 'node:test'
import fc from 'fast-check'
import t from 'tap'
import { Type } from 'typebox'
import { errorCodes, IngestError, type IssueCode } from '../src/error.ts'
import type { BatchResult } from '../src/events/batch.ts'
import type { ReadOptions } from '../src/events/event-store.ts'
import { createIngest, type IngestOptions } from '../src/ingest.ts'
import { openMemoryStore } from '../src/memory/memory-store.ts'
import type { Store } from '../src/store.ts'

function setUp(options: Partial<IngestOptions> = {}) {
  const store = openMemoryStore()
  const ingest = createIngest({ store, now: () => 1_000, ...options })
  return {
    store,
    ingest,
    submit: (...events: unknown[]) => ingest.project('p').submitBatch(bodyOf(events)),
    async read(options?: ReadOptions): Promise<string[]> {
      const texts: string[] = []
      for await (const { bytes } of ingest.project('p').readEvents(options)) texts.push(Buffer.from(bytes).toString())
      return texts
    },
  }
}

const bodyOf = (events: unknown[]) => Buffer.from(JSON.stringify({ events }))
const event = (eventId: string, members: object = {}) => ({ projectId: 'p', eventId, ...members })
const turn = () => new Promise((resolve) => setImmediate(resolve))
const invalidProjectIds = ['', 'a b', 'é', 'x'.repeat(65), 'a/b', '../p']

t.test('a submitted event is found and read as it was sent, with the time at which it was received', async (t) => {
  const { ingest, read } = setUp()
  const text = '{"projectId":"p", "eventId":"a","n":12345678901234567890}'
  t.strictSame(await ingest.project('p').submitBatch(Buffer.from(`{"events":[${text}]}`)), {
    accepted: 1,
    duplicates: 0,
    rejected: [],
  })
  const found = await ingest.project('p').findEvent('a')
  t.equal(Buffer.from(found?.bytes ?? '').toString(), text)
  t.equal(found?.receivedAt, 1_000)
  t.strictSame(await read(), [text])
  t.equal(await ingest.project('p').findEvent('b'), undefined)
})

t.test('events are read in pages', async (t) => {
  const { ingest, submit, read } = setUp()
  await submit(event('a'), event('b'), event('c'))
  const cursor = (await ingest.project('p').findEvent('a'))?.cursor as string
  t.strictSame(await read({ after: cursor, limit: 1 }), ['{"projectId":"p","eventId":"b"}'])
  t.strictSame(await read({ limit: 0 }), [])
  await t.rejects(read({ after: 'x' }), { code: 'invalid-cursor' })
})

t.test('projects do not see each other', async (t) => {
  const { ingest, submit } = setUp()
  await submit(event('a'))
  t.equal(await ingest.project('q').findEvent('a'), undefined)
  t.match(await ingest.project('q').submitBatch({ events: [{ projectId: 'q', eventId: 'a' }] }), { accepted: 1 })
})

t.test('an invalid project id, event id or limit is an invalid argument', async (t) => {
  const { ingest, store } = setUp()
  const invalid = { name: 'IngestError', code: 'invalid-argument' }
  for (const projectId of invalidProjectIds) t.throws(() => ingest.project(projectId), invalid, projectId)
  t.throws(() => ingest.project(undefined as never), invalid)
  for (const eventId of ['', 'a\n', '\ud800', 'x'.repeat(257)])
    await t.rejects(ingest.project('p').findEvent(eventId), invalid)
  for (const limit of [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])
    await t.rejects(first(ingest.project('p').readEvents({ limit })), invalid)
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

t.test('a schema checks the events of its type', async (t) => {
  const { submit } = setUp({ schemas: { kill: Type.Object({ weapon: Type.String() }) } })
  const result = await submit(event('a', { type: 'kill' }), event('b', { type: 'kill', weapon: 'x' }), event('c'))
  t.match(result, {
    accepted: 2,
    duplicates: 0,
    rejected: [{ index: 0, issues: [{ code: 'required', path: '/weapon' }] }],
  })
})

t.test('createIngest throws for a schema that does not compile', async (t) => {
  t.throws(() => setUp({ schemas: { kill: { pattern: '(' } } }), { code: 'invalid-argument' })
})

t.test('a batch that is not admitted stores nothing and is not tallied', async (t) => {
  const { ingest, read } = setUp()
  const counts: number[] = []
  const error = new IngestError('rate-limited', 'Too fast.', { retryAfterSeconds: 1 })
  const admit = (count: number) => {
    counts.push(count)
    throw error
  }
  const submitted = ingest.project('p').submitBatch(bodyOf([event('a'), 5]), { admit })
  t.equal(await submitted.catch((thrown: unknown) => thrown), error)
  t.strictSame(counts, [2])
  t.strictSame(await read(), [])
  t.strictSame(ingest.tally(), { accepted: 0, duplicates: 0, rejected: 0, conflicts: 0 })
})

t.test('the tally counts the outcomes of the events of all projects', async (t) => {
  const { ingest, submit } = setUp()
  await submit(event('a'), event('a'), event('b', { buildId: 5 }), 1)
  t.strictSame(ingest.tally(), { accepted: 1, duplicates: 1, rejected: 2, conflicts: 0 })
  await submit(event('a', { other: 1 }))
  await ingest.project('q').submitBatch({ events: [{ projectId: 'q', eventId: 'a' }] })
  t.strictSame(ingest.tally(), { accepted: 2, duplicates: 2, rejected: 2, conflicts: 1 })
})

t.test('a returned tally does not change', async (t) => {
  const { ingest, submit } = setUp()
  const before = ingest.tally()
  await submit(event('a'))
  t.equal(before.accepted, 0)
  t.equal(ingest.tally().accepted, 1)
})

t.test('the keyring checks credentials', async (t) => {
  const { ingest } = setUp()
  const { key } = await ingest.keys.create('p')
  t.equal(await ingest.authenticate({ projectId: 'p', key, scope: 'read' }), true)
  t.equal(await ingest.authenticate({ projectId: 'q', key, scope: 'read' }), false)
})

t.test('the option authenticate replaces the keyring', async (t) => {
  const { ingest } = setUp({ authenticate: ({ key }) => key === 'mine' })
  t.equal(await ingest.authenticate({ projectId: 'p', key: 'mine', scope: 'read' }), true)
  const { key } = await ingest.keys.create('p')
  t.equal(await ingest.authenticate({ projectId: 'p', key, scope: 'read' }), false)
})

t.test('checkReady resolves until the store is closed', async (t) => {
  const { ingest, submit } = setUp()
  await ingest.checkReady()
  await ingest.close()
  await t.rejects(ingest.checkReady(), { code: 'store-closed' })
  await t.rejects(submit(event('a')), { code: 'store-closed' })
  await ingest.close()
})

t.test('a long poll is woken by new events of its project, and by nothing else', async (t) => {
  const memory = openMemoryStore()
  let reads = 0
  const store: Store = {
    ...memory,
    read(...args) {
      reads++
      return memory.read(...args)
    },
  }
  const ingest = createIngest({ store })
  const turns = () => new Promise((resolve) => setTimeout(resolve, 0))
  const found = first(ingest.project('p').readEvents({ waitMs: 60_000, type: 'a' }))
  await turns()
  const before = reads
  await ingest.project('p').submitBatch({ events: [event('b')] })
  await turns()
  t.equal(reads, before + 1)
  await ingest.project('p').submitBatch({ events: [event('b')] })
  await ingest.project('q').submitBatch({ events: [{ projectId: 'q', eventId: 'a' }] })
  await turns()
  t.equal(reads, before + 1, 'not by duplicates or other projects')
  await ingest.project('p').submitBatch({ events: [event('c', { type: 'a' })] })
  t.match(await found, { done: false })
})

t.test('a scan continues when its charge resolves', async (t) => {
  const { ingest, submit } = setUp()
  await submit(event('a'), event('b'))
  const steps: string[] = []
  const onScan = async () => {
    steps.push('scan')
    await turn()
    steps.push('charged')
  }
  for await (const _ of ingest.project('p').readEvents({ onScan })) steps.push('event')
  t.strictSame(steps, ['scan', 'charged', 'event', 'scan', 'charged', 'event'])
  const refuse = () => Promise.reject(new RangeError('no'))
  await t.rejects(first(ingest.project('p').readEvents({ onScan: refuse })), RangeError)
})

t.test('a batch waits for an asynchronous admit, and is not stored if that rejects', async (t) => {
  const { ingest, read } = setUp()
  const refuse = async () => {
    await turn()
    throw new IngestError('rate-limited', 'Too fast.')
  }
  for (const body of [bodyOf([event('a')]), bodyOf([event('a'), 5])]) {
    await t.rejects(ingest.project('p').submitBatch(body, { admit: refuse }), { code: 'rate-limited' })
  }
  t.strictSame(await read(), [])
  t.match(await ingest.project('p').submitBatch(bodyOf([event('a')]), { admit: async () => {} }), { accepted: 1 })
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

t.test('a process is announced once as a server; a store that counts none has one', async (t) => {
  t.equal(setUp().ingest.registerServer()(), 1)
  let registered = 0
  const store: Store = { ...openMemoryStore(), registerServer: () => () => ++registered }
  const ingest = createIngest({ store })
  t.strictSame([ingest.registerServer()(), ingest.registerServer()()], [1, 2])
  t.equal(ingest.registerServer(), ingest.registerServer())
})

t.test('the clock is the real one unless another is given', async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  const before = Date.now()
  await ingest.project('p').submitBatch({ events: [event('a')] })
  const { receivedAt = 0 } = (await ingest.project('p').findEvent('a')) ?? {}
  t.ok(receivedAt >= before && receivedAt <= Date.now())
})

t.test('any batch has one outcome for each of its events', async (t) => {
  const issueCodes: IssueCode[] = [
    ...(['invalid_format', 'invalid_type', 'not_allowed', 'not_object', 'out_of_range'] as const),
    ...(['project_mismatch', 'required', 'too_deep', 'too_long', 'too_short'] as const),
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
