import { createHash } from 'node:crypto'
import t from 'tap'
import { describeSource, readPlace } from '../src/describe-source.ts'
import { openSource } from '../src/map-source.ts'

const digestOf = (bytes: Uint8Array) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
const mebibyte = 1024 * 1024

t.test('a manifest says what is there, and where each chunk is found first', async (t) => {
  // bytes that are all alike make chunks of one size, all the same but the last one
  const content = Buffer.alloc(2 * mebibyte + 100, 7)
  const { readAt } = await openSource(content)
  const told: number[][] = []
  const { manifest, places } = await describeSource(readAt, 'text/plain', (...done) => told.push(done))
  t.match(manifest, { contentType: 'text/plain', size: content.length, digest: digestOf(content) })
  const [first, ...others] = manifest.chunks
  t.ok(others.length > 1)
  t.strictSame(places.get(first?.digest ?? ''), { ...first, start: 0 })
  t.equal(places.size, 2)
  t.equal(told.length, manifest.chunks.length)
  t.strictSame(told.at(-1), [content.length, manifest.chunks.length])
  for (const place of places.values()) {
    const bytes = await readPlace(readAt, place)
    t.ok(Buffer.from(bytes).equals(content.subarray(place.start, place.start + place.size)))
    t.equal(digestOf(bytes), place.digest)
  }
})

t.test('nothing has a manifest without chunks', async (t) => {
  const { readAt } = await openSource(Buffer.alloc(0))
  const { manifest } = await describeSource(readAt, 'text/plain', () => {})
  t.match(manifest, { size: 0, digest: digestOf(Buffer.alloc(0)), chunks: [] })
})

t.test('a chunk that is no longer what it was, or no longer there, means that the source changed', async (t) => {
  const content = Buffer.from('abc')
  const { readAt } = await openSource(content)
  const { places } = await describeSource(readAt, 'text/plain', () => {})
  const place = [...places.values()][0] as never
  content[1] = 0
  await t.rejects(readPlace(readAt, place), { code: 'source-changed' })
  const shorter = await openSource(Buffer.from('ab'))
  await t.rejects(readPlace(shorter.readAt, place), { code: 'source-changed' })
})
