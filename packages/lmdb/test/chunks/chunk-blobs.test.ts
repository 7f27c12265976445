import { join } from 'node:path'
import { type ChunkUpload, chunkBytesMax, createIngest, digestOf } from '@ingest/core'
import t, { type Test } from 'tap'
import { type BlobKey, chunkKey } from '../../src/chunks/chunk-tables.ts'
import { createSharedMemory } from '../../src/chunks/shared-memory.ts'
import { openLmdbStore } from '../built-store.ts'
import { changeRows, flipIn, makeStore, map, projectId } from '../damaged-store.ts'
import { inspectMaps, manifestOf, openMapParts } from '../map-parts.ts'

const id = { placeId: '1', buildId: 'b' }

function upload(text: string): ChunkUpload {
  return { digest: digestOf(Buffer.from(text)), bytes: Buffer.from(text) }
}

type Parts = Awaited<ReturnType<typeof openMapParts>>

function record({ environment, maps, projects }: Parts, ...texts: string[]): void {
  environment.write(() => {
    const project = projects.numberFor('p')
    maps.put(project, id, maps.find(project, id), { pending: { manifest: manifestOf(texts), touchedAt: 1 } })
    maps.releaseChunks()
  })
}

function putChunk({ environment, maps }: Parts, text: string, blobKey: BlobKey): string {
  const { digest, bytes } = upload(text)
  return environment.write(() => maps.putChunk(1, digest, { blobKey, size: bytes.length }, 1))
}

async function write({ blobs }: Parts, text: string): Promise<BlobKey> {
  return (await blobs.write(1, [upload(text)])).get(upload(text).digest)?.blobKey as BlobKey
}

t.test('blobs that a crash left unnamed are deleted as orphans, and used ones are not', async (t) => {
  const directory = t.testdir()
  let parts = await openMapParts(directory)
  record(parts, 'a', 'b')
  const kept = await write(parts, 'a')
  putChunk(parts, 'a', kept)
  const orphans: BlobKey[] = []
  // more than one turn can read
  for (let i = 0; i < 300; i++) orphans.push(await write(parts, `orphan ${i}`))
  await parts.close()
  t.strictSame(await inspectMaps(directory), { orphans: 300, garbage: 0 })
  parts = await openMapParts(directory)
  await parts.blobs.collectOrphans()
  t.equal(String(parts.blobs.read(kept)), 'a')
  t.strictSame(
    orphans.filter((blobKey) => parts.blobs.read(blobKey)),
    [],
  )
  await parts.close()
  t.strictSame(await inspectMaps(directory), { orphans: 0, garbage: 0 })
})

t.test('blobs of all sizes are read as they were written', async (t) => {
  const parts = await openMapParts(t.testdir())
  const texts = [chunkBytesMax, 1, chunkBytesMax + 1, 70_000, chunkBytesMax, 2].map((size, i) => `${i}`.repeat(size))
  const blobKeys: BlobKey[] = []
  for (const text of texts) blobKeys.push(await write(parts, text))
  t.strictSame(
    blobKeys.map((blobKey) => digestOf(parts.blobs.read(blobKey) as Buffer)),
    texts.map((text) => upload(text).digest),
  )
  await parts.close()
})

t.test('garbage that a crash left is deleted with the orphans', async (t) => {
  const directory = t.testdir()
  let parts = await openMapParts(directory)
  record(parts, 'a')
  const blobKey = await write(parts, 'a')
  putChunk(parts, 'a', blobKey)
  // as after a crash between the rows and the bytes
  await parts.blobs.close()
  record(parts, 'b')
  await parts.close()
  t.strictSame(await inspectMaps(directory), { orphans: 0, garbage: 1 })
  parts = await openMapParts(directory)
  t.equal(
    parts.readSnapshot(() => parts.maps.chunks.blobKeyOf(1, upload('a').digest)),
    undefined,
  )
  await parts.blobs.collectOrphans()
  t.equal(parts.blobs.read(blobKey), undefined)
  await parts.close()
  t.strictSame(await inspectMaps(directory), { orphans: 0, garbage: 0 })
})

