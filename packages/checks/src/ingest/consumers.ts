import assert from 'node:assert/strict'
import type { Ingest } from '@ingest/core'
import { range } from '../store/store-check.ts'
import { assertRefused, benchOf, check, type IngestCheck } from './ingest-check.ts'

/** Named positions of readers. */
export const ingestConsumerChecks: readonly IngestCheck[] = [
  check('a consumer is created, moved and deleted', async ({ ingest, submit, event, events }) => {
    const start = await ingest.lastCursor()
    await submit(event('a'), event('b'))
    const [first, second] = (await events()).map(({ cursor }) => cursor) as [string, string]
    assert.deepEqual([await ingest.listConsumers(), await ingest.getConsumer('warehouse')], [[], undefined])
    const created = await ingest.putConsumer('warehouse', { cursor: start, replaces: null })
    assert.ok(Math.abs(created.updatedAt - Date.now()) < 3_600_000)
    assert.deepEqual(created, {
      name: 'warehouse',
      cursor: start,
      updatedAt: created.updatedAt,
      outcome: 'created',
    })
    const moved = await ingest.putConsumer('warehouse', { cursor: second, replaces: start })
    const { outcome, ...position } = moved
    assert.deepEqual([outcome, position.cursor, await cursorOf(ingest)], ['updated', second, second])
    const back = await ingest.putConsumer('warehouse', { cursor: first, replaces: second })
    assert.deepEqual([back.outcome, await cursorOf(ingest)], ['updated', first])
    const deleted = await ingest.deleteConsumer('warehouse')
    assert.deepEqual([deleted.name, deleted.cursor, deleted.updatedAt], ['warehouse', first, back.updatedAt])
    assert.equal(await ingest.getConsumer('warehouse'), undefined)
    await assertRefused(ingest.deleteConsumer('warehouse'), 'consumer-not-found')
  }),

  check('a consumer that stands elsewhere is not moved, and the refusal says where', async (bench) => {
    const { ingest, submit, event, events } = bench
    await submit(event('a'), event('b'))
    const [first, second] = (await events()).map(({ cursor }) => cursor) as [string, string]
    const missing = ingest.putConsumer('warehouse', { cursor: second, replaces: first })
    assert.equal((await assertRefused(missing, 'consumer-conflict')).cursor, null)
    await ingest.putConsumer('warehouse', { cursor: first, replaces: null })
    for (const replaces of [null, second]) {
      const moving = ingest.putConsumer('warehouse', { cursor: await ingest.lastCursor(), replaces })
      assert.equal((await assertRefused(moving, 'consumer-conflict')).cursor, first)
    }
    assert.equal(await cursorOf(ingest), first)
  }),

  check('a put of where the consumer stands changes nothing, whatever it replaces', async (bench) => {
    const { ingest, submit, event, events } = bench
    await submit(event('a'))
    const start = await ingest.lastCursor()
    await submit(event('b'))
    const [first, second] = (await events()).map(({ cursor }) => cursor) as [string, string]
    const created = await ingest.putConsumer('warehouse', { cursor: first, replaces: null })
    for (const replaces of [null, start, first, second]) {
      const again = await ingest.putConsumer('warehouse', { cursor: first, replaces })
      assert.deepEqual(again, { ...created, outcome: 'unchanged' })
    }
  }),

  check('of concurrent moves from one position one succeeds, and the others are refused', async (bench) => {
    const { ingest, submit, event, events } = bench
    await submit(...range(20).map((i) => event(`${i}`)))
    const cursors = (await events()).map(({ cursor }) => cursor)
    const moves = cursors.map((cursor) => ingest.putConsumer('warehouse', { cursor, replaces: null }))
    const settled = await Promise.allSettled(moves)
    const stored = settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value.cursor] : []))
    assert.deepEqual(stored, [await cursorOf(ingest)])
    for (const each of settled) {
      if (each.status === 'fulfilled') continue
      assert.deepEqual([each.reason.code, each.reason.cursor], ['consumer-conflict', stored[0]])
    }
  }),

  check('the lag of a consumer is the number of events behind it, and the age of the oldest', async (bench) => {
    const { ingest, submit, event, events } = bench
    const start = await ingest.lastCursor()
    await ingest.putConsumer('warehouse', { cursor: start, replaces: null })
    const lag = async () => (await ingest.getConsumer('warehouse'))?.lag
    assert.deepEqual(await lag(), { events: 0, exact: true, seconds: 0 })
    await submit(event('a'), event('b'))
    await submit(event('c'))
    const [first, , third] = await events()
    const behind = await lag()
    assert.deepEqual([behind?.events, behind?.exact], [3, true])
    assert.ok(behind && behind.seconds >= 0 && behind.seconds < 3_600)
    await ingest.putConsumer('warehouse', { cursor: first?.cursor as string, replaces: start })
    assert.equal((await lag())?.events, 2)
    await ingest.putConsumer('warehouse', { cursor: third?.cursor as string, replaces: first?.cursor as string })
    assert.deepEqual(await lag(), { events: 0, exact: true, seconds: 0 })
  }),

  check('consumers are listed by name, as they are read one by one', async ({ ingest, submit, event }) => {
    await submit(event('a'))
    const cursor = await ingest.lastCursor()
    for (const name of ['b', 'B', 'a.b', 'a', '0', 'a_b', 'x'.repeat(64)]) {
      await ingest.putConsumer(name, { cursor, replaces: null })
    }
    const listed = await ingest.listConsumers()
    assert.deepEqual(
      listed.map(({ name }) => name),
      ['0', 'B', 'a', 'a.b', 'a_b', 'b', 'x'.repeat(64)],
    )
    for (const consumer of listed) assert.deepEqual(await ingest.getConsumer(consumer.name), consumer)
  }),

  check('a project has at most 100 consumers', async ({ ingest }) => {
    const cursor = await ingest.lastCursor()
    for (const i of range(100)) await ingest.putConsumer(`${i}`, { cursor, replaces: null })
    const over = ingest.putConsumer('over', { cursor, replaces: null })
    await assertRefused(over, 'consumer-quota-exceeded', { limit: 100, actual: 101 })
    await ingest.deleteConsumer('7')
    await ingest.putConsumer('over', { cursor, replaces: null })
    assert.equal((await ingest.listConsumers()).length, 100)
  }),

  check('invalid names, cursors and options of consumers are refused', async (bench, open) => {
    const { ingest, submit, event } = bench
    await submit(event('a'))
    const cursor = await ingest.lastCursor()
    for (const name of ['', '.', '..', '.a', '-a', 'a b', 'a/b', 'a%62', 'é', 'x'.repeat(65), 7 as never]) {
      const named = [ingest.putConsumer(name, { cursor, replaces: null }), ingest.getConsumer(name)]
      for (const each of [...named, ingest.deleteConsumer(name)]) await assertRefused(each, 'invalid-argument')
    }
    const strange = [{ cursor }, { replaces: null }, { cursor: 7, replaces: null }, { cursor, replaces: 7 }, {}]
    for (const options of strange) {
      await assertRefused(ingest.putConsumer('warehouse', options as never), 'invalid-argument')
    }
    const other = await open()
    try {
      const theirs = benchOf(other)
      await theirs.submit(theirs.event('a'))
      for (const foreign of ['', 'x', `${cursor}A`, await other.ingest.lastCursor()]) {
        const put = ingest.putConsumer('warehouse', { cursor: foreign, replaces: null })
        await assertRefused(put, 'invalid-cursor')
      }
    } finally {
      await other.close()
    }
    assert.deepEqual(await ingest.listConsumers(), [])
  }),
]

async function cursorOf(ingest: Ingest): Promise<string | undefined> {
  return (await ingest.getConsumer('warehouse'))?.cursor
}
