import { createHash, randomFillSync } from 'node:crypto'
import { truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { describeSource, type Place, readPlace } from '../../src/upload/describe-source.ts'
import { openSource } from '../../src/upload/map-source.ts'

const digestOf = (bytes: Uint8Array) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
const mebibyte = 1024 * 1024

t.test('a manifest says what is there, and where each chunk is found first', async (t) => {
  // bytes that are all alike make chunks of one size, all the same but the last one
  const content = Buffer.alloc(2 * mebibyte + 100, 7)
  const source = await openSource(content)
  const told: number[][] = []
  const { manifest, places } = await describeSource(source, 'text/plain', (...done) => told.push(done))
  t.match(manifest, { contentType: 'text/plain', size: content.length, digest: digestOf(content) })
  const [first, ...others] = manifest.chunks
  t.ok(others.length > 1)
  t.strictSame(places.get(first?.digest ?? ''), { ...first, start: 0 })
  t.equal(places.size, 2)
  t.equal(told.length, manifest.chunks.length)
  t.strictSame(told.at(-1), [content.length, manifest.chunks.length])
  for (const place of places.values()) {
    const bytes = await readPlace(source, place)
    t.ok(Buffer.from(bytes).equals(content.subarray(place.start, place.start + place.size)))
    t.equal(digestOf(bytes), place.digest)
  }
})

t.test('nothing has a manifest without chunks', async (t) => {
  const source = await openSource(Buffer.alloc(0))
  const { manifest } = await describeSource(source, 'text/plain', () => {})
  t.match(manifest, { size: 0, digest: digestOf(Buffer.alloc(0)), chunks: [] })
})

t.test('a file and the same bytes in memory have the same manifest, and give the same chunks', async (t) => {
  const content = randomFillSync(Buffer.alloc(3 * mebibyte + 7))
  const path = join(t.testdir(), 'map')
  writeFileSync(path, content)
  const [inMemory, inFile] = await Promise.all([openSource(content), openSource(path)])
  const described = await describeSource(inMemory, 'text/plain', () => {})
  t.strictSame(await describeSource(inFile, 'text/plain', () => {}), described)
  for (const place of described.places.values()) {
    t.ok(Buffer.compare(await readPlace(inMemory, place), await readPlace(inFile, place)) === 0)
  }
  await inFile.close()
})

t.test('a chunk that is no longer there means that the source changed', async (t) => {
  const path = join(t.testdir(), 'map')
  writeFileSync(path, 'abc')
  const source = await openSource(path)
  const { places } = await describeSource(source, 'text/plain', () => {})
  truncateSync(path, 2)
  await t.rejects(readPlace(source, [...places.values()][0] as Place), { code: 'source-changed' })
  await source.close()
})
