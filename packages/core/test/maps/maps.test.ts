import { mock } from 'node:test'
import t, { type Test } from 'tap'
import { IngestError } from '../../src/error.ts'
import { createIngest, type Ingest, type IngestOptions } from '../../src/ingest.ts'
import { completeMap, verifyManifest } from '../../src/maps/complete-map.ts'
import { digestOf } from '../../src/maps/digest.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'
import type { Store } from '../../src/store.ts'
import type { Digest, Manifest } from '../../src/store-types.ts'

const id = { placeId: '1', buildId: 'b' }
const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

function setUp(options: Partial<IngestOptions> = {}) {
  const store = openMemoryStore()
  const clock = { now: 1_000 }
  const ingest = createIngest({ store, now: () => clock.now, ...options })
  const project = ingest.project('p')
  return { store, clock, ingest, project, freeze: () => freeze(project) }
}

/** The same project in another process, whose store differs in these operations. */
function projectOn(store: Store, changes: Partial<Store> = {}): Ingest {
  return createIngest({ store: { ...store, ...changes }, now: () => 2_000 }).project('p')
}

function freeze(project: Ingest) {
  return project.submitBatch({ events: [{ projectId: 'p', eventId: 'e', buildId: 'b' }] })
}

function manifestOf(...texts: string[]): Manifest {
  const chunks = texts.map((text) => ({ digest: digestOf(Buffer.from(text)), size: text.length }))
  const whole = Buffer.from(texts.join(''))
  return { contentType: 'text/plain', size: whole.length, digest: digestOf(whole), chunks }
}

/** Replaces timers. Returns a function that lets that many milliseconds pass. */
function mockTimers(t: Test): (ms: number) => Promise<void> {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  return async (ms) => {
    mock.timers.tick(ms)
    await new Promise(setImmediate)
  }
}

const chunk = (text: string): [Digest, Buffer] => [digestOf(Buffer.from(text)), Buffer.from(text)]
const upload = (text: string) => ({ digest: chunk(text)[0], bytes: chunk(text)[1] })

t.test('latePublish: reject refuses a first map for a frozen build', async (t) => {
  const { project, freeze } = setUp({ maps: { latePublish: 'reject' } })
  await freeze()
  await t.rejects(project.publishMap({ ...id, map: 1 }), { code: 'map-frozen' })
  t.equal(await project.getMap(id), undefined)
})

t.test('an incomplete manifest that was idle for 7 days is dropped', async (t) => {
  const pass = mockTimers(t)
  const { project, clock } = setUp()
  await project.publishMap({ ...id, manifest: manifestOf('a', 'b', 'c') })
  clock.now += 6 * day
  await project.putChunk(...chunk('a'))
  clock.now += 6 * day
  await project.publishMap({ ...id, manifest: manifestOf('a', 'b', 'c') })
  clock.now += 7 * day
  await pass(minute)
  t.match(await project.getMap(id), { state: 'incomplete' }, 'touched at that time is not before it')
  clock.now += 1
  await pass(hour)
  t.equal(await project.getMap(id), undefined)
  await t.rejects(project.putChunk(...chunk('b')), { code: 'chunk-undeclared' })
})

t.test('a pending map that a freeze has pinned does not expire', async (t) => {
  const pass = mockTimers(t)
  const { project, clock, freeze } = setUp()
  await project.publishMap({ ...id, manifest: manifestOf('a', 'b') })
  await freeze()
  clock.now += 700 * day
  await pass(minute)
  t.match(await project.getMap(id), { state: 'incomplete', frozen: true })
})

t.test('a map that a crash kept from completing is completed by the next chunk, or by its manifest', async (t) => {
  for (const finish of ['chunk', 'chunk of another map', 'manifest']) {
    const { project, store } = setUp()
    const manifest = manifestOf('a', 'b')
    await project.publishMap({ ...id, manifest })
    for (const text of ['a', 'b']) {
      const [digest, bytes] = chunk(text)
      await store.putChunk('p', { digest, bytes, receivedAt: 1 })
    }
    t.match(await project.getMap(id), { state: 'incomplete', missing: { length: 0 } })
    if (finish === 'chunk') t.match(await project.putChunk(...chunk('a')), { outcome: 'existing', completed: [id] })
    else if (finish === 'manifest') t.match(await project.publishMap({ ...id, manifest }), { outcome: 'created' })
    else {
      await project.publishMap({ ...id, placeId: 'other', manifest: manifestOf('c', 'd') })
      t.match(await project.putChunk(...chunk('c')), { outcome: 'stored', completed: [id] })
    }
    t.match(await project.getMap(id), { state: 'complete' })
  }
})

