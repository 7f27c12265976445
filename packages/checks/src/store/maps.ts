import assert from 'node:assert/strict'
import { type BuildEntry, buildsSearchedMax, type MapId, type MapSelection } from '@ingest/core'
import { batchOf, event, nameOfBuild, publishEmpty } from './sample-events.ts'
import {
  chunk,
  complete,
  eventBatch,
  key,
  list,
  manifestOf,
  mapIdOf,
  newChunk,
  pendingMap,
  pendingOf,
  present,
  publish,
  putChunk,
  readyPlaces,
  record,
  recount,
  uploadsOf,
  wholeOf,
} from './sample-maps.ts'
import { check, range, rejectionOf, type StoreCheck } from './store-check.ts'

export const mapChecks: readonly StoreCheck[] = [
  check('pages of builds make up the whole', async (store) => {
    const count = 1_200
    for (let i = 0; i < count; i += 100) {
      const texts = range(100).map((n) => event(`${i + n}`, { buildId: nameOfBuild(i + n) }))
      await store.append('p', batchOf(texts, { receivedAt: i }))
    }
    for (let i = 0; i < count; i += 300) await publishEmpty(store, nameOfBuild(i), '1')
    const mapsOf = (i: number) => (i % 300 === 0 ? 1 : 0)
    const expected = range(count).map((i) => ({ buildId: nameOfBuild(i), frozenAt: i - (i % 100), maps: mapsOf(i) }))
    for (const limit of [7, 1_000, 5_000]) {
      const seen: BuildEntry[] = []
      for (let after: BuildEntry | undefined; ; after = seen.at(-1)) {
        const { builds } = await store.builds('p', { after, limit })
        seen.push(...builds)
        if (builds.length < limit) break
      }
      assert.deepEqual(seen, expected.toReversed())
    }
  }),

  check('a pending map counts as a map of its build until it expires', async (store) => {
    await record(store, key(), 'a')
    assert.deepEqual(await store.builds('p', { limit: 10 }), { builds: [{ buildId: 'b', maps: 1 }] })
    await store.sweep({ mapsTouched: 1_001, activity: 0 })
    assert.deepEqual(await store.builds('p', { limit: 10 }), { builds: [] })
  }),

  check('builds are the open ones that have maps, then those that froze last', async (store) => {
    assert.deepEqual(await store.builds('p', { limit: 10 }), { builds: [] })
    await store.append('q', batchOf([event('a', { buildId: 'another' })]))
    for (const buildId of ['é', 'v1', 'Beta-2', 'Beta-1']) await publishEmpty(store, buildId, '1')
    await publishEmpty(store, 'v1', '2')
    const freezes = [['v2'], ['v1'], ['beta-3', '\uffff', '😀'], ['Beta-1']]
    for (const [i, builds] of freezes.entries()) {
      const events = builds.map((buildId) => event(buildId, { buildId }))
      await store.append('p', batchOf(events, { receivedAt: 7_000 + i }))
    }
    const all: BuildEntry[] = [
      { buildId: 'é', maps: 1 },
      { buildId: 'Beta-2', maps: 1 },
      { buildId: 'Beta-1', frozenAt: 7_003, maps: 1 },
      { buildId: '😀', frozenAt: 7_002, maps: 0 },
      { buildId: '\uffff', frozenAt: 7_002, maps: 0 },
      { buildId: 'beta-3', frozenAt: 7_002, maps: 0 },
      { buildId: 'v1', frozenAt: 7_001, maps: 2 },
      { buildId: 'v2', frozenAt: 7_000, maps: 0 },
    ]
    assert.deepEqual(await store.builds('p', { limit: 10 }), { builds: all })
    for (const [i, after] of all.entries()) {
      assert.deepEqual(await store.builds('p', { after, limit: 10 }), { builds: all.slice(i + 1) })
      assert.deepEqual(await store.builds('p', { after, limit: 1 }), { builds: all.slice(i + 1, i + 2) })
    }
    const gone = { buildId: 'beta-4', frozenAt: 7_002 }
    assert.deepEqual(await store.builds('p', { after: gone, limit: 1 }), { builds: all.slice(5, 6) })
    const [open] = all
    for (const [search, ids] of [
      ['beta', ['Beta-2', 'Beta-1', 'beta-3']],
      ['a-1', ['Beta-1']],
      ['É', []],
      ['é', ['é']],
      ['%', []],
    ] as const) {
      const { builds } = await store.builds('p', { search, limit: 10 })
      assert.deepEqual(
        builds.map(({ buildId }) => buildId),
        ids,
        search,
      )
    }
    const beta = await store.builds('p', { search: 'beta', after: open, limit: 2 })
    assert.deepEqual(beta.builds, all.slice(1, 3))
  }),

  check('a search looks at a limited number of builds', async (store) => {
    for (let i = 0; i <= buildsSearchedMax; i += 100) {
      const texts = range(100).map((n) => event(`${i + n}`, { buildId: nameOfBuild(i + n) }))
      await store.append('p', batchOf(texts, { receivedAt: i }))
    }
    const search = nameOfBuild(3)
    const { builds, last } = await store.builds('p', { search, limit: 1 })
    assert.deepEqual(builds, [])
    assert.ok(last)
    const found = await store.builds('p', { search, after: last, limit: 1 })
    assert.deepEqual(found, { builds: [{ buildId: search, frozenAt: 0, maps: 0 }] })
    assert.equal((await store.builds('p', { search: 'none', after: last, limit: 9 })).last, undefined)
  }),

  check('a map has the contents of its last update, whose decision saw the ones before', async (store) => {
    assert.deepEqual(await store.map(key()), {})
    assert.deepEqual(await list(store), [])
    assert.equal(await store.readChunk('p', chunk('a').digest), undefined)
    await store.sweep({ mapsTouched: Number.MAX_SAFE_INTEGER, activity: 0 })
    const first = wholeOf('a', 'b')
    const { complete } = first
    const seen = await store.updateMap(key(), uploadsOf('a', 'b'), (slot) => ({ contents: first, result: slot }))
    assert.deepEqual(seen, {})
    assert.deepEqual(await store.map(key()), first)
    const second = { ...(complete && { complete }), pending: pendingOf('c') }
    assert.deepEqual(await store.updateMap(key(), {}, (slot) => ({ contents: second, result: slot })), first)
    assert.deepEqual(await store.map(key()), { ...second, pending: pendingMap(['c'], ['c']) })
    assert.deepEqual(await store.map(key({ placeId: '2' })), {})
    assert.deepEqual(await store.map(key({ buildId: 'other' })), {})
    assert.deepEqual(await store.map(key({ projectId: 'q' })), {})
  }),

  check('a decision about a map that writes nothing, or throws, changes nothing', async (store) => {
    assert.equal(await store.updateMap(key(), uploadsOf('a'), () => ({ result: 1 })), 1)
    assert.deepEqual(await list(store), [])
    assert.deepEqual(await present(store, ['a']), [])
    await publish(store, key(), 'a')
    const thrown = new RangeError('no')
    const refuse = () => {
      throw thrown
    }
    const [refusal, appended] = await Promise.all([
      rejectionOf(store.updateMap(key(), uploadsOf('b'), refuse)),
      store.append('p', eventBatch('e')),
      publish(store, key({ placeId: '2' }), 'c'),
      store.updateMap(key(), uploadsOf('d'), () => ({ result: 1 })),
    ])
    assert.equal(refusal, thrown)
    assert.deepEqual(appended.stored, [true])
    assert.deepEqual(await store.map(key()), wholeOf('a'))
    assert.deepEqual(await present(store, ['a', 'b', 'c', 'd']), ['a', 'c'])
  }),

  check('recording a manifest again keeps its missing chunks', async (store) => {
    await record(store, key(), 'a', 'b')
    await putChunk(store, 'p', newChunk('a'))
    await record(store, key(), 'a', 'b')
    assert.deepEqual(await present(store, ['a', 'b']), ['a'])
    assert.deepEqual(await readyPlaces(store), [])
    await store.updateMap(key(), {}, (slot) => ({ contents: slot, result: 1 }))
    assert.equal(await putChunk(store, 'p', newChunk('b')), 'stored')
    assert.deepEqual(await readyPlaces(store), ['1'])
  }),

  check('idle pending maps are dropped with their chunks, unless their build is frozen', async (store) => {
    const keys = [key(), key({ placeId: '2' }), key({ placeId: '3', buildId: 'frozen' }), key({ projectId: 'q' })]
    for (const each of keys) await record(store, each, 'a', 'b')
    await publish(store, key({ placeId: '4' }), 'whole')
    await record(store, key({ placeId: '4' }), 'c')
    await record(store, key({ placeId: '5' }), 'd')
    await putChunk(store, 'p', newChunk('d', 2_000))
    await store.append('p', eventBatch('e', 'frozen', 500))
    await store.sweep({ mapsTouched: 1_000, activity: 0 })
    assert.equal((await list(store)).length, 5, 'touched at that time is not before it')
    await store.sweep({ mapsTouched: 1_001, activity: 0 })
    const left = (await list(store)).map(({ placeId }) => placeId)
    assert.deepEqual(left, ['4', '5', '3'])
    assert.deepEqual(await store.map(key({ placeId: '4' })), wholeOf('whole'))
    assert.deepEqual(await list(store, {}, 'q'), [])
    assert.equal(await putChunk(store, 'p', newChunk('c')), 'undeclared')
    assert.equal(await putChunk(store, 'q', newChunk('a')), 'undeclared')
    assert.equal(await putChunk(store, 'p', newChunk('a', 1)), 'stored')
    await store.sweep({ mapsTouched: 10_000, activity: 0 })
    assert.deepEqual(await present(store, ['a', 'd']), ['a'])
    assert.deepEqual(await store.map(key({ placeId: '3', buildId: 'frozen' })), {
      frozenAt: 500,
      pending: { ...pendingMap(['a', 'b'], ['b']), touchedAt: 1 },
    })
  }),

  check(
    'pending totals count the pending maps, and their sizes plus 256 bytes each and 160 per chunk',
    async (store) => {
      const assertPending = async (maps: number, bytes: number, what: string) => {
        assert.deepEqual(await store.pendingTotals('p'), { maps, bytes }, what)
        assert.deepEqual(await recount(store), { maps, bytes }, `${what}, counted`)
      }
      const pending = (size: number, chunks: number) => size + 256 + 160 * chunks
      await assertPending(0, 0, 'nothing')
      await publish(store, key(), 'a', 'bb')
      await assertPending(0, 0, 'a complete map')
      await record(store, key(), 'a', 'ccc', 'dddd', 'ccc')
      await assertPending(1, pending(11, 4), 'its replacement')
      await putChunk(store, 'p', newChunk('ccc'))
      await assertPending(1, pending(11, 4), 'a chunk that was declared')
      await record(store, key({ placeId: '2' }), 'ccc', 'bb', 'e')
      await record(store, key({ projectId: 'q' }), 'ccc')
      await assertPending(2, pending(11, 4) + pending(6, 3), 'another manifest')
      await record(store, key(), 'a', 'f')
      await assertPending(2, pending(2, 2) + pending(6, 3), 'a manifest that was replaced')
      await publish(store, key(), 'x')
      await assertPending(1, pending(6, 3), 'a map that was published whole')
      for (const text of ['bb', 'ccc', 'e']) await putChunk(store, 'p', newChunk(text))
      await complete(store, key({ placeId: '2' }))
      await assertPending(0, 0, 'all is complete')
    },
  ),

  check('a chunk that is larger than each manifest says is not stored', async (store) => {
    const { digest } = chunk('four')
    const sized = (size: number) => ({
      manifest: { ...manifestOf('four'), size, chunks: [{ digest, size }] },
      touchedAt: 1,
    })
    const recordSized = (placeId: string, size: number) =>
      store.updateMap(key({ placeId }), {}, () => ({ contents: { pending: sized(size) }, result: 1 }))
    await recordSized('1', 3)
    assert.equal(await putChunk(store, 'p', newChunk('four')), 'undeclared')
    assert.deepEqual(await present(store, ['four']), [])
    await recordSized('2', 5)
    assert.equal(await putChunk(store, 'p', newChunk('four')), 'stored')
    await store.updateMap(key({ placeId: '2' }), {}, () => ({ contents: {}, result: 1 }))
    assert.equal(await putChunk(store, 'p', newChunk('four')), 'existing')
  }),

  check('maps are listed by build and then by place, as bytes, in pages of any size', async (store) => {
    const places = { b: ['Z', 'a', 'é', '\uffff', '😀'], 'b!': ['0'], ba: ['', '1', '10', '2'], é: ['1'] }
    const ids: MapId[] = Object.entries(places).flatMap(([buildId, of]) => of.map((placeId) => ({ buildId, placeId })))
    for (const [i, id] of ids.entries()) {
      const at = ids[(i * 7) % ids.length] as MapId
      await (i % 2 ? publish : record)(store, key(at), `${i}`)
      await publish(store, key({ ...id, projectId: 'q' }), 'other')
    }
    assert.deepEqual(await list(store), ids.map(mapIdOf))
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
      assert.deepEqual(seen, ids.map(mapIdOf), `pages of ${limit}`)
    }
    assert.deepEqual(await list(store, { after: { buildId: 'b', placeId: 'z' } }), ids.slice(2).map(mapIdOf))
  }),

  check('maps are listed for one build, for one place, and for both', async (store) => {
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
    await publish(store, key({ buildId: 'b1' }), 'a')
    await record(store, key({ buildId: 'b1' }), 'c')
    await store.append('p', eventBatch('e', 'b2', 7_000))
    for (const { slot, ...id } of await store.maps('p', { limit: 10 })) {
      assert.deepEqual(slot, await store.map(key(id)))
      assert.equal(slot.frozenAt, id.buildId === 'b2' ? 7_000 : undefined)
    }
  }),

  check('places and builds are compared byte for byte, and do not run into each other', async (store) => {
    const texts = ['a', 'A', ' a', 'a ', 'ab', 'b', 'é', 'e\u0301', '1', '01', '😀', '__proto__', 'x'.repeat(128)]
    const ids = texts.flatMap((buildId) => texts.map((placeId) => ({ buildId, placeId })))
    for (const [i, id] of ids.entries()) {
      assert.deepEqual(await store.map(key(id)), {}, JSON.stringify(id))
      await publish(store, key(id), `${i}`)
    }
    for (const [i, id] of ids.entries()) assert.deepEqual(await store.map(key(id)), wholeOf(`${i}`))
    assert.equal((await list(store)).length, ids.length)
  }),
]
