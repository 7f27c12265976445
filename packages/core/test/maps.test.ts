import t from 'tap'
import { digestOf } from '../src/digest.ts'
import { IngestError } from '../src/error.ts'
import { createIngest, type IngestOptions } from '../src/ingest.ts'
import type { Digest, Manifest } from '../src/map.ts'
import { openMemoryStore } from '../src/memory-store.ts'

const id = { placeId: '1', buildId: 'b' }
const hour = 3_600_000
const day = 24 * hour

function setUp(options: Partial<IngestOptions> = {}) {
  const store = openMemoryStore()
  const clock = { now: 1_000 }
  const ingest = createIngest({ store, now: () => clock.now, ...options })
  return {
    store,
    clock,
    ingest,
    freeze: () => ingest.submitBatch('p', { events: [{ projectId: 'p', eventId: 'e', buildId: 'b' }] }),
  }
}

function manifestOf(...texts: string[]): Manifest {
  const chunks = texts.map((text) => ({ digest: digestOf(Buffer.from(text)), size: text.length }))
  const whole = Buffer.from(texts.join(''))
  return { contentType: 'text/plain', size: whole.length, digest: digestOf(whole), chunks }
}

const chunk = (text: string): [Digest, Buffer] => [digestOf(Buffer.from(text)), Buffer.from(text)]

t.test('latePublish: reject refuses a first map for a frozen build', async (t) => {
  const { ingest, freeze } = setUp({ maps: { latePublish: 'reject' } })
  await freeze()
  await t.rejects(ingest.publishMap('p', { ...id, map: 1 }), { code: 'map-frozen' })
  t.equal(await ingest.map('p', id), undefined)
})

t.test('an idle manifest that cannot be dropped now is in nobody’s way', async (t) => {
  const { store } = setUp()
  const dropIdleMaps = () => Promise.reject(new IngestError('disk-full', 'Full.'))
  const { ingest } = setUp({ store: { ...store, dropIdleMaps } })
  t.equal(await ingest.map('p', id), undefined)
  t.match(await ingest.maps('p'), { maps: [] })
})

t.test('an incomplete manifest that was idle for 7 days is dropped', async (t) => {
  const { ingest, clock } = setUp()
  await ingest.publishMap('p', { ...id, manifest: manifestOf('a', 'b', 'c') })
  clock.now += 6 * day
  await ingest.putChunk('p', ...chunk('a'))
  clock.now += 6 * day
  await ingest.publishMap('p', { ...id, manifest: manifestOf('a', 'b', 'c') })
  clock.now += 7 * day
  t.match(await ingest.map('p', id), { state: 'incomplete' }, 'touched at that time is not before it')
  clock.now += 1
  t.match(await ingest.map('p', id), { state: 'incomplete' }, 'it is looked for once an hour')
  clock.now += hour
  t.equal(await ingest.map('p', id), undefined)
  await t.rejects(ingest.putChunk('p', ...chunk('b')), { code: 'chunk-undeclared' })
})

t.test('an incomplete manifest that is pinned by a freeze stays for ever', async (t) => {
  const { ingest, clock, freeze } = setUp()
  await ingest.publishMap('p', { ...id, manifest: manifestOf('a', 'b') })
  await freeze()
  clock.now += 700 * day
  await ingest.putChunks('p', [])
  t.match(await ingest.map('p', id), { state: 'incomplete', frozen: true })
})

t.test('a map that a crash kept from completing is completed by the next chunk, or by its manifest', async (t) => {
  for (const finish of ['chunk', 'manifest']) {
    const { ingest, store } = setUp()
    const manifest = manifestOf('a', 'b')
    await ingest.publishMap('p', { ...id, manifest })
    for (const text of ['a', 'b']) {
      const [digest, bytes] = chunk(text)
      await store.putChunk('p', { digest, bytes, receivedAt: 1 })
    }
    t.match(await ingest.map('p', id), { state: 'incomplete', missing: [] })
    if (finish === 'chunk') t.match(await ingest.putChunk('p', ...chunk('a')), { outcome: 'existing', completed: [id] })
    else t.match(await ingest.publishMap('p', { ...id, manifest }), { outcome: 'created' })
    t.match(await ingest.map('p', id), { state: 'complete' })
  }
})

t.test('the last chunks of a map, sent at once, have it read once', async (t) => {
  const { ingest, store } = setUp()
  const texts = ['a', 'b', 'c', 'd']
  await ingest.publishMap('p', { ...id, manifest: manifestOf(...texts) })
  let reads = 0
  const counting = createIngest({
    now: () => 1_000,
    store: {
      ...store,
      chunk: (...args) => {
        reads++
        return store.chunk(...args)
      },
    },
  })
  const results = await Promise.all(texts.map((text) => counting.putChunk('p', ...chunk(text))))
  t.ok(results.some(({ completed }) => completed.length === 1))
  t.equal(reads, texts.length)
})

t.test('a map that is replaced while it is read ends the reading, with a refusal', async (t) => {
  const { ingest } = setUp()
  const texts = ['a', 'b', 'c']
  await ingest.publishMap('p', { ...id, manifest: manifestOf(...texts) })
  for (const text of texts) await ingest.putChunk('p', ...chunk(text))
  const reading = (await ingest.readMap('p', id))?.bytes()[Symbol.asyncIterator]()
  t.strictSame(await reading?.next(), { done: false, value: Buffer.from('a') })
  await ingest.publishMap('p', { ...id, map: 'other' })
  await t.rejects(Promise.resolve(reading?.next()), { code: 'map-replaced', retryable: true })
})