t.test('the last chunks of a map, sent at once, verify it once', async (t) => {
  const { project, store } = setUp()
  const texts = ['a', 'b', 'c', 'd']
  await project.publishMap({ ...id, manifest: manifestOf(...texts) })
  let reads = 0
  const readChunk: Store['readChunk'] = (...args) => {
    reads++
    return store.readChunk(...args)
  }
  const counting = projectOn(store, { readChunk })
  const results = await Promise.all(texts.map((text) => counting.putChunk(...chunk(text))))
  t.ok(results.some(({ completed }) => completed.length === 1))
  t.equal(reads, texts.length)
})

t.test('the last chunk of a map, sent many times at once, is charged once', async (t) => {
  const { project } = setUp()
  await project.publishMap({ ...id, manifest: manifestOf('a', 'b') })
  await project.putChunk(...chunk('a'))
  const charged: number[] = []
  const admit = (bytes: number) => void charged.push(bytes)
  const results = await Promise.all(Array.from({ length: 8 }, () => project.putChunk(...chunk('b'), { admit })))
  t.strictSame(charged, [2])
  t.equal(results.flatMap(({ completed }) => completed).length, 1)
})

t.test(
  'of two maps that are published at once for one place, each is verified, and one replaces the other',
  async (t) => {
    const { store, project } = setUp()
    const texts = ['a', 'b', 'c', 'd', 'e']
    const manifests = [manifestOf(...texts), manifestOf(...texts.toReversed())]
    await project.publishMap({ placeId: 'other', buildId: 'other', manifest: manifestOf(...texts) })
    for (const text of texts) await project.putChunk(...chunk(text))
    let reads = 0
    const readChunk: Store['readChunk'] = async (...args) => {
      if (++reads > 100) throw new Error('without end')
      // each verification takes as many turns as a decision
      await new Promise(setImmediate)
      return store.readChunk(...args)
    }
    const publishing = projectOn(store, { readChunk })
    const published = await Promise.all(manifests.map((manifest) => publishing.publishMap({ ...id, manifest })))
    t.strictSame(published.map(({ outcome }) => outcome).sort(), ['created', 'replaced'])
    t.match(await project.getMap(id), { state: 'complete' })
  },
)

t.test('many maps can wait for their verification without a signal', async (t) => {
  const { store, project } = setUp()
  const warnings: Error[] = []
  const onWarning = (warning: Error) => warnings.push(warning)
  process.on('warning', onWarning)
  t.teardown(() => process.off('warning', onWarning))
  const publications = []
  for (let i = 0; i < 20; i++) publications.push(await recordReady(store, `${i}`, `${i}`))
  await Promise.all(publications.map((publication) => project.publishMap(publication)))
  await new Promise(setImmediate)
  t.strictSame(warnings, [])
})

t.test('reading a map that is replaced meanwhile is refused with map-replaced', async (t) => {
  const { project } = setUp()
  const texts = ['a', 'b', 'c']
  await project.publishMap({ ...id, manifest: manifestOf(...texts) })
  for (const text of texts) await project.putChunk(...chunk(text))
  const reading = (await project.getMapContent(id))?.bytes()[Symbol.asyncIterator]()
  t.strictSame(await reading?.next(), { done: false, value: Buffer.from('a') })
  await project.publishMap({ ...id, map: 'other' })
  await t.rejects(Promise.resolve(reading?.next()), { code: 'map-replaced', retryable: true })
})

t.test('a map that is republished unchanged is not written', async (t) => {
  const { project, store } = setUp()
  await project.publishMap({ ...id, map: { a: 1 } })
  const updateMap: Store['updateMap'] = (key, chunks, decide) =>
    store.updateMap(key, chunks, (slot, present) => {
      const decision = decide(slot, present)
      if (decision.contents) throw new Error('written')
      return decision
    })
  const reader = projectOn(store, { updateMap, putChunk: () => Promise.reject(new Error('written')) })
  t.match(await reader.publishMap({ ...id, map: { a: 1 } }), { outcome: 'unchanged' })
  await t.rejects(reader.publishMap({ ...id, map: { a: 2 } }), { message: 'written' })
})

