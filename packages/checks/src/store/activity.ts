import assert from 'node:assert/strict'
import type { ActivityRow, ActivitySpan, ActivityToPut, Store } from '@ingest/core'
import { batchOf, event } from './sample-events.ts'
import { check, range, type StoreCheck } from './store-check.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

/** What processes counted by minute and by hour. */
export const activityChecks: readonly StoreCheck[] = [
  check('activity rows are read in the order of their times, then of their writers', async (store) => {
    assert.deepEqual(await rowsOf(store), [])
    await store.putActivity([])
    await store.putActivity([row(9, 'ff'), row(10, '0a'), row(2, '0a'), row(9, '0a')])
    await store.putActivity([row(9, '9f'), row(10, '00'), row(1, 'ff')])
    assert.deepEqual(keysOf(await rowsOf(store)), ['1 ff', '2 0a', '9 0a', '9 9f', '9 ff', '10 00', '10 0a'])
  }),

  check('an activity row with the same project, span, time and writer is replaced, and no other', async (store) => {
    const others = [row(1), row(3), row(2, 'other'), row(2, 'w', { projectId: 'q' }), row(0, 'w', { span: 'hour' })]
    await store.putActivity([...others, row(2)])
    for (const body of ['{"n":1}', `{"fill":"${'x'.repeat(9_000)}"}`, '{}', '{"n":2}']) {
      await store.putActivity([row(2, 'w', { body })])
      assert.deepEqual((await rowsOf(store)).find(isOf(row(2)))?.body, body)
    }
    assert.deepEqual(keysOf(await rowsOf(store)), ['1 w', '2 other', '2 w', '3 w'])
    for (const other of others) {
      const { projectId, span } = other
      assert.equal((await rowsOf(store, { projectId, span })).find(isOf(other))?.body, other.body)
    }
  }),

  check('a range of activity has its start and not its end', async (store) => {
    await store.putActivity(range(6).flatMap((at) => [row(at, 'a'), row(at, 'b')]))
    for (const [from, to] of [
      [0, 6],
      [2, 4],
      [2, 3],
      [2, 2],
      [4, 2],
      [5, 1_000],
      [6, 1_000],
    ] as const) {
      const expected = range(6).filter((at) => at >= from && at < to)
      const found = keysOf(await rowsOf(store, { from: from * minuteMs, to: to * minuteMs }))
      const keys = expected.flatMap((at) => [`${at} a`, `${at} b`])
      assert.deepEqual(found, keys, `${from} to ${to}`)
    }
    assert.deepEqual(keysOf(await rowsOf(store, { from: minuteMs + 1, to: 2 * minuteMs + 1 })), ['2 a', '2 b'])
  }),

  check('activity of minutes and of hours is apart, also at the same time', async (store) => {
    const minutes = [0, 60, 61].map((at) => row(at, 'w', { body: '"minute"' }))
    const hours = [0, 60, 120].map((at) => row(at, 'w', { span: 'hour', body: '"hour"' }))
    await store.putActivity([...minutes, ...hours])
    const spans = [
      ['minute', minutes],
      ['hour', hours],
    ] as const
    for (const [span, rows] of spans) assert.deepEqual(await rowsOf(store, { span }), shown(rows))
  }),

  check('activity of projects is apart, also if the id of one begins with that of another', async (store) => {
    const projectIds = ['p', 'p0', 'p.', 'P', 'pp', 'p-p']
    const rowOf = (projectId: string) => row(1, 'w', { projectId, body: JSON.stringify(projectId) })
    await store.putActivity(projectIds.map(rowOf))
    for (const projectId of projectIds) {
      assert.deepEqual(await rowsOf(store, { projectId }), shown([rowOf(projectId)]))
    }
    for (const projectId of ['p-', 'q', 'p00']) assert.deepEqual(await rowsOf(store, { projectId }), [])
  }),

  check('activity makes no project, and stays when the first event does', async (store) => {
    await store.putActivity([row(1), row(1, 'w', { projectId: 'rejected' })])
    assert.deepEqual(await store.projects(), [])
    assert.equal(await store.project('p'), undefined)
    assert.deepEqual(await store.totals('p'), { events: 0, batches: 0, bytes: 0 })
    await store.append('p', batchOf([event('a')]))
    assert.deepEqual(await store.projects(), ['p'])
    await store.putActivity([row(2)])
    assert.deepEqual(keysOf(await rowsOf(store)), ['1 w', '2 w'])
    assert.deepEqual(keysOf(await rowsOf(store, { projectId: 'rejected' })), ['1 w'])
  }),

  check('the body of an activity row is returned as it is, up to its limit, with 256 rows at once', async (store) => {
    const bodies = ['""', '"\u20ac \ud83d\ude00 \u202e \u2028"', '"\\u0000 \\ud800"', `"${'\u00e9'.repeat(32_767)}"`]
    assert.equal(Buffer.byteLength(bodies.at(-1) as string), 65_536)
    const rows = range(256).map((i) => row(i, 'w', { projectId: `p-${i % 100}`, body: bodies[i % 4] as string }))
    await store.putActivity(rows)
    for (const i of range(100)) {
      const projectId = `p-${i}`
      assert.deepEqual(await rowsOf(store, { projectId }), shown(rows.filter((each) => each.projectId === projectId)))
    }
  }),

  check('an expiry of activity erases what began before a time, of all projects and spans', async (store) => {
    // what other checks left in the same store
    await store.expireActivity(0)
    const projects = ['p', 'silent', 'rejected']
    await store.append('p', batchOf([event('a')]))
    const rows = projects.flatMap((projectId) => [
      ...range(200).flatMap((at) => [row(at, 'a', { projectId }), row(at, 'b', { projectId })]),
      ...range(4).map((hour) => row(hour * 60, 'a', { projectId, span: 'hour' })),
    ])
    for (const start of range(Math.ceil(rows.length / 256))) {
      await store.putActivity(rows.slice(start * 256, start * 256 + 256))
    }
    assert.equal(await store.expireActivity(0), 0)
    const expired = (at: number) => rows.filter((each) => each.at < at).length
    let count = 0
    for (const before of [1, 60 * minuteMs, 60 * minuteMs + 1, 150 * minuteMs]) {
      count += await store.expireActivity(before)
      assert.equal(count, expired(before), `before ${before}`)
      assert.equal(await store.expireActivity(before), 0)
      for (const projectId of projects) {
        for (const span of ['minute', 'hour'] as const) {
          const left = rows.filter((each) => each.projectId === projectId && each.span === span && each.at >= before)
          assert.deepEqual(await rowsOf(store, { projectId, span }), shown(left))
        }
      }
    }
    await store.putActivity([row(0)])
    assert.deepEqual(keysOf(await rowsOf(store, { to: 151 * minuteMs })), ['0 w', '150 a', '150 b'])
    assert.equal(await store.expireActivity(300 * minuteMs), rows.length - count + 1)
    assert.deepEqual(await rowsOf(store), [])
  }),

  check('a read of activity goes on in order while rows are written, replaced and expire', async (store) => {
    for (const part of range(6)) await store.putActivity(range(200).map((i) => row(part * 200 + i)))
    const read: number[] = []
    for await (const { at } of store.activity('p', { span: 'minute', from: 0, to: 10_000 * minuteMs })) {
      read.push(at / minuteMs)
      if (read.length === 10) await store.expireActivity(5 * minuteMs)
      if (read.length === 20) await store.putActivity([row(2), row(900, 'w', { body: '{}' })])
    }
    const first = read.slice(0, 20)
    assert.deepEqual(first, range(20))
    assert.deepEqual(
      read,
      read.toSorted((a, b) => a - b),
    )
    assert.equal(new Set(read).size, read.length)
    assert.equal(read.length, 1_200)
  }),
]

