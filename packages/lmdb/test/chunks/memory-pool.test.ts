import { chunkBytesMax } from '@ingest/core'
import t from 'tap'
import { createMemoryPool } from '../../src/chunks/memory-pool.ts'

t.test('memory is used again for what is about as large', async (t) => {
  const pool = createMemoryPool()
  const [small, large] = [pool.take(70_000), pool.take(chunkBytesMax)]
  t.equal(small.length, 70_000)
  pool.giveBack([small.buffer, large.buffer])
  t.equal(pool.take(chunkBytesMax).buffer, large.buffer)
  t.not(pool.take(chunkBytesMax).buffer, large.buffer, 'it is not given out twice')
  const again = pool.take(131_072)
  t.equal(again.buffer, small.buffer)
  t.equal(again.length, 131_072)
})

t.test('no buffer is more than twice as large as what is asked for', async (t) => {
  const pool = createMemoryPool()
  for (const bytes of [1, 65_535, 65_536, 65_537, 131_072, 300_000, chunkBytesMax, chunkBytesMax + 1]) {
    const { length, buffer } = pool.take(bytes)
    t.equal(length, bytes)
    t.ok(buffer.byteLength >= bytes && buffer.byteLength < 2 * bytes, `${buffer.byteLength} for ${bytes}`)
    pool.giveBack([new ArrayBuffer(chunkBytesMax)])
  }
})

t.test('only so much is kept, and nothing that is too small or too large', async (t) => {
  const pool = createMemoryPool()
  const given = Array.from({ length: 20 }, () => new ArrayBuffer(chunkBytesMax))
  const odd = [100, 2 * chunkBytesMax].map((bytes) => new ArrayBuffer(bytes))
  pool.giveBack([...given, ...odd])
  const taken = Array.from({ length: 20 }, () => pool.take(chunkBytesMax).buffer)
  t.equal(taken.filter((buffer) => given.includes(buffer)).length, 16)
  for (const { byteLength } of odd) t.notOk(odd.includes(pool.take(byteLength).buffer))
})
