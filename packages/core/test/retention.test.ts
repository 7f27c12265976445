import t from 'tap'
import { createIngest } from '../src/ingest.ts'
import { openMemoryStore } from '../src/memory/memory-store.ts'
import { applyRetention } from '../src/retention.ts'

const day = 86_400_000

t.test('a round erases the events that are older than the rule of their project', async (t) => {
  const now = Date.parse('2026-11-22T00:00:00Z')
  const ingest = createIngest({ store: openMemoryStore(), now: () => now - 10 * day })
  for (const projectId of ['off', 'short', 'others']) {
    await ingest.project(projectId).submitBatch({ events: [{ projectId, eventId: 'e-1' }] })
  }
  const erased = new Map<string, number>()
  const rules = [
    ['short', 5 * day],
    ['off', 'off'],
    ['*', 9 * day],
  ] as const
  const { signal } = new AbortController()
  const onErased = ({ projectId, events }: { projectId: string; events: number }) =>
    void erased.set(projectId, (erased.get(projectId) ?? 0) + events)
  const round = () => applyRetention(ingest, rules, { onErased, signal, now })
  await round()
  t.equal((await ingest.project('off').findEvent('e-1'))?.erased, undefined)
  t.equal((await ingest.project('short').findEvent('e-1'))?.erased, 'e-1')
  // projects are erased several at a time, in no order
  const expected = { others: 1, short: 1 }
  t.strictSame(Object.fromEntries(erased), expected)
  await round()
  t.strictSame(Object.fromEntries(erased), expected, 'the next round finds nothing')
})

t.test('an ended round erases nothing more', async (t) => {
  const ingest = createIngest({ store: openMemoryStore(), now: () => 0 })
  await ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'e-1' }] })
  await t.rejects(applyRetention(ingest, [['*', 1]], { signal: AbortSignal.abort() }))
  t.equal((await ingest.project('p').findEvent('e-1'))?.erased, undefined)
})
