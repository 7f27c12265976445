import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { AppendBatch, AppendResult, ReadOptions } from '../../events/event-store.ts'
import type { Digest } from '../../maps/map.ts'
import type { MapSlot } from '../../maps/map-store.ts'
import type { Store } from '../../store.ts'
import {
  batchOf,
  event,
  frozenAt,
  idOfStored,
  idsOf,
  keyRecord,
  projectWith,
  readAll,
  textsOf,
} from './sample-events.ts'
import {
  chunk,
  chunkText,
  eventBatch,
  key,
  manifestOf,
  newChunk,
  present,
  publish,
  putChunk,
  readyPlaces,
  record,
  recount,
  uploadsOf,
  wholeOf,
} from './sample-maps.ts'
import { check, range, type StoreCheck } from './store-check.ts'

export const raceChecks: readonly StoreCheck[] = [
  check('of 50 concurrent updates of a project none is lost', async (store) => {
    const ids = range(50).map((i) => `k${i}`)
    await Promise.all(
      ids.map((id) =>
        store.updateProject('p', (project) => {
          const keys = [...(project?.keys ?? []), keyRecord(id)]
          return { project: { ...projectWith([]), keys }, result: undefined }
        }),
      ),
    )
    const kept = (await store.project('p'))?.keys.map(({ keyId }) => keyId)
    assert.deepEqual(kept?.sort(), ids.sort())
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
      projectIds.map(() => ({ stored: [true], conflicts: 0 })),
    )
  }),

  check('concurrent appends that freeze one build agree on when', async (store) => {
    const texts = range(16).map((i) => event(`${i}`, { buildId: 'b' }))
    const seen = await Promise.all(
      texts.map(async (text, i) => {
        await store.append('p', batchOf([text], { receivedAt: 1_000 + i }))
        return frozenAt(store, 'b')
      }),
    )
    const [first] = await readAll(store)
    assert.deepEqual(
      seen,
      texts.map(() => first?.receivedAt),
    )
  }),

  check(
    'readers during appends see every event once, in one order, in whole batches, with their builds frozen',
    async (store) => {
      let running = true
      const writers = range(4).map(async (writer) => {
        for (const i of range(6)) await store.append('p', watchedBatch(`${writer}-${i}`))
      })
      const writing = Promise.all(writers).finally(() => {
        running = false
      })
      const [, ...seen] = await Promise.all([writing, ...range(3).map(() => watch(store, () => running))])
      const ids = await idsOf(store)
      assert.equal(ids.length, 4 * 6 * watchedBatchSize)
      for (const each of seen) assert.deepEqual(each, ids)
    },
  ),

  check('of 50 concurrent updates of a map none is lost', async (store) => {
    await publish(store, key(), 'a')
    const count = ({ complete }: MapSlot) => {
      assert.ok(complete)
      return { contents: { complete: { ...complete, publishedAt: complete.publishedAt + 1 } }, result: 1 }
    }
    await Promise.all(range(50).map(() => store.updateMap(key(), {}, count)))
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
    async (store) => {
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
          await putChunk(store, 'p', newChunk(texts[(i * (writer + 2)) % texts.length] as string))
      })
      await Promise.all([...publishers, ...writers])
      const slots = (await store.maps('p', { limit: 10 })).map(({ slot }) => slot)
      const named = new Set(
        slots.flatMap(({ complete, pending }) =>
          [complete, pending].flatMap((each) => each?.manifest.chunks.map(({ digest }) => digest) ?? []),
        ),
      )
      for (const { complete } of slots) {
        for (const { digest } of complete?.manifest.chunks ?? []) assert.ok(await store.readChunk('p', digest))
      }
      for (const text of texts) {
        const kept = await chunkText(store, text)
        assert.equal((await present(store, [text])).length, kept === undefined ? 0 : 1)
        if (kept !== undefined) assert.equal(kept, text)
        assert.equal(kept !== undefined && !named.has(chunk(text).digest), false, `${text} is named by no map`)
        const outcome = await putChunk(store, 'p', newChunk(text))
        const expected = named.has(chunk(text).digest) ? (kept === undefined ? 'stored' : 'existing') : 'undeclared'
        assert.equal(outcome, expected)
      }
      assert.equal((await readyPlaces(store)).length, slots.filter(({ pending }) => pending).length)
      assert.equal(await store.pendingBytes('p'), await recount(store))
    },
  ),

  check('racing publications and appends have one order, for all readers', async (store) => {
    await Promise.all(range(60).map((i) => raceOf(store, `build-${i}`, i)))
  }),
]