t.test('a publication is decided again after a lost race', async (t) => {
  const { store, project, freeze } = setUp()
  await project.publishMap({ ...id, map: 'first' })
  const updateMap: Store['updateMap'] = async (key, chunks, decide) => {
    decide(await store.map(key), new Set())
    await freeze()
    return store.updateMap(key, chunks, decide)
  }
  await t.rejects(projectOn(store, { updateMap }).publishMap({ ...id, map: 'second' }), { code: 'map-frozen' })
})

t.test('invalid arguments are refused with invalid-argument', async (t) => {
  const { project } = setUp()
  const digest = digestOf()
  const long = 'a'.repeat(2_000)
  const calls: (() => Promise<unknown>)[] = [
    () => project.getMap({ placeId: '', buildId: 'b' }),
    () => project.getMapContent({ placeId: '1', buildId: 'a\n' }),
    () => project.getChunk('abc'),
    () => project.putChunk('abc', Buffer.of(1)),
    () => project.putChunk(digest, Buffer.of()),
    () => project.putChunk(digest, 'abc' as never),
    () => project.listMaps({ buildId: long }),
    () => project.listMaps({ placeId: long }),
    () => project.publishMap({ ...id, map: 1 }, { ifMatch: 'abc' }),
    () => project.publishMap({ ...id, map: 1 }, { ifNoneMatch: 'abc' as never }),
  ]
  for (const call of calls) {
    await t.rejects(call(), { code: 'invalid-argument' }, String(call))
  }
  const { rejected } = await project.putChunks([5 as never, { digest: 5 as never, bytes: Buffer.of(1) }])
  t.match(rejected, [
    { index: 0, digest: null, issues: [{ code: 'not_object' }] },
    { index: 1, digest: null, issues: [{ code: 'invalid_type' }] },
  ])
})

t.test('chunks of a request are stored even if the store refuses another one, which is reported', async (t) => {
  const { store, project } = setUp()
  await project.publishMap({ ...id, manifest: manifestOf('a', 'b') })
  const putChunk: Store['putChunk'] = (projectId, each) =>
    each.digest === chunk('a')[0] ? Promise.reject(new RangeError('full')) : store.putChunk(projectId, each)
  await t.rejects(projectOn(store, { putChunk }).putChunks(['a', 'b'].map(upload)), { message: 'full' })
  t.match(await project.getMap(id), { missing: [chunk('a')[0]] })
})

t.test('a store that refuses large chunks at once rejects the call', async (t) => {
  const { project, store } = setUp()
  const bytes = Buffer.alloc(100_000)
  const digest = digestOf(bytes)
  await store.close()
  await t.rejects(project.putChunk(digest, bytes), { code: 'store-closed' })
  await t.rejects(project.putChunks([1, 2, 3].map(() => ({ digest, bytes }))), { code: 'store-closed' })
})

t.test('a page ends early after very many chunks, and the next one continues', async (t) => {
  const { project } = setUp()
  const chunks = Array.from({ length: 2_500 }, (_, i) => ({ digest: digestOf(Buffer.from(`${i}`)), size: 1 }))
  const manifest = { contentType: 'a/b', size: chunks.length, digest: digestOf(Buffer.from('all')), chunks }
  const ids = Array.from({ length: 25 }, (_, i) => ({ placeId: String(10 + i), buildId: 'b' }))
  for (const each of ids) await project.publishMap({ ...each, manifest })
  const pages = [await project.listMaps()]
  for (let next = pages[0]?.next; next; next = pages.at(-1)?.next) pages.push(await project.listMaps({ cursor: next }))
  t.ok(pages.length > 1, `${pages.length} pages`)
  const maps = pages.flatMap((page) => page.maps)
  t.match(maps, ids)
  t.equal(maps.length, ids.length)
  t.ok(maps.every(({ missing }) => missing.length === chunks.length))
})

/** A manifest of these texts and one of its own for each place. */
async function recordAll(project: Ingest, places: number, ...texts: string[]) {
  for (let i = 0; i < places; i++) {
    await project.publishMap({ placeId: `${i}`, buildId: 'b', manifest: manifestOf(...texts, `${i}`) })
    await project.putChunk(...chunk(`${i}`))
  }
}

