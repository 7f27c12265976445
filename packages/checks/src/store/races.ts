import assert from 'node:assert/strict'
import type { AppendResult, KeyRecord } from '@ingest/core'
import { createKeyring } from '@ingest/core/internal'
import { raceChunks, raceFreeze } from './map-races.ts'
import { addKey, batchOf, event, frozenAt, idsOf, readAll, textsOf } from './sample-events.ts'
import { chunkText, countUpdate, key, newChunk, publish, putChunk, readyPlaces, record } from './sample-maps.ts'
import { check, range, type StoreCheck } from './store-check.ts'
import { watch, watchedBatch } from './watch-log.ts'

export const raceChecks: readonly StoreCheck[] = [
  check('of 50 concurrent updates of a project none is lost', async (store) => {
    const ids = range(50).map((i) => `k${i}`)
    await Promise.all(ids.map((id) => addKey(store, id)))
    const kept = (await store.project('p'))?.keys.map(({ keyId }) => keyId)
    assert.deepEqual(kept?.sort(), ids.sort())
  }),

  check('uses of keys are noted beside concurrent revocations and rotations, and undo none', async (store) => {
    const noting = createKeyring(store, () => 1000)
    const others = createKeyring(store, () => 1000)
    const made: { key: string; record: KeyRecord }[] = []
    for (const _ of range(8)) made.push(await others.create('p', { scopes: ['read'] }))
    const ids = made.map(({ record }) => record.keyId)
    // a key that is revoked first has no use to note; the uses are written from the next turn on
    const valid = await Promise.all(made.map(({ key }) => noting.authenticate({ projectId: 'p', key, scope: 'read' })))
    assert.ok(valid.every(Boolean))
    await Promise.all([
      ...ids.slice(0, 4).map((keyId) => others.revoke('p', keyId)),
      ...ids.slice(4).map((keyId) => others.rotate('p', keyId)),
    ])
    let records: readonly KeyRecord[]
    do {
      await new Promise((resolve) => setImmediate(resolve))
      records = await others.list('p')
    } while (records.filter(({ lastUsedAt }) => lastUsedAt !== undefined).length < made.length)
    const stateOf = (record?: KeyRecord) => [record?.lastUsedAt, record?.revokedAt, record?.expiresAt]
    assert.deepEqual(
      ids.map((id) => stateOf(records.find(({ keyId }) => keyId === id))),
      ids.map((_, i) => (i < 4 ? [1000, 1000, undefined] : [1000, undefined, 1000 + 48 * 3_600_000])),
    )
    assert.equal(records.length, 12)
  }),

  check('of 16 concurrent appends of a batch exactly one stores each event', async (store) => {
    const ids = range(10).map((i) => `e-${i}`)
    const results = await Promise.all(
      range(16).map(async () => {
        const result = await store.append('p', batchOf(ids.map((id) => event(id))))
        assert.deepEqual(
          await store.known('p', ids),
          ids.map(() => true),
          'an acknowledged event is stored',
        )
        return result
      }),
    )
    assert.deepEqual(
      timesStored(results),
      ids.map(() => 1),
    )
    assert.ok(results.every(({ conflicts }) => conflicts === 0))
    assert.deepEqual(await idsOf(store), ids)
    assert.equal((await store.totals('p')).events, ids.length)
  }),

  check(
    'overlapping concurrent batches store each event once, with the bytes of the append that reports it',
    async (store) => {
      const batches = range(24).map((b) => range(20).map((i) => `e-${(b * 7 + i * 11) % 60}`))
      const results = await Promise.all(
        batches.map((ids, b) => store.append('p', batchOf(ids.map((id) => event(id, { sentBy: b }))))),
      )
      const winners = batches.flatMap((ids, b) =>
        ids.filter((_, i) => results[b]?.stored[i]).map((id) => event(id, { sentBy: b })),
      )
      assert.equal(winners.length, 60)
      assert.deepEqual((await textsOf(store)).sort(), winners.sort())
      assert.equal(sum(results.map(({ conflicts }) => conflicts)), 24 * 20 - 60)
      assert.equal((await store.totals('p')).events, 60)
    },
  ),

  check('concurrent appends of one id in two projects store both', async (store) => {
    const projectIds = ['p', 'q', 'r']
    const results = await Promise.all(projectIds.map((id) => store.append(id, batchOf([event('a')]))))
    assert.deepEqual(
      results,
      projectIds.map(() => ({ stored: [true], conflicts: 0, frozen: [] })),
    )
  }),

  check('concurrent appends that freeze one build agree on when, and one reports it', async (store) => {
    const reports: string[] = []
    const texts = range(16).map((i) => event(`${i}`, { buildId: 'b' }))
    const seen = await Promise.all(
      texts.map(async (text, i) => {
        const { frozen } = await store.append('p', batchOf([text], { receivedAt: 1_000 + i }))
        reports.push(...frozen)
        return frozenAt(store, 'b')
      }),
    )
    const [first] = await readAll(store)
    assert.deepEqual(
      seen,
      texts.map(() => first?.receivedAt),
    )
    assert.deepEqual(reports, ['b'])
  }),

  check(
    'readers during appends see every event once, in one order, in whole batches, with their builds frozen',
    async (store) => {
      let running = true
      const writers = range(4).map(async (writer) => {
        for (const i of range(6)) await store.append('p', watchedBatch(`${writer}-${i}`, 5))
      })
      const writing = Promise.all(writers).finally(() => {
        running = false
      })
      const [, ...seen] = await Promise.all([writing, ...range(3).map(() => watch(store, store, () => running))])
      const ids = await idsOf(store)
      assert.equal(ids.length, 4 * 6 * 5)
      for (const each of seen) assert.deepEqual(each, ids)
    },
  ),

  check('of 50 concurrent updates of a map none is lost', async (store) => {
    await publish(store, key(), 'a')
    await Promise.all(range(50).map(() => countUpdate(store, key())))
    assert.equal((await store.map(key())).complete?.publishedAt, 1_050)
  }),

  check('of concurrent puts of one chunk exactly one stores it', async (store) => {
    await record(store, key(), 'a', 'b')
    const outcomes = await Promise.all(range(16).map(() => putChunk(store, 'p', newChunk('a'))))
    assert.equal(outcomes.filter((outcome) => outcome === 'stored').length, 1)
    assert.equal(outcomes.filter((outcome) => outcome === 'existing').length, 15)
    assert.equal(await chunkText(store, 'a'), 'a')
    await putChunk(store, 'p', newChunk('b'))
    assert.deepEqual(await readyPlaces(store), ['1'])
  }),

  check(
    'chunks that are put while maps are published and replaced are stored if and only if a map names them',
    (store) => raceChunks({ publishers: [store], writer: store, reader: store }),
  ),

  check('racing publications and appends have one order, for all readers', async (store) => {
    await Promise.all(range(30).map((i) => raceFreeze({ publisher: store, appender: store, reader: store }, i)))
  }),
]

/** How often each event of one batch was stored, over all its appends. */
function timesStored(results: readonly AppendResult[]): number[] {
  const [first] = results as [AppendResult]
  return first.stored.map((_, i) => results.filter(({ stored }) => stored[i]).length)
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}
