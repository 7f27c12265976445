import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { digestOf } from '../maps/digest.ts'
import type { ChunkUpload, Digest, Manifest, MapId, MapKey } from '../maps/map.ts'
import { manifestBytes } from '../maps/map-quota.ts'
import type { AppendBatch, MapChunks, MapContents, MapSelection, MapSlot, Store } from '../store.ts'

interface MapStoreCheck {
  name: string
  use(store: Store): Promise<void>
}

interface DurableMapStoreCheck {
  name: string
  use(store: Store, reopen: () => Promise<Store>): Promise<void>
}

/** What every store promises of maps: a part of `storeChecks`. */
export const mapStoreChecks: readonly MapStoreCheck[] = [
  {
    name: 'a map that was never published is an empty slot, and in no list',
    async use(store) {
      assert.deepEqual(await store.map(key()), {})
      assert.deepEqual(await list(store), [])
      assert.deepEqual(await store.readyMaps('p', 100), [])
      assert.equal(await store.chunk('p', chunk('a').digest, copy), undefined)
      assert.deepEqual(await present(store, ['a']), [])
      await store.dropIdleMaps(Number.MAX_SAFE_INTEGER)
    },
  },
  {
    name: 'a map is what was last decided, and its decision sees what was there before',
    async use(store) {
      const first = wholeOf('a', 'b')
      const { complete } = first
      const seen = await store.updateMap(key(), uploadsOf('a', 'b'), (slot) => ({ contents: first, result: slot }))
      assert.deepEqual(seen, {})
      assert.deepEqual(await store.map(key()), first)
      const second = { ...(complete && { complete }), pending: pendingOf('c') }
      assert.deepEqual(await store.updateMap(key(), {}, (slot) => ({ contents: second, result: slot })), first)
      assert.deepEqual(await store.map(key()), second)
      assert.deepEqual(await store.map(key({ placeId: '2' })), {})
      assert.deepEqual(await store.map(key({ buildId: 'other' })), {})
      assert.deepEqual(await store.map(key({ projectId: 'q' })), {})
    },
  },
  {
    name: 'a decision about a map without contents writes nothing, and none of its chunks',
    async use(store) {
      assert.equal(await store.updateMap(key(), uploadsOf('a'), () => ({ result: 1 })), 1)
      assert.deepEqual(await list(store), [])
      assert.deepEqual(await present(store, ['a']), [])
      await publish(store, key(), 'a')
      await store.updateMap(key(), uploadsOf('b'), () => ({ result: 1 }))
      assert.deepEqual(await store.map(key()), wholeOf('a'))
      assert.deepEqual(await present(store, ['a', 'b']), ['a'])
    },
  },
  {
    name: 'what a decision about a map throws is what the update rejects with, and nothing is written',
    async use(store) {
      await publish(store, key(), 'a')
      const thrown = new RangeError('no')
      const refuse = () => {
        throw thrown
      }
      const [refusal, appended] = await Promise.all([
        rejectionOf(store.updateMap(key(), uploadsOf('b'), refuse)),
        store.append('p', batchOf('e')),
        store.updateMap(key({ placeId: '2' }), uploadsOf('c'), () => ({ contents: wholeOf('c'), result: 1 })),
      ])
      assert.equal(refusal, thrown)
      assert.deepEqual(appended.stored, [true])
      assert.deepEqual(await store.map(key()), wholeOf('a'))
      assert.deepEqual(await present(store, ['a', 'b', 'c']), ['a', 'c'])
    },
  },
  {
    name: 'a map that comes with its chunks has them from the first moment on',
    async use(store) {
      await publish(store, key(), 'a', 'b', 'a')
      assert.deepEqual(await present(store, ['a', 'b', 'c']), ['a', 'b'])
      assert.equal(await textOf(store, 'a'), 'a')
      assert.equal(await textOf(store, 'b'), 'b')
      assert.equal(await store.putChunk('p', newChunk('a')), 'existing')
    },
  },
  {
    name: 'chunks that come with a map and are not named by it are not kept',
    async use(store) {
      await store.updateMap(key(), uploadsOf('a', 'b'), () => ({ contents: wholeOf('a'), result: 1 }))
      assert.deepEqual(await present(store, ['a', 'b']), ['a'])
      assert.equal(await store.putChunk('p', newChunk('b')), 'undeclared')
    },
  },
  {
    name: 'a chunk is stored once, and only if a map of its project names it',
    async use(store) {
      assert.equal(await store.putChunk('p', newChunk('a')), 'undeclared')
      await record(store, key(), 'a', 'b')
      assert.equal(await store.putChunk('p', newChunk('a')), 'stored')
      assert.equal(await store.putChunk('p', newChunk('a')), 'existing')
      assert.equal(await store.putChunk('p', newChunk('c')), 'undeclared')
      assert.equal(await store.putChunk('q', newChunk('b')), 'undeclared')
      assert.deepEqual(await present(store, ['a', 'b', 'c']), ['a'])
      assert.equal(await textOf(store, 'a'), 'a')
      assert.equal(await textOf(store, 'b'), undefined)
    },
  },
  {
    name: 'a chunk of one project is missing in another one',
    async use(store) {
      await publish(store, key(), 'a')
      await record(store, key({ projectId: 'q' }), 'a')
      assert.deepEqual(await present(store, ['a'], 'q'), [])
      assert.equal(await textOf(store, 'a', 'q'), undefined)
      assert.equal(await store.putChunk('q', newChunk('a')), 'stored')
      await store.updateMap(key(), {}, () => ({ contents: {}, result: 1 }))
      assert.deepEqual(await present(store, ['a']), [])
      assert.equal(await textOf(store, 'a', 'q'), 'a')
    },
  },
  {
    name: 'a decision about a map sees which of the chunks that it asks for are there',
    async use(store) {
      await publish(store, key({ placeId: '2' }), 'a', 'b')
      const ask = (projectId: string) =>
        store.updateMap(key({ projectId }), { digests: digests('c', 'b', 'd') }, (_, there) => ({
          result: [...there],
        }))
      assert.deepEqual(await ask('p'), digests('b'))
      assert.deepEqual(await ask('q'), [])
    },
  },
  {
    name: 'a pending map is touched by each chunk that it waited for, and by no other',
    async use(store) {
      const touchedAt = async (id: Partial<MapKey> = {}) => (await store.map(key(id))).pending?.touchedAt
      await record(store, key(), 'a', 'b')
      await record(store, key({ placeId: '2' }), 'b', 'c')
      await store.putChunk('p', newChunk('a', 2_000))
      assert.deepEqual([await touchedAt(), await touchedAt({ placeId: '2' })], [2_000, 1_000])
      await store.putChunk('p', newChunk('b', 3_000))
      await store.putChunk('p', newChunk('a', 4_000))
      assert.deepEqual([await touchedAt(), await touchedAt({ placeId: '2' })], [3_000, 3_000])
    },
  },
  {
    name: 'a pending map is ready when its last chunk is there, and no longer once it is complete',
    async use(store) {
      await record(store, key(), 'a', 'b', 'a', 'c')
      await record(store, key({ placeId: '2' }), 'c')
      await record(store, key({ placeId: '3' }), 'd')
      await record(store, key({ projectId: 'q' }), 'a')
      for (const text of ['a', 'b']) await store.putChunk('p', newChunk(text))
      assert.deepEqual(await store.readyMaps('p', 100), [])
      await store.putChunk('p', newChunk('c'))
      assert.deepEqual(await readyPlaces(store), ['1', '2'])
      await record(store, key({ placeId: '4' }), 'b', 'a')
      assert.deepEqual(await readyPlaces(store), ['1', '2', '4'], 'one that finds all its chunks there')
      await complete(store, key())
      assert.deepEqual(await readyPlaces(store), ['2', '4'])
      assert.deepEqual(await store.map(key()), wholeOf('a', 'b', 'a', 'c'))
      assert.deepEqual(await present(store, ['a', 'b', 'c']), ['a', 'b', 'c'])
      assert.deepEqual(await store.readyMaps('q', 100), [])
    },
  },
  {
    name: 'a manifest that is recorded again waits for what it waited for',
    async use(store) {
      await record(store, key(), 'a', 'b')
      await store.putChunk('p', newChunk('a'))
      await record(store, key(), 'a', 'b')
      assert.deepEqual(await present(store, ['a', 'b']), ['a'])
      assert.deepEqual(await store.readyMaps('p', 100), [])
      await store.updateMap(key(), {}, (slot) => ({ contents: slot, result: 1 }))
      assert.equal(await store.putChunk('p', newChunk('b')), 'stored')
      assert.deepEqual(await readyPlaces(store), ['1'])
    },
  },
  {
    name: 'a chunk goes when the last map that names it does, and not before',
    async use(store) {
      await publish(store, key(), 'a', 'b')
      await publish(store, key({ placeId: '2' }), 'b', 'c')
      await publish(store, key(), 'd')
      assert.deepEqual(await present(store, ['a', 'b', 'c', 'd']), ['b', 'c', 'd'])
      assert.equal(await textOf(store, 'a'), undefined)
      assert.equal(await store.putChunk('p', newChunk('a')), 'undeclared')
      await store.updateMap(key({ placeId: '2' }), {}, () => ({ contents: {}, result: 1 }))
      assert.deepEqual(await present(store, ['a', 'b', 'c', 'd']), ['d'])
      assert.deepEqual(await list(store), [{ placeId: '1', buildId: 'b' }])
    },
  },
  {
    name: 'a pending map keeps its chunks, and lets them go when it goes',
    async use(store) {
      await publish(store, key(), 'a', 'x')
      await record(store, key(), 'x', 'y', 'z')
      await store.putChunk('p', newChunk('y'))
      await record(store, key(), 'x', 'z')
      assert.deepEqual(await present(store, ['a', 'x', 'y', 'z']), ['a', 'x'])
      assert.equal(await store.putChunk('p', newChunk('y')), 'undeclared')
      await store.putChunk('p', newChunk('z'))
      await complete(store, key())
      assert.deepEqual(await present(store, ['a', 'x', 'y', 'z']), ['x', 'z'])
    },
  },
  {
    name: 'a chunk that went can be declared and stored again, any number of times',
    async use(store) {
      for (const i of range(10)) {
        await record(store, key(), 'a', `${i}`)
        assert.deepEqual(await present(store, ['a']), [], `round ${i}`)
        assert.equal(await store.putChunk('p', newChunk('a')), 'stored')
        assert.equal(await textOf(store, 'a'), 'a')
        await store.updateMap(key(), {}, () => ({ contents: {}, result: 1 }))
        assert.equal(await textOf(store, 'a'), undefined)
      }
    },
  },
  {
    name: 'a freeze drops what waits to replace a complete map, in every place of the build, and nothing else',
    async use(store) {
      for (const placeId of ['1', '2', '']) {
        await publish(store, key({ placeId }), 'a')
        await record(store, key({ placeId }), 'a', 'new')
      }
      await record(store, key({ placeId: 'first' }), 'only')
      await publish(store, key({ buildId: 'bb' }), 'a')
      await record(store, key({ buildId: 'bb' }), 'other')
      await publish(store, key({ projectId: 'q' }), 'a')
      await record(store, key({ projectId: 'q' }), 'new')
      for (const text of ['new', 'only']) assert.equal(await store.putChunk('p', newChunk(text)), 'stored')
      await store.append('p', batchOf('e', 'b', 7_000))
      for (const placeId of ['1', '2', '']) {
        assert.deepEqual(await store.map(key({ placeId })), { frozenAt: 7_000, ...wholeOf('a') })
      }
      assert.deepEqual(await present(store, ['a', 'new', 'only']), ['a', 'only'])
      assert.equal(await store.putChunk('p', newChunk('new')), 'undeclared')
      const first = { frozenAt: 7_000, pending: { ...pendingOf('only') } }
      assert.deepEqual(await store.map(key({ placeId: 'first' })), first, 'it is pinned')
      assert.deepEqual(await readyPlaces(store), ['first'])
      assert.deepEqual(await store.map(key({ buildId: 'bb' })), { ...wholeOf('a'), pending: pendingOf('other') })
      assert.deepEqual(await store.map(key({ projectId: 'q' })), { ...wholeOf('a'), pending: pendingOf('new') })
    },
  },
  {
    name: 'rejected and duplicate events drop nothing that waits',
    async use(store) {
      await store.append('p', batchOf('e', 'other'))
      await publish(store, key(), 'a')
      await record(store, key(), 'c')
      await store.append('p', batchOf('e', 'b'))
      assert.deepEqual(await store.map(key()), { ...wholeOf('a'), pending: pendingOf('c') })
    },
  },
  {
    name: 'idle pending maps are dropped with their chunks, unless their build is frozen',
    async use(store) {
      const keys = [key(), key({ placeId: '2' }), key({ placeId: '3', buildId: 'frozen' }), key({ projectId: 'q' })]
      for (const each of keys) await record(store, each, 'a', 'b')
      await publish(store, key({ placeId: '4' }), 'whole')
      await record(store, key({ placeId: '4' }), 'c')
      await record(store, key({ placeId: '5' }), 'd')
      await store.putChunk('p', newChunk('d', 2_000))
      await store.append('p', batchOf('e', 'frozen', 500))
      await store.dropIdleMaps(1_000)
      assert.equal((await list(store)).length, 5, 'touched at that time is not before it')
      await store.dropIdleMaps(1_001)
      const left = await list(store)
      assert.deepEqual(
        left.map(({ placeId }) => placeId),
        ['4', '5', '3'],
      )
      assert.deepEqual(await store.map(key({ placeId: '4' })), wholeOf('whole'))
      assert.deepEqual(await list(store, {}, 'q'), [])
      assert.equal(await store.putChunk('p', newChunk('c')), 'undeclared')
      assert.equal(await store.putChunk('q', newChunk('a')), 'undeclared')
      assert.equal(await store.putChunk('p', newChunk('a', 1)), 'stored')
      await store.dropIdleMaps(10_000)
      assert.deepEqual(await present(store, ['a', 'd']), ['a'])
      assert.deepEqual(await store.map(key({ placeId: '3', buildId: 'frozen' })), {
        frozenAt: 500,
        pending: { ...pendingOf('a', 'b'), touchedAt: 1 },
      })
    },
  },
  {
    name: 'pending bytes are those of pending manifests, and of the chunks that no complete map names',
    async use(store) {
      const manifests = (...counts: number[]) => counts.reduce((sum, count) => sum + 256 + 160 * count, 0)
      const assertPending = async (expected: number, what: string) => {
        assert.equal(await store.pendingBytes('p'), expected, what)
        assert.equal(await recount(store), expected, `${what}, counted`)
      }
      await assertPending(0, 'nothing')
      await publish(store, key(), 'a', 'bb')
      await assertPending(0, 'a complete map')
      await record(store, key(), 'a', 'ccc', 'dddd', 'ccc')
      await assertPending(manifests(4), 'a manifest whose chunks are missing, or of the complete map')
      await store.putChunk('p', newChunk('ccc'))
      await store.putChunk('p', newChunk('ccc'))
      await assertPending(manifests(4) + 3, 'a chunk, once')
      await record(store, key({ placeId: '2' }), 'ccc', 'bb', 'e')
      await assertPending(manifests(4, 3) + 3, 'another manifest that names it')
      await record(store, key(), 'a', 'f')
      await assertPending(manifests(2, 3) + 3, 'a manifest that was replaced')
      await publish(store, key(), 'x')
      await assertPending(manifests(3) + 5, 'a complete map that was replaced leaves a chunk to the pending one')
      await publish(store, key({ placeId: '3' }), 'ccc')
      await assertPending(manifests(3) + 2, 'a complete map that names it')
      await store.putChunk('p', newChunk('e'))
      await assertPending(manifests(3) + 3, 'the last chunk')
      await complete(store, key({ placeId: '2' }))
      await assertPending(0, 'all is complete')
      assert.equal(await store.pendingBytes('q'), 0)
    },
  },
  {
    name: 'a freeze takes what it pins or drops from the pending bytes',
    async use(store) {
      await publish(store, key(), 'a')
      await record(store, key(), 'bb', 'ccc')
      await record(store, key({ placeId: '2' }), 'ccc', 'dddd')
      await record(store, key({ buildId: 'open' }), 'dddd', 'bb')
      for (const text of ['bb', 'ccc', 'dddd']) await store.putChunk('p', newChunk(text))
      assert.equal(await store.pendingBytes('p'), 3 * (256 + 320) + 9)
      await store.append('p', batchOf('e', 'b'))
      assert.equal(await store.pendingBytes('p'), 256 + 320 + 2, 'dddd is pinned with place 2')
      assert.equal(await recount(store), 256 + 320 + 2)
      await complete(store, key({ placeId: '2' }))
      assert.equal(await store.pendingBytes('p'), 256 + 320 + 2)
      await record(store, key({ placeId: '3' }), 'late')
      assert.equal(await store.putChunk('p', { ...newChunk('late'), pendingBytesMax: 1 }), 'stored', 'is pinned, too')
      await store.dropIdleMaps(10_000)
      assert.equal(await store.pendingBytes('p'), 0)
      assert.equal(await recount(store), 0)
    },
  },
  {
    name: 'a write that raises the pending bytes above their limit is refused with the numbers, and changes nothing',
    async use(store) {
      const put = (text: string, pendingBytesMax: number) => store.putChunk('p', { ...newChunk(text), pendingBytesMax })
      const recordWithin = (pendingBytesMax: number, placeId: string, ...texts: string[]) =>
        store.updateMap(key({ placeId }), { pendingBytesMax }, ({ complete }) => ({
          contents: { ...(complete && { complete }), pending: pendingOf(...texts) },
          result: 1,
        }))
      const assertOver = async (refused: Promise<unknown>, limit: number, actual: number) => {
        const error = await rejectionOf(refused)
        const { code, ...numbers } = error as { code: string; limit: number; actual: number }
        assert.deepEqual([code, numbers.limit, numbers.actual], ['map-quota-exceeded', limit, actual])
      }
      await assertOver(recordWithin(575, '1', 'aa', 'bbb'), 575, 576)
      assert.deepEqual(await list(store), [])
      await recordWithin(576, '1', 'aa', 'bbb')
      await assertOver(put('aa', 577), 577, 578)
      assert.deepEqual(await present(store, ['aa']), [])
      assert.equal(await put('aa', 578), 'stored')
      await assertOver(recordWithin(993, '2', 'aa'), 993, 994)
      assert.deepEqual(await store.map(key({ placeId: '2' })), {})
      assert.equal(await put('aa', 1), 'existing')
      await recordWithin(1, '1', 'aa', 'bbb')
      await recordWithin(1, '1', 'aa')
      assert.equal(await store.pendingBytes('p'), 418, 'what lowers them may always be written')
      await store.updateMap(key(), { ...uploadsOf('aa'), pendingBytesMax: 1 }, () => ({
        contents: wholeOf('aa'),
        result: 1,
      }))
      await recordWithin(416, '2', 'aa')
      assert.equal(await recount(store), 416)
    },
  },
  {
    name: 'any number of manifests wait for the same chunk, and each is ready when it is there',
    async use(store) {
      const places = range(700).map((i) => String(i))
      const textsOf = (placeId: string) => (Number(placeId) % 2 ? ['a', 'b'] : ['a'])
      await Promise.all(places.map((placeId) => record(store, key({ placeId }), ...textsOf(placeId))))
      assert.equal(await store.putChunk('p', newChunk('a', 2_000)), 'stored')
      assert.equal((await store.readyMaps('p', 1_000)).length, 350)
      assert.equal((await store.readyMaps('p', 16)).length, 16)
      const slots = (await store.maps('p', { limit: 1_000 })).map(({ slot }) => slot)
      assert.ok(slots.every(({ pending }) => pending?.touchedAt === 2_000))
      await publish(store, key({ placeId: 'whole' }), 'b')
      assert.equal((await store.readyMaps('p', 1_000)).length, 700)
      assert.equal(await store.pendingBytes('p'), 350 * (256 + 160) + 350 * (256 + 320) + 1)
    },
  },
  {
    name: 'maps are listed by build and then by place, as bytes, in pages of any size',
    async use(store) {
      const ids = [
        ['b', 'Z'],
        ['b', 'a'],
        ['b', 'é'],
        ['b', '\uffff'],
        ['b', '😀'],
        ['b!', '0'],
        ['ba', ''],
        ['ba', '1'],
        ['ba', '10'],
        ['ba', '2'],
        ['é', '1'],
      ].map(([buildId, placeId]) => ({ buildId, placeId }) as MapId)
      for (const [i, id] of ids.entries()) {
        const at = ids[(i * 7) % ids.length] as MapId
        await (i % 2 ? publish : record)(store, key(at), `${i}`)
        await publish(store, key({ ...id, projectId: 'q' }), 'other')
      }
      assert.deepEqual(await list(store), ids.map(sorted))
      for (const limit of [1, 2, 3, 11]) {
        const seen: MapId[] = []
        for (let selection = { limit } as MapSelection; ; ) {
          const page = await list(store, selection)
          assert.ok(page.length <= limit)
          seen.push(...page)
          const after = page.at(-1)
          if (!after) break
          selection = { limit, after }
        }
        assert.deepEqual(seen, ids.map(sorted), `pages of ${limit}`)
      }
      assert.deepEqual(await list(store, { after: { buildId: 'b', placeId: 'z' } }), ids.slice(2).map(sorted))
    },
  },
  {
    name: 'maps are listed for one build, for one place, and for both',
    async use(store) {
      for (const buildId of ['b1', 'b2', 'b'])
        for (const placeId of ['1', '2', '11']) await record(store, key({ buildId, placeId }), 'a')
      const places = async (selection: Partial<MapSelection>) =>
        (await list(store, selection)).map(({ buildId, placeId }) => `${buildId} ${placeId}`)
      assert.deepEqual(await places({ buildId: 'b' }), ['b 1', 'b 11', 'b 2'])
      assert.deepEqual(await places({ placeId: '1' }), ['b 1', 'b1 1', 'b2 1'])
      assert.deepEqual(await places({ placeId: '1', limit: 2 }), ['b 1', 'b1 1'])
      assert.deepEqual(await places({ placeId: '1', after: { buildId: 'b1', placeId: '1' } }), ['b2 1'])
      assert.deepEqual(await places({ buildId: 'b1', after: { buildId: 'b1', placeId: '1' } }), ['b1 11', 'b1 2'])
      assert.deepEqual(await places({ buildId: 'b1', after: { buildId: 'b2', placeId: '1' } }), [])
      assert.deepEqual(await places({ buildId: 'b1', placeId: '2' }), ['b1 2'])
      assert.deepEqual(await places({ buildId: 'B1' }), [])
    },
  },
  {
    name: 'a list of maps says what one look at each does',
    async use(store) {
      await publish(store, key(), 'a')
      await record(store, key(), 'c')
      await record(store, key({ buildId: 'c' }), 'd')
      await store.append('p', batchOf('e', 'c', 7_000))
      const entries = await store.maps('p', { limit: 10 })
      for (const { slot, ...id } of entries) assert.deepEqual(slot, await store.map(key(id)))
      assert.deepEqual(
        entries.map(({ slot }) => slot.frozenAt),
        [undefined, 7_000],
      )
    },
  },
  {
    name: 'places and builds are compared byte for byte, and do not run into each other',
    async use(store) {
      const texts = ['a', 'A', ' a', 'a ', 'ab', 'b', 'é', 'e\u0301', '1', '01', '😀', '__proto__', 'x'.repeat(128)]
      const ids = texts.flatMap((buildId) => texts.map((placeId) => ({ buildId, placeId })))
      for (const [i, id] of ids.entries()) {
        assert.deepEqual(await store.map(key(id)), {}, JSON.stringify(id))
        await publish(store, key(id), `${i}`)
      }
      for (const [i, id] of ids.entries()) assert.deepEqual(await store.map(key(id)), wholeOf(`${i}`))
      assert.equal((await list(store)).length, ids.length)
    },
  },
  {
    name: 'a chunk comes back byte for byte: of one byte, of 1 MiB, and out of a larger buffer',
    async use(store) {
      const large = Buffer.alloc(1_048_576, 'large ')
      const parts = [Buffer.from([0]), large, large.subarray(3, 900)].map((bytes) => ({
        digest: digestOf(bytes),
        bytes,
      }))
      const chunks = parts.map(({ digest, bytes }) => ({ digest, size: bytes.length }))
      const manifest: Manifest = { contentType: 'a/b', size: 1, digest: digestOf(), chunks }
      await store.updateMap(key(), {}, () => ({ contents: { pending: { manifest, touchedAt: 1 } }, result: 1 }))
      for (const part of parts) assert.equal(await store.putChunk('p', { ...part, receivedAt: 1 }), 'stored')
      const read = await Promise.all(parts.map(({ digest }) => store.chunk('p', digest, copy)))
      for (const [i, { bytes }] of parts.entries()) assert.equal(Buffer.compare(read[i] ?? Buffer.of(), bytes), 0)
    },
  },
  {
    name: 'a manifest of thousands of chunks comes back as it was',
    async use(store) {
      const chunks = range(4_000).map((i) => ({ digest: chunk(`${i % 3_000}`).digest, size: i + 1 }))
      const manifest: Manifest = { contentType: 'text/plain; charset="ü"', size: 5, digest: digestOf(), chunks }
      await store.updateMap(key(), {}, () => ({ contents: { pending: { manifest, touchedAt: 1 } }, result: 1 }))
      assert.deepEqual(await store.map(key()), { pending: { manifest, touchedAt: 1 } })
      await store.updateMap(key(), {}, () => ({ contents: {}, result: 1 }))
      assert.equal(await store.putChunk('p', newChunk('2999')), 'undeclared')
    },
  },
  {
    name: 'of 50 concurrent updates of a map none is lost',
    async use(store) {
      await publish(store, key(), 'a')
      const count = ({ complete }: MapSlot) => {
        assert.ok(complete)
        return { contents: { complete: { ...complete, publishedAt: complete.publishedAt + 1 } }, result: 1 }
      }
      await Promise.all(range(50).map(() => store.updateMap(key(), {}, count)))
      assert.equal((await store.map(key())).complete?.publishedAt, 1_050)
    },
  },
  {
    name: 'of concurrent puts of one chunk exactly one stores it',
    async use(store) {
      await record(store, key(), 'a', 'b')
      const outcomes = await Promise.all(range(16).map(() => store.putChunk('p', newChunk('a'))))
      assert.equal(outcomes.filter((outcome) => outcome === 'stored').length, 1)
      assert.equal(outcomes.filter((outcome) => outcome === 'existing').length, 15)
      assert.equal(await textOf(store, 'a'), 'a')
      await store.putChunk('p', newChunk('b'))
      assert.deepEqual(await readyPlaces(store), ['1'])
    },
  },
  {
    name: 'chunks that are put while maps come and go are there if and only if a map names them',
    async use(store) {
      const texts = range(12).map((i) => `chunk-${i}`)
      const some = (from: number) => range(5).map((i) => texts[(from * 5 + i * 3) % texts.length] as string)
      const publishers = range(3).map(async (place) => {
        for (const i of range(12)) {
          const id = key({ placeId: `${place}` })
          if (i % 4 === 3) await store.updateMap(id, {}, () => ({ contents: {}, result: 1 }))
          else await (i % 4 === 2 ? publish : record)(store, id, ...some(i + place))
          await nextTurn()
        }
      })
      const writers = range(3).map(async (writer) => {
        for (const i of range(30))
          await store.putChunk('p', newChunk(texts[(i * (writer + 2)) % texts.length] as string))
      })
      await Promise.all([...publishers, ...writers])
      const slots = (await store.maps('p', { limit: 10 })).map(({ slot }) => slot)
      const named = new Set(
        slots.flatMap(({ complete, pending }) =>
          [complete, pending].flatMap((each) => each?.manifest.chunks.map(({ digest }) => digest) ?? []),
        ),
      )
      for (const { complete } of slots) {
        for (const { digest } of complete?.manifest.chunks ?? []) assert.ok(await store.chunk('p', digest, copy))
      }
      for (const text of texts) {
        const kept = await textOf(store, text)
        assert.equal((await present(store, [text])).length, kept === undefined ? 0 : 1)
        if (kept !== undefined) assert.equal(kept, text)
        assert.equal(kept !== undefined && !named.has(chunk(text).digest), false, `${text} is named by nothing`)
        const outcome = await store.putChunk('p', newChunk(text))
        const expected = named.has(chunk(text).digest) ? (kept === undefined ? 'stored' : 'existing') : 'undeclared'
        assert.equal(outcome, expected)
      }
      assert.equal((await store.readyMaps('p', 100)).length, slots.filter(({ pending }) => pending).length)
      assert.equal(await store.pendingBytes('p'), await recount(store))
    },
  },
  {
    name: 'of publications and appends that race, each sees the other or comes before it, as all readers do',
    async use(store) {
      await Promise.all(range(60).map((i) => raceOf(store, `build-${i}`, i)))
    },
  },
]

