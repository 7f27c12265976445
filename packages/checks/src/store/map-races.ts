import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Digest, MapKey, MapSlot, Store } from '@ingest/core'
import {
  chunk,
  chunkText,
  eventBatch,
  key,
  manifestOf,
  newChunk,
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
import { range } from './store-check.ts'

/** The handles that publish, freeze and read a build. */
interface FreezeRacers {
  publisher: Store
  appender: Store
  reader: Store
}

/**
 * Races for one build, named after `turns`: three publishers publish versions while it is open, one appender appends its
 * first event, and two readers read.
 */
export async function raceFreeze({ publisher, appender, reader }: FreezeRacers, turns: number): Promise<void> {
  const buildId = `build-${turns}`
  const id = key({ buildId })
  let appendedAt: 'not yet' | 'begun' | 'done' = 'not yet'
  let running = true
  const publications: { frozen: boolean; digest: Digest | undefined }[] = []

  await publish(
    publisher,
    key({ placeId: 'known', buildId: `other-${buildId}` }),
    ...range(4).map((i) => `${buildId} ${i}`),
  )

  async function publishOn(lane: number): Promise<void> {
    for (let version = 0; version < 40; version++) {
      // some upload their chunks, others find them stored
      const known = version % 4 > 0
      const text = known ? `${buildId} ${(lane + version) % 4}` : `${buildId} ${lane} ${version}`
      const begun = appendedAt
      const publication = await publisher.updateMap(id, known ? {} : uploadsOf(text), (slot) => {
        const digest = slot.complete?.manifest.digest
        if (slot.frozenAt !== undefined) return { result: { frozen: true, digest } }
        return { contents: wholeOf(text), result: { frozen: false, digest: manifestOf(text).digest } }
      })
      if (begun === 'done') assert.ok(publication.frozen, 'a publication after the append resolved sees the build open')
      if (appendedAt === 'not yet')
        assert.ok(!publication.frozen, 'a publication before the event sees the build frozen')
      publications.push(publication)
      if (publication.frozen) return
      await nextTurn()
    }
  }

  async function appendOne(): Promise<Digest | undefined> {
    // waits for publications instead of time, because stores differ in speed
    while (running && publications.length < turns % 10) await nextTurn()
    for (let i = 0; i < turns % 3; i++) await nextTurn()
    appendedAt = 'begun'
    await appender.append('p', eventBatch(buildId, buildId))
    appendedAt = 'done'
    return (await reader.map(id)).complete?.manifest.digest
  }

  async function watch(): Promise<void> {
    let fixed: Digest | undefined | 'open' = 'open'
    while (running) {
      const { frozenAt, complete } = await reader.map(id)
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
  const { complete, frozenAt } = await reader.map(id)
  const frozen = publications.filter((publication) => publication.frozen)
  assert.ok(frozenAt !== undefined && frozen.length > 0)
  assert.equal(complete?.manifest.digest, afterwards, 'nothing changes after the append resolved')
  for (const { digest } of frozen) assert.equal(digest, complete?.manifest.digest, 'all see the map that is frozen')
  const published = publications.filter((publication) => !publication.frozen).map(({ digest }) => digest)
  assert.ok(complete === undefined || published.includes(complete.manifest.digest))
  for (const { digest } of complete?.manifest.chunks ?? []) assert.ok(await reader.readChunk('p', digest))
}

/**
 * Races for one build with three complete maps: one handle replaces them, one as a whole and two with manifests of many
 * chunks, while another handle appends the first event.
 */
export async function raceReplacements({ publisher, appender, reader }: FreezeRacers, turns: number): Promise<void> {
  const buildId = `replaced-${turns}`
  const ids = range(3).map((place) => key({ placeId: `${place}`, buildId }))
  await Promise.all(ids.map((id) => publish(publisher, id, 'first')))
  let replacements = 0
  let running = true

  async function replace(id: MapKey, isWhole: boolean): Promise<void> {
    for (let version = 0; version < 100; version++) {
      const texts = range(40).map((n) => `${buildId} ${id.placeId} ${version} ${n}`)
      const isFrozen = await publisher.updateMap(id, isWhole ? uploadsOf(...texts) : {}, ({ complete, frozenAt }) => {
        if (frozenAt !== undefined) return { result: true }
        assert.ok(complete)
        return { contents: isWhole ? wholeOf(...texts) : { complete, pending: pendingOf(...texts) }, result: false }
      })
      replacements++
      if (isFrozen) return
      await nextTurn()
    }
    assert.fail('the event does not freeze its build')
  }

  async function appendOne(): Promise<MapSlot[]> {
    while (running && replacements < turns % 7) await nextTurn()
    for (let i = 0; i < turns % 5; i++) await nextTurn()
    await appender.append('p', eventBatch(buildId, buildId))
    return Promise.all(ids.map((id) => reader.map(id)))
  }

  const working = Promise.all([appendOne(), ...ids.map((id, place) => replace(id, place === 0))])
  const [frozen] = await working.finally(() => {
    running = false
  })
  for (const { frozenAt, complete, pending } of frozen) {
    assert.ok(frozenAt !== undefined && complete, 'the first event freezes the build')
    assert.equal(pending, undefined, 'a pending replacement is void with the freeze')
  }
  for (const store of [publisher, appender, reader]) {
    assert.deepEqual(await Promise.all(ids.map((id) => store.map(id))), frozen, 'nothing is published after the freeze')
  }
}

/** The handles that write and read chunks, and publish the maps that name them. */
interface ChunkRacers {
  /** Each publishes in all places. */
  publishers: readonly Store[]
  writer: Store
  reader: Store
}

/** Puts chunks while the maps that name them are published, replaced, deleted and expired. */
export async function raceChunks({ publishers, writer, reader }: ChunkRacers): Promise<void> {
  const texts = range(12).map((i) => `chunk-${i}`)
  const some = (from: number) => range(5).map((i) => texts[(from * 5 + i * 3) % texts.length] as string)
  const publishing = publishers.flatMap((store) =>
    range(3).map(async (place) => {
      for (const i of range(12)) {
        const id = key({ placeId: `${place}` })
        if (i === 7) await store.sweep({ mapsTouched: 1_001, activity: 0 })
        else if (i % 4 === 3) await store.updateMap(id, {}, () => ({ contents: {}, result: 1 }))
        else await (i % 4 === 2 ? publish : record)(store, id, ...some(i + place))
        await nextTurn()
      }
    }),
  )
  const writing = range(3).map(async (lane) => {
    for (const i of range(30)) await putChunk(writer, 'p', newChunk(texts[(i * (lane + 2)) % texts.length] as string))
  })
  await Promise.all([...publishing, ...writing])
  await checkChunks(reader, writer, texts)
}

/** Checks that only chunks named by a map are stored, and that exactly those can be put. */
async function checkChunks(reader: Store, writer: Store, texts: readonly string[]): Promise<void> {
  const slots = (await reader.maps('p', { limit: 10 })).map(({ slot }) => slot)
  const named = new Set(
    slots.flatMap(({ complete, pending }) =>
      [complete, pending].flatMap((each) => each?.manifest.chunks.map(({ digest }) => digest) ?? []),
    ),
  )
  assert.deepEqual(await reader.pendingTotals('p'), await recount(reader))
  for (const { complete } of slots) {
    for (const { digest } of complete?.manifest.chunks ?? []) assert.ok(await reader.readChunk('p', digest))
  }
  for (const text of texts) {
    const kept = await chunkText(reader, text)
    assert.equal((await present(reader, [text])).length, kept === undefined ? 0 : 1)
    if (kept !== undefined) assert.equal(kept, text)
    assert.equal(kept !== undefined && !named.has(chunk(text).digest), false, `${text} is named by no map`)
    const outcome = await putChunk(writer, 'p', newChunk(text))
    const expected = named.has(chunk(text).digest) ? (kept === undefined ? 'stored' : 'existing') : 'undeclared'
    assert.equal(outcome, expected)
  }
  assert.equal((await readyPlaces(reader)).length, slots.filter(({ pending }) => pending).length)
  assert.deepEqual(await reader.pendingTotals('p'), await recount(reader))
}
