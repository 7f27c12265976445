import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { type ErrorCode, IngestError } from '../../src/error.ts'
import { createIngest, type IngestOptions } from '../../src/ingest.ts'
import { digestOf } from '../../src/maps/digest.ts'
import type { Digest, Manifest } from '../../src/maps/map.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'

const id = { placeId: '1', buildId: 'b' }
const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

function setUp(options: Partial<IngestOptions> = {}) {
  const store = openMemoryStore()
  const clock = { now: 1_000 }
  const ingest = createIngest({ store, now: () => clock.now, ...options })
  return {
    store,
    clock,
    ingest,
    freeze: () => ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'e', buildId: 'b' }] }),
  }
}

function manifestOf(...texts: string[]): Manifest {
  const chunks = texts.map((text) => ({ digest: digestOf(Buffer.from(text)), size: text.length }))
  const whole = Buffer.from(texts.join(''))
  return { contentType: 'text/plain', size: whole.length, digest: digestOf(whole), chunks }
}

/** Replaces timers; the result lets so many milliseconds pass. */
function mockTimers(t: Test): (ms: number) => Promise<void> {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  return async (ms) => {
    mock.timers.tick(ms)
    await new Promise(setImmediate)
  }
}

const chunk = (text: string): [Digest, Buffer] => [digestOf(Buffer.from(text)), Buffer.from(text)]

t.test('latePublish: reject refuses a first map for a frozen build', async (t) => {
  const { ingest, freeze } = setUp({ maps: { latePublish: 'reject' } })
  await freeze()
  await t.rejects(ingest.project('p').publishMap({ ...id, map: 1 }), { code: 'map-frozen' })
  t.equal(await ingest.project('p').getMap(id), undefined)
})

t.test(
  'maps are swept a minute after the start and then every hour, also after a failure, until the store is closed',
  async (t) => {
    const pass = mockTimers(t)
    const { store, clock } = setUp()
    const swept: number[] = []
    let code: ErrorCode = 'disk-full'
    async function sweepMaps(touchedBefore: number): Promise<void> {
      swept.push(clock.now - touchedBefore)
      throw new IngestError(code, 'Refused.')
    }
    const { ingest } = setUp({ store: { ...store, sweepMaps }, now: () => clock.now })
    const errors: unknown[] = []
    ingest.observe({ onError: (error) => errors.push(error) })
    const sweepsAfter = async (ms: number) => {
      await pass(ms)
      return swept.length
    }
    t.equal(await sweepsAfter(minute - 1), 0)
    t.equal(await sweepsAfter(1), 1)
    t.equal(await sweepsAfter(hour - 1), 1)
    t.equal(await sweepsAfter(1), 2)
    code = 'store-closed'
    t.equal(await sweepsAfter(hour), 3)
    t.equal(await sweepsAfter(10 * hour), 3)
    t.strictSame(swept, [7 * day, 7 * day, 7 * day])
    t.match(errors, [{ code: 'disk-full' }, { code: 'disk-full' }], 'each failure is reported once')
    t.equal(errors.length, 2)
  },
)

t.test('an incomplete manifest that was idle for 7 days is dropped', async (t) => {
  const pass = mockTimers(t)
  const { ingest, clock } = setUp()
  await ingest.project('p').publishMap({ ...id, manifest: manifestOf('a', 'b', 'c') })
  clock.now += 6 * day
  await ingest.project('p').putChunk(...chunk('a'))
  clock.now += 6 * day
  await ingest.project('p').publishMap({ ...id, manifest: manifestOf('a', 'b', 'c') })
  clock.now += 7 * day
  await pass(minute)
  t.match(await ingest.project('p').getMap(id), { state: 'incomplete' }, 'touched at that time is not before it')
  clock.now += 1
  await pass(hour)
  t.equal(await ingest.project('p').getMap(id), undefined)
  await t.rejects(ingest.project('p').putChunk(...chunk('b')), { code: 'chunk-undeclared' })
})