t.test('a map that is republished unchanged is not written', async (t) => {
  const { store } = setUp()
  const refuse = async () => {
    throw new Error('written')
  }
  const ingest = createIngest({ store })
  await ingest.publishMap('p', { ...id, map: { a: 1 } })
  const reader = createIngest({ store: { ...store, updateMap: refuse, putChunk: refuse } })
  t.match(await reader.publishMap('p', { ...id, map: { a: 1 } }), { outcome: 'unchanged' })
  await t.rejects(reader.publishMap('p', { ...id, map: { a: 2 } }), { message: 'written' })
})

t.test('what was decided on a look is decided again when it is written', async (t) => {
  const { store, freeze } = setUp()
  await createIngest({ store }).publishMap('p', { ...id, map: 'first' })
  const ingest = createIngest({
    store: {
      ...store,
      updateMap: async (...args) => {
        await freeze()
        return store.updateMap(...args)
      },
    },
  })
  await t.rejects(ingest.publishMap('p', { ...id, map: 'second' }), { code: 'map-frozen' })
})

t.test('strange arguments are refused as such', async (t) => {
  const { ingest } = setUp()
  const invalid = { code: 'invalid-argument' }
  const digest = digestOf()
  for (const projectId of ['', 'a b', '../p']) {
    await t.rejects(ingest.publishMap(projectId, { ...id, map: 1 }), invalid)
    await t.rejects(ingest.putChunks(projectId, []), invalid)
    await t.rejects(ingest.putChunk(projectId, digest, Buffer.of(1)), invalid)
    await t.rejects(ingest.map(projectId, id), invalid)
    await t.rejects(ingest.maps(projectId), invalid)
    await t.rejects(ingest.readMap(projectId, id), invalid)
    await t.rejects(ingest.readChunk(projectId, digest), invalid)
  }
  await t.rejects(ingest.map('p', { placeId: '', buildId: 'b' }), invalid)
  await t.rejects(ingest.readMap('p', { placeId: '1', buildId: 'a\n' }), invalid)
  await t.rejects(ingest.readChunk('p', 'abc'), invalid)
  await t.rejects(ingest.putChunk('p', 'abc', Buffer.of(1)), invalid)
  await t.rejects(ingest.putChunk('p', digest, Buffer.of()), invalid)
  await t.rejects(ingest.putChunk('p', digest, 'abc' as never), invalid)
  for (const limit of [0, 1_001, 1.5, Number.NaN]) await t.rejects(ingest.maps('p', { limit }), invalid)
  await t.rejects(ingest.publishMap('p', { ...id, map: 1 }, { ifMatch: 'abc' }), invalid)
  await t.rejects(ingest.publishMap('p', { ...id, map: 1 }, { ifNoneMatch: 'abc' as never }), invalid)
  const { rejected } = await ingest.putChunks('p', [5 as never, { digest: 5 as never, bytes: Buffer.of(1) }])
  t.match(rejected, [
    { index: 0, digest: null, issues: [{ code: 'not_object' }] },
    { index: 1, digest: null, issues: [{ code: 'invalid_type' }] },
  ])
})

t.test('chunks of a request are stored even if the store refuses another one, and the refusal is told', async (t) => {
  const { store, ingest } = setUp()
  await ingest.publishMap('p', { ...id, manifest: manifestOf('a', 'b') })
  const failing = createIngest({
    now: () => 1_000,
    store: {
      ...store,
      putChunk: (projectId, each) =>
        each.digest === chunk('a')[0] ? Promise.reject(new RangeError('full')) : store.putChunk(projectId, each),
    },
  })
  const uploads = ['a', 'b'].map((text) => ({ digest: chunk(text)[0], bytes: chunk(text)[1] }))
  await t.rejects(failing.putChunks('p', uploads), { message: 'full' })
  t.match(await ingest.map('p', id), { missing: [chunk('a')[0]] })
})

t.test('large chunks that the store refuses at once are a refusal that the caller gets', async (t) => {
  const { ingest } = setUp()
  const bytes = Buffer.alloc(100_000)
  const digest = digestOf(bytes)
  await ingest.close()
  await t.rejects(ingest.putChunk('p', digest, bytes), { code: 'store-closed' })
  const uploads = [1, 2, 3].map(() => ({ digest, bytes }))
  await t.rejects(ingest.putChunks('p', uploads), { code: 'store-closed' })
})

t.test('a page ends early at manifests of very many chunks, and the next one goes on', async (t) => {
  const { ingest } = setUp()
  const chunks = Array.from({ length: 2_500 }, (_, i) => ({ digest: digestOf(Buffer.from(`${i}`)), size: 1 }))
  const manifest = { contentType: 'a/b', size: chunks.length, digest: digestOf(Buffer.from('all')), chunks }
  const ids = Array.from({ length: 25 }, (_, i) => ({ placeId: String(10 + i), buildId: 'b' }))
  for (const each of ids) await ingest.publishMap('p', { ...each, manifest })
  const pages = [await ingest.maps('p')]
  for (let next = pages[0]?.next; next; next = pages.at(-1)?.next) pages.push(await ingest.maps('p', { cursor: next }))
  t.ok(pages.length > 1, `${pages.length} pages`)
  const maps = pages.flatMap((page) => page.maps)
  t.match(maps, ids)
  t.equal(maps.length, ids.length)
  t.ok(maps.every(({ missing }) => missing.length === chunks.length))
})
