import { join } from 'node:path'
import { createIngest, digestOf } from '@ingest/core'
import t, { type Test } from 'tap'
import { chunkKey } from '../../src/tables/chunks.ts'
import { changeRows, flipIn, makeStore, map, projectId } from '../backup/damaged-store.ts'
import { openLmdbStore } from '../built-store.ts'

const bytes = Buffer.from(JSON.stringify({ walls: 'x'.repeat(9000) }))
const digest = digestOf(bytes)

async function open(t: Test, damage: (directory: string) => unknown) {
  const directory = t.testdir()
  await makeStore(directory, 3)
  await damage(directory)
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  t.teardown(() => ingest.close())
  return ingest.project(projectId)
}

async function read(content: AsyncIterable<Uint8Array> | undefined): Promise<void> {
  for await (const _ of content ?? []) t.fail('damaged bytes')
}

t.test('damaged bytes of a chunk are never returned, as a whole or as a range', async (t) => {
  const project = await open(t, (directory) =>
    flipIn(join(directory, 'chunks', 'data.mdb'), Buffer.from('x'.repeat(64))),
  )
  await t.rejects(project.getChunk(digest), { code: 'store-damaged' })
  const content = await project.getMapContent(map)
  await t.rejects(read(content?.bytes()), { code: 'store-damaged' })
  await t.rejects(read(content?.bytes(8000, 8010)), { code: 'store-damaged' })
})

t.test('a map that names a chunk without a row is damaged, and was not replaced', async (t) => {
  const project = await open(t, (directory) =>
    changeRows(directory, 'chunks', (rows) => rows.remove(chunkKey(1, digest))),
  )
  t.equal(await project.getChunk(digest), undefined)
  const content = await project.getMapContent(map)
  await t.rejects(read(content?.bytes()), { code: 'store-damaged' })
})

t.test('a map without its manifest is damaged', async (t) => {
  const project = await open(t, (directory) => changeRows(directory, 'manifests', (rows) => rows.clearSync()))
  await t.rejects(project.getMapContent(map), { code: 'store-damaged' })
})