t.test('a pending map that a freeze has pinned does not expire', async (t) => {
  const pass = mockTimers(t)
  const { ingest, clock, freeze } = setUp()
  await ingest.project('p').publishMap({ ...id, manifest: manifestOf('a', 'b') })
  await freeze()
  clock.now += 700 * day
  await pass(minute)
  t.match(await ingest.project('p').getMap(id), { state: 'incomplete', frozen: true })
})

t.test('a map that a crash kept from completing is completed by the next chunk, or by its manifest', async (t) => {
  for (const finish of ['chunk', 'chunk of another map', 'manifest']) {
    const { ingest, store } = setUp()
    const manifest = manifestOf('a', 'b')
    await ingest.project('p').publishMap({ ...id, manifest })
    for (const text of ['a', 'b']) {
      const [digest, bytes] = chunk(text)
      await store.putChunk('p', { digest, bytes, receivedAt: 1 })
    }
    t.match(await ingest.project('p').getMap(id), { state: 'incomplete', missing: [] })
    if (finish === 'chunk')
      t.match(await ingest.project('p').putChunk(...chunk('a')), { outcome: 'existing', completed: [id] })
    else if (finish === 'manifest')
      t.match(await ingest.project('p').publishMap({ ...id, manifest }), { outcome: 'created' })
    else {
      await ingest.project('p').publishMap({ ...id, placeId: 'other', manifest: manifestOf('c', 'd') })
      t.match(await ingest.project('p').putChunk(...chunk('c')), { outcome: 'stored', completed: [id] })
    }
    t.match(await ingest.project('p').getMap(id), { state: 'complete' })
  }
})

t.test('the last chunks of a map, sent at once, verify it once', async (t) => {
  const { ingest, store } = setUp()
  const texts = ['a', 'b', 'c', 'd']
  await ingest.project('p').publishMap({ ...id, manifest: manifestOf(...texts) })
  let reads = 0
  const counting = createIngest({
    now: () => 1_000,
    store: {
      ...store,
      readChunk: (...args) => {
        reads++
        return store.readChunk(...args)
      },
    },
  })
  const results = await Promise.all(texts.map((text) => counting.project('p').putChunk(...chunk(text))))
  t.ok(results.some(({ completed }) => completed.length === 1))
  t.equal(reads, texts.length)
})

t.test('reading a map that is replaced meanwhile is refused with map-replaced', async (t) => {
  const { ingest } = setUp()
  const texts = ['a', 'b', 'c']
  await ingest.project('p').publishMap({ ...id, manifest: manifestOf(...texts) })
  for (const text of texts) await ingest.project('p').putChunk(...chunk(text))
  const reading = (await ingest.project('p').getMapContent(id))?.bytes()[Symbol.asyncIterator]()
  t.strictSame(await reading?.next(), { done: false, value: Buffer.from('a') })
  await ingest.project('p').publishMap({ ...id, map: 'other' })
  await t.rejects(Promise.resolve(reading?.next()), { code: 'map-replaced', retryable: true })
})

t.test('a map that is republished unchanged is not written', async (t) => {
  const { store } = setUp()
  const refuse = async () => {
    throw new Error('written')
  }
  const updateMap: typeof store.updateMap = (key, chunks, decide) =>
    store.updateMap(key, chunks, (slot, present) => {
      const decision = decide(slot, present)
      if (decision.contents) throw new Error('written')
      return decision
    })
  const ingest = createIngest({ store })
  await ingest.project('p').publishMap({ ...id, map: { a: 1 } })
  const reader = createIngest({ store: { ...store, updateMap, putChunk: refuse } })
  t.match(await reader.project('p').publishMap({ ...id, map: { a: 1 } }), { outcome: 'unchanged' })
  await t.rejects(reader.project('p').publishMap({ ...id, map: { a: 2 } }), { message: 'written' })
})

t.test('a publication is decided again after a lost race', async (t) => {
  const { store, freeze } = setUp()
  await createIngest({ store })
    .project('p')
    .publishMap({ ...id, map: 'first' })
  const updateMap: typeof store.updateMap = async (key, chunks, decide) => {
    decide(await store.map(key), new Set())
    await freeze()
    return store.updateMap(key, chunks, decide)
  }
  const ingest = createIngest({ store: { ...store, updateMap } })
  await t.rejects(ingest.project('p').publishMap({ ...id, map: 'second' }), { code: 'map-frozen' })
})