/** What a store promises of maps besides, if what it keeps outlives its process: a part of `durableStoreChecks`. */
export const durableMapStoreChecks: readonly DurableMapStoreCheck[] = [
  {
    name: 'maps, what they wait for, and chunks outlive a close',
    async use(store, reopen) {
      await publish(store, key(), 'a', 'b')
      await record(store, key(), 'b', 'c', 'd')
      await publish(store, key({ placeId: '2' }), 'e')
      await store.updateMap(key({ placeId: '2' }), {}, () => ({ contents: {}, result: 1 }))
      await store.putChunk('p', newChunk('c', 3_000))
      const before = await store.maps('p', { limit: 10 })
      const pendingBytes = await store.pendingBytes('p')
      assert.equal(pendingBytes, await recount(store))
      const reopened = await reopen()
      assert.deepEqual(await reopened.maps('p', { limit: 10 }), before)
      assert.equal(await reopened.pendingBytes('p'), pendingBytes)
      assert.deepEqual(await present(reopened, ['a', 'b', 'c', 'd', 'e']), ['a', 'b', 'c'])
      assert.equal(await textOf(reopened, 'c'), 'c')
      assert.equal(await reopened.putChunk('p', newChunk('e')), 'undeclared')
      assert.equal(await reopened.putChunk('p', newChunk('d')), 'stored')
      assert.deepEqual(await readyPlaces(reopened), ['1'])
      const later = await reopen()
      assert.deepEqual(await readyPlaces(later), ['1'], 'a map that a crash kept from completing')
      await complete(later, key())
      assert.deepEqual(await present(later, ['a', 'b', 'c', 'd']), ['b', 'c', 'd'])
    },
  },
  {
    name: 'a map that is frozen is so after a close',
    async use(store, reopen) {
      await publish(store, key(), 'a')
      await store.append('p', batchOf('e', 'b', 7_000))
      assert.deepEqual(await (await reopen()).map(key()), { frozenAt: 7_000, ...wholeOf('a') })
    },
  },
]

