import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { createVerifier } from '../src/create-verifier.ts'
import { digestOf } from '../src/digest.ts'
import type { Digest, Manifest } from '../src/map.ts'
import { openMemoryStore } from '../src/memory-store.ts'
import type { Store } from '../src/store.ts'

const key = { projectId: 'p', placeId: '1', buildId: 'b' }
const digestOfText = (text: string) => digestOf(Buffer.from(text))

function manifestOf(texts: string[], more: Partial<Manifest> = {}): Manifest {
  const chunks = texts.map((text) => ({ digest: digestOfText(text), size: text.length }))
  const whole = texts.join('')
  return { contentType: 'a/b', size: whole.length, digest: digestOfText(whole), chunks, ...more }
}

/** A store that waits for a manifest, and that notes which chunks are looked for. */
async function open(manifest: Manifest) {
  const memory = openMemoryStore()
  await memory.updateMap(key, {}, () => ({ contents: { pending: { manifest, touchedAt: 1 } }, result: 1 }))
  const looked: Digest[] = []
  const store: Store = {
    ...memory,
    chunk(projectId, digest, use) {
      looked.push(digest)
      return memory.chunk(projectId, digest, use)
    },
  }
  const verifier = createVerifier(store)
  return {
    verifier,
    /** Which were looked for since this was called last. */
    looked: () => looked.splice(0),
    async put(...texts: string[]) {
      for (const text of texts) {
        const bytes = Buffer.from(text)
        await memory.putChunk('p', { digest: digestOf(bytes), bytes, receivedAt: 1 })
        verifier.arrived('p', digestOf(bytes))
      }
      for (let turn = 0; turn < 10; turn++) await nextTurn()
    },
  }
}

t.test('the whole is read and compared', async (t) => {
  const texts = ['a', 'b', 'a']
  async function verify(manifest: Manifest, chunks = texts) {
    const { verifier, put } = await open(manifest)
    await put(...chunks)
    return verifier.verify('p', manifest)
  }
  t.strictSame(await verify(manifestOf(texts)), [])
  t.equal(await verify(manifestOf(texts), ['a']), undefined, 'a chunk is not there')
  t.match(await verify(manifestOf(texts, { digest: digestOf() })), [
    { code: 'digest_mismatch', path: '/manifest/digest' },
  ])
  const chunks = manifestOf(texts).chunks.map((chunk, i) => ({ ...chunk, size: i === 1 ? 2 : 1 }))
  t.match(await verify(manifestOf(texts, { chunks })), [{ code: 'out_of_range', path: '/manifest/chunks/1/size' }])
})

t.test('while a map is verified others have their turns', async (t) => {
  const manifest = manifestOf(['a', 'b', 'a'])
  const { verifier, put } = await open(manifest)
  await put('a', 'b')
  let turns = 0
  const count = setImmediate(function again() {
    turns++
    if (turns < 100) setImmediate(again)
  })
  await verifier.verify('p', manifest)
  clearImmediate(count)
  t.ok(turns >= manifest.chunks.length - 1, `${turns} turns`)
})

t.test('what has begun is hashed as chunks arrive, in the order of the manifest', async (t) => {
  const manifest = manifestOf(['a', 'b', 'a', 'c', 'd'])
  const { verifier, put, looked } = await open(manifest)
  verifier.begin('p', manifest)
  await put('c', 'b')
  t.strictSame(looked(), [digestOfText('a')])
  await put('a')
  t.strictSame(looked(), ['a', 'b', 'a', 'c', 'd'].map(digestOfText), 'up to the first that is missing')
  verifier.begin('p', { ...manifest })
  t.strictSame(looked(), [], 'it is begun once')
  await put('d')
  looked()
  t.strictSame(await verifier.verify('p', { ...manifest }), [])
  t.strictSame(looked(), [], 'nothing is left to be read')
  t.strictSame(await verifier.verify('p', manifest), [])
  t.equal(looked().length, 5, 'and who asks again reads the whole')
})

t.test('what is wrong is found as well when it was begun', async (t) => {
  const wrong = manifestOf(['a', 'b'], { digest: digestOf() })
  const { verifier, put } = await open(wrong)
  verifier.begin('p', wrong)
  await put('a', 'b')
  t.match(await verifier.verify('p', wrong), [{ code: 'digest_mismatch' }])
  const size = { ...wrong, chunks: wrong.chunks.map((chunk) => ({ ...chunk, size: 7 })) }
  verifier.begin('p', size)
  await put('b')
  t.match(await verifier.verify('p', size), [{ code: 'out_of_range', path: '/manifest/chunks/0/size' }])
})

t.test('many who wait for the same are each right', async (t) => {
  const manifest = manifestOf(['a', 'b'])
  const { verifier, put } = await open(manifest)
  verifier.begin('p', manifest)
  verifier.begin('q', manifest)
  await put('a', 'b')
  const verified = [1, 2, 3].map(() => verifier.verify('p', manifest))
  t.strictSame(await Promise.all(verified), [[], [], []])
  t.equal(await verifier.verify('q', manifest), undefined, 'chunks of another project are none')
})

t.test('only so many are begun: others are read when they are asked for', async (t) => {
  const manifests = Array.from({ length: 17 }, (_, i) => manifestOf(['a', String(i)]))
  const { verifier, put, looked } = await open(manifestOf(['a', ...manifests.keys()].map(String)))
  for (const manifest of manifests) verifier.begin('p', manifest)
  await put('a', ...[...manifests.keys()].map(String))
  looked()
  const [first, ...others] = manifests as [Manifest, ...Manifest[]]
  for (const manifest of others) t.strictSame(await verifier.verify('p', manifest), [])
  t.strictSame(looked(), [])
  t.strictSame(await verifier.verify('p', first), [])
  t.equal(looked().length, 2)
})

t.test('a store that fails is told to those who wait, and to nobody before', async (t) => {
  const manifest = manifestOf(['a', 'b'])
  const store = openMemoryStore()
  const verifier = createVerifier(store)
  await store.close()
  verifier.begin('p', manifest)
  for (let turn = 0; turn < 3; turn++) await nextTurn()
  verifier.arrived('p', digestOfText('a'))
  await t.rejects(verifier.verify('p', manifest), { code: 'store-closed' })
})