t.test('invalid arguments are refused with invalid-argument', async (t) => {
  const { ingest } = setUp()
  const invalid = { code: 'invalid-argument' }
  const digest = digestOf()
  for (const projectId of ['', 'a b', '../p']) t.throws(() => ingest.project(projectId), invalid)
  await t.rejects(ingest.project('p').getMap({ placeId: '', buildId: 'b' }), invalid)
  await t.rejects(ingest.project('p').getMapContent({ placeId: '1', buildId: 'a\n' }), invalid)
  await t.rejects(ingest.project('p').getChunk('abc'), invalid)
  await t.rejects(ingest.project('p').putChunk('abc', Buffer.of(1)), invalid)
  await t.rejects(ingest.project('p').putChunk(digest, Buffer.of()), invalid)
  await t.rejects(ingest.project('p').putChunk(digest, 'abc' as never), invalid)
  for (const limit of [0, 1_001, 1.5, Number.NaN]) await t.rejects(ingest.project('p').listMaps({ limit }), invalid)
  const long = 'a'.repeat(2_000)
  for (const filter of [{ buildId: long }, { placeId: long }])
    await t.rejects(ingest.project('p').listMaps(filter), invalid)
  await t.rejects(ingest.project('p').publishMap({ ...id, map: 1 }, { ifMatch: 'abc' }), invalid)
  await t.rejects(ingest.project('p').publishMap({ ...id, map: 1 }, { ifNoneMatch: 'abc' as never }), invalid)
  const { rejected } = await ingest.project('p').putChunks([5 as never, { digest: 5 as never, bytes: Buffer.of(1) }])
  t.match(rejected, [
    { index: 0, digest: null, issues: [{ code: 'not_object' }] },
    { index: 1, digest: null, issues: [{ code: 'invalid_type' }] },
  ])
})

t.test('chunks of a request are stored even if the store refuses another one, which is reported', async (t) => {
  const { store, ingest } = setUp()
  await ingest.project('p').publishMap({ ...id, manifest: manifestOf('a', 'b') })
  const failing = createIngest({
    now: () => 1_000,
    store: {
      ...store,
      putChunk: (projectId, each) =>
        each.digest === chunk('a')[0] ? Promise.reject(new RangeError('full')) : store.putChunk(projectId, each),
    },
  })
  const uploads = ['a', 'b'].map((text) => ({ digest: chunk(text)[0], bytes: chunk(text)[1] }))
  await t.rejects(failing.project('p').putChunks(uploads), { message: 'full' })
  t.match(await ingest.project('p').getMap(id), { missing: [chunk('a')[0]] })
})

t.test('an immediate refusal of large chunks rejects the call', async (t) => {
  const { ingest } = setUp()
  const bytes = Buffer.alloc(100_000)
  const digest = digestOf(bytes)
  await ingest.close()
  await t.rejects(ingest.project('p').putChunk(digest, bytes), { code: 'store-closed' })
  const uploads = [1, 2, 3].map(() => ({ digest, bytes }))
  await t.rejects(ingest.project('p').putChunks(uploads), { code: 'store-closed' })
})

t.test('a page ends early after very many chunks, and the next one continues', async (t) => {
  const { ingest } = setUp()
  const chunks = Array.from({ length: 2_500 }, (_, i) => ({ digest: digestOf(Buffer.from(`${i}`)), size: 1 }))
  const manifest = { contentType: 'a/b', size: chunks.length, digest: digestOf(Buffer.from('all')), chunks }
  const ids = Array.from({ length: 25 }, (_, i) => ({ placeId: String(10 + i), buildId: 'b' }))
  for (const each of ids) await ingest.project('p').publishMap({ ...each, manifest })
  const pages = [await ingest.project('p').listMaps()]
  for (let next = pages[0]?.next; next; next = pages.at(-1)?.next)
    pages.push(await ingest.project('p').listMaps({ cursor: next }))
  t.ok(pages.length > 1, `${pages.length} pages`)
  const maps = pages.flatMap((page) => page.maps)
  t.match(maps, ids)
  t.equal(maps.length, ids.length)
  t.ok(maps.every(({ missing }) => missing.length === chunks.length))
})