/**
 * One build: three who publish one version after the other as long as it is open, one who appends its first event after
 * a while, and two who watch.
 */
async function raceOf(store: Store, buildId: string, turns: number): Promise<void> {
  const id = key({ buildId })
  let appendedAt: 'not yet' | 'begun' | 'done' = 'not yet'
  let running = true
  const answers: { frozen: boolean; digest: Digest | undefined }[] = []

  await publish(
    store,
    key({ placeId: 'known', buildId: `other-${buildId}` }),
    ...range(4).map((i) => `${buildId} ${i}`),
  )

  async function publishOn(publisher: number): Promise<void> {
    for (let version = 0; version < 40; version++) {
      // with chunks that come along and take their time, and with such as are there
      const known = version % 4 > 0
      const text = known ? `${buildId} ${(publisher + version) % 4}` : `${buildId} ${publisher} ${version}`
      const begun = appendedAt
      const answer = await store.updateMap(id, known ? {} : uploadsOf(text), (slot) => {
        const digest = slot.complete?.manifest.digest
        if (slot.frozenAt !== undefined) return { result: { frozen: true, digest } }
        return { contents: wholeOf(text), result: { frozen: false, digest: manifestOf(text).digest } }
      })
      if (begun === 'done') assert.ok(answer.frozen, 'a publication after the answer to the event sees the build open')
      if (appendedAt === 'not yet') assert.ok(!answer.frozen, 'a publication before the event sees the build frozen')
      answers.push(answer)
      if (answer.frozen) return
      await nextTurn()
    }
  }

  async function appendOne(): Promise<Digest | undefined> {
    // so many answers are a long time for one store and a short one for another
    while (running && answers.length < turns % 10) await nextTurn()
    for (let i = 0; i < turns % 3; i++) await nextTurn()
    appendedAt = 'begun'
    await store.append('p', batchOf(buildId, buildId))
    appendedAt = 'done'
    return (await store.map(id)).complete?.manifest.digest
  }

  async function watch(): Promise<void> {
    let fixed: Digest | undefined | 'open' = 'open'
    while (running) {
      const { frozenAt, complete } = await store.map(id)
      const digest = complete?.manifest.digest
      if (frozenAt === undefined) assert.equal(fixed, 'open', 'a build does not thaw')
      else if (fixed === 'open') fixed = digest
      else assert.equal(digest, fixed, 'a frozen map does not change')
      await nextTurn()
    }
  }

  const working = Promise.all([appendOne(), publishOn(0), publishOn(1), publishOn(2)]).finally(() => {
    running = false
  })
  const [[afterwards]] = await Promise.all([working, watch(), watch()])
  const { complete, frozenAt } = await store.map(id)
  const frozen = answers.filter((answer) => answer.frozen)
  assert.ok(frozenAt !== undefined && frozen.length > 0)
  assert.equal(complete?.manifest.digest, afterwards, 'nothing changes after the answer to the event')
  for (const { digest } of frozen) assert.equal(digest, complete?.manifest.digest, 'all see the map that is frozen')
  const published = answers.filter((answer) => !answer.frozen).map(({ digest }) => digest)
  assert.ok(complete === undefined || published.includes(complete.manifest.digest))
  for (const { digest } of complete?.manifest.chunks ?? []) assert.ok(await store.chunk('p', digest, copy))
}

