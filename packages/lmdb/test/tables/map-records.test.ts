import { digestOf } from '@ingest/core'
import t from 'tap'
import {
  decodeChunks,
  decodePending,
  decodeStored,
  encodeChunks,
  encodePending,
  encodeStored,
} from '../../src/tables/map-records.ts'

t.test('the chunks of a manifest round-trip, in 36 bytes each', async (t) => {
  const chunks = ['a', 'b', 'a'].map((text, i) => ({ digest: digestOf(Buffer.from(text)), size: 2 ** (i * 10) }))
  const bytes = encodeChunks(chunks)
  t.equal(bytes.length, 3 * 36)
  t.strictSame(decodeChunks(bytes), chunks)
  t.strictSame(decodeChunks(encodeChunks([])), [])
})

t.test('a pending manifest round-trips', async (t) => {
  const pending = { touchedAt: 1_795_203_225_083, missing: 11_155, bytes: 3_000_000_000, name: Buffer.from('b\0é') }
  t.strictSame(decodePending(encodePending(pending)), pending)
})

t.test('a stored chunk round-trips', async (t) => {
  const stored = { upload: Buffer.from('12345678'), size: 1_048_576 }
  t.strictSame(decodeStored(encodeStored(stored)), stored)
})
