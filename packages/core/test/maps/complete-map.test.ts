import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { batchOf, event } from '../../../checks/src/store/sample-events.ts'
import { completeMap, verifyManifest } from '../../src/maps/complete-map.ts'
import { digestOf } from '../../src/maps/digest.ts'
import type { Manifest } from '../../src/maps/map.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'

const key = { projectId: 'p', placeId: '1', buildId: 'b' }
const texts = ['a', 'b', 'a']
const options = { signal: new AbortController().signal, nextTurn: () => nextTurn(), now: () => 7_000 }

function manifestOf(more: Partial<Manifest> = {}): Manifest {
  const chunks = texts.map((text) => ({ digest: digestOf(Buffer.from(text)), size: 1 }))
  return { contentType: 'a/b', size: 3, digest: digestOf(Buffer.from(texts.join(''))), chunks, ...more }
}

async function storeWith(manifest: Manifest, chunks = texts) {
  const store = openMemoryStore()
  await store.updateMap(key, {}, () => ({ contents: { pending: { manifest, touchedAt: 1 } }, result: 1 }))
  for (const text of chunks) {
    const bytes = Buffer.from(text)
    await store.putChunk('p', { digest: digestOf(bytes), bytes, receivedAt: 1 })
  }
  return store
}

t.test('all chunks are hashed and compared with the digest', async (t) => {
  const verify = async (manifest: Manifest, chunks?: string[]) =>
    verifyManifest(await storeWith(manifest, chunks), 'p', manifest, options)
  t.strictSame(await verify(manifestOf()), [])
  t.equal(await verify(manifestOf(), ['a']), undefined, 'a chunk is missing')
  t.match(await verify(manifestOf({ digest: digestOf() })), [{ code: 'digest_mismatch', path: '/manifest/digest' }])
  const chunks = manifestOf().chunks.map((chunk, i) => ({ ...chunk, size: i === 1 ? 2 : 1 }))
  t.match(await verify(manifestOf({ chunks })), [{ code: 'out_of_range', path: '/manifest/chunks/1/size' }])
})

/** A manifest that names one chunk many times, and a store that has it. */
async function storeOfOne(size: number, times: number) {
  const bytes = Buffer.alloc(size, 'x')
  const ref = { digest: digestOf(bytes), size }
  const chunks = Array.from({ length: times }, () => ref)
  const digest = digestOf(...chunks.map(() => bytes))
  const manifest: Manifest = { contentType: 'a/b', size: size * times, digest, chunks }
  const store = await storeWith(manifest, [])
  await store.putChunk('p', { digest: ref.digest, bytes, receivedAt: 1 })
  return { store, manifest }
}

t.test('a turn hashes at most 64 KiB and 64 chunks, whatever their sizes', async (t) => {
  for (const [size, times, turns] of [
    [1_048_576, 3, 48],
    [65_536, 5, 5],
    [60_000, 5, 5],
    [200_000, 5, 20],
    [65_537, 2, 4],
    [30_000, 6, 3],
    [1, 640, 10],
  ] as const) {
    const { store, manifest } = await storeOfOne(size, times)
    let taken = 0
    const counted = { ...options, nextTurn: async () => ++taken }
    t.strictSame(await verifyManifest(store, 'p', manifest, counted), [])
    t.equal(taken, turns, `${times} chunks of ${size} bytes`)
  }
})

t.test('an aborted verification reads no further chunk, and rejects with the reason', async (t) => {
  const { store, manifest } = await storeOfOne(1_048_576, 1_000)
  const ending = new AbortController()
  let reads = 0
  const counting: typeof store = {
    ...store,
    readChunk: (...args) => {
      if (++reads === 3) ending.abort(new RangeError('over'))
      return store.readChunk(...args)
    },
  }
  await t.rejects(verifyManifest(counting, 'p', manifest, { ...options, signal: ending.signal }), { message: 'over' })
  t.equal(reads, 3)
})

t.test('a chunk of another size than the manifest says is not hashed', async (t) => {
  const { store, manifest } = await storeOfOne(1_048_576, 1)
  const chunks = manifest.chunks.map((chunk) => ({ ...chunk, size: 1 }))
  let turns = 0
  const counted = { ...options, nextTurn: async () => ++turns }
  t.match(await verifyManifest(store, 'p', { ...manifest, size: 1, chunks }, counted), [{ code: 'out_of_range' }])
  t.equal(turns, 1)
})

t.test('a verified map becomes complete, at the time of the clock', async (t) => {
  const manifest = manifestOf()
  const store = await storeWith(manifest)
  t.match(await completeMap(store, key, manifest, options), {
    outcome: 'created',
    publishedAt: 7_000,
  })
  t.strictSame(await store.map(key), { complete: { manifest, publishedAt: 7_000 } })
})

t.test('the completion is decided on the slot at the time of the write', async (t) => {
  const manifest = manifestOf()
  const store = await storeWith(manifest)
  const other = { complete: { manifest: manifestOf({ contentType: 'c/d' }), publishedAt: 1 } }
  // the build freezes, with another map, after the whole was read
  const overtaken = {
    ...store,
    updateMap: async (...args: Parameters<typeof store.updateMap>) => {
      await store.updateMap(key, {}, (slot) => ({ contents: { ...slot, ...other }, result: 1 }))
      await store.append('p', batchOf([event('e', { buildId: 'b' })], { receivedAt: 5 }))
      return store.updateMap(...args)
    },
  } as typeof store
  t.equal(await completeMap(overtaken, key, manifest, options), undefined)
  t.strictSame(await store.map(key), { frozenAt: 5, ...other })
})

t.test('a manifest that does not match is dropped if it is still pending', async (t) => {
  const manifest = manifestOf({ digest: digestOf() })
  const store = await storeWith(manifest)
  const dropped = await completeMap(store, key, manifest, options)
  t.match(dropped, { outcome: 'incomplete', state: 'incomplete', issues: [{ code: 'digest_mismatch' }] })
  t.strictSame(await store.map(key), {})
  const right = await storeWith(manifestOf())
  t.equal(await completeMap(right, key, manifest, options), undefined)
  t.ok((await right.map(key)).pending)
})
