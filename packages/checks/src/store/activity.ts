import assert from 'node:assert/strict'
import { type ActivityRow, type ActivitySpan, type ActivityToPut, createIngest, type Store } from '@ingest/core'
import { batchOf, event } from './sample-events.ts'
import {
  check,
  type DurableStoreCheck,
  durableCheck,
  isolatedSharedCheck,
  range,
  type SharedStoreCheck,
  type StoreCheck,
  sharedCheck,
} from './store-check.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs

/** Activity: what processes counted by minute and by hour. */
export const activityChecks: readonly StoreCheck[] = [
  check('activity rows are read in the order of their times, then of their writers', async (store) => {
    assert.deepEqual(await rowsOf(store), [])
    await store.putActivity([])
    await store.putActivity([activityRow(9, 'ff'), activityRow(10, '0a'), activityRow(2, '0a'), activityRow(9, '0a')])
    await store.putActivity([activityRow(9, '9f'), activityRow(10, '00'), activityRow(1, 'ff')])
    assert.deepEqual(keysOf(await rowsOf(store)), ['1 ff', '2 0a', '9 0a', '9 9f', '9 ff', '10 00', '10 0a'])
  }),

  check('an activity row with the same project, span, time and writer is replaced, and no other', async (store) => {
    const others = [
      activityRow(1),
      activityRow(3),
      activityRow(2, 'other'),
      activityRow(2, 'w', { projectId: 'q' }),
      activityRow(0, 'w', { span: 'hour' }),
    ]
    await store.putActivity([...others, activityRow(2)])
    for (const body of ['{"n":1}', `{"fill":"${'x'.repeat(9_000)}"}`, '{}', '{"n":2}']) {
      await store.putActivity([activityRow(2, 'w', { body })])
      assert.deepEqual((await rowsOf(store)).find(isOf(activityRow(2)))?.body, body)
    }
    assert.deepEqual(keysOf(await rowsOf(store)), ['1 w', '2 other', '2 w', '3 w'])
    for (const other of others) {
      const { projectId, span } = other
      assert.equal((await rowsOf(store, { projectId, span })).find(isOf(other))?.body, other.body)
    }
  }),

  check('a range of activity has its start and not its end', async (store) => {
    await store.putActivity(range(6).flatMap((at) => [activityRow(at, 'a'), activityRow(at, 'b')]))
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

  check('activity of each span is separate, even at the same time', async (store) => {
    const minutes = [0, 60, 61].map((at) => activityRow(at, 'w', { body: '"minute"' }))
    const hours = [0, 60, 120].map((at) => activityRow(at, 'w', { span: 'hour', body: '"hour"' }))
    const rejected = [0, 60].map((at) => activityRow(at, 'w', { span: 'rejected-hour', body: '"rejected"' }))
    await store.putActivity([...minutes, ...rejected, ...hours])
    const spans = [
      ['minute', minutes],
      ['hour', hours],
      ['rejected-minute', []],
      ['rejected-hour', rejected],
    ] as const
    for (const [span, rows] of spans) assert.deepEqual(await rowsOf(store, { span }), shown(rows))
  }),

  check('activity of projects is separate, even if the id of one is a prefix of another', async (store) => {
    const projectIds = ['p', 'p0', 'p.', 'P', 'pp', 'p-p']
    const rowOf = (projectId: string) => activityRow(1, 'w', { projectId, body: JSON.stringify(projectId) })
    await store.putActivity(projectIds.map(rowOf))
    for (const projectId of projectIds) {
      assert.deepEqual(await rowsOf(store, { projectId }), shown([rowOf(projectId)]))
    }
    for (const projectId of ['p-', 'q', 'p00']) assert.deepEqual(await rowsOf(store, { projectId }), [])
  }),

  check('activity does not create a project, and stays when the first event does', async (store) => {
    await store.putActivity([activityRow(1), activityRow(1, 'w', { projectId: 'rejected' })])
    assert.deepEqual(await store.projects(), [])
    assert.equal(await store.entry('project', 'p'), undefined)
    const { lastCursor: _, ...totals } = await store.totals('p')
    assert.deepEqual(totals, { events: 0, batches: 0, bytes: 0 })
    await store.append('p', batchOf([event('a')]))
    assert.deepEqual(await store.projects(), ['p'])
    await store.putActivity([activityRow(2)])
    assert.deepEqual(keysOf(await rowsOf(store)), ['1 w', '2 w'])
    assert.deepEqual(keysOf(await rowsOf(store, { projectId: 'rejected' })), ['1 w'])
  }),

  check('the body of an activity row is returned as it is, up to its limit, with 256 rows at once', async (store) => {
    const bodies = ['""', '"\u20ac \ud83d\ude00 \u202e \u2028"', '"\\u0000 \\ud800"', `"${'\u00e9'.repeat(32_767)}"`]
    assert.equal(Buffer.byteLength(bodies.at(-1) as string), 65_536)
    const rows = range(256).map((i) =>
      activityRow(i, 'w', { projectId: `p-${i % 100}`, body: bodies[i % 4] as string }),
    )
    await store.putActivity(rows)
    for (const i of range(100)) {
      const projectId = `p-${i}`
      assert.deepEqual(await rowsOf(store, { projectId }), shown(rows.filter((each) => each.projectId === projectId)))
    }
  }),

  check('an expiry deletes the activity of all projects and spans that began before a time', async (store) => {
    // delete what other checks left in the same store
    await store.sweep({ mapsTouched: 0, activity: 0 })
    const projects = ['p', 'silent', 'rejected']
    await store.append('p', batchOf([event('a')]))
    const rows = projects.flatMap((projectId) => [
      ...range(200).flatMap((at) => [activityRow(at, 'a', { projectId }), activityRow(at, 'b', { projectId })]),
      ...(['hour', 'rejected-minute', 'rejected-hour'] as const).flatMap((span) =>
        range(4).map((hour) => activityRow(hour * 60, 'a', { projectId, span })),
      ),
    ])
    for (const start of range(Math.ceil(rows.length / 256))) {
      await store.putActivity(rows.slice(start * 256, start * 256 + 256))
    }
    for (const before of [1, 60 * minuteMs, 60 * minuteMs + 1, 150 * minuteMs]) {
      await store.sweep({ mapsTouched: 0, activity: before })
      for (const projectId of projects) {
        for (const span of ['minute', 'hour', 'rejected-minute', 'rejected-hour'] as const) {
          const left = rows.filter((each) => each.projectId === projectId && each.span === span && each.at >= before)
          assert.deepEqual(await rowsOf(store, { projectId, span }), shown(left))
        }
      }
    }
    await store.putActivity([activityRow(0)])
    assert.deepEqual(keysOf(await rowsOf(store, { to: 151 * minuteMs })), ['0 w', '150 a', '150 b'])
    await store.sweep({ mapsTouched: 0, activity: 300 * minuteMs })
    assert.deepEqual(await rowsOf(store), [])
  }),

  check('a read of activity goes on in order while rows are written, replaced and expire', async (store) => {
    for (const part of range(6)) await store.putActivity(range(200).map((i) => activityRow(part * 200 + i)))
    const read: number[] = []
    for await (const { at } of store.activity('p', { span: 'minute', from: 0, to: 10_000 * minuteMs })) {
      read.push(at / minuteMs)
      if (read.length === 10) await store.sweep({ mapsTouched: 0, activity: 5 * minuteMs })
      if (read.length === 20) await store.putActivity([activityRow(2), activityRow(900, 'w', { body: '{}' })])
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

export const raceActivityChecks: readonly SharedStoreCheck[] = [
  sharedCheck('writers of the same projects, spans and times replace only their own rows', async (handles) => {
    const projectIds = range(20).map((i) => `p-${i}`)
    const rounds = 6
    const rowsIn = (round: number, h: number) =>
      projectIds.flatMap((projectId) => [
        activityRow(round, `${h}`, { projectId, body: `"${h}-${round}"` }),
        activityRow(0, `${h}`, { projectId, span: 'hour', body: `"${h}-${round}"` }),
      ])
    await Promise.all(
      handles.map(async (store, h) => {
        // each handle writes in another order
        for (const round of range(rounds)) {
          const rows = rowsIn(round, h)
          await store.putActivity([...rows.slice(h * 10), ...rows.slice(0, h * 10)])
          await store.append('p-0', batchOf([event(`${h}-${round}`)]))
        }
      }),
    )
    const writers = range(handles.length)
    for (const store of handles) {
      for (const projectId of projectIds) {
        const minutes = range(rounds).flatMap((at) => writers.map((h) => [at * minuteMs, `"${h}-${at}"`]))
        const read = (await rowsOf(store, { projectId })).map(({ at, body }) => [at, body])
        assert.deepEqual(read, minutes)
        const hours = (await rowsOf(store, { projectId, span: 'hour' })).map(({ body }) => body)
        const last = writers.map((h) => `"${h}-${rounds - 1}"`)
        assert.deepEqual(hours, last)
      }
    }
  }),

  sharedCheck('concurrent sweeps through all handles delete old activity and nothing else', async (handles) => {
    const [a] = handles
    await a.sweep({ mapsTouched: 0, activity: 0 })
    for (const part of range(3)) {
      await a.putActivity(range(250).map((i) => activityRow(i, `${part}`, { projectId: `p-${i % 5}` })))
    }
    const expiries = [...handles, ...handles].map((store) => store.sweep({ mapsTouched: 0, activity: 200 * minuteMs }))
    const later = activityRow(300, 'later')
    await a.putActivity([later])
    await Promise.all(expiries)
    for (const store of handles) {
      assert.deepEqual(await rowsOf(store), shown([later]))
      for (const i of range(5)) assert.equal((await rowsOf(store, { projectId: `p-${i}` })).length, 3 * 10)
    }
  }),

  isolatedSharedCheck('Ingests on all handles agree on what they counted, once each has put it', async (handles) => {
    const start = 500_000 * hourMs
    let now = start
    const open = (store: Store, i: number) =>
      createIngest({ store: { ...store, close: async () => {} }, now: () => now, server: `s-${i}` })
    const servers = handles.map(open)
    const rounds = 3
    const invalidOf = (i: number) =>
      ({ projectId: 'p', eventId: 'invalid', type: 'kill', placeId: [], serverId: `game-${i % 8}` }) as never
    for (const round of range(rounds)) {
      now = start + round * minuteMs
      const events = range(10).map((i) => ({ projectId: 'p', eventId: `${round}-${i}`, type: `t-${i % 2}` }))
      const batches = servers.flatMap((ingest) => [ingest, ingest].map(({ project }) => project('p')))
      await Promise.all(batches.map((project, i) => project.submitBatch({ events: [...events, invalidOf(i)] })))
    }
    await Promise.all(servers.map((ingest) => ingest.close()))
    const sent = 2 * servers.length
    const gameServers = range(Math.min(8, sent)).map((i) => rounds * Math.ceil((sent - i) / 8))
    for (const [hours, by] of [
      [1, 'type'],
      [48, 'build'],
    ] as const) {
      const bounds = { from: start + hourMs - hours * hourMs, to: start + hourMs }
      const read = handles.map(open).map(({ project }) => project('p'))
      const activities = await Promise.all(read.map((project) => project.getActivity({ ...bounds, by })))
      for (const activity of activities) {
        assert.deepEqual(activity, activities[0])
        assert.equal(activity.servers, servers.length)
        const sum = (name: 'accepted' | 'duplicates' | 'rejected') =>
          activity.steps.reduce((total, step) => total + step[name], 0)
        const expected = [rounds * 10, rounds * 10 * (sent - 1), rounds * sent]
        assert.deepEqual([sum('accepted'), sum('duplicates'), sum('rejected')], expected)
      }
      for (const project of read) {
        const { total, groups, other } = await project.listRejected(bounds)
        assert.deepEqual([total, other], [rounds * sent, 0])
        const found = groups.map(({ count, serverIds }) => [count, serverIds.map(({ count }) => count)])
        assert.deepEqual(found, [[rounds * sent, gameServers]])
      }
    }
  }),
]

export const durableActivityChecks: readonly DurableStoreCheck[] = [
  durableCheck('activity survives a close, and what has expired does not come back', async (store, reopen) => {
    const rows = range(40).flatMap((at) => ['p', 'rejected'].map((projectId) => activityRow(at, 'w', { projectId })))
    await store.putActivity(rows)
    await store.putActivity([activityRow(0, 'w', { span: 'hour', body: '"before"' })])
    await store.putActivity([
      activityRow(0, 'w', { span: 'hour', body: '"after"' }),
      activityRow(20, 'w', { body: '"after"' }),
    ])
    await store.sweep({ mapsTouched: 0, activity: 10 * minuteMs })
    await store.putActivity([activityRow(0, 'w', { span: 'hour', body: '"after"' })])
    const before = await rowsOf(store)
    assert.equal(before.length, 30)
    const reopened = await reopen()
    assert.deepEqual(await rowsOf(reopened), before)
    assert.equal((await rowsOf(reopened, { projectId: 'rejected' })).length, 30)
    assert.deepEqual(
      (await rowsOf(reopened, { span: 'hour' })).map(({ body }) => body),
      ['"after"'],
    )
    await reopened.putActivity([activityRow(39, 'w', { body: '"again"' })])
    assert.equal((await rowsOf(reopened)).at(-1)?.body, '"again"')
  }),
]

/** An activity row that many minutes after the first. */
export function activityRow(minutes: number, writer = 'w', other: Partial<ActivityToPut> = {}): ActivityToPut {
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

/** The minute and the writer's name of each row. */
function keysOf(rows: readonly ActivityRow[]): string[] {
  return rows.map(({ at, writer }) => `${at / minuteMs} ${Buffer.from(writer.replace(/(00)+$/, ''), 'hex')}`)
}

export function shown(rows: readonly ActivityToPut[]): ActivityRow[] {
  return rows.map(({ at, writer, body }) => ({ at, writer, body }))
}

function isOf({ at, writer }: ActivityToPut) {
  return (other: ActivityRow) => other.at === at && other.writer === writer
}
