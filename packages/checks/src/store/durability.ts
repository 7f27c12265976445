import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Cursor, digestOf, IngestError, type Store, type StoredEvent } from '@ingest/core'
import { activityRow, rowsOf, shown } from './activity.ts'
import {
  addKey,
  appended,
  appendLarge,
  appendSome,
  batchOf,
  event,
  frozenAt,
  idOf,
  idOfStored,
  idsOf,
  oddEvents,
  outcomeOf,
  projectWith,
  readAll,
  textOf,
} from './sample-events.ts'
import {
  chunkText,
  complete,
  key,
  newChunk,
  present,
  publish,
  putChunk,
  readyPlaces,
  record,
  recount,
  wholeOf,
} from './sample-maps.ts'
import {
  assertRefused,
  codeOf,
  type DurableStoreCheck,
  durableCheck,
  isolatedCheck,
  type RestoreCheck,
  range,
  type StoreCheck,
} from './store-check.ts'

export const closeChecks: readonly StoreCheck[] = [
  isolatedCheck('after close every operation is refused with store-closed', async (store) => {
    await appendSome(store)
    const read = store.read('p')[Symbol.asyncIterator]()
    await store.close()
    const digest = digestOf()
    const operations: Record<string, () => Promise<unknown>> = {
      append: () => store.append('p', batchOf([event('a')])),
      known: () => store.known('p', ['a']),
      find: () => store.find('p', 'a'),
      read: () => readAll(store),
      'read, begun before': () => read.next(),
      totals: () => store.totals('p'),
      count: () => store.count('p', { from: 1 }, 1),
      'count after a cursor': () => store.count('p', { after: 'cursor' }, 1),
      erase: () => store.erase('p', ['a']),
      expire: () => store.expire('p', 2_000),
      map: () => store.map(key()),
      maps: () => store.maps('p', { limit: 1 }),
      updateMap: () => store.updateMap(key(), {}, () => ({ result: 1 })),
      putChunk: () => store.putChunk('p', { digest, bytes: Buffer.of(1), receivedAt: 1 }),
      readChunk: () => store.readChunk('p', digest),
      pendingTotals: () => store.pendingTotals('p'),
      sweep: () => store.sweep({ mapsTouched: 1, activity: 0 }),
      builds: () => store.builds('p', { limit: 1 }),
      projects: () => store.projects(),
      entry: () => store.entry('project', 'p'),
      updateEntry: () => store.updateEntry('project', 'p', () => ({ result: 1 })),
      putActivity: () => store.putActivity([]),
      activity: () => rowsOf(store),
      check: () => store.check(),
    }
    for (const [name, operate] of Object.entries(operations)) await assertRefused(operate(), 'store-closed', name)
  }),

  isolatedCheck('a read that goes on after a close is refused at its next step', async (store) => {
    await appendLarge(store)
    const read = store.read('p')[Symbol.asyncIterator]()
    await read.next()
    await store.close()
    const readOn = async () => {
      while (!(await read.next()).done);
    }
    await assertRefused(readOn(), 'store-closed', 'the next step')
  }),

  isolatedCheck('a close waits for appends that have begun, and may be called twice, even at once', async (store) => {
    await store.check()
    let unsettled = 0
    const appends = range(8).map((i) => {
      unsettled++
      return outcomeOf(store.append('p', batchOf([event(`${i}`)]))).finally(() => unsettled--)
    })
    await Promise.all([store.close(), store.close()])
    await nextTurn()
    assert.equal(unsettled, 0)
    await store.close()
    for (const outcome of await Promise.all(appends))
      assert.ok(outcome === 'stored' || outcome === 'store-closed', outcome)
  }),
]

