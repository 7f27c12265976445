import { createIngest, openMemoryStore } from '@ingest/core'
import t from 'tap'
import { idOf, makeBatch, makeSmallEvent, newSeed, stampBatch } from '../src/make-batch.js'

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

t.test('a batch is valid, and all of its events are new', async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  const seed = newSeed()
  for (const [count, options] of [
    [100, {}],
    [1, {}],
    [7, { event: makeSmallEvent }],
  ] as const) {
    const batch = makeBatch('bench', count, options)
    stampBatch(batch, seed, count)
    t.strictSame(await ingest.project('bench').submitBatch(Buffer.from(batch.body)), {
      accepted: count,
      duplicates: 0,
      rejected: [],
    })
  }
})

t.test('an event has about 350 bytes', async (t) => {
  const { body } = makeBatch('bench', 100)
  t.ok(body.length / 100 > 330 && body.length / 100 < 390, `${body.length / 100} bytes`)
})

t.test('ids are UUIDs, and none comes twice', async (t) => {
  const batch = makeBatch('bench', 100)
  const ids = new Set<string>()
  const seed = newSeed()
  for (let number = 0; number < 200; number++) {
    stampBatch(batch, seed, number)
    for (let index = 0; index < 100; index++) ids.add(idOf(batch, index))
  }
  stampBatch(batch, newSeed(), 0)
  for (let index = 0; index < 100; index++) ids.add(idOf(batch, index))
  t.equal(ids.size, 20_100)
  t.strictSame(
    [...ids].filter((id) => !uuid.test(id)),
    [],
  )
})

t.test('the same seed and number make the same ids', async (t) => {
  const [one, other] = [makeBatch('bench', 10), makeBatch('bench', 10)]
  const seed = newSeed()
  stampBatch(one, seed, 5)
  stampBatch(other, seed, 4)
  t.not(idOf(one, 0), idOf(other, 0))
  stampBatch(other, seed, 5)
  t.strictSame(idsOf(one), idsOf(other))
})

t.test('repeats are the events of another batch, and the rest is new', async (t) => {
  const [source, batch, fresh] = [makeBatch('bench', 10), makeBatch('bench', 10), makeBatch('bench', 10)]
  const seed = newSeed()
  stampBatch(source, seed, 1)
  stampBatch(fresh, seed, 2)
  stampBatch(batch, seed, 2, { batch: 1, at: 3, count: 3 })
  t.strictSame(idsOf(batch), [...idsOf(source).slice(3, 6), ...idsOf(fresh).slice(3)])
})

t.test('a head stands before the body and knows its length', async (t) => {
  const { bytes, body } = makeBatch('bench', 3, { head: (length) => `${length};` })
  t.equal(bytes.toString(), `${body.length};${body.toString()}`)
})

function idsOf(batch: ReturnType<typeof makeBatch>): string[] {
  return Array.from({ length: batch.count }, (_, index) => idOf(batch, index))
}
