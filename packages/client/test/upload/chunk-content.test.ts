import { createHash } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { chunkBytesMax, chunkBytesMin, chunkContent, chunkEnd, type ReadAt } from '../../src/upload/chunk-content.ts'

/** Reproducible bytes: SHA-256 of a seed and a counter, concatenated. */
function madeUp(size: number, seed: string): Buffer {
  const blocks = Array.from({ length: Math.ceil(size / 32) }, (_, i) =>
    createHash('sha256').update(`${seed} ${i}`).digest(),
  )
  return Buffer.concat(blocks).subarray(0, size)
}

/** Reads at most `readBytes()` at once. */
function reader(bytes: Buffer, readBytes = () => Number.POSITIVE_INFINITY): ReadAt {
  return async (target, position) => {
    const part = bytes.subarray(position, position + Math.min(target.length, readBytes()))
    target.set(part)
    return part.length
  }
}

async function chunksOf(
  readAt: ReadAt,
  onChunk: (bytes: Uint8Array) => void = () => {},
): Promise<{ size: number; digest: string }[]> {
  const chunks = []
  for await (const bytes of chunkContent(readAt)) {
    onChunk(bytes)
    chunks.push({ size: bytes.length, digest: createHash('sha256').update(bytes).digest('hex').slice(0, 16) })
  }
  return chunks
}

/** Made once by this code; an implementation in another language must produce the same. */
const golden = {
  random: [
    { size: 285373, digest: 'ccec427ad6f541d6' },
    { size: 312335, digest: 'c8c17a8051ce0636' },
    { size: 338203, digest: 'd99f4b37b2a9c275' },
    { size: 284494, digest: 'd2968c2e6af44b8d' },
    { size: 329889, digest: '5a30634f2c6a90f6' },
    { size: 305267, digest: 'f02aa0aa3fe9a1f1' },
    { size: 241591, digest: 'c0da674d0df32bdf' },
  ],
  json: [
    { size: 320442, digest: '2b566419505d958c' },
    { size: 220595, digest: '57d4db5f7383036e' },
    { size: 308142, digest: '134f63638a330ced' },
    { size: 218116, digest: '59459e8bc2c60602' },
    { size: 32966, digest: 'aaedba5f5a9a56d1' },
  ],
  /** SHA-256 over the chunk sizes of all random bytes, one a line. */
  sizes: '0f8cbc7ffd9eec6a36ba023944cd920ed6cab08baa5f7d821ba212cf49f81d70',
}

const random = madeUp(8 * 1024 * 1024, 'golden')

t.test('boundaries never change', async (t) => {
  t.strictSame(await chunksOf(reader(random.subarray(0, 2 * 1024 * 1024))), golden.random)
  const json = Buffer.from(
    JSON.stringify(Array.from({ length: 40_000 }, (_, i) => ({ part: i, at: [i % 97, i % 89] }))),
  )
  t.strictSame(await chunksOf(reader(json)), golden.json)
  const sizes = (await chunksOf(reader(random))).map(({ size }) => size)
  t.ok(
    sizes.some((size) => size < 208 * 1024),
    'one boundary is below the normal size',
  )
  t.equal(createHash('sha256').update(sizes.join('\n')).digest('hex'), golden.sizes)
})

/** The reference implementation: the end of the first chunk, one byte at a time. */
function plainEnd(bytes: Buffer): number {
  const end = Math.min(bytes.length, chunkBytesMax)
  let hash = 0
  for (let at = chunkBytesMin; at < end; ) {
    const zeros = at < 208 * 1024 ? 20 : 16
    hash = ((hash << 1) + (gear[bytes[at++] as number] as number)) | 0
    if (hash >>> (32 - zeros) === 0) return at
  }
  return end
}

const gear = Array.from({ length: 256 }, (_, value) =>
  createHash('sha256').update(`ingest gear ${value}`).digest().readInt32BE(0),
)

t.test('a boundary is found at every offset, also where the rates change and near the end', async (t) => {
  // the hash covers 32 bytes, so these are a boundary at any offset
  let boundary = Buffer.alloc(0)
  for (let i = 0; boundary.length === 0; i++) {
    const bytes = createHash('sha256').update(`boundary ${i}`).digest()
    if (bytes.reduce((hash, byte) => ((hash << 1) + (gear[byte] as number)) | 0, 0) >>> 12 === 0) boundary = bytes
  }
  const calm = Buffer.alloc(chunkBytesMax + 8, 'calm')
  t.equal(plainEnd(calm), chunkBytesMax, 'there is no boundary without it')
  const near = (offset: number) => Array.from({ length: 80 }, (_, i) => offset - 40 + i)
  for (const offset of [chunkBytesMin + 32, 208 * 1024, chunkBytesMax].flatMap(near)) {
    const bytes = Buffer.from(calm)
    boundary.copy(bytes, offset - 32)
    const end = plainEnd(bytes)
    for (const behind of [1, 2, bytes.length]) {
      const part = bytes.subarray(0, offset + behind)
      t.equal(chunkEnd(part, 0), Math.min(end, part.length), `at ${offset} of ${part.length}`)
    }
  }
  for (const fill of [0, 1, 0x20, 0xff]) {
    const bytes = Buffer.alloc(chunkBytesMax + 5, fill)
    t.equal(chunkEnd(bytes, 0), plainEnd(bytes), `of bytes ${fill}`)
  }
})

t.test('an empty map has no chunk, and a small one has one', async (t) => {
  t.strictSame(await chunksOf(reader(Buffer.alloc(0))), [])
  for (const size of [1, chunkBytesMin - 1, chunkBytesMin]) {
    t.match(await chunksOf(reader(random.subarray(0, size))), [{ size }])
  }
})

t.test('chunks do not depend on the sizes of reads, and add up to the input', async (t) => {
  const bytes = random.subarray(0, 3 * 1024 * 1024 + 17)
  const expected = await chunksOf(reader(bytes))
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 700_000 }), { minLength: 1, maxLength: 5 }), async (sizes) => {
      let turn = 0
      const readAt = reader(bytes, () => (sizes[turn++ % sizes.length] as number) + 1000)
      let end = 0
      let isSame = true
      const onChunk = (chunk: Uint8Array) => {
        isSame &&= bytes.subarray(end, end + chunk.length).equals(chunk)
        end += chunk.length
      }
      t.strictSame(await chunksOf(readAt, onChunk), expected)
      t.strictSame([isSame, end], [true, bytes.length])
    }),
    { numRuns: 20 },
  )
})
