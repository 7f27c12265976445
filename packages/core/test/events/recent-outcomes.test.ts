import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { Type } from 'typebox'
import type { Issue } from '../../src/error.ts'
import { createRecentOutcomes, projectBytes, type RecentOutcomesBounds } from '../../src/events/recent-outcomes.ts'
import { createIngest } from '../../src/ingest.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'

const minute = 60_000
const wide = { projectEventsMax: 1_000, projectBytesMax: 1_048_576, bytesMax: 33_554_432 }

function setUp(bounds: Partial<RecentOutcomesBounds> = {}) {
  const clock = { now: 1_000 * minute }
  const recent = createRecentOutcomes({
    now: () => clock.now,
    startedAt: clock.now,
    serverCount: () => 2,
    keepEvents: true,
    bounds: { ...wide, ...bounds },
  })
  return {
    clock,
    record(projectId: string, accepted: number, duplicates = 0, rejected = 0) {
      const events = Array.from({ length: rejected }, (_, index) => ({ index, eventId: null, issues: [] }))
      recent.record(projectId, clock.now, { accepted, duplicates, rejected: events }, [])
    },
    /** Records one rejected event. */
    reject(eventId: string, issues: Issue[] = [], event?: string, projectId = 'p') {
      const copies = event === undefined ? [] : [Buffer.from(event)]
      const rejected = [{ index: 0, eventId, issues }]
      recent.record(projectId, clock.now, { accepted: 0, duplicates: 0, rejected }, copies)
    },
    activity: (projectId = 'p') => recent.readerOf(projectId).getActivity(),
    list: (limit?: number, projectId = 'p') => recent.readerOf(projectId).listRejected(limit ? { limit } : {}),
    async ids(projectId = 'p') {
      const { rejected } = await recent.readerOf(projectId).listRejected({ limit: 1_000 })
      return rejected.map(({ eventId }) => eventId)
    },
  }
}

const bodyOf = (text: string) => new Uint8Array(Buffer.from(`{"events":[${text}]}`))

const issueAt = (path: string, message = 'Expected a string.'): Issue => ({ code: 'invalid_type', path, message })

t.test('outcomes are counted by minute, for 60 minutes and by project', async (t) => {
  const { clock, record, activity } = setUp()
  const start = clock.now
  t.strictSame(await activity(), { since: start, servers: 2, minutes: [] })
  record('p', 0)
  t.strictSame((await activity()).minutes, [], 'a minute without events is left out')
  record('p', 3, 2, 1)
  clock.now += minute - 1
  record('p', 1)
  record('q', 7)
  clock.now += minute + 1
  record('p', 5)
  const first = { at: start, accepted: 4, duplicates: 2, rejected: 1 }
  const third = { at: start + 2 * minute, accepted: 5, duplicates: 0, rejected: 0 }
  t.strictSame(await activity(), { since: start, servers: 2, minutes: [first, third] })
  t.strictSame((await activity('q')).minutes, [{ at: start, accepted: 7, duplicates: 0, rejected: 0 }])
  clock.now = start + 60 * minute - 1
  t.strictSame((await activity()).minutes, [first, third])
  clock.now = start + 60 * minute
  t.strictSame((await activity()).minutes, [third])
  record('p', 9)
  t.strictSame((await activity()).minutes, [third, { at: clock.now, accepted: 9, duplicates: 0, rejected: 0 }])
})

t.test('a clock that goes backwards breaks no minute', async (t) => {
  const { clock, record, activity } = setUp()
  const start = clock.now
  record('p', 1)
  clock.now = start - minute
  record('p', 2)
  const earlier = { at: start - minute, accepted: 2, duplicates: 0, rejected: 0 }
  t.strictSame((await activity()).minutes, [earlier], 'a minute of the future is left out')
  clock.now = start
  record('p', 4)
  t.strictSame((await activity()).minutes, [earlier, { at: start, accepted: 5, duplicates: 0, rejected: 0 }])
  clock.now = start - 60 * minute
  record('p', 8)
  t.strictSame((await activity()).minutes, [{ at: clock.now, accepted: 8, duplicates: 0, rejected: 0 }])
})

