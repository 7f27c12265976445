import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { AppendBatch, KeyRecord, ReadOptions, Store } from '@ingest/core'
import { createKeyring } from '@ingest/core/internal'
import { raceChunks, raceFreeze, raceReplacements } from './map-races.ts'
import { addKey, batchOf, event, frozenAt, idOfStored, idsOf, readAll, textsOf } from './sample-events.ts'
import {
  chunkText,
  countUpdate,
  eventBatch,
  key,
  newChunk,
  publish,
  putChunk,
  readyPlaces,
  record,
} from './sample-maps.ts'
import { type Handles, range, type SharedStoreCheck, sharedCheck } from './store-check.ts'

/** Operations through all handles at once. */
export const raceChecks: readonly SharedStoreCheck[] = [
  sharedCheck('of appends of the same events through all handles exactly one stores each', async (handles) => {
    const rounds = 20
    for (const round of range(rounds)) {
      const ids = range(8).map((i) => `${round}-${i}`)
      const batch = batchOf(ids.map((id) => event(id)))
      const results = await Promise.all(
        [...handles, ...handles].map(async (store, i) => {
          const result = await store.append('p', batch)
          const other = handleAt(handles, i + 1)
          const known = await other.known('p', ids)
          assert.ok(known.every(Boolean), 'an acknowledged event is known through every handle')
          return result
        }),
      )
      for (const [i, id] of ids.entries()) {
        assert.equal(results.filter(({ stored }) => stored[i]).length, 1, `event ${id}`)
      }
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
        // slow, because each event freezes a build: the other batches reach its first event while they run
        [middle, ...idsOn('own')],
        [...left, middle, ...right],
        [...right, middle, ...left],
      ]
      const results = await Promise.all(
        orders.map(async (ids, i) => {
          const texts = ids.map((id) => event(id, i === 0 ? { buildId: id } : {}))
          const { stored } = await handleAt(handles, round + i).append('p', batchOf(texts))
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

    /** Appends events that wait for publications to their builds; other appends must not overtake them. */
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
        for (const n of range(12)) await store.append('p', watchedBatch(`${h}-${n}`))
      })
      const writing = Promise.all(writers).finally(() => {
        running = false
      })
      const watching = handles.map((store, h) => watch(store, handleAt(handles, h + 1), () => running))
      const [, ...watches] = await Promise.all([writing, ...watching])
      const ids = await assertSameLog(handles, 3 * 12 * 5)
      for (const seen of watches) assert.deepEqual(seen, ids)
    },
  ),

  sharedCheck('of concurrent updates of a project and of a map through all handles none is lost', async (handles) => {
    await publish(handles[0], key(), 'a')
    const ids = handles.flatMap((_, h) => range(12).map((i) => `k${h}-${i}`))
    const updates = handles.flatMap((store, h) =>
      range(12).flatMap((i) => [addKey(store, `k${h}-${i}`), countUpdate(store, key())]),
    )
    await Promise.all(updates)
    for (const store of handles) {
      assert.deepEqual((await store.entry('project', 'p'))?.keys.map(({ keyId }) => keyId).sort(), ids.sort())
      assert.equal((await store.map(key())).complete?.publishedAt, 1_036)
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

  sharedCheck('uses of keys are noted beside concurrent revocations and rotations, and undo none', async ([a, b]) => {
    const noting = createKeyring(a, () => 1000)
    const others = createKeyring(b, () => 1000)
    const made: { key: string; record: KeyRecord }[] = []
    for (const _ of range(8)) made.push(await others.create('p', { scopes: ['read'] }))
    const ids = made.map(({ record }) => record.keyId)
    // before the revocations, as a revoked key has no uses to note; the uses are written from the next turn on
    const valid = await Promise.all(made.map(({ key }) => noting.authenticate({ projectId: 'p', key, scope: 'read' })))
    assert.ok(valid.every(Boolean))
    await Promise.all([
      ...ids.slice(0, 4).map((keyId) => others.revoke('p', keyId)),
      ...ids.slice(4).map((keyId) => others.rotate('p', keyId)),
    ])
    let records: readonly KeyRecord[]
    do {
      await nextTurn()
      records = await others.list('p')
    } while (records.filter(({ lastUsedAt }) => lastUsedAt !== undefined).length < made.length)
    const stateOf = (record?: KeyRecord) => [record?.lastUsedAt, record?.revokedAt, record?.expiresAt]
    for (const [i, id] of ids.entries()) {
      const expected = i < 4 ? [1000, 1000, undefined] : [1000, undefined, 1000 + 48 * 3_600_000]
      assert.deepEqual(stateOf(records.find(({ keyId }) => keyId === id)), expected)
    }
    assert.equal(records.length, 12)
  }),

  sharedCheck(
    'overlapping batches of two projects store each event once, with the bytes of the append that reports it',
    async (handles) => {
      const batches = range(24).map((b) => range(20).map((i) => `e-${(b * 7 + i * 11) % 60}`))
      const store = async (projectId: string) => {
        const texts = batches.map((ids, b) => ids.map((id) => event(id, { sentBy: b })))
        const results = await Promise.all(texts.map((of, b) => handleAt(handles, b).append(projectId, batchOf(of))))
        const winners = texts.flatMap((of, b) => of.filter((_, i) => results[b]?.stored[i]))
        assert.equal(winners.length, 60)
        assert.deepEqual((await textsOf(handles[0], projectId)).sort(), winners.sort())
        const conflicts = results.reduce((sum, each) => sum + each.conflicts, 0)
        assert.equal(conflicts, 24 * 20 - 60)
        assert.equal((await handles[1].totals(projectId)).events, 60)
      }
      await Promise.all([store('p'), store('q')])
    },
  ),

  sharedCheck('concurrent appends that freeze one build agree on when, and one reports it', async (handles) => {
    const reports: string[] = []
    const seen = await Promise.all(
      range(16).map(async (i) => {
        const batch = eventBatch(`${i}`, 'b', 1_000 + i)
        reports.push(...(await handleAt(handles, i).append('p', batch)).frozen)
        return frozenAt(handleAt(handles, i + 1), 'b')
      }),
    )
    const [first] = await readAll(handles[0])
    for (const at of seen) assert.equal(at, first?.receivedAt)
    assert.deepEqual(reports, ['b'])
  }),

  sharedCheck('of concurrent puts of one chunk exactly one stores it', async (handles) => {
    await record(handles[0], key(), 'a', 'b')
    const outcomes = await Promise.all(range(16).map((i) => putChunk(handleAt(handles, i), 'p', newChunk('a'))))
    assert.deepEqual(outcomes.toSorted(), [...range(15).map(() => 'existing'), 'stored'])
    assert.equal(await chunkText(handles[1], 'a'), 'a')
    await putChunk(handles[2], 'p', newChunk('b'))
    assert.deepEqual(await readyPlaces(handles[0]), ['1'])
  }),
]

function handleAt(handles: Handles, i: number): Store {
  return handles[i % handles.length] as Store
}

async function assertSameLog(handles: Handles, count: number): Promise<string[]> {
  const [ids, ...others] = await Promise.all(handles.map((store) => idsOf(store)))
  assert.equal(new Set(ids).size, count)
  assert.equal(ids?.length, count)
  for (const other of others) assert.deepEqual(other, ids)
  for (const store of handles) assert.equal((await store.totals('p')).events, count)
  return ids as string[]
}

/** Assigns the handles to the roles in rotation. */
function rolesOf(handles: Handles, turns: number) {
  const [publisher, appender, reader] = [0, 1, 2].map((i) => handleAt(handles, turns + i)) as unknown as Handles
  return { publisher, appender, reader }
}

/** A batch of five events named after it; the last one references a build of the same name. */
function watchedBatch(name: string): AppendBatch {
  const ids = watchedIds(name)
  return batchOf(ids.map((id) => event(id, id === ids.at(-1) ? { buildId: name } : {})))
}

function watchedIds(name: string): string[] {
  return range(5).map((i) => `${name}/${i}`)
}

/**
 * Reads watched batches after its cursor until nothing is running. Checks for each batch, through `other` too, that it is
 * visible as a whole, with its build, once its first event is. Returns the ids in the order of the reads.
 */
async function watch(store: Store, other: Store, isRunning: () => boolean): Promise<string[]> {
  return tail(store, isRunning, async (id) => {
    const [name, index] = id.split('/') as [string, string]
    if (index !== '0') return
    const [at, known] = await Promise.all([frozenAt(other, name), other.known('p', watchedIds(name))])
    assert.notEqual(at, undefined, 'an event is visible and its build is open')
    assert.ok(known.every(Boolean), 'an event is visible and others of its batch are not')
  })
}

/** Reads after its cursor until nothing is running, and once more. Returns the ids in the order of the reads. */
async function tail(
  store: Store,
  isRunning: () => boolean,
  onId: (id: string) => Promise<void> = async () => {},
): Promise<string[]> {
  const seen: string[] = []
  let options: ReadOptions = {}
  for (let last = false; !last; ) {
    last = !isRunning()
    for await (const page of store.read('p', options)) {
      for (const each of page) {
        options = { after: each.cursor }
        const id = idOfStored(each)
        seen.push(id)
        await onId(id)
      }
    }
    await nextTurn()
  }
  return seen
}
