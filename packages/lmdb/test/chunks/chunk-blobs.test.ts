import { type ChunkUpload, chunkBytesMax, digestOf, type Manifest } from '@ingest/core'
import t from 'tap'
import type { BlobKey } from '../../src/tables/chunks.ts'
import { inspectMaps, openMapParts } from '../map-parts.ts'

const id = { placeId: '1', buildId: 'b' }

function upload(text: string): ChunkUpload {
  return { digest: digestOf(Buffer.from(text)), bytes: Buffer.from(text) }
}

function manifestOf(...texts: string[]): Manifest {
  const chunks = texts.map((text) => ({ digest: upload(text).digest, size: text.length }))
  const whole = Buffer.from(texts.join(''))
  return { contentType: 'a/b', size: whole.length, digest: digestOf(whole), chunks }
}

type Parts = Awaited<ReturnType<typeof openMapParts>>

function record({ environment, maps, projects }: Parts, ...texts: string[]): void {
  environment.write(() => {
    const project = projects.numberFor('p')
    maps.put(project, id, maps.find(project, id), { pending: { manifest: manifestOf(...texts), touchedAt: 1 } })
    maps.releaseChunks()
  })
}

function putChunk({ environment, maps }: Parts, text: string, blobKey: BlobKey): string {
  const { digest, bytes } = upload(text)
  return environment.write(() => maps.putChunk(1, digest, { blobKey, size: bytes.length }, 1))
}

async function write({ blobs }: Parts, text: string): Promise<BlobKey> {
  return (await blobs.write(1, [upload(text)])).get(upload(text).digest) as BlobKey
}

t.test('blobs that a crash left unnamed are deleted as orphans, and used ones are not', async (t) => {
  const directory = t.testdir()
  let parts = await openMapParts(directory)
  record(parts, 'a', 'b')
  const kept = await write(parts, 'a')
  putChunk(parts, 'a', kept)
  const orphans: BlobKey[] = []
  // more than one turn reads
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
  // it has found nothing, and has not resolved yet
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

t.test('hashing stops at a missing blob, and continues after it', async (t) => {
  const parts = await openMapParts(t.testdir())
  const [a, b] = [await write(parts, 'a'.repeat(300_000)), await write(parts, 'b')]
  const hash = parts.blobs.openHash()
  t.equal(await hash.update([a, b, Buffer.from('none'), a]), 2)
  t.equal(await hash.update([a]), 1)
  t.equal(await hash.digest(), digestOf(Buffer.from(`${'a'.repeat(300_000)}b${'a'.repeat(300_000)}`)))
  hash.close()
  await parts.close()
})
