import t from 'tap'
import { completeMap, verifyManifest } from '../src/complete-map.ts'
import { digestOf } from '../src/digest.ts'
import type { Manifest } from '../src/map.ts'
import { openMemoryStore } from '../src/memory-store.ts'

const key = { projectId: 'p', placeId: '1', buildId: 'b' }
const texts = ['a', 'b', 'a']

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

t.test('the whole is read and compared', async (t) => {
  const verify = async (manifest: Manifest, chunks?: string[]) =>
    verifyManifest(await storeWith(manifest, chunks), 'p', manifest)
  t.strictSame(await verify(manifestOf()), [])
  t.equal(await verify(manifestOf(), ['a']), undefined, 'a chunk is not there')
  t.match(await verify(manifestOf({ digest: digestOf() })), [{ code: 'digest_mismatch', path: '/manifest/digest' }])
  const chunks = manifestOf().chunks.map((chunk, i) => ({ ...chunk, size: i === 1 ? 2 : 1 }))
  t.match(await verify(manifestOf({ chunks })), [{ code: 'out_of_range', path: '/manifest/chunks/1/size' }])
})

t.test('while a map is verified others have their turns', async (t) => {
  const manifest = manifestOf()
  const store = await storeWith(manifest)
  let turns = 0
  const count = setImmediate(function again() {
    turns++
    if (turns < 100) setImmediate(again)
  })
  await verifyManifest(store, 'p', manifest)
  clearImmediate(count)
  t.ok(turns >= manifest.chunks.length - 1, `${turns} turns`)
})

t.test('a map that is right becomes complete, at the time of the clock', async (t) => {
  const manifest = manifestOf()
  const store = await storeWith(manifest)
  t.match(await completeMap(store, key, manifest, () => 7_000), {
    outcome: 'created',
    publishedAt: '1970-01-01T00:00:07.000Z',
  })
  t.strictSame(await store.map(key), { complete: { manifest, publishedAt: 7_000 } })
})

t.test('what is decided is decided on what is there when it is written', async (t) => {
  const manifest = manifestOf()
  const store = await storeWith(manifest)
  const other = { complete: { manifest: manifestOf({ contentType: 'c/d' }), publishedAt: 1 } }
  // the build freezes, with another map, after the whole was read
  const overtaken = {
    ...store,
    updateMap: async (...args: Parameters<typeof store.updateMap>) => {
      await store.updateMap(key, {}, (slot) => ({ contents: { ...slot, ...other }, result: 1 }))
      const body = Buffer.from('{"events":[{"eventId":"e"}]}')
      await store.append('p', {
        body,
        count: 1,
        events: [{ eventId: 'e', buildId: 'b', start: 11, end: 26 }],
        receivedAt: 5,
      })
      return store.updateMap(...args)
    },
  } as typeof store
  t.equal(await completeMap(overtaken, key, manifest, () => 7_000), undefined)
  t.strictSame(await store.map(key), { frozenAt: 5, ...other })
})

t.test('a manifest that is wrong is dropped, and only if it is still what waits', async (t) => {
  const manifest = manifestOf({ digest: digestOf() })
  const store = await storeWith(manifest)
  const dropped = await completeMap(store, key, manifest, () => 7_000)
  t.match(dropped, { outcome: 'incomplete', state: 'incomplete', issues: [{ code: 'digest_mismatch' }] })
  t.strictSame(await store.map(key), {})
  const right = await storeWith(manifestOf())
  t.equal(await completeMap(right, key, manifest, () => 7_000), undefined)
  t.ok((await right.map(key)).pending)
})