/** A manifest of these texts and one of its own for each place. */
async function recordAll(ingest: ReturnType<typeof createIngest>, places: number, ...texts: string[]) {
  for (let i = 0; i < places; i++) {
    await ingest.project('p').publishMap({ placeId: `${i}`, buildId: 'b', manifest: manifestOf(...texts, `${i}`) })
    await ingest.project('p').putChunk(...chunk(`${i}`))
  }
}

/** A store whose chunk reads resolve after `open`, and the digests that were read. */
function gated(store: ReturnType<typeof openMemoryStore>) {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  const reads: Digest[] = []
  let begin = () => {}
  const begun = new Promise<void>((resolve) => {
    begin = resolve
  })
  return {
    open: () => open(),
    /** Resolves once a chunk is read. */
    begun,
    reads,
    store: {
      ...store,
      async readChunk(projectId: string, digest: Digest) {
        reads.push(digest)
        begin()
        await opened
        return store.readChunk(projectId, digest)
      },
    },
  }
}

/** A pending manifest that misses no chunk. */
async function recordReady(store: ReturnType<typeof openMemoryStore>, placeId: string, ...texts: string[]) {
  const manifest = manifestOf(...texts)
  await createIngest({ store, now: () => 1_000 })
    .project('p')
    .publishMap({ placeId, buildId: 'b', manifest })
  for (const text of texts) {
    const [digest, bytes] = chunk(text)
    await store.putChunk('p', { digest, bytes, receivedAt: 1 })
  }
  return { placeId, buildId: 'b', manifest }
}

const refuse = () => {
  throw new IngestError('rate-limited', 'Later.', { retryAfterSeconds: 7 })
}

t.test(
  'a map is charged with its size before any of it is read, and a refusal leaves its manifest as it is',
  async (t) => {
    for (const dryRun of [false, true]) {
      const { store } = setUp()
      const publication = await recordReady(store, '1', 'a', 'bb', 'a')
      const { reads, open, ...gate } = gated(store)
      open()
      const ingest = createIngest({ store: gate.store, now: () => 2_000 })
      await t.rejects(ingest.project('p').publishMap(publication, { dryRun, admit: refuse }), {
        code: 'rate-limited',
        retryAfterSeconds: 7,
      })
      t.strictSame(reads, [])
      t.match(await ingest.project('p').getMap(publication), { state: 'incomplete', missing: [] })
      const charged: number[] = []
      const admit = (bytes: number) => void charged.push(bytes)
      t.match(await ingest.project('p').publishMap(publication, { dryRun, admit }), {
        outcome: 'created',
        state: 'complete',
      })
      t.strictSame(charged, [4])
      t.equal(reads.length, 3)
      if (!dryRun) await ingest.project('p').publishMap(publication, { admit: refuse })
    }
  },
)

t.test('only verifications are charged', async (t) => {
  const { ingest } = setUp()
  const admit = refuse
  await ingest.project('p').publishMap({ ...id, map: 'whole' }, { admit })
  await ingest.project('p').publishMap({ ...id, map: 'other' }, { admit, dryRun: true })
  const manifest = manifestOf('a', 'b')
  await ingest.project('p').publishMap({ ...id, manifest }, { admit })
  await ingest.project('p').publishMap({ ...id, manifest }, { admit, dryRun: true })
  t.match(await ingest.project('p').putChunk(...chunk('a'), { admit }), { outcome: 'stored', completed: [] })
})

t.test('a last chunk is stored if its verification is not admitted, and the manifest completes its map', async (t) => {
  const { ingest } = setUp()
  const manifest = manifestOf('a', 'b')
  await ingest.project('p').publishMap({ ...id, manifest })
  await ingest.project('p').putChunk(...chunk('a'))
  t.strictSame(await ingest.project('p').putChunk(...chunk('b'), { admit: refuse }), {
    outcome: 'stored',
    completed: [],
  })
  t.match(await ingest.project('p').getMap(id), { state: 'incomplete', missing: [] })
  const uploads = [{ digest: chunk('b')[0], bytes: chunk('b')[1] }]
  t.match(await ingest.project('p').putChunks(uploads, { admit: refuse }), { existing: 1, completed: [] })
  t.match(await ingest.project('p').publishMap({ ...id, manifest }), { outcome: 'created' })
})

