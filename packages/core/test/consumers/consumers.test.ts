import t from 'tap'
import { createIngest } from '../../src/ingest.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'

t.test('a project whose last consumer was deleted is not listed among those with consumers', async (t) => {
  const store = openMemoryStore()
  const project = createIngest({ store }).project('p')
  await project.submitBatch({ events: [{ projectId: 'p', eventId: 'e' }] })
  const cursor = (await project.lastCursor()) as string
  for (const name of ['a', 'b']) await project.putConsumer(name, { cursor, replaces: null })
  await project.deleteConsumer('a')
  t.strictSame(await store.projects('consumers'), ['p'])
  await project.deleteConsumer('b')
  t.strictSame(await store.projects('consumers'), [])
})

t.test('a list of many consumers counts fewer batches for each, and their ages exactly', async (t) => {
  let now = 1_000_000
  const project = createIngest({ store: openMemoryStore(), now: () => now }).project('p')
  const cursor = await project.lastCursor()
  for (let i = 0; i < 150; i++) {
    await project.submitBatch({ events: ['a', 'b'].map((id) => ({ projectId: 'p', eventId: `${i}-${id}` })) })
  }
  const putConsumers = async (from: number, to: number) => {
    for (let i = from; i < to; i++) await project.putConsumer(`c-${i}`, { cursor, replaces: null })
  }
  await putConsumers(0, 10)
  now += 5_000
  for (const { lag } of await project.listConsumers()) t.strictSame(lag, { events: 300, exact: true, seconds: 5 })
  await putConsumers(10, 100)
  // 100 batches each; the others count as one event each
  for (const { lag } of await project.listConsumers()) t.strictSame(lag, { events: 250, exact: false, seconds: 5 })
  t.strictSame((await project.getConsumer('c-99'))?.lag, { events: 300, exact: true, seconds: 5 })
})

t.test('a list counts no more batches for a consumer than a read of it alone', async (t) => {
  const project = createIngest({ store: openMemoryStore() }).project('p')
  const cursor = await project.lastCursor()
  for (let i = 0; i < 1_001; i++) {
    await project.submitBatch({ events: ['a', 'b'].map((id) => ({ projectId: 'p', eventId: `${i}-${id}` })) })
  }
  await project.putConsumer('c', { cursor, replaces: null })
  const read = [...(await project.listConsumers()), await project.getConsumer('c')]
  for (const consumer of read) t.match(consumer?.lag, { events: 2_001, exact: false })
})