function key(id: Partial<MapKey> = {}): MapKey {
  return { projectId: 'p', placeId: '1', buildId: 'b', ...id }
}

function sorted({ placeId, buildId }: MapId): MapId {
  return { placeId, buildId }
}

function chunk(text: string): ChunkUpload {
  const bytes = Buffer.from(text)
  return { digest: digestOf(bytes), bytes }
}

function newChunk(text: string, receivedAt = 1_000) {
  return { ...chunk(text), receivedAt }
}

function digests(...texts: string[]): Digest[] {
  return texts.map((text) => chunk(text).digest)
}

function manifestOf(...texts: string[]): Manifest {
  const chunks = texts.map((text) => ({ digest: chunk(text).digest, size: Buffer.byteLength(text) }))
  const whole = Buffer.from(texts.join(''))
  return { contentType: 'text/plain', size: whole.length, digest: digestOf(whole), chunks }
}

function pendingOf(...texts: string[]) {
  return { manifest: manifestOf(...texts), touchedAt: 1_000 }
}

function wholeOf(...texts: string[]): MapContents {
  return { complete: { manifest: manifestOf(...texts), publishedAt: 1_000 } }
}

function uploadsOf(...texts: string[]): MapChunks {
  return { uploads: texts.map(chunk) }
}

/** Publishes a whole map with its chunks. */
async function publish(store: Store, id: MapKey, ...texts: string[]): Promise<void> {
  await store.updateMap(id, uploadsOf(...new Set(texts)), () => ({ contents: wholeOf(...texts), result: 1 }))
}