/** A row at so many minutes. */
function row(minutes: number, writer = 'w', other: Partial<ActivityToPut> = {}): ActivityToPut {
  const at = minutes * minuteMs
  return { projectId: 'p', span: 'minute', at, writer: idOf(writer), body: JSON.stringify([minutes, writer]), ...other }
}

/** The id of a writer with this name. */
function idOf(writer: string): string {
  return Buffer.from(writer).toString('hex').padEnd(16, '0')
}

export async function rowsOf(
  store: Store,
  { projectId = 'p', ...options }: { projectId?: string; span?: ActivitySpan; from?: number; to?: number } = {},
): Promise<ActivityRow[]> {
  const rows: ActivityRow[] = []
  const chosen = { span: 'minute', from: 0, to: 100 * hourMs, ...options } as const
  for await (const each of store.activity(projectId, chosen)) rows.push(each)
  return rows
}

/** The minutes and the names of the writers. */
function keysOf(rows: readonly ActivityRow[]): string[] {
  return rows.map(({ at, writer }) => `${at / minuteMs} ${Buffer.from(writer.replace(/(00)+$/, ''), 'hex')}`)
}

function shown(rows: readonly ActivityToPut[]): ActivityRow[] {
  return rows.map(({ at, writer, body }) => ({ at, writer, body }))
}

function isOf({ at, writer }: ActivityToPut) {
  return (other: ActivityRow) => other.at === at && other.writer === writer
}