t.test('maps of a project are verified one at a time, and the same one once', async (t) => {
  const { store } = setUp()
  const first = await recordReady(store, '1', 'a')
  const second = await recordReady(store, '2', 'b')
  const { reads, open, begun, ...gate } = gated(store)
  const ingest = createIngest({ store: gate.store, now: () => 2_000 })
  const charged: number[] = []
  const admit = (bytes: number) => void charged.push(bytes)
  const done: string[] = []
  const publish = (publication: typeof first) =>
    ingest
      .project('p')
      .publishMap(publication, { admit })
      .then(({ placeId }) => done.push(placeId))
  const publishing = [publish(first), publish(second), publish(first)]
  await begun
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(reads.length, 1)
  t.strictSame(charged, [1, 1], 'the same map is charged once')
  const other = await ingest.project('p').putChunk(...chunk('b'))
  t.strictSame(other.completed, [], 'a chunk does not wait for its turn')
  open()
  await Promise.all(publishing)
  t.strictSame(done.sort(), ['1', '1', '2'])
  t.equal(reads.length, 2)
})

t.test('an asynchronous admit is awaited: its rejection refuses the verification', async (t) => {
  const { store } = setUp()
  const publication = await recordReady(store, '1', 'a')
  const { reads, open, ...gate } = gated(store)
  open()
  const project = createIngest({ store: gate.store, now: () => 2_000 }).project('p')
  const admit = async () => {
    await new Promise((resolve) => setImmediate(resolve))
    refuse()
  }
  for (const dryRun of [false, true]) {
    await t.rejects(project.publishMap(publication, { dryRun, admit }), { code: 'rate-limited' })
  }
  t.match(await project.putChunk(...chunk('a'), { admit }), { outcome: 'existing', completed: [] })
  t.strictSame(reads, [])
  t.match(await project.putChunk(...chunk('a'), { admit: async () => {} }), { completed: [{ placeId: '1' }] })
})

t.test('calls that are admitted asynchronously share one verification, and are refused above its queue', async (t) => {
  const { store } = setUp()
  const publications: Awaited<ReturnType<typeof recordReady>>[] = []
  for (let i = 0; i < 18; i++) publications.push(await recordReady(store, `${i}`, `text ${i}`))
  const { reads, open, ...gate } = gated(store)
  const project = createIngest({ store: gate.store, now: () => 2_000 }).project('p')
  const admit = () => new Promise<void>((resolve) => setImmediate(resolve))
  const [first] = publications as [(typeof publications)[0]]
  const publishing = [first, ...publications].map((each) => project.publishMap(each, { admit }))
  const leaving = new AbortController()
  const left = project.publishMap(first, {
    admit: async () => leaving.abort(new RangeError('left')),
    signal: leaving.signal,
  })
  await t.rejects(left, RangeError)
  open()
  const settled = await Promise.allSettled(publishing)
  const refused = settled.filter(({ status }) => status === 'rejected')
  t.match(refused, [{ reason: { code: 'overloaded' } }])
  t.equal(reads.length, 17)
})

t.test('a verification above the queue limit is refused, and not charged', async (t) => {
  const { store } = setUp()
  const publications: Awaited<ReturnType<typeof recordReady>>[] = []
  for (let i = 0; i < 18; i++) publications.push(await recordReady(store, `${i}`, `text ${i}`))
  const { open, begun, ...gate } = gated(store)
  const ingest = createIngest({ store: gate.store, now: () => 2_000 })
  let charged = 0
  const publish = (publication: (typeof publications)[0]) =>
    ingest.project('p').publishMap(publication, {
      admit() {
        charged++
      },
    })
  const publishing = publications.slice(0, 17).map(publish)
  await begun
  await t.rejects(publish(publications[17] as (typeof publications)[0]), { code: 'overloaded', retryAfterSeconds: 1 })
  t.equal(charged, 17)
  open()
  await Promise.all(publishing)
})

