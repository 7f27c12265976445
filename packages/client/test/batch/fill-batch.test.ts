import { type BatchResult, batchBytesMax } from '@ingest/core'
import t from 'tap'
import { checkResult, eventBytesMax, fillBatch, isBatchFull } from '../../src/batch/fill-batch.ts'

const ofBytes = (bytes: number) => ({ bytes: Buffer.from(`"${'x'.repeat(bytes - 2)}"`) })

t.test('a batch has the bytes of its events, in their order', async (t) => {
  const { body, count } = fillBatch(['{"a":"é"}', '{ }'].map((text) => ({ bytes: Buffer.from(text) })))
  t.equal(body.toString(), '{"events":[{"a":"é"},{ }]}')
  t.equal(count, 2)
})

t.test('a batch has at most 100 events', async (t) => {
  t.equal(fillBatch(Array(100).fill(ofBytes(2))).count, 100)
  t.equal(fillBatch(Array(101).fill(ofBytes(2))).count, 100)
  t.notOk(isBatchFull(99, 99 * 2))
  t.ok(isBatchFull(100, 200))
})

t.test('a batch has at most 262,144 bytes, including its envelope', async (t) => {
  t.equal(fillBatch([ofBytes(eventBytesMax)]).body.length, batchBytesMax)
  const half = (eventBytesMax - 1) / 2
  t.strictSame([half, eventBytesMax], [131_065, 262_131])
  const exact = fillBatch([ofBytes(half), ofBytes(half)])
  t.strictSame([exact.count, exact.body.length], [2, batchBytesMax])
  const over = fillBatch([ofBytes(half), ofBytes(half + 1), ofBytes(2)])
  t.strictSame([over.count, over.body.length], [1, half + 13])
  t.ok(isBatchFull(2, half + half))
  t.notOk(isBatchFull(2, half + half - 3))
})

t.test('a random batch is as full as its limits allow', async (t) => {
  let seed = 7
  const random = (below: number) => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed % below
  }
  for (let round = 0; round < 300; round++) {
    const bytesMax = [10, 5000, 200_000][round % 3] as number
    const events = Array.from({ length: 1 + random(150) }, () => ofBytes(2 + random(bytesMax)))
    const { body, count } = fillBatch(events)
    t.ok(count >= 1 && count <= 100 && body.length <= batchBytesMax)
    const next = events[count]
    if (count < 100 && next) t.ok(body.length + 1 + next.bytes.length > batchBytesMax)
    t.equal(JSON.parse(body.toString()).events.length, count)
  }
})

const rejection = (index: number) => ({ index, eventId: null, issues: [] })

t.test('a result has one outcome for each event', async (t) => {
  const valid: [BatchResult, count: number][] = [
    [{ accepted: 2, duplicates: 1, rejected: [rejection(0), rejection(4)] }, 5],
    [{ accepted: 0, duplicates: 0, rejected: [] }, 0],
  ]
  for (const [result, count] of valid) t.equal(checkResult(result, count), result)
  const invalid: [BatchResult, count: number][] = [
    [{ accepted: 2, duplicates: 1, rejected: [] }, 5],
    [{ accepted: 2, duplicates: 1, rejected: [rejection(1), rejection(1)] }, 5],
    [{ accepted: 2, duplicates: 1, rejected: [rejection(1), rejection(1)] }, 4],
    ...[-1, 5, 0.5].map((index): [BatchResult, number] => [
      { accepted: 4, duplicates: 0, rejected: [rejection(index)] },
      5,
    ]),
    [{ accepted: 4, duplicates: 0, rejected: [{ ...rejection(0), issues: 'none' as never }] }, 5],
  ]
  for (const [result, count] of invalid) t.throws(() => checkResult(result, count), { code: 'unexpected-response' })
})