t.test('rejected events are listed newest first, up to the limit', async (t) => {
  const { clock, reject, list } = setUp()
  const start = clock.now
  t.strictSame(await list(), { since: start, total: 0, groups: [], rejected: [] })
  reject('a', [issueAt('/type')], '{"eventId":"a" }')
  clock.now += 5
  reject('b', [issueAt('/type')])
  const { groups, ...listed } = await list(1)
  t.strictSame(listed, {
    since: start,
    total: 2,
    rejected: [{ receivedAt: start + 5, index: 0, eventId: 'b', issues: [issueAt('/type')] }],
  })
  t.match(groups, [{ count: 2 }], 'groups do not depend on the limit')
  t.match((await list()).rejected, [{ eventId: 'b' }, { eventId: 'a', event: '{"eventId":"a" }' }])
  clock.now -= 3
  reject('late', [issueAt('/type')])
  t.match((await list()).rejected, [{ eventId: 'b' }, { eventId: 'late' }, { eventId: 'a' }])
  t.match((await list()).groups, [{ lastAt: start + 5 }])
  for (let i = 0; i < 200; i++) reject(`${i}`)
  t.equal((await list()).rejected.length, 100)
})

t.test('a project keeps a number of rejected events, and counts all', async (t) => {
  const { reject, list, ids } = setUp({ projectEventsMax: 3 })
  for (const id of ['a', 'b', 'c', 'd', 'e']) reject(id)
  t.strictSame(await ids(), ['e', 'd', 'c'])
  t.equal((await list()).total, 5)
})

t.test('a project keeps a number of bytes of rejected events', async (t) => {
  const { reject, list, ids } = setUp({ projectBytesMax: 10_000 })
  for (const id of ['a', 'b', 'c']) reject(id, [], 'x'.repeat(4_000))
  t.strictSame(await ids(), ['c', 'b'])
  reject('large', [], 'x'.repeat(10_000))
  t.strictSame(await ids(), ['large', 'c', 'b'])
  t.equal((await list(1)).rejected[0]?.event, undefined, 'an event that exceeds the bound is kept without its text')
  reject('long', [issueAt(`/${'x'.repeat(10_000)}`)])
  t.strictSame(await ids(), ['large', 'c', 'b'], 'issues that exceed the bound displace nothing')
  t.equal((await list()).total, 5)
  reject('paths', [issueAt(`/${'x'.repeat(4_500)}`)])
  t.strictSame(await ids(), ['paths', 'large'], 'paths are bounded too')
})

t.test('rejected events take no more memory than is counted, whatever their issues are made of', async (t) => {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as () => void
  const parts = Type.Object({ parts: Type.Array(Type.Object({ x: Type.Number(), yy: Type.Integer() })) })
  const invalid = [
    { member: `"x":${'{"a":'.repeat(40)}1${'}'.repeat(40)}`, batches: 10, issues: [{ path: /^\/x(\/a){31}$/ }] },
    {
      member: `"type":"t","parts":[${'{"x":"","yy":""},'.repeat(9)}0]`,
      batches: 2,
      issues: [{}, { path: '/parts/0/yy' }],
    },
  ]
  for (const { member, batches, issues } of invalid) {
    const ingest = createIngest({ store: openMemoryStore(), schemas: { t: parts } })
    gc()
    const before = process.memoryUsage().heapUsed
    for (let i = 0; i < 34; i++) {
      const project = ingest.project(`p${i}`)
      const body = bodyOf(Array(100).fill(`{"projectId":"p${i}","eventId":"a",${member}}`).join())
      for (let k = 0; k < batches; k++) await project.submitBatch(body)
    }
    gc()
    t.ok(process.memoryUsage().heapUsed - before < wide.bytesMax, member)
    t.match((await ingest.project('p33').listRejected()).rejected[0], { issues })
  }
})

t.test('beyond the bound of all projects, the one that sent nothing for the longest time is forgotten', async (t) => {
  const { clock, reject, record, activity, ids } = setUp({ bytesMax: 3 * projectBytes + 3_000 })
  const start = clock.now
  for (const projectId of ['a', 'b', 'c']) reject('1', [], '{}', projectId)
  reject('2', [], '{}', 'a')
  clock.now += 5
  record('d', 1)
  t.strictSame(await ids('b'), [])
  t.strictSame(await activity('b'), { since: start + 5, servers: 2, minutes: [] })
  t.strictSame(await ids('c'), ['1'])
  t.strictSame(await ids('a'), ['2', '1'])
  t.equal((await activity('a')).since, start)
  t.equal((await activity('d')).since, start, 'nothing was forgotten before')
  reject('3', [], 'x'.repeat(2_900), 'd')
  t.strictSame([await ids('c'), await ids('a'), await ids('d')], [[], ['2', '1'], ['3']])
})

