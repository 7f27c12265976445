import { canonicalJson, type Digest, digestOf, type Manifest, type MapId } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import t from 'tap'
import type { WrittenChunk } from '../../src/chunks/chunk-tables.ts'
import { createManifestCache } from '../../src/maps/manifest-cache.ts'
import { inspectMaps, manifestOf, openMapParts } from '../map-parts.ts'
import { type StoreProcess, startStoreProcess } from '../store-process.ts'

const range = (count: number) => Array.from({ length: count }, (_, i) => i)
const placeId = '1'

const builds = Number(process.env.INGEST_RACE_BUILDS ?? 100)

t.test(`three processes publish and append ${builds} builds at once, and no frozen map ever changes`, async (t) => {
  const directory = t.testdir()
  const processes = await Promise.all(range(3).map(() => startStoreProcess(directory)))
  const violations: string[] = []
  let seenFrozen = 0

  async function race(build: number): Promise<void> {
    // the event of `e` references the build `build-e`
    const eventId = `race-${build}`
    const buildId = `build-${eventId}`
    const [a, b, c] = range(3).map((i) => processes[(build + i) % 3]) as [StoreProcess, StoreProcess, StoreProcess]
    const violate = (what: string) => violations.push(`${buildId}: ${what}`)
    const published = new Set<Digest>()
    let answers = 0
    let accepted = false
    let running = true

    async function publishOn(process: StoreProcess, name: string): Promise<void> {
      for (const version of range(30)) {
        const map = `${buildId} ${name} ${version}`
        const before = accepted
        const answer = await process.call('publishMap', { placeId, buildId, map }).catch((error) => {
          if (error.code !== 'map-frozen') throw error
        })
        answers++
        if (before && answer && !answer.frozen) violate('a publication after the response to the batch found it open')
        if (answer?.frozen && answer.outcome === 'replaced') violate('a frozen map was replaced')
        if (answer) published.add(answer.digest)
        if (!answer || answer.frozen) return
      }
    }

    async function append(): Promise<Digest | undefined> {
      while (running && answers < build % 7) await c.call('getMap', { placeId, buildId })
      await c.submit([eventId])
      accepted = true
      return (await a.call('getMap', { placeId, buildId }))?.digest
    }

    async function watch(process: StoreProcess): Promise<void> {
      let fixed: Digest | undefined
      while (running) {
        const status = await process.call('getMap', { placeId, buildId })
        if (fixed !== undefined && status?.digest !== fixed) violate('a reader saw a frozen map change')
        if (status?.frozen && fixed === undefined) {
          fixed = status.digest
          seenFrozen++
        }
      }
    }

    const working = Promise.all([append(), publishOn(a, 'a'), publishOn(b, 'b')]).finally(() => {
      running = false
    })
    const [[atAnswer]] = await Promise.all([working, watch(b), watch(c)])
    const statuses = await Promise.all(processes.map((each) => each.call('getMap', { placeId, buildId })))
    const digests = new Set(statuses.map((status) => status?.digest))
    if (digests.size !== 1 || statuses.some((status) => !status?.frozen)) violate('the processes do not agree')
    const [digest] = [...digests] as [Digest]
    if (!published.has(digest)) violate('it was never published')
    if (atAnswer !== undefined && atAnswer !== digest) violate('it changed after the response to the batch')
    const bytes = await c.call('getMapContent', { placeId, buildId })
    if (!bytes || digestOf(bytes) !== digest) violate('its bytes are not what its digest says')
  }

  for (let at = 0; at < builds; at += 10) {
    await Promise.all(range(Math.min(10, builds - at)).map((i) => race(at + i)))
  }
  await Promise.all(processes.map((each) => each.kill()))
  t.strictSame(violations, [])
  t.ok(seenFrozen > 0, `readers saw ${seenFrozen} builds freeze`)
  await inspectMaps(directory)
})

const cycles = Number(process.env.INGEST_MAP_KILL_CYCLES ?? 10)

