import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { AppendResult, Store } from '@ingest/core'
import { raceChunks, raceFreeze, raceReplacements } from './map-races.ts'
import { addKey, batchOf, event, idsOf, outcomeOf, projectWith, readAll } from './sample-events.ts'
import { countUpdate, eventBatch, key, publish } from './sample-maps.ts'
import { type Handles, isolatedSharedCheck, range, type SharedStoreCheck, sharedCheck } from './store-check.ts'
import { tail, watch, watchedBatch } from './watch-log.ts'

export const sharedChecks: readonly SharedStoreCheck[] = [
  sharedCheck('of appends of the same events through all handles exactly one stores each', async (handles) => {
    const rounds = 20
    for (const round of range(rounds)) {
      const ids = range(8).map((i) => `${round}-${i}`)
      const batch = batchOf(ids.map((id) => event(id)))
      const results = await Promise.all(
        [...handles, ...handles].map(async (store, i) => {
          const result = await store.append('p', batch)
          const other = handles[(i + 1) % handles.length] as Store
          const known = await other.known('p', ids)
          assert.ok(known.every(Boolean), 'an acknowledged event is known through every handle')
          return result
        }),
      )
      for (const i of ids.keys()) assert.equal(countStored(results, i), 1, `event ${ids[i]}`)
      assert.ok(results.every(({ conflicts }) => conflicts === 0))
    }
    await assertSameLog(handles, rounds * 8)
  }),

  sharedCheck('batches of the same events in different orders are stored once, without an error', async (handles) => {
    const [rounds, size] = [20, 49]
    for (const round of range(rounds)) {
      const idsOn = (side: string) => range(size).map((i) => `${round}-${side}-${i}`)
      const [left, right, middle] = [idsOn('left'), idsOn('right'), `${round}-middle`]
      const orders = [
        // slow, as each event freezes a build: the others meet its first event in the midst of theirs
        [middle, ...idsOn('own')],
        [...left, middle, ...right],
        [...right, middle, ...left],
      ]
      const results = await Promise.all(
        orders.map(async (ids, i) => {
          const texts = ids.map((id) => event(id, i === 0 ? { buildId: id } : {}))
          const { stored } = await (handles[(round + i) % 3] as Store).append('p', batchOf(texts))
          return ids.filter((_, at) => stored[at])
        }),
      )
      assert.deepEqual(results.flat().sort(), [...new Set(orders.flat())].sort())
    }
    await assertSameLog(handles, rounds * (3 * size + 1))
  }),

  sharedCheck('a tail of the log misses nothing while all handles append', async (handles) => {
    const [a, b, c] = handles
    let isSlowRunning = true
    let isRunning = true
    let count = 0

    async function append(store: Store, id: string, buildId?: string): Promise<void> {
      await store.append('p', eventBatch(id, buildId))
      count++
    }

    /** Appends events that wait for publications to their builds: others must not overtake them. */
    async function appendSlowly(): Promise<void> {
      for (const n of range(12)) {
        const publications = range(3).map((place) => {
          const texts = range(60).map((i) => `${n} ${place} ${i}`)
          return publish(c, key({ placeId: `${place}`, buildId: `${n}` }), ...texts)
        })
        await Promise.race(publications)
        await Promise.all([append(a, `slow-${n}`, `${n}`), ...publications])
      }
      isSlowRunning = false
    }

    async function appendFast(): Promise<void> {
      for (let n = 0; isSlowRunning; n++) {
        await append(b, `fast-${n}`)
        await nextTurn()
      }
    }

    const writing = Promise.all([appendSlowly(), appendFast()]).finally(() => {
      isSlowRunning = false
      isRunning = false
    })
    const [, ...tails] = await Promise.all([writing, ...handles.map((store) => tail(store, () => isRunning))])
    const ids = await assertSameLog(handles, count)
    for (const seen of tails) assert.deepEqual(seen, ids)
  }),

  sharedCheck(
    'an event is visible with its whole batch and its build frozen, through every handle',
    async (handles) => {
      let running = true
      const writers = handles.map(async (store, h) => {
        for (const n of range(12)) await store.append('p', watchedBatch(`${h}-${n}`, 5))
      })
      const writing = Promise.all(writers).finally(() => {
        running = false
      })
      const watching = handles.map((store, h) => watch(store, handles[(h + 1) % 3] as Store, () => running))
      const [, ...watches] = await Promise.all([writing, ...watching])
      const ids = await assertSameLog(handles, 3 * 12 * 5)
      for (const seen of watches) assert.deepEqual(seen, ids)
    },
  ),

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
      assert.deepEqual(
        times,
        [...times].sort((a, b) => a - b),
      )
      assert.equal(times.at(-1), 9_000)
      for (const store of handles) {
        const since = await readAll(store, 'p', { from: 5_010 })
        assert.deepEqual(
          since,
          events?.filter(({ receivedAt }) => receivedAt >= 5_010),
        )
      }
    },
  ),

  sharedCheck('totals, recent events, the last cursor, builds and projects agree between handles', async (handles) => {
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
  }),

  sharedCheck('of concurrent updates of a project and of a map through all handles none is lost', async (handles) => {
    await publish(handles[0], key(), 'a')
    const ids = handles.flatMap((_, h) => range(12).map((i) => `k${h}-${i}`))
    const updates = handles.flatMap((store, h) =>
      range(12).flatMap((i) => [addKey(store, `k${h}-${i}`), countUpdate(store, key())]),
    )
    await Promise.all(updates)
    for (const store of handles) {
      assert.deepEqual((await store.project('p'))?.keys.map(({ keyId }) => keyId).sort(), ids.sort())
      assert.equal((await store.map(key())).complete?.publishedAt, 1_036)
    }
  }),

  sharedCheck('a key that is revoked through one handle is revoked for the others', async (handles) => {
    const [a, b, c] = handles
    await a.updateProject('p', () => ({ project: projectWith(['k1', 'k2']), result: undefined }))
    for (const store of handles) assert.deepEqual(await store.project('p'), projectWith(['k1', 'k2']))
    await b.updateProject('p', (project) => {
      assert.ok(project)
      const keys = project.keys.map((each) => (each.keyId === 'k1' ? { ...each, revokedAt: 1_500 } : each))
      return { project: { ...project, keys }, result: undefined }
    })
    for (const store of [a, c]) {
      assert.deepEqual(
        (await store.project('p'))?.keys.map(({ revokedAt }) => revokedAt),
        [1_500, undefined],
      )
    }
  }),

  sharedCheck('publications through one handle and the first event through another have one order', async (handles) => {
    await Promise.all(range(12).map((i) => raceFreeze(rolesOf(handles, i), i)))
  }),

  sharedCheck('a freeze through one handle voids and ends replacements through another', async (handles) => {
    for (const round of range(3)) {
      await Promise.all(range(3).map((i) => raceReplacements(rolesOf(handles, i), 3 * round + i)))
    }
  }),

  sharedCheck('a chunk put through one handle is stored if and only if maps of the others name it', async (handles) => {
    const [a, b, c] = handles
    await raceChunks({ publishers: [a, b], writer: c, reader: a })
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
      // one turn for the promises that are chained to the appends
      await nextTurn()
      assert.equal(unsettled, 0)
      for (const { stored } of await Promise.all(meanwhile)) assert.deepEqual(stored, [true])
      const outcomes = await Promise.all(appends)
      const known = await left.known(
        'p',
        range(16).map((i) => `${name}-${i}`),
      )
      assert.deepEqual(
        known,
        outcomes.map((outcome) => outcome === 'stored'),
        `${outcomes}`,
      )
      await publish(left, key({ buildId: name }), name)
      await addKey(left, name)
      await left.check()
    }
    const ids = await idsOf(c)
    assert.equal(ids.length, (await c.totals('p')).events)
    assert.equal(ids.filter((id) => id.includes('left')).length, 32)
  }),
]