/** A project whose chunk reads resolve after `open`, and the digests that were read. */
function gated(store: Store) {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  const reads: Digest[] = []
  let begin = () => {}
  const begun = new Promise<void>((resolve) => {
    begin = resolve
  })
  async function readChunk(projectId: string, digest: Digest) {
    reads.push(digest)
    begin()
    await opened
    return store.readChunk(projectId, digest)
  }
  /** `begun` resolves once a chunk is read. */
  return { open, begun, reads, project: projectOn(store, { readChunk }) }
}

/** A pending manifest that misses no chunk. */
async function recordReady(store: Store, placeId: string, ...texts: string[]) {
  const manifest = manifestOf(...texts)
  await projectOn(store).publishMap({ placeId, buildId: 'b', manifest })
  for (const text of texts) await store.putChunk('p', { ...upload(text), receivedAt: 1 })
  return { placeId, buildId: 'b', manifest }
}

/** A pending manifest of many times the same chunk, which is stored. */
async function recordSame(store: Store, projectId: string, size: number, times: number) {
  const bytes = Buffer.alloc(size)
  const ref = { digest: digestOf(bytes), size }
  const chunks = Array.from({ length: times }, () => ref)
  const digest = digestOf(...chunks.map(() => bytes))
  const publication = { ...id, manifest: { contentType: 'a/b', size: size * times, digest, chunks } }
  await createIngest({ store }).project(projectId).publishMap(publication)
  await store.putChunk(projectId, { digest: ref.digest, bytes, receivedAt: 1 })
  return publication
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
      const { reads, open, project } = gated(store)
      open()
      await t.rejects(project.publishMap(publication, { dryRun, admit: refuse }), {
        code: 'rate-limited',
        retryAfterSeconds: 7,
      })
      t.strictSame(reads, [])
      t.match(await project.getMap(publication), { state: 'incomplete', missing: { length: 0 } })
      const charged: number[] = []
      const admit = (bytes: number) => void charged.push(bytes)
      t.match(await project.publishMap(publication, { dryRun, admit }), {
        outcome: 'created',
        state: 'complete',
      })
      t.strictSame(charged, [4])
      t.equal(reads.length, 3)
      if (!dryRun) await project.publishMap(publication, { admit: refuse })
    }
  },
)

t.test('admit is called for verifications only', async (t) => {
  const { project } = setUp()
  const admit = refuse
  await project.publishMap({ ...id, map: 'whole' }, { admit })
  await project.publishMap({ ...id, map: 'other' }, { admit, dryRun: true })
  const manifest = manifestOf('a', 'b')
  await project.publishMap({ ...id, manifest }, { admit })
  await project.publishMap({ ...id, manifest }, { admit, dryRun: true })
  t.match(await project.putChunk(...chunk('a'), { admit }), { outcome: 'stored', completed: { length: 0 } })
})

t.test('a last chunk is stored if its verification is not admitted, and the manifest completes its map', async (t) => {
  const { project } = setUp()
  const manifest = manifestOf('a', 'b')
  await project.publishMap({ ...id, manifest })
  await project.putChunk(...chunk('a'))
  t.strictSame(await project.putChunk(...chunk('b'), { admit: refuse }), {
    outcome: 'stored',
    completed: [],
  })
  t.match(await project.getMap(id), { state: 'incomplete', missing: { length: 0 } })
  t.match(await project.putChunks([upload('b')], { admit: refuse }), { existing: 1, completed: { length: 0 } })
  t.match(await project.publishMap({ ...id, manifest }), { outcome: 'created' })
})

t.test('maps of a project are verified one at a time, and the same one once', async (t) => {
  const { store } = setUp()
  const first = await recordReady(store, '1', 'a')
  const second = await recordReady(store, '2', 'b')
  const { reads, open, begun, project } = gated(store)
  const charged: number[] = []
  const admit = (bytes: number) => void charged.push(bytes)
  const done: string[] = []
  const publish = (publication: typeof first) =>
    project.publishMap(publication, { admit }).then(({ placeId }) => done.push(placeId))
  const publishing = [publish(first), publish(second), publish(first)]
  await begun
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(reads.length, 1)
  t.strictSame(charged, [1, 1, 1])
  const other = await project.putChunk(...chunk('b'))
  t.strictSame(other.completed, [], 'a chunk does not wait for its turn')
  open()
  await Promise.all(publishing)
  t.strictSame(done.sort(), ['1', '1', '2'])
  t.equal(reads.length, 2, 'what another call has completed is not verified again')
})