t.test('each upload of a chunk has a blob of its own', async (t) => {
  const directory = t.testdir()
  const parts = await openMapParts(directory)
  record(parts, 'a')
  const [first, second] = [await write(parts, 'a'), await write(parts, 'a')]
  t.equal(putChunk(parts, 'a', first), 'stored')
  t.equal(putChunk(parts, 'a', second), 'existing')
  await parts.blobs.collectGarbage()
  t.equal(String(parts.blobs.read(first)), 'a')
  t.equal(parts.blobs.read(second), undefined)
  await parts.close()
  t.strictSame(await inspectMaps(directory), { orphans: 0, garbage: 0 })
})

t.test('garbage marked while a collection ends is collected', async (t) => {
  const parts = await openMapParts(t.testdir())
  record(parts, 'a')
  const blobKey = await write(parts, 'a')
  const first = parts.blobs.collectGarbage()
  // the collection has found nothing, and has not resolved yet
  parts.environment.root.transactionSync(() => parts.maps.chunks.markGarbage(blobKey))
  await Promise.all([first, parts.blobs.collectGarbage()])
  t.equal(parts.blobs.read(blobKey), undefined)
  await parts.close()
})

t.test('chunks that are written at once are stored with the bytes of each', async (t) => {
  const parts = await openMapParts(t.testdir())
  for (const round of [1, 2]) {
    const texts = Array.from({ length: 40 }, (_, i) => `${round}.${i} `.repeat(round * 500 + i))
    const blobKeys = await Promise.all(texts.map((text) => write(parts, text)))
    t.strictSame(
      blobKeys.map((blobKey) => String(parts.blobs.read(blobKey))),
      texts,
    )
  }
  await parts.close()
})

const damagedBytes = Buffer.from(JSON.stringify({ walls: 'x'.repeat(9000) }))
const damagedDigest = digestOf(damagedBytes)

async function openDamaged(t: Test, damage: (directory: string) => unknown) {
  const directory = t.testdir()
  await makeStore(directory, 3)
  await damage(directory)
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  t.teardown(() => ingest.close())
  return ingest.project(projectId)
}

async function readAll(content: AsyncIterable<Uint8Array> | undefined): Promise<void> {
  for await (const _ of content ?? []) t.fail('damaged bytes')
}

t.test('damaged bytes of a chunk are never returned, as a whole or as a range', async (t) => {
  const project = await openDamaged(t, (directory) =>
    flipIn(join(directory, 'chunks', 'data.mdb'), Buffer.from('x'.repeat(64))),
  )
  await t.rejects(project.getChunk(damagedDigest), { code: 'store-damaged' })
  const content = await project.getMapContent(map)
  await t.rejects(readAll(content?.bytes()), { code: 'store-damaged' })
  await t.rejects(readAll(content?.bytes(8000, 8010)), { code: 'store-damaged' })
})

t.test('a map that names a chunk without a row is damaged, and was not replaced', async (t) => {
  const project = await openDamaged(t, (directory) =>
    changeRows(directory, 'chunks', (rows) => rows.remove(chunkKey(1, damagedDigest))),
  )
  t.equal(await project.getChunk(damagedDigest), undefined)
  const content = await project.getMapContent(map)
  await t.rejects(readAll(content?.bytes()), { code: 'store-damaged' })
})

t.test('a map without its manifest is damaged', async (t) => {
  const project = await openDamaged(t, (directory) => changeRows(directory, 'manifests', (rows) => rows.clearSync()))
  await t.rejects(project.getMapContent(map), { code: 'store-damaged' })
})

t.test('a small chunk takes as much memory as it has bytes', async (t) => {
  const memory = createSharedMemory()
  for (const size of [0, 1, 5000]) {
    const bytes = Buffer.alloc(size, 'a')
    const copy = memory.copy(bytes)
    t.equal(copy.buffer.byteLength, size)
    t.same(Buffer.from(copy), bytes)
    memory.release(copy)
  }
})

t.test('the memory of large chunks is used again', async (t) => {
  const memory = createSharedMemory()
  const first = memory.copy(Buffer.alloc(100_000, 'a'))
  const second = memory.copy(Buffer.alloc(100_000, 'b'))
  t.not(first.buffer, second.buffer)
  memory.release(first)
  const third = memory.copy(Buffer.alloc(chunkBytesMax, 'c'))
  t.equal(third.buffer, first.buffer)
  t.equal(third.length, chunkBytesMax)
  t.equal(second[0], 'b'.charCodeAt(0))
})