t.test('a verification is cancelled when its last caller aborts, and not before', async (t) => {
  const { store } = setUp()
  const bytes = Buffer.alloc(262_144)
  const ref = { digest: digestOf(bytes), size: bytes.length }
  const chunks = Array.from({ length: 1_000 }, () => ref)
  const digest = digestOf(...chunks.map(() => bytes))
  const publication = {
    ...id,
    manifest: { contentType: 'a/b', size: ref.size * chunks.length, digest, chunks },
  }
  await createIngest({ store, now: () => 1_000 })
    .project('p')
    .publishMap(publication)
  await store.putChunk('p', { digest: ref.digest, bytes, receivedAt: 1 })
  const callers = [new AbortController(), new AbortController()]
  const [first, second] = callers as [AbortController, AbortController]
  let reads = 0
  const counting = {
    ...store,
    readChunk: ((...args) => {
      reads++
      if (reads === 10) first.abort(new RangeError('first left'))
      if (reads === 20) second.abort(new RangeError('second left'))
      return store.readChunk(...args)
    }) as typeof store.readChunk,
  }
  const ingest = createIngest({ store: counting, now: () => 2_000 })
  const results = callers.map(({ signal }) => ingest.project('p').publishMap(publication, { signal }))
  await Promise.all([
    t.rejects(results[0] as Promise<unknown>, { message: 'first left' }),
    t.rejects(results[1] as Promise<unknown>, { message: 'second left' }),
  ])
  t.equal(reads, 20)
  t.match(await ingest.project('p').getMap(id), { state: 'incomplete', missing: [] })
  t.match(await ingest.project('p').publishMap(publication), { outcome: 'created' }, 'and can be begun again')
})

t.test('a queued verification is cancelled with its caller', async (t) => {
  const { store } = setUp()
  const first = await recordReady(store, '1', 'a')
  const second = await recordReady(store, '2', 'b')
  const { reads, open, begun, ...gate } = gated(store)
  const ingest = createIngest({ store: gate.store, now: () => 2_000 })
  const publishing = ingest.project('p').publishMap(first)
  await begun
  const leaving = new AbortController()
  const waiting = ingest.project('p').publishMap(second, {
    signal: leaving.signal,
    admit: () => void setImmediate(() => leaving.abort(new RangeError('left'))),
  })
  await t.rejects(waiting, { message: 'left' })
  open()
  t.match(await publishing, { outcome: 'created' })
  t.strictSame(reads, [chunk('a')[0]])
  t.match(await ingest.project('p').publishMap(second), { outcome: 'created' })
  t.strictSame(reads, [chunk('a')[0], chunk('b')[0]], 'the first one ran once')
})

t.test('each turn of the event loop hashes a map of one project', async (t) => {
  const { store } = setUp()
  const projects = ['p', 'q', 'r']
  const bytes = Buffer.alloc(65_536)
  const ref = { digest: digestOf(bytes), size: bytes.length }
  const chunks = Array.from({ length: 20 }, () => ref)
  const digest = digestOf(...chunks.map(() => bytes))
  const publication = { ...id, manifest: { contentType: 'a/b', size: ref.size * chunks.length, digest, chunks } }
  const recording = createIngest({ store, now: () => 1_000 })
  for (const projectId of projects) {
    await recording.project(projectId).publishMap(publication)
    await store.putChunk(projectId, { digest: ref.digest, bytes, receivedAt: 1 })
  }
  const readsByTurn = [0]
  let isOver = false
  function countTurns(): void {
    readsByTurn.push(0)
    if (!isOver) setImmediate(countTurns)
  }
  const counting = {
    ...store,
    readChunk: ((...args) => {
      readsByTurn[readsByTurn.length - 1] = (readsByTurn.at(-1) ?? 0) + 1
      return store.readChunk(...args)
    }) as typeof store.readChunk,
  }
  const ingest = createIngest({ store: counting, now: () => 2_000 })
  setImmediate(countTurns)
  await Promise.all(projects.map((projectId) => ingest.project(projectId).publishMap(publication)))
  isOver = true
  t.equal(
    readsByTurn.reduce((sum, reads) => sum + reads),
    projects.length * chunks.length,
  )
  t.equal(Math.max(...readsByTurn), 1)
})

