import t from 'tap'
import { followEvents } from '../../src/events/follow-events.ts'
import type { ReadEventsOptions } from '../../src/events/read-events.ts'
import { createIngest } from '../../src/ingest.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'

t.test('one read after the other, each behind the one before, also behind what was left out', async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  const submit = (...types: string[]) =>
    ingest.project('p').submitBatch({
      events: types.map((type) => ({ projectId: 'p', eventId: `${type}-${Math.random()}`, type })),
    })
  const reads: ReadEventsOptions[] = []
  const told: string[] = []
  const watched = {
    readEvents(projectId: string, options: ReadEventsOptions = {}) {
      reads.push(options)
      return ingest.project(projectId).readEvents(options)
    },
  }
  await submit('x', 'y', 'x')
  const events = followEvents(watched, 'p', { type: 'y', from: 1, onProgress: (cursor) => void told.push(cursor) })
  const first = (await events.next()).value?.cursor
  const next = events.next()
  await submit('x')
  await submit('y')
  const fifth = (await next).value?.cursor
  const all: string[] = []
  for await (const { cursor } of ingest.project('p').readEvents()) all.push(cursor)
  t.strictSame([first, fifth], [all[1], all[4]])
  t.strictSame(told, all.slice(0, 4))
  t.match(reads, [
    { type: 'y', from: 1, waitMs: Number },
    { type: 'y', from: 1, waitMs: Number, after: new RegExp(`^(${all[2]}|${all[3]})$`) },
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