/** Texts of a map of a cycle; every third is shared with all others. */
function textsOf(cycle: number, map: number): string[] {
  return range(24).map((i) => (i % 3 === 0 ? `shared ${i} `.repeat(400) : `${cycle} ${map} ${i} `.repeat(500)))
}

function uploadsOf(texts: string[]) {
  return texts.map((text) => ({ digest: digestOf(Buffer.from(text)), bytes: Buffer.from(text) }))
}

t.test(`a process that is killed ${cycles} times while it uploads leaves maps that can be completed`, async (t) => {
  const directory = t.testdir()
  const left = { orphans: 0, garbage: 0 }
  for (const cycle of range(cycles)) {
    const child = await startStoreProcess(directory)
    const completed = new Map<string, Digest>()
    let answers = 0
    const killAfter = 3 + ((cycle * 11) % 40)
    const answered = async () => {
      // while calls of the other lanes are in flight
      if (++answers === killAfter) await child.kill()
    }
    const lanes = range(3).map(async (map) => {
      const texts = textsOf(cycle, map)
      const buildId = `${cycle}-${map}`
      await child.call('publishMap', { placeId, buildId, manifest: manifestOf(texts) })
      await Promise.all(
        range(6).map(async (part) => {
          const result = await child.call('putChunks', uploadsOf(texts.slice(part * 4, part * 4 + 4)))
          for (const each of result.completed) completed.set(each.buildId, each.digest)
          await answered()
        }),
      )
    })
    // maps that are replaced continuously, so that chunks are deleted continuously
    const churn = range(2).map(async (lane) => {
      for (const i of range(100)) {
        const map = `${cycle} ${lane} ${i} `.repeat(2_000)
        await child.call('publishMap', { placeId: `churn-${lane}`, buildId: 'churn', map })
        await answered()
      }
    })
    await Promise.allSettled([...lanes, ...churn])
    await child.kill()
    const { orphans, garbage } = await inspectMaps(directory)
    left.orphans += orphans
    left.garbage += garbage

    const store = await openLmdbStore(directory)
    for (const [buildId, digest] of completed) {
      const { complete } = await store.map({ projectId: 'p', placeId, buildId })
      t.equal(complete?.manifest.digest, digest, 'an acknowledged map is complete')
    }
    await store.close()
    const next = await startStoreProcess(directory)
    for (const map of range(3)) {
      const texts = textsOf(cycle, map)
      const manifest = manifestOf(texts)
      const id = { placeId, buildId: `${cycle}-${map}` }
      const { missing } = await next.call('publishMap', { ...id, manifest })
      await next.call(
        'putChunks',
        uploadsOf([...new Set(texts)]).filter(({ digest }) => missing.includes(digest)),
      )
      t.equal((await next.call('publishMap', { ...id, manifest })).outcome, 'unchanged', `cycle ${cycle}, map ${map}`)
      t.equal((await next.call('getMapContent', id))?.toString(), texts.join(''))
    }
    await next.kill()
  }
  t.comment(`the kills left ${left.orphans} orphans and ${left.garbage} blobs marked as garbage`)
  const parts = await openMapParts(directory)
  await parts.blobs.collectOrphans()
  await parts.close()
  t.strictSame(await inspectMaps(directory), { orphans: 0, garbage: 0 }, 'and all of them are deleted')
})

t.test('an inspection fails if rows do not agree', async (t) => {
  const damages = ['manifests', 'chunk-references', 'chunks', 'pending-manifests', 'ready-manifests'] as const
  for (const table of damages) {
    const directory = t.testdir()
    const store = await openLmdbStore(directory)
    const bytes = canonicalJson('a')
    const chunk = { digest: digestOf(bytes), bytes }
    const manifest = { contentType: 'a/b', size: 3, digest: chunk.digest, chunks: [{ digest: chunk.digest, size: 3 }] }
    const pending = { manifest: { ...manifest, contentType: 'c/d' }, touchedAt: 1 }
    const contents = { complete: { manifest, publishedAt: 1 }, pending }
    await store.updateMap({ projectId: 'p', placeId, buildId: 'b' }, { uploads: [chunk] }, () => ({
      contents,
      result: 1,
    }))
    await store.close()
    await inspectMaps(directory)
    const parts = await openMapParts(directory)
    parts.environment.write(() => {
      const rows = parts.environment.table(table)
      const [first] = [...rows.getKeys({ limit: 1 })]
      rows.remove(first as Buffer)
    })
    await parts.close()
    await t.rejects(inspectMaps(directory), table)
  }
})