t.test('a chunk whose caller has aborted is stored, and completes nothing', async (t) => {
  const { ingest } = setUp()
  await ingest.project('p').publishMap({ ...id, manifest: manifestOf('a') })
  const signal = AbortSignal.abort(new RangeError('left'))
  t.strictSame(await ingest.project('p').putChunk(...chunk('a'), { signal }), { outcome: 'stored', completed: [] })
  t.match(await ingest.project('p').publishMap({ ...id, manifest: manifestOf('a') }), { outcome: 'created' })
})

t.test('a map that a chunk completes is charged once, and not after its caller aborted', async (t) => {
  for (const leaves of [false, true]) {
    const { ingest, store } = setUp()
    await recordAll(ingest, 3, 'shared')
    const leaving = new AbortController()
    const watched = createIngest({
      now: () => 1_000,
      store: {
        ...store,
        readChunk: (...args) => {
          if (leaves) leaving.abort(new RangeError('left'))
          return store.readChunk(...args)
        },
      },
    })
    const charged: number[] = []
    const admit = (bytes: number) => void charged.push(bytes)
    const { completed } = await watched.project('p').putChunk(...chunk('shared'), { signal: leaving.signal, admit })
    t.equal(completed.length, leaves ? 0 : 3)
    t.strictSame(charged, leaves ? [7] : [7, 7, 7])
  }
})

t.test(
  'a chunk completes 16 maps at most; the others are completed by the next one, or by their manifest',
  async (t) => {
    const { ingest } = setUp()
    await recordAll(ingest, 40, 'shared')
    const { completed } = await ingest.project('p').putChunk(...chunk('shared'))
    t.equal(completed.length, 16)
    const states = async () => (await ingest.project('p').listMaps()).maps.map(({ state }) => state)
    t.equal((await states()).filter((state) => state === 'complete').length, 16)
    const [left] = (await ingest.project('p').listMaps()).maps.filter(({ state }) => state === 'incomplete')
    const { placeId = '' } = left ?? {}
    const manifest = manifestOf('shared', placeId)
    t.match(await ingest.project('p').publishMap({ placeId, buildId: 'b', manifest }), { outcome: 'created' })
    for (const count of [16, 7, 0]) {
      t.equal((await ingest.project('p').putChunk(...chunk('shared'))).completed.length, count)
    }
    t.notOk((await states()).includes('incomplete'))
  },
)

t.test('a chunk completes no further map once 64 MiB were hashed for it', async (t) => {
  const { ingest } = setUp()
  const bytes = Buffer.alloc(1_048_576)
  const ref = { digest: digestOf(bytes), size: bytes.length }
  const chunks = Array.from({ length: 33 }, () => ref)
  const manifest = { size: 33 * ref.size, digest: digestOf(...chunks.map(() => bytes)), chunks }
  for (let i = 0; i < 3; i++) {
    await ingest
      .project('p')
      .publishMap({ placeId: `${i}`, buildId: 'b', manifest: { ...manifest, contentType: `a/${i}` } })
  }
  t.equal((await ingest.project('p').putChunk(ref.digest, bytes)).completed.length, 2)
  t.equal((await ingest.project('p').putChunk(ref.digest, bytes)).completed.length, 1)
})