t.test('an asynchronous admit is awaited: its rejection refuses the verification', async (t) => {
  const { store } = setUp()
  const publication = await recordReady(store, '1', 'a')
  const { reads, open, project } = gated(store)
  open()
  const admit = async () => {
    await new Promise((resolve) => setImmediate(resolve))
    refuse()
  }
  for (const dryRun of [false, true]) {
    await t.rejects(project.publishMap(publication, { dryRun, admit }), { code: 'rate-limited' })
  }
  t.match(await project.putChunk(...chunk('a'), { admit }), { outcome: 'existing', completed: { length: 0 } })
  t.strictSame(reads, [])
  t.match(await project.putChunk(...chunk('a'), { admit: async () => {} }), { completed: [{ placeId: '1' }] })
})

t.test('a verification is cancelled with its caller, and the next one begins', async (t) => {
  const { store, project } = setUp()
  const publication = await recordSame(store, 'p', 262_144, 1_000)
  const callers = [new AbortController(), new AbortController()]
  const [first, second] = callers as [AbortController, AbortController]
  let reads = 0
  const readChunk: Store['readChunk'] = (...args) => {
    reads++
    if (reads === 10) first.abort(new RangeError('first left'))
    if (reads === 20) second.abort(new RangeError('second left'))
    return store.readChunk(...args)
  }
  const counting = projectOn(store, { readChunk })
  const results = callers.map(({ signal }) => counting.publishMap(publication, { signal }))
  t.match(await Promise.allSettled(results), [
    { reason: { message: 'first left' } },
    { reason: { message: 'second left' } },
  ])
  t.equal(reads, 20)
  t.match(await project.getMap(id), { state: 'incomplete', missing: { length: 0 } })
  t.match(await counting.publishMap(publication), { outcome: 'created' }, 'and can be begun again')
  await counting.publishMap({ placeId: '2', buildId: 'b', manifest: manifestOf('z') })
  const { completed } = await counting.putChunk(...chunk('z'))
  t.equal(completed.length, 1, 'the project is not busy')
})

t.test('a queued verification is cancelled with its caller', async (t) => {
  const { store } = setUp()
  const first = await recordReady(store, '1', 'a')
  const second = await recordReady(store, '2', 'b')
  const { reads, open, begun, project } = gated(store)
  const publishing = project.publishMap(first)
  await begun
  const leaving = new AbortController()
  const waiting = project.publishMap(second, {
    signal: leaving.signal,
    admit: () => void setImmediate(() => leaving.abort(new RangeError('left'))),
  })
  await t.rejects(waiting, { message: 'left' })
  open()
  t.match(await publishing, { outcome: 'created' })
  t.strictSame(reads, [chunk('a')[0]])
  t.match(await project.publishMap(second), { outcome: 'created' })
  t.strictSame(reads, [chunk('a')[0], chunk('b')[0]], 'the first one ran once')
})

t.test('each turn of the event loop hashes a map of one project', async (t) => {
  const { store } = setUp()
  const projectIds = ['p', 'q', 'r']
  const publications = await Promise.all(projectIds.map((projectId) => recordSame(store, projectId, 65_536, 20)))
  const readsByTurn = [0]
  let isOver = false
  function countTurns(): void {
    readsByTurn.push(0)
    if (!isOver) setImmediate(countTurns)
  }
  const readChunk: Store['readChunk'] = (...args) => {
    readsByTurn.push((readsByTurn.pop() ?? 0) + 1)
    return store.readChunk(...args)
  }
  const ingest = createIngest({ store: { ...store, readChunk } })
  setImmediate(countTurns)
  await Promise.all(projectIds.map((projectId, i) => ingest.project(projectId).publishMap(publications[i] as never)))
  isOver = true
  t.equal(
    readsByTurn.reduce((sum, reads) => sum + reads),
    3 * 20,
  )
  t.equal(Math.max(...readsByTurn), 1)
})

t.test('a chunk whose caller has aborted is stored, and completes nothing', async (t) => {
  const { project } = setUp()
  await project.publishMap({ ...id, manifest: manifestOf('a') })
  const signal = AbortSignal.abort(new RangeError('left'))
  t.strictSame(await project.putChunk(...chunk('a'), { signal }), { outcome: 'stored', completed: [] })
  t.match(await project.publishMap({ ...id, manifest: manifestOf('a') }), { outcome: 'created' })
})