export const durableChecks: readonly DurableStoreCheck[] = [
  durableCheck('events, their bytes and their cursors survive a close', async (store, reopen) => {
    await store.append('p', batchOf(oddEvents))
    await store.append('q', batchOf([event('a')], { receivedAt: 9_000 }))
    const before = [await readAll(store, 'p'), await readAll(store, 'q')] as const
    const reopened = await reopen()
    assert.deepEqual([await readAll(reopened, 'p'), await readAll(reopened, 'q')], before)
    for (const [i, { cursor }] of before[0].entries()) {
      assert.deepEqual(await readAll(reopened, 'p', { after: cursor }), before[0].slice(i + 1))
    }
    for (const text of oddEvents) assert.equal(textOf(await reopened.find('p', idOf(text))), text)
  }),

  durableCheck('an event that was stored before a close is a duplicate after it', async (store, reopen) => {
    await store.append('p', batchOf([event('a'), event('b')]))
    const reopened = await reopen()
    assert.deepEqual(await reopened.known('p', ['a', 'b', 'c']), [true, true, false])
    const result = await reopened.append('p', batchOf([event('c'), event('b'), event('a', { other: true })]))
    assert.deepEqual(result, appended([true, false, false], 1))
    assert.deepEqual(await idsOf(reopened), ['a', 'b', 'c'])
  }),

  durableCheck('freezes, totals, projects and consumers survive a close', async (store, reopen) => {
    await publish(store, key(), 'a')
    await store.append('p', batchOf([event('a', { buildId: 'b' })], { receivedAt: 7_000 }))
    await store.updateEntry('project', 'p', () => ({ entry: projectWith(['k1', 'k2']), result: undefined }))
    const totals = await store.totals('p')
    const consumers = [{ name: 'c', cursor: totals.lastCursor, updatedAt: 7_000 }]
    await store.updateEntry('consumers', 'p', () => ({ entry: consumers, result: undefined }))
    const reopened = await reopen()
    assert.deepEqual(await reopened.totals('p'), totals)
    const recent = { events: 1, batchesLeft: 0, firstAt: 7_000 }
    assert.deepEqual(await reopened.count('p', { from: 7_000 }, 9), recent)
    const builds = [{ buildId: 'b', frozenAt: 7_000, maps: 1 }]
    assert.deepEqual(await reopened.builds('p', { limit: 9 }), { builds })
    assert.deepEqual(await reopened.map(key()), { frozenAt: 7_000, ...wholeOf('a') })
    assert.deepEqual(await reopened.projects(), ['p'])
    assert.deepEqual(await reopened.entry('project', 'p'), projectWith(['k1', 'k2']))
    assert.deepEqual([await reopened.entry('consumers', 'p'), await reopened.projects('consumers')], [consumers, ['p']])
    await reopened.append('p', batchOf([event('later', { buildId: 'b' })], { receivedAt: 6_000 }))
    assert.equal(await frozenAt(reopened, 'b'), 7_000)
    assert.equal((await reopened.find('p', 'later'))?.receivedAt, 7_000, 'times do not decrease')
    assert.equal((await reopened.totals('p')).events, totals.events + 1)
  }),

  durableCheck(
    'after a close an event is stored if its append resolved, and not if it rejected',
    async (store, reopen) => {
      const ids = range(8).map((i) => `e-${i}`)
      const appends = ids.map((id) => outcomeOf(store.append('p', batchOf([event(id)]))))
      const closing = store.close()
      appends.push(outcomeOf(store.append('p', batchOf([event('late')]))))
      await closing
      const outcomes = await Promise.all(appends)
      const known = await (await reopen()).known('p', [...ids, 'late'])
      const stored = outcomes.map((outcome) => outcome === 'stored')
      assert.deepEqual(known, stored)
      assert.equal(outcomes.at(-1), 'store-closed')
    },
  ),

  durableCheck(
    'after a close, what was rejected was not done, unless its outcome is unknown',
    async (store, reopen) => {
      const ids = range(8).map((i) => `e-${i}`)
      await store.append('p', batchOf(ids.map((id) => event(id))))
      const erasures = ids.map((id) => wasDone(store.erase('p', [id])))
      const keys = ids.map((id) => wasDone(addKey(store, id)))
      const closing = store.close()
      keys.push(wasDone(addKey(store, 'late')))
      await closing
      const reopened = await reopen()
      for (const [i, id] of ids.entries()) {
        const isErased = (await reopened.find('p', id))?.erased !== undefined
        assert.equal(isErased, (await erasures[i]) ?? isErased, `the erasure of ${id}`)
      }
      const keyIds = (await reopened.entry('project', 'p'))?.keys.map(({ keyId }) => keyId) ?? []
      for (const [i, id] of [...ids, 'late'].entries()) {
        const isStored = keyIds.includes(id)
        assert.equal(isStored, (await keys[i]) ?? isStored, `the key ${id}`)
      }
      assert.equal(await keys.at(-1), false)
    },
  ),

  durableCheck('maps, missing chunks and stored chunks survive a close', async (store, reopen) => {
    await publish(store, key(), 'a', 'b')
    await record(store, key(), 'b', 'c', 'd')
    await publish(store, key({ placeId: '2' }), 'e')
    await store.updateMap(key({ placeId: '2' }), {}, () => ({ contents: {}, result: 1 }))
    await putChunk(store, 'p', newChunk('c', 3_000))
    const before = await store.maps('p', { limit: 10 })
    const pendingTotals = await store.pendingTotals('p')
    assert.deepEqual(pendingTotals, await recount(store))
    const reopened = await reopen()
    assert.deepEqual(await reopened.maps('p', { limit: 10 }), before)
    assert.deepEqual(await reopened.pendingTotals('p'), pendingTotals)
    assert.deepEqual(await present(reopened, ['a', 'b', 'c', 'd', 'e']), ['a', 'b', 'c'])
    assert.equal(await chunkText(reopened, 'c'), 'c')
    assert.equal(await putChunk(reopened, 'p', newChunk('e')), 'undeclared')
    assert.equal(await putChunk(reopened, 'p', newChunk('d')), 'stored')
    assert.deepEqual(await readyPlaces(reopened), ['1'])
    const later = await reopen()
    assert.deepEqual(await readyPlaces(later), ['1'], 'a map that a crash kept from completing')
    assert.deepEqual((await later.putChunk('p', newChunk('d'))).ready, [{ placeId: '1', buildId: 'b' }])
    await complete(later, key())
    assert.deepEqual(await present(later, ['a', 'b', 'c', 'd']), ['b', 'c', 'd'])
  }),
]

