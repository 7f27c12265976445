import { randomUUID } from 'node:crypto'
import { type ChunkUpload, digestOf, IngestError, type Manifest, type MapStore } from '@ingest/core'
import t, { type Test } from 'tap'
import { type Database, openDatabase } from '../../src/connection/database.ts'
import { createMapStore } from '../../src/maps/map-store.ts'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { createProjectNumbers } from '../../src/projects/project-numbers.ts'
import { migratePostgres } from '../../src/schema/migrate.ts'
import { createSweep } from '../../src/sweep.ts'
import { batchWith } from '../batches.ts'
import { createDatabase, noPostgres, runSql } from '../database.ts'

const skip = noPostgres

type BeforeQuery = (name: string, values: readonly unknown[]) => Promise<void>

/** The map store of a new database; `beforeQuery` runs before each of its statements. */
async function openMaps(t: Test, beforeQuery: BeforeQuery = async () => {}) {
  const url = await createDatabase()
  await migratePostgres(url)
  const database = openDatabase(url, { connectionsMax: 4, statementTimeoutMs: 10_000 })
  t.teardown(() => database.close())
  const observed: Database = {
    ...database,
    async query(name, values = [], deadline) {
      await beforeQuery(name, values)
      return database.query(name, values, deadline)
    },
  }
  const mapsOn = (on: Database) => createMapStore({ database: on, numbers: createProjectNumbers(on) })
  return {
    url,
    database,
    maps: mapsOn(observed),
    sweep: createSweep(observed, () => {}),
    /** The maps as another server sees them. */
    others: mapsOn(database),
  }
}

const key = { projectId: 'p', placeId: '1', buildId: 'b' }

function chunk(text: string): ChunkUpload {
  const bytes = Buffer.from(text)
  return { digest: digestOf(bytes), bytes }
}

function manifestOf(...texts: string[]): Manifest {
  const chunks = texts.map((text) => ({ digest: chunk(text).digest, size: text.length }))
  return { contentType: 'a/b', size: 1, digest: chunk('whole').digest, chunks }
}

async function record(maps: MapStore, ...texts: string[]): Promise<void> {
  const pending = { manifest: manifestOf(...texts), touchedAt: 1 }
  await maps.updateMap(key, {}, () => ({ contents: { pending }, result: 1 }))
}

t.test('a repeated write with the same version changes nothing', { skip }, async (t) => {
  let written: readonly unknown[] = []
  const { url, database, maps } = await openMaps(t, async (name, values) => {
    if (name === 'put-map') written = values
  })
  await record(maps, 'a')
  const versions = () => runSql(url, 'SELECT version, pending FROM ingest.maps')
  const before = await versions()
  const [repeated] = await database.query<{ outcome: string }>('put-map', written)
  t.equal(repeated?.outcome, 'written')
  t.same(await versions(), before)
  const asAnother = written.map((value, i) => (i === 4 ? randomUUID() : value))
  const [other] = await database.query<{ outcome: string }>('put-map', asAnother)
  t.equal(other?.outcome, 'changed', 'another version is another write')
})

t.test('a map that another server changed after it was read is decided again', { skip }, async (t) => {
  let races = 0
  const { maps, others } = await openMaps(t, async (name) => {
    if (name === 'put-map' && races++ < 3) await record(others, `other ${races}`)
  })
  const seen: (string | undefined)[] = []
  await maps.updateMap(key, {}, ({ pending }) => {
    seen.push(pending?.manifest.chunks[0]?.digest)
    return { contents: {}, result: 1 }
  })
  t.same(seen, [undefined, ...[1, 2, 3].map((race) => chunk(`other ${race}`).digest)])
  t.same(await others.map(key), {})
})

t.test('a manifest is published while another server receives its chunks', { skip }, async (t) => {
  const texts = Array.from({ length: 20 }, (_, i) => `chunk ${i}`)
  const digests = texts.map((text) => chunk(text).digest)
  let received = 0
  const { maps, others } = await openMaps(t, async (name) => {
    if (name !== 'put-map' || received === texts.length) return
    await others.putChunk('p', { ...chunk(texts[received++] as string), receivedAt: 2 })
  })
  await record(others, ...texts)
  let decisions = 0
  await maps.updateMap(key, { digests }, ({ pending }, present) => {
    t.equal(present.size, decisions, 'a decision sees what is stored')
    decisions++
    return { contents: { ...(pending && { pending: { ...pending, touchedAt: 3 } }) }, result: 1 }
  })
  t.ok(decisions < texts.length)
  const { pending } = await others.map(key)
  t.equal(pending?.touchedAt, 3)
  t.same(pending?.missing, digests.slice(decisions))
})