/** Records a manifest, beside the complete map if there is one. */
async function record(store: Store, id: MapKey, ...texts: string[]): Promise<void> {
  await store.updateMap(id, {}, ({ complete }) => ({
    contents: { ...(complete && { complete }), pending: pendingOf(...texts) },
    result: 1,
  }))
}

/** Makes the pending map the complete one. */
async function complete(store: Store, id: MapKey): Promise<void> {
  await store.updateMap(id, {}, ({ pending }) => {
    assert.ok(pending)
    return { contents: { complete: { manifest: pending.manifest, publishedAt: 1_000 } }, result: 1 }
  })
}

/** The pending bytes of a project, from all of its maps. */
async function recount(store: Store): Promise<number> {
  const slots = (await store.maps('p', { limit: 1_000 })).map(({ slot }) => slot)
  const pendings = slots.flatMap(({ complete, pending, frozenAt }) =>
    complete || frozenAt === undefined ? (pending ?? []) : [],
  )
  const keepers = slots.flatMap(
    ({ complete, pending, frozenAt }) => complete ?? (frozenAt === undefined ? [] : (pending ?? [])),
  )
  const kept = new Set(keepers.flatMap(({ manifest }) => manifest.chunks.map(({ digest }) => digest)))
  const sizes = new Map(pendings.flatMap(({ manifest }) => manifest.chunks.map(({ digest, size }) => [digest, size])))
  const there = await store.presentChunks('p', [...sizes.keys()])
  const chunkBytes = [...sizes].map(([digest, size]) => (there.has(digest) && !kept.has(digest) ? size : 0))
  return [...chunkBytes, ...pendings.map(({ manifest }) => manifestBytes(manifest))].reduce(
    (sum, each) => sum + each,
    0,
  )
}