t.test('a map that a chunk completes is charged once, and not after its caller aborted', async (t) => {
  for (const leaves of [false, true]) {
    const { project, store } = setUp()
    await recordAll(project, 3, 'shared')
    const leaving = new AbortController()
    const readChunk: Store['readChunk'] = (...args) => {
      if (leaves) leaving.abort(new RangeError('left'))
      return store.readChunk(...args)
    }
    const charged: number[] = []
    const admit = (bytes: number) => void charged.push(bytes)
    const watched = projectOn(store, { readChunk })
    const { completed } = await watched.putChunk(...chunk('shared'), { signal: leaving.signal, admit })
    t.equal(completed.length, leaves ? 0 : 3)
    t.strictSame(charged, leaves ? [7] : [7, 7, 7])
  }
})

t.test(
  'a chunk completes 16 maps at most; the others are completed by the next one, or by their manifest',
  async (t) => {
    const { project } = setUp()
    await recordAll(project, 40, 'shared')
    const { completed } = await project.putChunk(...chunk('shared'))
    t.equal(completed.length, 16)
    const states = async () => (await project.listMaps()).maps.map(({ state }) => state)
    t.equal((await states()).filter((state) => state === 'complete').length, 16)
    const [left] = (await project.listMaps()).maps.filter(({ state }) => state === 'incomplete')
    const { placeId = '' } = left ?? {}
    const manifest = manifestOf('shared', placeId)
    t.match(await project.publishMap({ placeId, buildId: 'b', manifest }), { outcome: 'created' })
    for (const count of [16, 7, 0]) {
      t.equal((await project.putChunk(...chunk('shared'))).completed.length, count)
    }
    t.notOk((await states()).includes('incomplete'))
  },
)

t.test('a chunk completes no further map once 64 MiB were hashed for it', async (t) => {
  const { project, store } = setUp()
  const { manifest } = await recordSame(store, 'other', 1_048_576, 33)
  for (let i = 0; i < 3; i++) {
    await project.publishMap({ placeId: `${i}`, buildId: 'b', manifest: { ...manifest, contentType: `a/${i}` } })
  }
  const put = () => project.putChunk(manifest.chunks[0]?.digest as Digest, Buffer.alloc(1_048_576))
  t.equal((await put()).completed.length, 2)
  t.equal((await put()).completed.length, 1)
})

/** The turns that verifying chunks of one size takes, and its issues. */
async function countTurns(manifest: Manifest, store: Store) {
  let turns = 0
  const { signal } = new AbortController()
  const issues = await verifyManifest(store, 'p', manifest, { signal, nextTurn: async () => ++turns })
  return { turns, issues }
}

t.test('a turn of the event loop hashes at most 64 KiB and 64 chunks, whatever their sizes', async (t) => {
  for (const [size, times, turns] of [
    [1_048_576, 3, 48],
    [65_536, 5, 5],
    [60_000, 5, 5],
    [200_000, 5, 20],
    [65_537, 2, 4],
    [30_000, 6, 3],
    [1, 641, 11],
  ] as const) {
    const { store } = setUp()
    const { manifest } = await recordSame(store, 'p', size, times)
    t.strictSame(await countTurns(manifest, store), { turns, issues: [] }, `${times} chunks of ${size} bytes`)
  }
})

t.test('a chunk of another size than declared is not hashed, and a missing one is not an issue', async (t) => {
  const { store } = setUp()
  const { manifest } = await recordSame(store, 'p', 1_048_576, 1)
  const chunks = manifest.chunks.map((chunk) => ({ ...chunk, size: 1 }))
  t.match(await countTurns({ ...manifest, size: 1, chunks }, store), {
    turns: 1,
    issues: [{ code: 'out_of_range', path: '/manifest/chunks/0/size' }],
  })
  t.match(await countTurns(manifestOf('a'), store), { issues: undefined })
})

t.test('a manifest that does not match is dropped if it is still pending', async (t) => {
  const { store } = setUp()
  const key = { projectId: 'p', ...id }
  const right = await recordReady(store, '1', 'a')
  const wrong = { ...right.manifest, digest: digestOf() }
  const { signal } = new AbortController()
  const complete = () => completeMap(store, key, wrong, { signal, nextTurn: async () => {}, now: () => 1 })
  t.equal(await complete(), undefined)
  t.match(await store.map(key), { pending: { manifest: right.manifest } })
  await projectOn(store)
    .publishMap({ ...id, manifest: wrong })
    .catch(() => {})
  t.strictSame(await store.map(key), {})
})

