import t from 'tap'
import { groupBytesMax, groupChunks, groupChunksMax } from '../../src/calls/maps.ts'

const digest = `sha256:${'0'.repeat(64)}`
const chunks = (...sizes: number[]) => sizes.map((size) => ({ digest, bytes: new Uint8Array(size) }))

t.test('no chunks make no request', async (t) => {
  t.strictSame(groupChunks([]), [])
})

t.test('a request holds at most 64 chunks, and knows where it begins', async (t) => {
  const groups = groupChunks(chunks(...Array(150).fill(1)))
  t.strictSame(
    groups.map(({ first, group }) => [first, group.length]),
    [
      [0, groupChunksMax],
      [64, groupChunksMax],
      [128, 22],
    ],
  )
})

t.test('a request fits into 4 MiB, in base64 and with its digests', async (t) => {
  const mebibyte = 1024 * 1024
  const groups = groupChunks(chunks(mebibyte, mebibyte, mebibyte, mebibyte, 10))
  t.strictSame(
    groups.map(({ group }) => group.length),
    [2, 3],
  )
  const most = Array(groupChunksMax).fill({
    digest,
    data: 'x'.repeat(Math.ceil(groupBytesMax / groupChunksMax / 3) * 4),
  })
  t.ok(JSON.stringify({ chunks: most }).length <= 4 * mebibyte)
})

t.test('a chunk that is too large by itself goes alone, to be refused', async (t) => {
  const groups = groupChunks(chunks(1, groupBytesMax + 1, 1))
  t.strictSame(
    groups.map(({ group }) => group.length),
    [1, 1, 1],
  )
})
