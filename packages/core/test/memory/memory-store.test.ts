import t from 'tap'
import { createIngest } from '../../src/ingest.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'

t.test('each memory store is empty when it is opened, and independent of the others', async (t) => {
  const first = openMemoryStore()
  await createIngest({ store: first })
    .project('p')
    .submitBatch({ events: [{ projectId: 'p', eventId: 'a' }] })
  t.strictSame(await first.known('p', ['a']), [true])
  t.strictSame(await openMemoryStore().known('p', ['a']), [false])
})

t.test('the bytes of the totals are the bytes of the events', async (t) => {
  const store = openMemoryStore()
  const events = [
    { projectId: 'p', eventId: 'a', text: 'é' },
    { projectId: 'p', eventId: 'b' },
  ]
  await createIngest({ store }).project('p').submitBatch({ events })
  const bytes = events.reduce((sum, event) => sum + Buffer.byteLength(JSON.stringify(event)), 0)
  t.match(await store.totals('p'), { events: 2, batches: 1, bytes })
})

t.test('reusing the memory of a body does not change stored events', async (t) => {
  const store = openMemoryStore()
  const text = '{"projectId":"p","eventId":"a"}'
  const body = Buffer.from(`{"events":[${text}]}`)
  await createIngest({ store }).project('p').submitBatch(body)
  body.fill(0)
  t.equal(Buffer.from((await store.find('p', 'a'))?.bytes ?? '').toString(), text)
})