t.test('a group is a code and a path without array indexes, and counts each event once', async (t) => {
  const { clock, reject, list } = setUp()
  reject('a', [issueAt('/parts/0/x', 'old'), issueAt('/parts/12/x', 'old'), issueAt('/01/0a/-1')])
  clock.now += 7
  reject('b', [issueAt('/parts/3/x', 'new'), { code: 'required', path: '/parts/3/x', message: 'Needed.' }])
  reject('c', [issueAt('/0'), issueAt('/0/0')])
  const late = clock.now
  t.strictSame((await list()).groups, [
    { code: 'invalid_type', path: '/parts/*/x', message: 'new', count: 2, lastAt: late },
    { code: 'invalid_type', path: '/*', message: 'Expected a string.', count: 1, lastAt: late },
    { code: 'invalid_type', path: '/*/*', message: 'Expected a string.', count: 1, lastAt: late },
    { code: 'required', path: '/parts/*/x', message: 'Needed.', count: 1, lastAt: late },
    { code: 'invalid_type', path: '/01/0a/-1', message: 'Expected a string.', count: 1, lastAt: late - 7 },
  ])
  for (let i = 0; i < 200; i++) reject(`${i}`, [issueAt(`/x${i}`)])
  const { groups } = await list()
  t.equal(groups.length, 100)
  t.equal(groups[0]?.path, '/parts/*/x')
})

const events = '{"projectId":"p","eventId":"a"},5 , {"projectId":"p", "eventId":"b","type":7},{"projectId":"é"}'

/** A store that empties a body which it may transfer, as one with a thread does. */
function openTransferringStore() {
  const store = openMemoryStore()
  const append: typeof store.append = async (projectId, batch) => {
    const appended = store.append(projectId, { ...batch, body: Buffer.from(batch.body) })
    if (batch.mayTransfer) structuredClone(batch.body.buffer, { transfer: [batch.body.buffer as ArrayBuffer] })
    return appended
  }
  return { ...store, append }
}

t.test('rejected events are kept byte for byte, also of a body that was transferred, or without text', async (t) => {
  for (const keepEvents of [true, false]) {
    const project = createIngest({ store: openTransferringStore(), rejected: { keepEvents } }).project('p')
    const body = bodyOf(events)
    t.match(await project.submitBatch(body, { mayTransfer: true }), { accepted: 1 })
    t.equal(body.length, 0, 'the body was transferred')
    const { rejected } = await project.listRejected()
    const texts = ['{"projectId":"é"}', '{"projectId":"p", "eventId":"b","type":7}', '5']
    t.strictSame(
      rejected.map(({ index, eventId, event }) => [index, eventId, event]),
      [3, 2, 1].map((index, i) => [index, index === 2 ? 'b' : null, keepEvents ? texts[i] : undefined]),
    )
  }
})

t.test('a batch that fails counts nothing', async (t) => {
  const store = openMemoryStore()
  const ingest = createIngest({ store: { ...store, append: () => Promise.reject(new Error('disk')) } })
  const project = ingest.project('p')
  await t.rejects(project.submitBatch(bodyOf(events)), { message: 'disk' })
  await t.rejects(project.submitBatch(bodyOf('{')))
  const admit = () => {
    throw new Error('slow down')
  }
  await t.rejects(project.submitBatch(bodyOf(events), { admit }), { message: 'slow down' })
  t.match(await project.listRejected(), { total: 0, rejected: [] })
  t.match(await project.getActivity(), { minutes: [] })
})

t.test('the servers of a store are counted once it is registered', async (t) => {
  const ingest = createIngest({ store: { ...openMemoryStore(), registerServer: () => () => 3 } })
  t.equal((await ingest.project('p').getActivity()).servers, 1)
  ingest.registerServer()
  t.equal((await ingest.project('p').getActivity()).servers, 3)
})
