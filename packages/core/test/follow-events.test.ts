import t from 'tap'
import { followEvents } from '../src/follow-events.ts'
import { createIngest } from '../src/ingest.ts'
import { openMemoryStore } from '../src/memory-store.ts'
import type { ReadEventsOptions } from '../src/read-events.ts'

t.test('one read after the other, each behind the one before, also behind what was left out', async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  const submit = (...types: string[]) =>
    ingest.submitBatch('p', {
      events: types.map((type) => ({ projectId: 'p', eventId: `${type}-${Math.random()}`, type })),
    })
  const reads: ReadEventsOptions[] = []
  const told: string[] = []
  const watched = {
    readEvents(projectId: string, options: ReadEventsOptions = {}) {
      reads.push(options)
      return ingest.readEvents(projectId, options)
    },
  }
  await submit('x', 'y', 'x')
  const events = followEvents(watched, 'p', { type: 'y', from: 1, onProgress: (cursor) => void told.push(cursor) })
  t.equal((await events.next()).value?.cursor, '2')
  const next = events.next()
  await submit('x')
  await submit('y')
  t.equal((await next).value?.cursor, '5')
  t.strictSame(told, ['1', '2', '3', '4'])
  t.match(reads, [
    { type: 'y', from: 1, waitMs: Number },
    { type: 'y', from: 1, waitMs: Number, after: /^[34]$/ },
  ])
  t.notOk('after' in (reads[0] ?? {}))
  await events.return(undefined as never)
  await ingest.close()
})

t.test('a signal ends it with its reason', async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  const controller = new AbortController()
  const events = followEvents(ingest, 'p', { signal: controller.signal })
  const next = events.next()
  controller.abort(new Error('enough'))
  await t.rejects(next, { message: 'enough' })
  await ingest.close()
})
