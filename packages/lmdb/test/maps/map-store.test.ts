import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest, digestOf, type EmbeddedIngest } from '@ingest/core'
import t from 'tap'
import { openProjects } from '../../src/entries/projects.ts'
import { openEnvironment } from '../../src/environment/environment.ts'
import { openLmdbStore } from '../../src/open-lmdb-store.ts'
import { inspectMaps, manifestOf } from '../map-parts.ts'

const publish = (ingest: EmbeddedIngest, projectId: string, text = projectId) =>
  ingest.project(projectId).publishMap({ placeId: '1', buildId: 'b', map: { text } })

t.test('a first map that is refused does not create its project', async (t) => {
  const directory = t.testdir()
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  await publish(ingest, 'known')
  rmSync(join(directory, 'chunks'), { recursive: true })
  await t.rejects(publish(ingest, 'refused'), { code: 'store-failed' })
  await ingest.close()
  const environment = await openEnvironment(join(directory, 'events'))
  t.strictSame(openProjects(environment.table).ids(), ['known'])
  await environment.close()
})

t.test('the first maps of many projects at once are each stored in their own project', async (t) => {
  const directory = t.testdir()
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  const projects = Array.from({ length: 20 }, (_, i) => `p-${i}`)
  const published = await Promise.all(projects.map((projectId) => publish(ingest, projectId)))
  t.ok(published.every(({ outcome }) => outcome === 'created'))
  for (const projectId of projects) {
    const content = await ingest.project(projectId).getMapContent({ placeId: '1', buildId: 'b' })
    t.equal(await textOf(content?.bytes()), `{"text":"${projectId}"}`)
  }
  t.equal((await ingest.listProjects()).length, 20)
  await ingest.close()
  await inspectMaps(directory)
})

async function textOf(bytes: AsyncIterable<Uint8Array> | undefined): Promise<string> {
  const parts: Uint8Array[] = []
  for await (const part of bytes ?? []) parts.push(part)
  return Buffer.concat(parts).toString()
}

t.test('the chunks of a large manifest, and the maps of a build, are looked up over several turns', async (t) => {
  const store = await openLmdbStore(t.testdir())
  const texts = Array.from({ length: 6_000 }, (_, i) => `chunk ${i}`)
  const key = { projectId: 'p', placeId: '1', buildId: 'large' }
  const manifest = manifestOf(texts)
  const digests = manifest.chunks.map(({ digest }) => digest)
  const contents = { pending: { manifest, touchedAt: 1 } }
  let turns = 0
  let isOver = false
  setImmediate(function countTurn() {
    turns++
    if (!isOver) setImmediate(countTurn)
  })
  let began = turns
  const decidedAfter = await store.updateMap(key, { digests }, () => ({ contents, result: turns - began }))
  t.ok(decidedAfter >= 5, `decided after ${decidedAfter} turns`)
  began = turns
  await store.map(key)
  t.ok(turns - began >= 5, `read in ${turns - began} turns`)
  t.equal((await store.map(key)).pending?.missing.length, 6_000)

  const small = { complete: { manifest: manifestOf(['a']), publishedAt: 1 } }
  const uploads = [{ digest: digestOf(Buffer.from('a')), bytes: Buffer.from('a') }]
  const ids = Array.from({ length: 3_000 }, (_, i) => ({ projectId: 'p', placeId: `${i}`, buildId: 'places' }))
  await Promise.all(ids.map((id) => store.updateMap(id, { uploads }, () => ({ contents: small, result: 1 }))))
  const { builds } = await store.builds('p', { limit: 10 })
  t.strictSame(builds, [
    { buildId: 'places', maps: 3_000 },
    { buildId: 'large', maps: 1 },
  ])
  began = turns
  await store.builds('p', { limit: 10 })
  t.ok(turns - began >= 2, `counted in ${turns - began} turns`)
  isOver = true
  await store.close()
})
