import { createIngest, openMemoryStore } from '@ingest/core'
import t from 'tap'
import { retainOnce } from '../../src/serve/retention.ts'

const day = 86_400_000

t.test('a round erases what each project keeps no longer', async (t) => {
  const now = Date.parse('2026-11-22T00:00:00Z')
  const ingest = createIngest({ store: openMemoryStore(), now: () => now - 10 * day })
  for (const projectId of ['kept', 'short', 'others']) {
    await ingest.project(projectId).submitBatch({ events: [{ projectId, eventId: 'e-1' }] })
  }
  const logged: object[] = []
  const log = { info: (fields: object) => void logged.push(fields), warn: () => {} } as never
  const rules = [
    ['short', 5 * day],
    ['kept', 'off'],
    ['*', 9 * day],
  ] as const
  const round = () => retainOnce({ ingest, rules, log }, new AbortController().signal, now)
  t.match(await round(), { events: 2 })
  t.equal((await ingest.project('kept').findEvent('e-1'))?.erased, undefined)
  t.equal((await ingest.project('short').findEvent('e-1'))?.erased, 'e-1')
  t.match(logged, [
    { projectId: 'others', events: 1 },
    { projectId: 'short', events: 1 },
  ])
  t.match(await round(), { events: 0 }, 'the next round finds nothing')
})

t.test('an ended round erases nothing more', async (t) => {
  const ingest = createIngest({ store: openMemoryStore(), now: () => 0 })
  await ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'e-1' }] })
  await t.rejects(retainOnce({ ingest, rules: [['*', 1]], log: console as never }, AbortSignal.abort()))
  t.equal((await ingest.project('p').findEvent('e-1'))?.erased, undefined)
})
