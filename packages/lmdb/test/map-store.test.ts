import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest, type EmbeddedIngest } from '@ingest/core'
import t from 'tap'
import { openEnvironment } from '../src/environment/environment.ts'
import { openLmdbStore } from '../src/open-lmdb-store.ts'
import { openProjects } from '../src/tables/projects.ts'
import { inspectMaps } from './map-parts.ts'

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
