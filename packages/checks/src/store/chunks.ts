import assert from 'node:assert/strict'
import { digestOf, type Manifest, type MapKey } from '@ingest/core'
import {
  chunk,
  chunkText,
  complete,
  digests,
  key,
  list,
  newChunk,
  present,
  publish,
  putChunk,
  readyPlaces,
  record,
  uploadsOf,
  wholeOf,
} from './sample-maps.ts'
import { check, range, type StoreCheck } from './store-check.ts'

export const chunkChecks: readonly StoreCheck[] = [
  check(
    'a map published with its chunks has them at once, and those that it does not name are not kept',
    async (store) => {
      await store.updateMap(key(), uploadsOf('a', 'b', 'd'), () => ({ contents: wholeOf('a', 'b', 'a'), result: 1 }))
      assert.deepEqual(await present(store, ['a', 'b', 'c', 'd']), ['a', 'b'])
      assert.equal(await chunkText(store, 'a'), 'a')
      assert.equal(await chunkText(store, 'b'), 'b')
      assert.equal(await putChunk(store, 'p', newChunk('a')), 'existing')
      assert.equal(await putChunk(store, 'p', newChunk('d')), 'undeclared')
    },
  ),

  check('a chunk is stored once, and only if a map of its project names it', async (store) => {
    assert.equal(await putChunk(store, 'p', newChunk('a')), 'undeclared')
    await record(store, key(), 'a', 'b')
    assert.equal(await putChunk(store, 'p', newChunk('a')), 'stored')
    assert.equal(await putChunk(store, 'p', newChunk('a')), 'existing')
    assert.equal(await putChunk(store, 'p', newChunk('c')), 'undeclared')
    assert.equal(await putChunk(store, 'q', newChunk('b')), 'undeclared')
    assert.deepEqual(await present(store, ['a', 'b', 'c']), ['a'])
    assert.equal(await chunkText(store, 'a'), 'a')
    assert.equal(await chunkText(store, 'b'), undefined)
  }),

  check('a chunk of one project is missing in another one', async (store) => {
    await publish(store, key(), 'a')
    await record(store, key({ projectId: 'q' }), 'a')
    assert.deepEqual(await present(store, ['a'], 'q'), [])
    assert.equal(await chunkText(store, 'a', 'q'), undefined)
    assert.equal(await putChunk(store, 'q', newChunk('a')), 'stored')
    await store.updateMap(key(), {}, () => ({ contents: {}, result: 1 }))
    assert.deepEqual(await present(store, ['a']), [])
    assert.equal(await chunkText(store, 'a', 'q'), 'a')
  }),

  check('a pending map is touched by each of its missing chunks, and by no other', async (store) => {
    const touchedAt = async (id: Partial<MapKey> = {}) => (await store.map(key(id))).pending?.touchedAt
    await record(store, key(), 'a', 'b')
    await record(store, key({ placeId: '2' }), 'b', 'c')
    await putChunk(store, 'p', newChunk('a', 2_000))
    assert.deepEqual([await touchedAt(), await touchedAt({ placeId: '2' })], [2_000, 1_000])
    await putChunk(store, 'p', newChunk('b', 3_000))
    await putChunk(store, 'p', newChunk('a', 4_000))
    assert.deepEqual([await touchedAt(), await touchedAt({ placeId: '2' })], [3_000, 3_000])
  }),

  check('a pending map is ready when its last chunk is there, and no longer once it is complete', async (store) => {
    await record(store, key(), 'a', 'b', 'a', 'c')
    await record(store, key({ placeId: '2' }), 'c')
    await record(store, key({ placeId: '3' }), 'd')
    await record(store, key({ projectId: 'q' }), 'a')
    for (const text of ['a', 'b']) await putChunk(store, 'p', newChunk(text))
    assert.deepEqual(await readyPlaces(store), [])
    await putChunk(store, 'p', newChunk('c'))
    assert.deepEqual(await readyPlaces(store), ['1', '2'])
    await record(store, key({ placeId: '4' }), 'b', 'a')
    assert.deepEqual(await readyPlaces(store), ['1', '2', '4'], 'all of its chunks are stored')
    await complete(store, key())
    assert.deepEqual(await readyPlaces(store), ['2', '4'])
    assert.deepEqual(await store.map(key()), wholeOf('a', 'b', 'a', 'c'))
    assert.deepEqual(await present(store, ['a', 'b', 'c']), ['a', 'b', 'c'])
    assert.deepEqual(await readyPlaces(store, 'q'), [])
  }),

  check('a chunk reports the maps that miss no chunk, those that name it first', async (store) => {
    const put = async (text: string) => (await store.putChunk('p', newChunk(text))).ready.map(({ placeId }) => placeId)
    await record(store, key(), 'a', 'b')
    await record(store, key({ placeId: '2' }), 'b')
    await record(store, key({ placeId: '3' }), 'c')
    assert.deepEqual(await put('a'), [])
    assert.deepEqual((await put('b')).sort(), ['1', '2'])
    assert.deepEqual((await put('b')).sort(), ['1', '2'], 'also for a chunk that is stored already')
    assert.deepEqual(await put('a'), ['1', '2'])
    const all = await put('c')
    assert.deepEqual([all[0], all.length], ['3', 3])
    await complete(store, key())
    assert.deepEqual(await put('b'), ['2', '3'])
    assert.deepEqual(await put('undeclared'), [])
  }),

  check('a chunk is deleted with the last map that names it, and not before', async (store) => {
    await publish(store, key(), 'a', 'b')
    await publish(store, key({ placeId: '2' }), 'b', 'c')
    await publish(store, key(), 'd')
    assert.deepEqual(await present(store, ['a', 'b', 'c', 'd']), ['b', 'c', 'd'])
    assert.equal(await chunkText(store, 'a'), undefined)
    assert.equal(await putChunk(store, 'p', newChunk('a')), 'undeclared')
    await store.updateMap(key({ placeId: '2' }), {}, () => ({ contents: {}, result: 1 }))
    assert.deepEqual(await present(store, ['a', 'b', 'c', 'd']), ['d'])
    assert.deepEqual(await list(store), [{ placeId: '1', buildId: 'b' }])
  }),

  check('a pending map keeps its chunks until it is replaced', async (store) => {
    await publish(store, key(), 'a', 'x')
    await record(store, key(), 'x', 'y', 'z')
    await putChunk(store, 'p', newChunk('y'))
    await record(store, key(), 'x', 'z')
    assert.deepEqual(await present(store, ['a', 'x', 'y', 'z']), ['a', 'x'])
    assert.equal(await putChunk(store, 'p', newChunk('y')), 'undeclared')
    await putChunk(store, 'p', newChunk('z'))
    await complete(store, key())
    assert.deepEqual(await present(store, ['a', 'x', 'y', 'z']), ['x', 'z'])
  }),

  check('a deleted chunk can be declared and stored again, any number of times', async (store) => {
    for (const i of range(10)) {
      await record(store, key(), 'a', `${i}`)
      assert.deepEqual(await present(store, ['a']), [], `round ${i}`)
      assert.equal(await putChunk(store, 'p', newChunk('a')), 'stored')
      assert.equal(await chunkText(store, 'a'), 'a')
      await store.updateMap(key(), {}, () => ({ contents: {}, result: 1 }))
      assert.equal(await chunkText(store, 'a'), undefined)
    }
  }),

  check('a chunk that many manifests miss makes each of them ready', async (store) => {
    const places = range(700).map((i) => String(i))
    const textsOf = (placeId: string) => (Number(placeId) % 2 ? ['a', 'b'] : ['a'])
    await Promise.all(places.map((placeId) => record(store, key({ placeId }), ...textsOf(placeId))))
    assert.equal(await putChunk(store, 'p', newChunk('a', 2_000)), 'stored')
    assert.equal((await readyPlaces(store)).length, 350)
    assert.equal((await store.putChunk('p', newChunk('a'))).ready.length, 16)
    const slots = (await store.maps('p', { limit: 1_000 })).map(({ slot }) => slot)
    assert.ok(slots.every(({ pending }) => pending?.touchedAt === 2_000))
    await publish(store, key({ placeId: 'whole' }), 'b')
    assert.equal((await readyPlaces(store)).length, 700)
    const bytes = 350 * (1 + 256 + 160) + 350 * (2 + 256 + 320)
    assert.deepEqual(await store.pendingTotals('p'), { maps: 700, bytes })
  }),

  check('a chunk is read byte for byte: one byte, 1 MiB, and part of a larger buffer', async (store) => {
    const large = Buffer.alloc(1_048_576, 'large ')
    const parts = [Buffer.from([0]), large, large.subarray(3, 900)].map((bytes) => ({
      digest: digestOf(bytes),
      bytes,
    }))
    const chunks = parts.map(({ digest, bytes }) => ({ digest, size: bytes.length }))
    const manifest: Manifest = { contentType: 'a/b', size: 1, digest: digestOf(), chunks }
    await store.updateMap(key(), {}, () => ({ contents: { pending: { manifest, touchedAt: 1 } }, result: 1 }))
    for (const part of parts) assert.equal(await putChunk(store, 'p', { ...part, receivedAt: 1 }), 'stored')
    const read = await Promise.all(parts.map(({ digest }) => store.readChunk('p', digest)))
    for (const [i, { bytes }] of parts.entries()) assert.equal(Buffer.compare(read[i] ?? Buffer.of(), bytes), 0)
  }),

  check('a manifest of thousands of chunks is read as it was written', async (store) => {
    const chunks = range(4_000).map((i) => ({ digest: chunk(`${i % 3_000}`).digest, size: i + 1 }))
    const manifest: Manifest = { contentType: 'text/plain; charset="ü"', size: 5, digest: digestOf(), chunks }
    await store.updateMap(key(), {}, () => ({ contents: { pending: { manifest, touchedAt: 1 } }, result: 1 }))
    const missing = digests(...range(3_000).map(String))
    assert.deepEqual(await store.map(key()), { pending: { manifest, touchedAt: 1, missing } })
    await store.updateMap(key(), {}, () => ({ contents: {}, result: 1 }))
    assert.equal(await putChunk(store, 'p', newChunk('2999')), 'undeclared')
  }),
]
