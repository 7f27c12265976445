import assert from 'node:assert/strict'
import { range } from '../store/store-check.ts'
import { assertRefused, check, type IngestCheck } from './ingest-check.ts'

/** Submitting batches. */
export const eventChecks: readonly IngestCheck[] = [
  check('a batch returns the outcome of each event', async ({ submit, event }) => {
    assert.deepEqual(await submit(), { accepted: 0, duplicates: 0, rejected: [] })
    assert.deepEqual(await submit(event('a'), event('b')), { accepted: 2, duplicates: 0, rejected: [] })
    const result = await submit(event('b'), event('c'), 5, event('d', { buildId: 5 }), event('c'), { eventId: 'e' })
    assert.deepEqual([result.accepted, result.duplicates], [1, 2])
    assert.deepEqual(
      result.rejected.map(({ index, eventId, issues }) => [index, eventId, issues[0]?.code, issues[0]?.path]),
      [
        [2, null, 'not_object', ''],
        [3, 'd', 'invalid_type', '/buildId'],
        [5, 'e', 'required', '/projectId'],
      ],
    )
  }),

  check('a retry of the same batch changes nothing', async ({ ingest, event, events }) => {
    const body = Buffer.from(JSON.stringify({ events: [event('a'), event('b', { type: 5 })] }))
    const first = await ingest.submitBatch(body)
    const before = await events()
    const second = await ingest.submitBatch(body)
    assert.deepEqual(second, { ...first, accepted: 0, duplicates: 1 })
    assert.deepEqual(await events(), before)
  }),

  check('events are read byte for byte, in pages too', async ({ ingest, projectId, events }) => {
    const texts = ['a', 'é', '😀'].map(
      (id) => `{ "projectId":"${projectId}",\t"eventId": "${id}","n":12345678901234567890, "e":1.0E+2 }`,
    )
    await ingest.submitBatch(Buffer.from(`{"events":[${texts.join(' , ')}]}`))
    const all = await events()
    const found = all.map(({ text }) => text)
    assert.deepEqual(found, texts)
    for (const [i, { cursor, receivedAt }] of all.entries()) {
      assert.ok(Number.isSafeInteger(receivedAt) && receivedAt > 0)
      assert.deepEqual(await events({ after: cursor }), all.slice(i + 1))
      assert.deepEqual(await events({ after: cursor, limit: 1 }), all.slice(i + 1, i + 2))
    }
    assert.deepEqual(await events({ limit: 2 }), all.slice(0, 2))
    await assertRefused(events({ after: 'no cursor' }), 'invalid-cursor')
  }),

  check('an invalid batch is refused and stores nothing', async (bench) => {
    const { ingest, event, events } = bench
    const submit = (body: string | Uint8Array) => ingest.submitBatch(Buffer.from(body))
    await assertRefused(submit('{'), 'malformed-body')
    await assertRefused(submit(Buffer.from([0x7b, 0xff, 0x7d])), 'malformed-body')
    await assertRefused(submit('[]'), 'invalid-envelope')
    await assertRefused(submit('{"events":{}}'), 'invalid-envelope')
    const events101 = range(101).map((i) => event(`${i}`))
    await assertRefused(bench.submit(...events101), 'too-many-events', { limit: 100, actual: 101 })
    const large = JSON.stringify({ events: [event('large', { fill: 'x'.repeat(262_144) })] })
    await assertRefused(submit(large), 'batch-too-large', { limit: 262_144 })
    assert.deepEqual(await events(), [])
  }),
]
