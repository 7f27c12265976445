import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Store } from '@ingest/core'
import { addKey, batchOf, event, idsOf, outcomeOf, projectWith, readAll } from './sample-events.ts'
import { eventBatch, key, publish } from './sample-maps.ts'
import { isolatedSharedCheck, range, type SharedStoreCheck, sharedCheck } from './store-check.ts'

/** Agreement between several handles. */
export const handleChecks: readonly SharedStoreCheck[] = [
  sharedCheck(
    'the time at which events were received never decreases, whatever the clocks of the handles',
    async (handles) => {
      const clocks = [(i: number) => 5_000 + i, (i: number) => 1_000 + i, (i: number) => 9_000 - 100 * i]
      await Promise.all(
        handles.map(async (store, h) => {
          const clock = clocks[h] as (i: number) => number
          for (const i of range(20)) await store.append('p', eventBatch(`${h}-${i}`, `${h}-${i}`, clock(i)))
        }),
      )
      const [events, ...others] = await Promise.all(handles.map((store) => readAll(store)))
      assert.equal(events?.length, 60)
      for (const other of others) assert.deepEqual(other, events)
      const times = (events ?? []).map(({ receivedAt }) => receivedAt)
      const sorted = times.toSorted((a, b) => a - b)
      assert.deepEqual(times, sorted)
      assert.equal(times.at(-1), 9_000)
      const since = events?.filter(({ receivedAt }) => receivedAt >= 5_010)
      for (const store of handles) assert.deepEqual(await readAll(store, 'p', { from: 5_010 }), since)
    },
  ),

  sharedCheck(
    'totals with the last cursor, recent events, builds and projects agree between handles',
    async (handles) => {
      for (const round of range(12)) {
        const appends = handles.map((store, i) => {
          const ids = [`${round}`, `${round}-${i}`, `${round - 1}-${(i + 1) % 3}`]
          const buildId = `${round % 5}`
          return store.append(
            'p',
            batchOf(
              ids.map((id) => event(id, { buildId })),
              { receivedAt: 1_000 + round },
            ),
          )
        })
        await Promise.all(appends)
        const [first, ...others] = await Promise.all(handles.map(summaryOf))
        for (const other of others) assert.deepEqual(other, first)
        assert.equal(first?.totals.events, 7 + 4 * round)
      }
    },
  ),

  sharedCheck('a key that is revoked through one handle is revoked for the others', async (handles) => {
    const [a, b, c] = handles
    await a.updateEntry('project', 'p', () => ({ entry: projectWith(['k1', 'k2']), result: undefined }))
    for (const store of handles) assert.deepEqual(await store.entry('project', 'p'), projectWith(['k1', 'k2']))
    await b.updateEntry('project', 'p', (project) => {
      assert.ok(project)
      const keys = project.keys.map((each) => (each.keyId === 'k1' ? { ...each, revokedAt: 1_500 } : each))
      return { entry: { ...project, keys }, result: undefined }
    })
    for (const store of [a, c]) {
      const [k1, k2] = (await store.entry('project', 'p'))?.keys ?? []
      assert.deepEqual([k1?.revokedAt, k2?.revokedAt], [1_500, undefined])
    }
  }),

  isolatedSharedCheck('closing one handle settles its appends and leaves the others working', async (handles) => {
    const [a, b, c] = handles
    for (const [closed, left] of [
      [b, a],
      [a, c],
    ] as const) {
      const name = closed === b ? 'b' : 'a'
      let unsettled = 0
      const appends = range(16).map((i) => {
        unsettled++
        return outcomeOf(closed.append('p', eventBatch(`${name}-${i}`))).finally(() => unsettled--)
      })
      const meanwhile = range(16).map((i) => left.append('p', eventBatch(`${name}-left-${i}`, `${name}-${i}`)))
      await closed.close()
      // one turn, for promises that are chained to the appends
      await nextTurn()
      assert.equal(unsettled, 0)
      for (const { stored } of await Promise.all(meanwhile)) assert.deepEqual(stored, [true])
      for (const [i, outcome] of (await Promise.all(appends)).entries()) {
        assert.deepEqual(await left.known('p', [`${name}-${i}`]), [outcome === 'stored'], outcome)
      }
      await publish(left, key({ buildId: name }), name)
      await addKey(left, name)
      await left.check()
    }
    const ids = await idsOf(c)
    assert.equal(ids.length, (await c.totals('p')).events)
    assert.equal(ids.filter((id) => id.includes('left')).length, 32)
  }),
]

async function summaryOf(store: Store) {
  const [totals, recent, builds, projects, events] = await Promise.all([
    store.totals('p'),
    store.count('p', { from: 1_005 }, 7),
    store.builds('p', { limit: 10 }),
    store.projects(),
    readAll(store),
  ])
  assert.equal(totals.lastCursor, events.at(-1)?.cursor)
  assert.equal(totals.events, events.length)
  return { totals, recent, builds, projects, events }
}
