import { type ChunkUpload, chunkBytesMax, digestOf, type Manifest } from '@ingest/core'
import t from 'tap'
import { openMapTables, type Place } from '../../src/tables/maps.ts'
import { openProjects } from '../../src/tables/projects.ts'
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

function record({ writer }: Parts, ...texts: string[]): Promise<void> {
  return writer.decide((table) => {
    const project = openProjects(table).numberFor('p')
    const maps = openMapTables(table)
    const pending = { manifest: manifestOf(...texts), touchedAt: 1 }
    maps.put(project, id, maps.find(project, id), { pending })
  })
}

async function write({ chunks }: Parts, text: string): Promise<Place> {
  return (await chunks.write(1, [upload(text)])).get(upload(text).digest) as Place
}

t.test('bytes that a crash left without a row are deleted by a sweep, and what is kept is not', async (t) => {
  const directory = t.testdir()
  let parts = await openMapParts(directory)
  await record(parts, 'a', 'b')
  const kept = await write(parts, 'a')
  await parts.decide((maps) => maps.arrive(1, upload('a').digest, { place: kept, size: 1 }, { receivedAt: 1 }))
  const orphans: Place[] = []
  // more than a sweep looks at between turns
  for (let i = 0; i < 300; i++) orphans.push(await write(parts, `orphan ${i}`))
  await parts.close()
  t.strictSame(await inspectMaps(directory), { orphans: 300, waste: 0 })
  parts = await openMapParts(directory)
  await parts.chunks.sweep()
  t.equal(parts.chunks.read(kept, String), 'a')
  t.strictSame(
    orphans.filter((place) => parts.chunks.read(place, String)),
    [],
  )
  await parts.close()
  t.strictSame(await inspectMaps(directory), { orphans: 0, waste: 0 })
})

t.test('chunks of all sizes are as they were, in whatever memory they were written', async (t) => {
  const parts = await openMapParts(t.testdir())
  const texts = [chunkBytesMax, 1, chunkBytesMax + 1, 70_000, chunkBytesMax, 2].map((size, i) => `${i}`.repeat(size))
  const places: Place[] = []
  for (const text of texts) places.push(await write(parts, text))
  t.strictSame(
    places.map((place) => parts.chunks.read(place, (bytes) => digestOf(bytes))),
    texts.map((text) => upload(text).digest),
  )
  await parts.close()
})

t.test('chunks that are written one after another are copied into the same memory', async (t) => {
  const parts = await openMapParts(t.testdir())
  const made: number[] = []
  t.intercept(globalThis, 'ArrayBuffer', {
    value: new Proxy(ArrayBuffer, {
      construct(type, args) {
        made.push(args[0])
        return Reflect.construct(type, args)
      },
    }),
  })
  for (let i = 0; i < 5; i++) await write(parts, `${i}`.repeat(70_000))
  t.strictSame(made, [131_072])
  await parts.close()
})

t.test('waste that a crash left is deleted by a sweep', async (t) => {
  const directory = t.testdir()
  let parts = await openMapParts(directory)
  await record(parts, 'a')
  const place = await write(parts, 'a')
  await parts.decide((maps) => maps.arrive(1, upload('a').digest, { place: place, size: 1 }, { receivedAt: 1 }))
  // as after a crash between the rows and the bytes
  await parts.chunks.close()
  await record(parts, 'b')
  await parts.close()
  t.strictSame(await inspectMaps(directory), { orphans: 0, waste: 1 })
  parts = await openMapParts(directory)
  t.equal(
    parts.look(() => parts.maps.placeOf(1, upload('a').digest)),
    undefined,
  )
  await parts.chunks.sweep()
  t.equal(parts.chunks.read(place, String), undefined)
  await parts.close()
  t.strictSame(await inspectMaps(directory), { orphans: 0, waste: 0 })
})

t.test('bytes of an upload that a sweep came upon may not be named any more', async (t) => {
  const directory = t.testdir()
  const parts = await openMapParts(directory)
  await record(parts, 'a')
  const place = await write(parts, 'a')
  t.ok(await parts.decide((maps) => parts.chunks.canName(maps, place)))
  await parts.decide((maps) => maps.discard(place))
  t.notOk(await parts.decide((maps) => parts.chunks.canName(maps, place)), 'while they are waste')
  await parts.chunks.clean()
  t.notOk(await parts.decide((maps) => parts.chunks.canName(maps, place)), 'once they are deleted')
  await parts.close()
})

t.test('each upload of a chunk has a place of its own', async (t) => {
  const directory = t.testdir()
  const parts = await openMapParts(directory)
  await record(parts, 'a')
  const digest = upload('a').digest
  const [first, second] = [await write(parts, 'a'), await write(parts, 'a')]
  const arrive = (place: Place) =>
    parts.decide((maps) => maps.arrive(1, digest, { place: place, size: 1 }, { receivedAt: 1 }))
  t.equal(await arrive(first), 'stored')
  t.equal(await arrive(second), 'existing')
  await parts.chunks.clean()
  t.equal(parts.chunks.read(first, String), 'a')
  t.equal(parts.chunks.read(second, String), undefined)
  await parts.close()
  t.strictSame(await inspectMaps(directory), { orphans: 0, waste: 0 })
})

t.test('who asks to clean while that is just ending is not forgotten', async (t) => {
  const parts = await openMapParts(t.testdir())
  await record(parts, 'a')
  const place = await write(parts, 'a')
  const first = parts.chunks.clean()
  // it has found nothing, and has not said so yet
  parts.environment.root.transactionSync(() => parts.maps.discard(place))
  await Promise.all([first, parts.chunks.clean()])
  t.equal(parts.chunks.read(place, String), undefined)
  await parts.close()
})