t.test('a map that is replaced, frozen or dropped while it is verified is decided again', async (t) => {
  for (const [what, meddle, expected] of [
    ['a whole map', (i) => i.project('p').publishMap({ ...id, map: 1 }), { outcome: 'replaced' }],
    ['a map again', (i) => i.project('p').publishMap({ ...id, manifest: manifestOf('c') }), { outcome: 'created' }],
    [
      'a freeze',
      (i) => i.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'e', buildId: 'b' }] }),
      { outcome: 'created', frozen: true },
    ],
    [
      'a whole map that freezes',
      async (i) => {
        await i.project('p').publishMap({ ...id, map: 1 })
        await i.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'e', buildId: 'b' }] })
      },
      { code: 'map-frozen' },
    ],
  ] as [string, (ingest: ReturnType<typeof createIngest>) => Promise<unknown>, object][]) {
    const { store } = setUp()
    const publication = await recordReady(store, '1', 'a', 'b')
    const { open, begun, ...gate } = gated(store)
    const ingest = createIngest({ store: gate.store, now: () => 2_000 })
    const publishing = ingest
      .project('p')
      .publishMap(publication)
      .catch((error) => error)
    await begun
    await meddle(createIngest({ store, now: () => 2_000 }))
    open()
    const result = await publishing
    if ('missing' in result && result.missing.length > 0) {
      for (const text of ['a', 'b']) await ingest.project('p').putChunk(...chunk(text))
      t.match(await ingest.project('p').getMap(id), { state: 'complete', digest: publication.manifest.digest }, what)
    } else t.match(result, expected, what)
  }
})

t.test('unfinished uploads of a project are limited in bytes, and a refusal has limit and actual', async (t) => {
  const { store, ingest, freeze } = setUp({ maps: { pendingBytesMax: 256 + 160 + 10 } })
  const over = { code: 'map-quota-exceeded', limit: 426, retryable: false }
  const large = manifestOf('x'.repeat(10))
  await ingest.project('p').publishMap({ ...id, manifest: large })
  const other = { placeId: '2', buildId: 'b', manifest: manifestOf('y') }
  const larger = { ...id, manifest: manifestOf('x'.repeat(11)) }
  for (const dryRun of [true, false]) {
    await t.rejects(ingest.project('p').publishMap(other, { dryRun }), { ...over, actual: 426 + 417 })
    await t.rejects(ingest.project('p').publishMap(larger, { dryRun }), { ...over, actual: 427 })
  }
  t.equal(await ingest.project('p').getMap(other), undefined)
  const { ingest: smaller } = setUp({ store, maps: { pendingBytesMax: 1 } })
  for (const manifest of [large, manifestOf('x'.repeat(9))]) {
    const what = 'what does not raise the bytes may always be written'
    t.match(await smaller.project('p').publishMap({ ...id, manifest }), { outcome: 'incomplete' }, what)
  }
  t.match(
    await ingest.project('p').publishMap({ ...id, manifest: manifestOf('y') }),
    { outcome: 'incomplete' },
    'replaces it',
  )
  t.match(await ingest.project('p').putChunk(...chunk('y')), { completed: [{ outcome: 'created' }] })
  t.match(
    await ingest.project('p').publishMap({ ...other, manifest: large }),
    { outcome: 'incomplete' },
    'the quota is free again',
  )
  await freeze()
  t.match(
    await ingest.project('p').publishMap({ ...larger, placeId: '3' }),
    { outcome: 'incomplete' },
    'a frozen build is not counted',
  )
})

t.test('a project has at most 1,000 unfinished uploads', async (t) => {
  const { ingest } = setUp()
  const publish = (place: number, text: string) =>
    ingest.project('p').publishMap({ buildId: 'b', placeId: `${place}`, manifest: manifestOf(text) })
  for (let place = 1; place < 1000; place++) await publish(place, 'a')
  const together = await Promise.allSettled([publish(1000, 'a'), publish(1001, 'a'), publish(1002, 'a')])
  const over = { reason: { code: 'map-quota-exceeded', limit: 1000, actual: 1001, retryable: false } }
  t.match(together, [{ value: { outcome: 'incomplete' } }, over, over])
  t.match(await publish(1000, 'bb'), { outcome: 'incomplete' }, 'one is replaced')
  await ingest.project('p').publishMap({ buildId: 'b', placeId: '1', map: 1 })
  t.match(await publish(1001, 'a'), { outcome: 'incomplete' }, 'one is complete')
})

t.test('an invalid quota is refused at creation', async (t) => {
  for (const pendingBytesMax of [0, -1, 1.5, Number.NaN]) {
    t.throws(() => setUp({ maps: { pendingBytesMax } }), { code: 'invalid-argument' })
  }
})