t.test('a map that is replaced, frozen or dropped while it is verified is decided again', async (t) => {
  const cases: [what: string, meddle: (project: Ingest) => Promise<unknown>, expected: object][] = [
    ['a whole map', (other) => other.publishMap({ ...id, map: 1 }), { outcome: 'replaced' }],
    ['a map again', (other) => other.publishMap({ ...id, manifest: manifestOf('c') }), { outcome: 'created' }],
    ['a freeze', freeze, { outcome: 'created', frozen: true }],
    [
      'a whole map that freezes',
      async (other) => {
        await other.publishMap({ ...id, map: 1 })
        await freeze(other)
      },
      { code: 'map-frozen' },
    ],
  ]
  for (const [what, meddle, expected] of cases) {
    const { store } = setUp()
    const publication = await recordReady(store, '1', 'a', 'b')
    const { open, begun, project } = gated(store)
    const publishing = project.publishMap(publication).catch((error) => error)
    await begun
    await meddle(projectOn(store))
    open()
    const result = await publishing
    if ('missing' in result && result.missing.length > 0) {
      for (const text of ['a', 'b']) await project.putChunk(...chunk(text))
      t.match(await project.getMap(id), { state: 'complete', digest: publication.manifest.digest }, what)
    } else t.match(result, expected, what)
  }
})

t.test('unfinished uploads of a project are limited in bytes, and a refusal has limit and actual', async (t) => {
  const { store, project, freeze } = setUp({ maps: { pendingBytesMax: 256 + 160 + 10 } })
  const over = { code: 'map-quota-exceeded', limit: 426, retryable: false }
  const large = manifestOf('x'.repeat(10))
  await project.publishMap({ ...id, manifest: large })
  const other = { placeId: '2', buildId: 'b', manifest: manifestOf('y') }
  const larger = { ...id, manifest: manifestOf('x'.repeat(11)) }
  for (const dryRun of [true, false]) {
    await t.rejects(project.publishMap(other, { dryRun }), { ...over, actual: 426 + 417 })
    await t.rejects(project.publishMap(larger, { dryRun }), { ...over, actual: 427 })
  }
  t.equal(await project.getMap(other), undefined)
  const { project: smaller } = setUp({ store, maps: { pendingBytesMax: 1 } })
  for (const manifest of [large, manifestOf('x'.repeat(9))]) {
    const what = 'what does not raise the bytes may always be written'
    t.match(await smaller.publishMap({ ...id, manifest }), { outcome: 'incomplete' }, what)
  }
  const incomplete = { outcome: 'incomplete' }
  t.match(await project.publishMap({ ...id, manifest: manifestOf('y') }), incomplete, 'replaces it')
  t.match(await project.putChunk(...chunk('y')), { completed: [{ outcome: 'created' }] })
  t.match(await project.publishMap({ ...other, manifest: large }), incomplete, 'the quota is free again')
  await freeze()
  t.match(await project.publishMap({ ...larger, placeId: '3' }), incomplete, 'a frozen build is not counted')
})

t.test('a project has at most 1,000 unfinished uploads', async (t) => {
  const { project } = setUp()
  const publish = (place: number, text: string) =>
    project.publishMap({ buildId: 'b', placeId: `${place}`, manifest: manifestOf(text) })
  for (let place = 1; place < 1000; place++) await publish(place, 'a')
  const together = await Promise.allSettled([publish(1000, 'a'), publish(1001, 'a'), publish(1002, 'a')])
  const over = { reason: { code: 'map-quota-exceeded', limit: 1000, actual: 1001, retryable: false } }
  t.match(together, [{ value: { outcome: 'incomplete' } }, over, over])
  t.match(await publish(1000, 'bb'), { outcome: 'incomplete' }, 'one is replaced')
  await project.publishMap({ buildId: 'b', placeId: '1', map: 1 })
  t.match(await publish(1001, 'a'), { outcome: 'incomplete' }, 'one is complete')
})

t.test('an invalid quota is refused at creation', async (t) => {
  for (const pendingBytesMax of [0, -1, 1.5, Number.NaN]) {
    t.throws(() => setUp({ maps: { pendingBytesMax } }), { code: 'invalid-argument' })
  }
})