async function list(store: Store, selection: Partial<MapSelection> = {}, projectId = 'p'): Promise<MapId[]> {
  return (await store.maps(projectId, { limit: 1_000, ...selection })).map(sorted)
}

async function readyPlaces(store: Store): Promise<string[]> {
  return (await store.readyMaps('p', 100)).map(({ placeId }) => placeId).sort()
}

/** Those of these chunks that are there. */
async function present(store: Store, texts: string[], projectId = 'p'): Promise<string[]> {
  const there = await store.presentChunks(projectId, digests(...texts))
  return texts.filter((text) => there.has(chunk(text).digest))
}

async function textOf(store: Store, text: string, projectId = 'p'): Promise<string | undefined> {
  const bytes = await store.chunk(projectId, chunk(text).digest, copy)
  return bytes && Buffer.from(bytes).toString()
}

function batchOf(eventId: string, buildId?: string, receivedAt = 1_000): AppendBatch {
  const event = { projectId: 'p', eventId, ...(buildId !== undefined && { buildId }) }
  const start = '{"events":['.length
  const end = start + Buffer.byteLength(JSON.stringify(event))
  const body = Buffer.from(JSON.stringify({ events: [event] }))
  return { body, count: 1, events: [{ eventId, ...(buildId !== undefined && { buildId }), start, end }], receivedAt }
}

async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => assert.fail('it was not rejected'),
    (error: unknown) => error,
  )
}

function range(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i)
}

function copy(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes)
}