t.test('a page reads a bounded number of maps in one turn, however few match', async (t) => {
  const parts = await openMapParts(t.testdir())
  const ids = ['a', 'b', 'c', 'd', 'e'].map((buildId, i) => ({ buildId, placeId: String(i % 2) }))
  const manifest = { contentType: 'a/b', size: 0, digest: digestOf(Buffer.alloc(0)), chunks: [] }
  parts.environment.write(() => {
    const { maps } = parts
    for (const id of ids) maps.put(1, id, maps.find(1, id), { complete: { manifest, publishedAt: 1 } })
  })
  const seen: string[][] = []
  for (let after: MapId | undefined, isOver = false; !isOver; ) {
    const page = parts.readSnapshot(() => parts.maps.list(1, { placeId: '1', limit: 9, ...(after && { after }) }, 2))
    seen.push(page.ids.map(({ buildId }) => buildId))
    after = page.last
    isOver = after === undefined
  }
  t.strictSame(seen, [['b'], ['d'], []])
  t.match(
    parts.readSnapshot(() => parts.maps.list(1, { limit: 1 }, 2)),
    { ids: [{ buildId: 'a' }] },
  )
  await parts.close()
})

t.test('the chunks of a replaced manifest are deleted in steps, which go on after a crash', async (t) => {
  const directory = t.testdir()
  let parts = await openMapParts(directory)
  const id = { placeId, buildId: 'b' }
  const texts = range(1_100).map(String)
  const record = (...texts: string[]) => {
    const { maps, environment } = parts
    const contents = { pending: { manifest: manifestOf(texts), touchedAt: 1 } }
    environment.write(() => maps.put(1, id, maps.find(1, id), contents))
  }
  record(...texts)
  for (const text of ['0', '600', '1099']) {
    const bytes = Buffer.from(text)
    const digest = digestOf(bytes)
    const written = await parts.blobs.write(1, [{ digest, bytes }])
    parts.environment.write(() => parts.maps.putChunk(1, digest, written.get(digest) as WrittenChunk, 1))
  }
  record('600', 'new')
  const isStored = (text: string) => parts.maps.chunks.isStored(1, digestOf(Buffer.from(text)))
  const release = () => parts.environment.write(() => parts.maps.releaseChunks())
  t.equal(release(), true)
  t.strictSame(['0', '600', '1099'].map(isStored), [false, true, true])
  await parts.close()
  await inspectMaps(directory)
  parts = await openMapParts(directory)
  t.equal(release(), true)
  t.equal(release(), false)
  t.equal(release(), false)
  t.strictSame(['0', '600', '1099'].map(isStored), [false, true, false], 'the new manifest names one of them')
  await parts.close()
  await inspectMaps(directory)
})

t.test('manifests that are read again are decoded once, as long as they fit', async (t) => {
  const decoded: number[] = []
  const cache = createManifestCache(10)
  const read = (number: number, count: number) =>
    cache.get(number, (): Manifest => {
      decoded.push(number)
      const chunks = Array.from({ length: count }, () => ({ digest: digestOf(), size: 1 }))
      return { contentType: 'a/b', size: count, digest: digestOf(), chunks }
    })
  for (const number of [1, 2, 1, 2]) t.equal(read(number, 4).manifest.chunks.length, 4)
  t.strictSame(decoded, [1, 2])
  read(1, 4)
  read(3, 4)
  t.strictSame(decoded, [1, 2, 3])
  read(1, 4)
  t.strictSame(decoded, [1, 2, 3], 'the least recently used one was dropped')
  read(2, 4)
  t.strictSame(decoded, [1, 2, 3, 2])
  read(4, 100)
  read(4, 100)
  t.strictSame(decoded, [1, 2, 3, 2, 4], 'one that is too large is kept alone')
})
