import { chunkBytesMax } from '@ingest/core'
import t from 'tap'
import { createSharedMemory } from '../../src/chunks/shared-memory.ts'

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