export const backupChecks: readonly RestoreCheck[] = [
  restoreCheck('a cursor of an event that the backup does not have is refused', async ({ before, lost, restored }) => {
    for (const after of lost) {
      await assertRefused(readAll(restored, 'p', { after }), 'invalid-cursor', 'a cursor beyond the end')
      await assertRefused(readAll(restored, 'empty', { after }), 'invalid-cursor', 'a cursor of another project')
    }
    // longer than before, with other events at the positions of the lost ones
    for (const i of range(30)) {
      await restored.append('p', batchOf([event(`new-${i}-a`), event(`new-${i}-b`), event(`new-${i}-c`)]))
      for (const after of lost) await assertRefused(readAll(restored, 'p', { after }), 'invalid-cursor', 'a lost event')
    }
    assert.equal((await readAll(restored)).length, before.length + 90)
  }),

  restoreCheck(
    'a cursor from before the restore is refused or skips no event',
    async ({ before, lost, start, restored }) => {
      // the lost events are sent again, later and in another order
      const again = ['lost-3', 'lost-0', 'lost-2', 'new', 'lost-1']
      for (const id of again) await restored.append('p', batchOf([event(id)], { receivedAt: 2_000 }))
      const all = [...before.map(idOfStored), ...again]
      const cursors = [start, ...before.map(({ cursor }) => cursor), ...lost]
      for (const [i, after] of cursors.entries()) {
        const ids = await readAll(restored, 'p', { after }).then(
          (events) => events.map(idOfStored),
          (error) => codeOf(error),
        )
        if (ids === 'invalid-cursor') continue
        assert.deepEqual(ids, all.slice(i))
        const read = [...before.map(idOfStored), 'lost-0', 'lost-1', 'lost-2', 'lost-3'].slice(0, i)
        assert.deepEqual(read, all.slice(0, i), 'the reader has read what is before its cursor')
      }
    },
  ),

  restoreCheck('the activity in the backup is restored, and no later one', async ({ restored, reopen }) => {
    const rows = [activityRow(0), activityRow(1)]
    assert.deepEqual(await rowsOf(restored), shown(rows))
    await restored.putActivity([activityRow(2)])
    assert.deepEqual(await rowsOf(await reopen()), shown([...rows, activityRow(2)]))
  }),

  restoreCheck('cursors of the restored store stay valid', async ({ restored, reopen }) => {
    const { lastCursor: last } = await restored.totals('p')
    const { lastCursor: empty } = await restored.totals('empty')
    await restored.append('p', batchOf([event('new')]))
    const events = await readAll(restored)
    const reopened = await reopen()
    assert.deepEqual((await readAll(reopened, 'p', { after: last })).map(idOfStored), ['new'])
    assert.deepEqual(await readAll(reopened, 'empty', { after: empty }), [])
    for (const [i, { cursor: after }] of events.entries()) {
      assert.deepEqual(await readAll(reopened, 'p', { after }), events.slice(i + 1))
    }
  }),
]

/** A store after the restore of a backup that had five events of `p`; four more were appended after the backup. */
interface Restored {
  /** The cursor before all events. */
  start: Cursor
  /** The events in the backup, as they were read before. */
  before: StoredEvent[]
  /** The cursors of events after the backup. */
  lost: Cursor[]
  restored: Store
  reopen: () => Promise<Store>
}

function restoreCheck(name: string, use: (state: Restored) => Promise<void>): RestoreCheck {
  return {
    name,
    async run(open, reopen, backUp) {
      let store = await open()
      try {
        const { lastCursor: start } = await store.totals('p')
        await appendSome(store)
        await store.putActivity([activityRow(0), activityRow(1)])
        const before = await readAll(store)
        await store.close()
        const restore = await backUp(store)
        store = await reopen(store)
        for (const i of range(4)) await store.append('p', batchOf([event(`lost-${i}`)]))
        await store.putActivity([activityRow(1, 'lost'), activityRow(2, 'lost')])
        const lost = (await readAll(store)).slice(before.length).map(({ cursor }) => cursor)
        assert.equal(lost.length, 4)
        await store.close()
        store = await restore()
        const again = async () => {
          await store.close()
          store = await reopen(store)
          return store
        }
        await use({ start, before, lost, restored: store, reopen: again })
      } finally {
        await store.close()
      }
    },
  }
}

/** Whether an operation was done; undefined if its outcome is unknown. */
async function wasDone(operation: Promise<unknown>): Promise<boolean | undefined> {
  try {
    await operation
    return true
  } catch (error) {
    return error instanceof IngestError && error.isOutcomeUnknown ? undefined : false
  }
}
