import { join } from 'node:path'
import { type ActivityRow, type ActivitySpan, type ActivityToPut, createIngest, type Store } from '@ingest/core'
import t from 'tap'
import { openActivity } from '../../src/activity/activity-table.ts'
import { openEnvironment } from '../../src/environment/environment.ts'
import { builtStore, openLmdbStore } from '../built-store.ts'
import { startStoreProcess } from '../store-process.ts'

const { backUpLmdbStore, repairLmdbStore, restoreLmdbStore, verifyLmdbStore } = (await import(
  builtStore
)) as typeof import('../../src/index.ts')

const minuteMs = 60_000
/** A recent time, because an Ingest expires older rows. */
const start = Math.floor(Date.now() / minuteMs) * minuteMs
const range = (count: number) => Array.from({ length: count }, (_, i) => i)

function rowOf(minute: number, other: Partial<ActivityToPut> = {}): ActivityToPut {
  const body = JSON.stringify({ minute, fill: 'x'.repeat(600) })
  return { projectId: 'p', span: 'minute', at: start + minute * minuteMs, writer: '00000000000000ff', body, ...other }
}

async function minutesIn(store: Store, projectId = 'p', span: ActivitySpan = 'minute'): Promise<number[]> {
  const rows: ActivityRow[] = []
  for await (const row of store.activity(projectId, { span, from: start, to: start + 1e12 })) rows.push(row)
  return rows.map(({ at }) => (at - start) / minuteMs)
}

t.test(
  'activity that was put before a process is killed is there, and nothing of a put is there in part',
  async (t) => {
    const directory = t.testdir()
    const victim = await startStoreProcess(directory)
    const put = (minute: number) =>
      victim.operate(
        'putActivity',
        range(50).map((i) => rowOf(minute, { projectId: `p-${i}` })),
      )
    for (const minute of range(3)) await put(minute)
    const last = put(3).catch(() => {})
    await victim.kill()
    await last
    const store = await openLmdbStore(directory)
    t.teardown(() => store.close())
    const found = await Promise.all(range(50).map((i) => minutesIn(store, `p-${i}`)))
    for (const each of found) t.strictSame(each, found[0])
    t.strictSame(found[0]?.slice(0, 3), [0, 1, 2])
  },
)

t.test('a put of activity shares the commit of appends', async (t) => {
  const store = await openLmdbStore(t.testdir())
  t.teardown(() => store.close())
  // the clock stands still, so that no activity of this Ingest is put: that happens when a minute ends
  const project = createIngest({ store, now: () => 0 }).project('p')
  const submit = (eventId: string) => project.submitBatch({ events: [{ projectId: 'p', eventId }] })
  await submit('first')
  const commits: number[] = []
  store.watchCommits?.(({ requests }) => commits.push(requests))
  await Promise.all([submit('a'), store.putActivity([rowOf(1)]), submit('b')])
  t.strictSame(commits, [3])
})

t.test('a sweep that finds no old activity commits nothing for it, even with many projects', async (t) => {
  const directory = t.testdir()
  const store = await openLmdbStore(directory)
  t.teardown(() => store.close())
  const projectIds = range(1_100).map((i) => `p-${i}`)
  for (const part of range(5)) {
    await store.putActivity(projectIds.slice(part * 220, part * 220 + 220).map((projectId) => rowOf(5, { projectId })))
  }
  let commits = 0
  store.watchCommits?.(() => commits++)
  await store.sweep({ mapsTouched: 0, activity: start + 5 * minuteMs })
  const withoutRows = commits
  t.equal(withoutRows, 1, 'that of the maps')
  await store.sweep({ mapsTouched: 0, activity: start + 5 * minuteMs + 1 })
  t.equal(commits - 2 * withoutRows, 5, 'in steps')
})