/**
 * One build: three publishers that publish versions while it is open, one appender of its first event, and two readers.
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
      // some upload their chunks, others find them stored
      const known = version % 4 > 0
      const text = known ? `${buildId} ${(publisher + version) % 4}` : `${buildId} ${publisher} ${version}`
      const begun = appendedAt
      const answer = await store.updateMap(id, known ? {} : uploadsOf(text), (slot) => {
        const digest = slot.complete?.manifest.digest
        if (slot.frozenAt !== undefined) return { result: { frozen: true, digest } }
        return { contents: wholeOf(text), result: { frozen: false, digest: manifestOf(text).digest } }
      })
      if (begun === 'done') assert.ok(answer.frozen, 'a publication after the append resolved sees the build open')
      if (appendedAt === 'not yet') assert.ok(!answer.frozen, 'a publication before the event sees the build frozen')
      answers.push(answer)
      if (answer.frozen) return
      await nextTurn()
    }
  }

  async function appendOne(): Promise<Digest | undefined> {
    // counts publications, as stores differ in speed
    while (running && answers.length < turns % 10) await nextTurn()
    for (let i = 0; i < turns % 3; i++) await nextTurn()
    appendedAt = 'begun'
    await store.append('p', eventBatch(buildId, buildId))
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
  assert.equal(complete?.manifest.digest, afterwards, 'nothing changes after the append resolved')
  for (const { digest } of frozen) assert.equal(digest, complete?.manifest.digest, 'all see the map that is frozen')
  const published = answers.filter((answer) => !answer.frozen).map(({ digest }) => digest)
  assert.ok(complete === undefined || published.includes(complete.manifest.digest))
  for (const { digest } of complete?.manifest.chunks ?? []) assert.ok(await store.readChunk('p', digest))
}

const watchedBatchSize = 5

/** A batch whose events are named after it, as is the build that the last of them references. */
function watchedBatch(name: string): AppendBatch {
  return batchOf(watchedIds(name).map((id, i) => event(id, i === watchedBatchSize - 1 ? { buildId: name } : {})))
}

function watchedIds(name: string): string[] {
  return range(watchedBatchSize).map((i) => `${name}/${i}`)
}

/** Reads until nothing is running, and checks for each event what must have become visible with it. */
async function watch(store: Store, isRunning: () => boolean): Promise<string[]> {
  const seen: string[] = []
  let options: ReadOptions = {}
  for (let last = false; !last; ) {
    last = !isRunning()
    for await (const each of store.read('p', options)) {
      options = { after: each.cursor }
      const id = idOfStored(each)
      seen.push(id)
      const [batch] = id.split('/') as [string]
      assert.notEqual(await frozenAt(store, batch), undefined, 'an event is visible and its build is open')
      const known = await store.known('p', watchedIds(batch))
      assert.ok(known.every(Boolean), 'an event is visible and others of its batch are not')
    }
    await nextTurn()
  }
  return seen
}

/** How often each event of one batch was stored, over all its appends. */
function timesStored(results: readonly AppendResult[]): number[] {
  const [first] = results as [AppendResult]
  return first.stored.map((_, i) => results.filter(({ stored }) => stored[i]).length)
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}