/** How many appends of one batch stored the event at this index. */
function countStored(results: readonly AppendResult[], index: number): number {
  return results.filter(({ stored }) => stored[index]).length
}

async function assertSameLog(handles: Handles, count: number): Promise<string[]> {
  const [ids, ...others] = await Promise.all(handles.map((store) => idsOf(store)))
  assert.equal(new Set(ids).size, count)
  assert.equal(ids?.length, count)
  for (const other of others) assert.deepEqual(other, ids)
  for (const store of handles) assert.equal((await store.totals('p')).events, count)
  return ids as string[]
}

async function summaryOf(store: Store) {
  const [totals, recent, lastCursor, builds, projects, events] = await Promise.all([
    store.totals('p'),
    store.countSince('p', 1_005, 7),
    store.lastCursor('p'),
    store.builds('p', { limit: 10 }),
    store.projects(),
    readAll(store),
  ])
  assert.equal(lastCursor, events.at(-1)?.cursor)
  assert.equal(totals.events, events.length)
  return { totals, recent, lastCursor, builds, projects, events }
}

/** Each handle in each role, by turns. */
function rolesOf(handles: Handles, turns: number) {
  const [publisher, appender, reader] = range(3).map((i) => handles[(turns + i) % 3]) as unknown as Handles
  return { publisher, appender, reader }
}