t.test('one search for expired activity has a limit of rows, and of projects', async (t) => {
  const environment = await openEnvironment(t.testdir())
  t.teardown(() => environment.close())
  const table = openActivity(environment.table)
  environment.write(() => {
    for (const i of range(1_500)) table.put(rowOf(i % 2 === 0 ? 9 : 1, { projectId: `p-${i}` }))
    for (const span of ['hour', 'rejected-minute', 'rejected-hour'] as const) {
      for (const minute of range(20)) table.put(rowOf(minute, { projectId: 'long', span }))
    }
  })
  const look = (limit: number) => {
    const steps: number[] = []
    for (let from: Buffer | undefined = Buffer.alloc(0); from; ) {
      const { keys, next }: { keys: Buffer[]; next?: Buffer } = table.expired(start + 9 * minuteMs, from, limit)
      steps.push(keys.length)
      from = next
    }
    return steps
  }
  const sum = (steps: number[]) => steps.reduce((total, each) => total + each, 0)
  t.equal(sum(look(1e9)), 777)
  t.equal(look(1e9).length, 2)
  for (const limit of [1, 2, 7, 100, 777]) {
    const steps = look(limit)
    t.equal(sum(steps), 777, `at most ${limit}`)
    t.ok(Math.max(...steps) <= limit)
  }
})

t.test('a search for expired activity passes damaged keys', async (t) => {
  const environment = await openEnvironment(t.testdir())
  t.teardown(() => environment.close())
  const table = openActivity(environment.table)
  const damaged = [Buffer.alloc(1), Buffer.alloc(14, 'a'), Buffer.alloc(13, 0xff), Buffer.alloc(40, 0xff)]
  environment.write(() => {
    for (const key of damaged) environment.table('activity').put(key, Buffer.alloc(1))
    for (const projectId of ['a', 'p', 'z']) table.put(rowOf(1, { projectId }))
  })
  let found = 0
  for (let from = Buffer.alloc(0); ; ) {
    const { keys, next } = table.expired(start + 9 * minuteMs, from, 2)
    found += keys.filter((key) => damaged.every((other) => !other.equals(key))).length
    if (!next) break
    t.equal(Buffer.compare(next, from), 1, 'goes on behind where it began')
    if (next.compare(from) <= 0) break
    from = Buffer.from(next)
  }
  t.equal(found, 3)
})

t.test('a store of a version without activity is opened, and gets it', async (t) => {
  const directory = t.testdir()
  const created = await openLmdbStore(directory)
  await createIngest({ store: created })
    .project('p')
    .submitBatch({ events: [{ projectId: 'p', eventId: 'a' }] })
  await created.close()
  const environment = await openEnvironment(join(directory, 'events'))
  environment.write(() => environment.table('activity').dropSync())
  await environment.close()
  t.strictSame((await verifyLmdbStore(directory)).problems, [])
  const store = await openLmdbStore(directory, { create: false })
  t.strictSame(await minutesIn(store), [])
  await store.putActivity([rowOf(1)])
  t.strictSame(await minutesIn(store), [1])
  t.strictSame(await store.known('p', ['a']), [true])
  await store.close()
})

t.test('a backup has the activity, a repaired store has none, and both are whole', async (t) => {
  const directory = t.testdir()
  const [live, backup, restored, repaired] = ['live', 'backup', 'restored', 'repaired'].map((name) =>
    join(directory, name),
  ) as [string, string, string, string]
  const store = await openLmdbStore(live)
  // an Ingest would put a row of its own at the end of each minute
  const project = { projectId: 'p', createdAt: 1, keys: [] }
  await store.updateEntry('project', 'p', () => ({ entry: project, result: undefined }))
  await store.putActivity([...range(200).map((minute) => rowOf(minute)), rowOf(3, { projectId: 'rejected' })])
  await store.sweep({ mapsTouched: 0, activity: start + 2 * minuteMs })
  await backUpLmdbStore(live, backup)
  await store.close()
  await restoreLmdbStore(backup, restored)
  await repairLmdbStore(live, repaired)
  const minutes = range(200).slice(2)
  for (const [path, expected, ofRejected] of [
    [live, minutes, [3]],
    [restored, minutes, [3]],
    [repaired, [], []],
  ] as const) {
    t.strictSame((await verifyLmdbStore(path)).problems, [])
    const opened = await openLmdbStore(path)
    t.strictSame([await minutesIn(opened), await minutesIn(opened, 'rejected')], [expected, ofRejected])
    t.strictSame(await opened.projects(), ['p'])
    await opened.close()
  }
})
