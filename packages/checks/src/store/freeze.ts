import assert from 'node:assert/strict'
import type { PendingTotals } from '@ingest/core'
import { batchOf, event, frozenAt, lookAlikes } from './sample-events.ts'
import {
  complete,
  countUpdate,
  eventBatch,
  key,
  newChunk,
  pendingMap,
  present,
  publish,
  putChunk,
  readyPlaces,
  record,
  recount,
  wholeOf,
} from './sample-maps.ts'
import { check, range, type StoreCheck } from './store-check.ts'

export const freezeChecks: readonly StoreCheck[] = [
  check('the first stored event that references a build freezes every place of it, in its project', async (store) => {
    assert.deepEqual(await store.map(key()), {})
    await store.append('q', batchOf([event('a', { buildId: 'b1' })], { receivedAt: 5_000 }))
    const texts = [event('a'), event('b', { buildId: 'b1' }), event('c', { buildId: 'b2' })]
    await store.append('p', batchOf(texts, { receivedAt: 7_000 }))
    assert.deepEqual(await store.map(key()), {})
    assert.deepEqual([await frozenAt(store, 'b1', 'q'), await frozenAt(store, 'b2', 'q')], [5_000, undefined])
    for (const placeId of ['x', 'y', '1']) {
      for (const buildId of ['b1', 'b2']) {
        assert.deepEqual(await store.map({ projectId: 'p', placeId, buildId }), { frozenAt: 7_000 })
      }
    }
  }),

  check('an append returns the builds that it froze, and no others', async (store) => {
    const frozenBy = async (...texts: string[]) => [...(await store.append('p', batchOf(texts))).frozen].sort()
    const first = ['b1', undefined, 'b2', 'b1'].map((buildId, i) => event(`${i}`, { buildId }))
    assert.deepEqual(await frozenBy(...first), ['b1', 'b2'])
    assert.deepEqual(await frozenBy(...first), [])
    const second = [event('0', { buildId: 'b3' }), event('e', { buildId: 'b2' }), event('f', { buildId: 'b4' })]
    assert.deepEqual(await frozenBy(...second), ['b4'])
  }),

  check('later events do not change when a build froze', async (store) => {
    for (const receivedAt of [7_000, 8_000, 6_000]) {
      await store.append('p', batchOf([event(`at-${receivedAt}`, { buildId: 'b' })], { receivedAt }))
      assert.equal(await frozenAt(store, 'b'), 7_000)
    }
  }),

  check('duplicates and rejected events freeze nothing', async (store) => {
    const texts = [event('bad', { buildId: 'rejected' }), event('good', { buildId: 'stored' })]
    await store.append('p', batchOf(texts, { indexes: [1] }))
    assert.equal(await frozenAt(store, 'rejected'), undefined)
    assert.notEqual(await frozenAt(store, 'stored'), undefined)
    assert.deepEqual(await store.known('p', ['bad']), [false])
    await store.append('p', batchOf([event('a')]))
    await publish(store, key(), 'a')
    await record(store, key(), 'c')
    await store.append('p', batchOf([event('a', { buildId: 'b' })]))
    assert.deepEqual(await store.map(key()), { ...wholeOf('a'), pending: pendingMap(['c'], ['c']) })
    await store.append('p', batchOf([event('a', { buildId: 'b' }), event('new', { buildId: 'c' })]))
    assert.equal(await frozenAt(store, 'b'), undefined)
    assert.notEqual(await frozenAt(store, 'c'), undefined)
  }),

  check('builds are compared byte for byte', async (store) => {
    const builds = lookAlikes.filter((id) => Buffer.byteLength(id) <= 128)
    for (const [i, buildId] of builds.entries()) {
      assert.equal(await frozenAt(store, buildId), undefined, JSON.stringify(buildId))
      await store.append('p', batchOf([event(`${i}`, { buildId })], { receivedAt: i }))
    }
    for (const [i, buildId] of builds.entries()) assert.equal(await frozenAt(store, buildId), i)
  }),

  check(
    'a freeze makes pending replacements of complete maps void, in every place of the build, and nothing else',
    async (store) => {
      for (const placeId of ['1', '2', '']) {
        await publish(store, key({ placeId }), 'a')
        await record(store, key({ placeId }), 'a', 'new')
      }
      await record(store, key({ placeId: 'first' }), 'only')
      await publish(store, key({ buildId: 'bb' }), 'a')
      await record(store, key({ buildId: 'bb' }), 'other')
      await publish(store, key({ projectId: 'q' }), 'a')
      await record(store, key({ projectId: 'q' }), 'new')
      for (const text of ['new', 'only']) assert.equal(await putChunk(store, 'p', newChunk(text)), 'stored')
      await store.append('p', eventBatch('e', 'b', 7_000))
      for (const placeId of ['1', '2', '']) {
        assert.deepEqual(await store.map(key({ placeId })), { frozenAt: 7_000, ...wholeOf('a') })
      }
      assert.notEqual(await putChunk(store, 'p', newChunk('new')), 'stored', 'it may be kept until the next sweep')
      const first = { frozenAt: 7_000, pending: pendingMap(['only'], []) }
      assert.deepEqual(await store.map(key({ placeId: 'first' })), first, 'it is pinned')
      assert.deepEqual(await readyPlaces(store), ['first'])
      assert.deepEqual(await store.map(key({ buildId: 'bb' })), {
        ...wholeOf('a'),
        pending: pendingMap(['other'], ['other']),
      })
      assert.deepEqual(await store.map(key({ projectId: 'q' })), {
        ...wholeOf('a'),
        pending: pendingMap(['new'], ['new']),
      })
      await store.sweep({ mapsTouched: 0, activity: 0 })
      assert.deepEqual(await present(store, ['a', 'new', 'only']), ['a', 'only'])
      assert.equal(await putChunk(store, 'p', newChunk('new')), 'undeclared')
      assert.deepEqual(await store.map(key({ placeId: 'first' })), first)
    },
  ),

  check('the pending bytes exclude a frozen build, even what is published to it later', async (store) => {
    await publish(store, key(), 'a')
    await record(store, key(), 'bb', 'ccc')
    await record(store, key({ placeId: '2' }), 'ccc', 'dddd')
    await record(store, key({ buildId: 'open' }), 'dddd', 'bb')
    const open = 256 + 320 + 6
    const assertTotals = async (totals: PendingTotals, what: string) => {
      assert.deepEqual(await store.pendingTotals('p'), totals, what)
      assert.deepEqual(await recount(store), totals, what)
    }
    await assertTotals({ maps: 3, bytes: open + 2 * (256 + 320) + 5 + 7 }, 'all is open')
    await store.append('p', eventBatch('e', 'b'))
    // a void manifest counts as a pending map until it is swept
    assert.equal((await store.pendingTotals('p')).bytes, open, 'frozen')
    assert.equal((await recount(store)).bytes, open, 'frozen')
    await store.sweep({ mapsTouched: 0, activity: 0 })
    await assertTotals({ maps: 2, bytes: open }, 'swept')
    for (const text of ['ccc', 'dddd']) await putChunk(store, 'p', newChunk(text))
    await complete(store, key({ placeId: '2' }))
    await record(store, key({ placeId: '3' }), 'late')
    await assertTotals({ maps: 2, bytes: open }, 'completed and published late')
    await store.sweep({ mapsTouched: 10_000, activity: 0 })
    await assertTotals({ maps: 1, bytes: 0 }, 'the open ones expired')
  }),

  check('a manifest that a freeze made void is never seen again, before and after it is swept', async (store) => {
    const places = range(300).map(String)
    await Promise.all(places.map((placeId) => publish(store, key({ placeId }), 'a')))
    await Promise.all(places.map((placeId) => record(store, key({ placeId }), 'new')))
    await store.append('p', eventBatch('e', 'b', 7_000))
    for (const isSwept of [false, true]) {
      const maps = await store.maps('p', { limit: 1_000 })
      assert.equal(maps.length, places.length)
      for (const { slot } of maps) assert.deepEqual(slot, { frozenAt: 7_000, ...wholeOf('a') })
      assert.deepEqual((await store.putChunk('p', newChunk('a'))).ready, [])
      assert.equal(await putChunk(store, 'p', newChunk('new')), 'undeclared')
      await countUpdate(store, key({ placeId: isSwept ? '1' : '0' }))
      await store.sweep({ mapsTouched: 0, activity: 0 })
      const { complete } = await store.map(key({ placeId: isSwept ? '1' : '0' }))
      assert.equal(complete?.publishedAt, 1_001)
      await store.updateMap(key({ placeId: isSwept ? '1' : '0' }), {}, () => ({ contents: wholeOf('a'), result: 1 }))
    }
  }),
]