t.test('a chunk that vanished after it was seen is decided again, however often', { skip }, async (t) => {
  let races = 0
  const { maps, others } = await openMaps(t, async (name) => {
    if (name !== 'put-map' || races === 8) return
    // stores and deletes the chunk in turn
    const contents = ++races % 2 ? {} : { complete: { manifest: manifestOf('a'), publishedAt: 1 } }
    await others.updateMap({ ...key, placeId: '2' }, { uploads: [chunk('a')] }, () => ({ contents, result: 1 }))
  })
  const complete = { manifest: manifestOf('a'), publishedAt: 1 }
  const pending = { manifest: manifestOf('a'), touchedAt: 1 }
  await others.updateMap({ ...key, placeId: '2' }, { uploads: [chunk('a')] }, () => ({
    contents: { complete },
    result: 1,
  }))
  const seen: number[] = []
  await maps.updateMap(key, { digests: [chunk('a').digest] }, (_, present) => {
    seen.push(present.size)
    return { contents: present.size === 1 ? { complete } : { pending }, result: 1 }
  })
  t.same(seen, [1, 0, 1, 0, 1, 0])
  t.same(await others.map(key), { pending: { ...pending, missing: [] } })
})

t.test('a manifest that stays keeps its rows', { skip }, async (t) => {
  const { url, maps } = await openMaps(t)
  const rows = () => runSql(url, 'SELECT ctid, xmin FROM ingest.map_chunks ORDER BY digest')
  await record(maps, 'a', 'b')
  const before = await rows()
  t.equal(before.length, 2)
  for (const text of ['a', 'b']) await maps.putChunk('p', { ...chunk(text), receivedAt: 2 })
  await maps.updateMap(key, {}, ({ pending }) => ({
    contents: { ...(pending && { complete: { manifest: pending.manifest, publishedAt: 3 } }) },
    result: 1,
  }))
  await maps.updateMap(key, {}, (slot) => ({
    contents: { ...slot, pending: { manifest: manifestOf('c'), touchedAt: 4 } },
    result: 1,
  }))
  await maps.updateMap(key, {}, ({ complete }) => ({ contents: { ...(complete && { complete }) }, result: 1 }))
  t.same(await rows(), before)
  t.equal((await maps.map(key)).complete?.publishedAt, 3)
})

t.test('a sweep that cannot read the maps deletes old activity', { skip }, async (t) => {
  const { url, sweep } = await openMaps(t, async (name) => {
    if (name === 'maps-to-sweep') throw new IngestError('store-damaged', 'Damaged.')
  })
  const store = await openPostgresStore(url)
  await store.putActivity([{ projectId: 'p', span: 'hour', at: 1, writer: '00000000000000ff', body: '{}' }])
  await store.close()
  await t.rejects(sweep({ mapsTouched: 0, activity: 2 }), { code: 'store-damaged' })
  t.strictSame(await runSql(url, 'SELECT FROM ingest.activity'), [])
})

t.test('a map whose build froze after it was found idle does not expire', { skip }, async (t) => {
  const { url, maps, others, sweep } = await openMaps(t, async (name) => {
    if (name === 'sweep-map') await store.append('p', batchWith([{ eventId: 'e', buildId: 'b' }]))
  })
  const store = await openPostgresStore(url)
  await record(maps, 'a')
  await sweep({ mapsTouched: 1_000, activity: 0 })
  t.equal((await others.map(key)).pending?.touchedAt, 1)
  await store.close()
})

t.test('a place may have any character', { skip }, async (t) => {
  const { maps } = await openMaps(t)
  const placeIds = ['\0', '\0a', 'a\0', "'", '\\', '{"', '\u{10ffff}']
  for (const placeId of placeIds) {
    const contents = { pending: { manifest: manifestOf(placeId), touchedAt: 1 } }
    await maps.updateMap({ ...key, placeId }, {}, () => ({ contents, result: 1 }))
  }
  const listed = await maps.maps('p', { limit: 10 })
  t.same(listed.map(({ placeId }) => placeId).sort(), [...placeIds].sort())
  const { ready } = await maps.putChunk('p', { ...chunk('\0a'), receivedAt: 1 })
  t.same(ready, [{ placeId: '\0a', buildId: 'b' }])
})

t.test('a project that a failover lost is created again', { skip }, async (t) => {
  const { url, maps } = await openMaps(t)
  await record(maps, 'a')
  for (const table of ['projects', 'heads', 'maps', 'manifests', 'map_chunks']) {
    await runSql(url, `DELETE FROM ingest.${table}`)
  }
  await record(maps, 'b')
  t.same(await runSql(url, 'SELECT project_id FROM ingest.projects'), [{ project_id: 'p' }])
})
