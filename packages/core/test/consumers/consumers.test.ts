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
