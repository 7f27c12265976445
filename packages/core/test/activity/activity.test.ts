import t from 'tap'
import { createActivityCounter } from '../../src/activity/activity-counter.ts'
import { IngestError, type Issue } from '../../src/error.ts'
import { createIngest, type IngestOptions } from '../../src/ingest.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'
import type { Store } from '../../src/store.ts'
import { type ActivitySpan, type ActivityToPut, activityBodyBytesMax, activityRowsMax } from '../../src/store-types.ts'
import { encodeEvents } from '../../src/submit/batch-events.ts'

const minute = 60_000
const hour = 60 * minute
/** The beginning of an hour. */
const start = 500_000 * hour

/** A memory store with the rows that were put, and that may refuse to put them. */
function openRecordedStore() {
  const memory = openMemoryStore()
  const puts: (readonly ActivityToPut[])[] = []
  const recorded = {
    puts,
    isFailing: false,
    failures: 0,
    rows: (span: ActivitySpan) => puts.flat().filter((row) => row.span === span),
  }
  const store: Store = {
    ...memory,
    // several Ingests own it
    async close() {},
    async putActivity(rows) {
      if (recorded.isFailing) {
        recorded.failures++
        throw new IngestError('disk-full', 'The disk is full.')
      }
      puts.push(rows)
      await memory.putActivity(rows)
    },
  }
  return { store, recorded }
}

function setUp(options: Partial<IngestOptions> = {}) {
  const clock = { now: start }
  const { store, recorded } = openRecordedStore()
  const open = (server = 'a') => createIngest({ store, now: () => clock.now, server, ...options })
  const ingest = open()
  return { clock, store, recorded, open, ingest, project: ingest.project('p') }
}

const range = (length: number) => Array.from({ length }, (_, i) => i)
let count = 0
const event = (members: object = {}) => ({ projectId: 'p', eventId: `e-${count++}`, ...members })
const bodyOf = (...events: unknown[]) => Buffer.from(JSON.stringify({ events }))
const wide = { from: start - hour, to: start + 2 * hour }

/** Resolves when the store has been given a number of rows of minutes. */
async function untilPut({ rows }: { rows(span: ActivitySpan): readonly unknown[] }, count: number): Promise<void> {
  while (rows('minute').length < count) await new Promise(setImmediate)
}

t.test('outcomes are counted by minute, type and build, and only stored events are accepted', async (t) => {
  const { clock, project } = setUp()
  const stored = event({ type: 'kill', buildId: 'b1' })
  await project.submitBatch(bodyOf(stored, event({ type: 'kill' }), event({ type: 'join', buildId: 'b2' }), event()))
  clock.now += minute - 1
  // a batch of the ordinary path: with an escape, a repeat and an invalid event
  const escaped = event({ type: 'kíll', buildId: 'b1' })
  const text = bodyOf(stored, escaped, escaped, event({ type: 7, buildId: 'b1' })).toString()
  await project.submitBatch(Buffer.from(text.replace('kíll', 'k\\u0069ll')))
  clock.now += 1
  await project.submitBatch(bodyOf(stored))
  const activity = await project.getActivity({ from: start, to: start + 2 * minute, by: 'type' })
  t.strictSame(activity, {
    ...{ from: start, to: start + 2 * minute, stepSeconds: 60, servers: 1 },
    steps: [
      { at: start, accepted: 5, duplicates: 2, rejected: 1 },
      { at: start + minute, accepted: 0, duplicates: 1, rejected: 0 },
    ],
    groups: [
      { name: 'kill', accepted: 3, rejected: 0, firstAt: start, lastAt: start, counts: [3, 0] },
      { name: 'join', accepted: 1, rejected: 0, firstAt: start, lastAt: start, counts: [1, 0] },
      { name: null, accepted: 1, rejected: 1, firstAt: start, lastAt: start, counts: [1, 0] },
    ],
  })
  const { groups: builds } = await project.getActivity({ from: start, to: start + minute, by: 'build' })
  t.match(builds, [
    { name: 'b1', accepted: 2, rejected: 1 },
    { name: 'b2', accepted: 1 },
    { name: null, accepted: 2 },
  ])
})

t.test('ranges have steps of a minute, of ten, and of an hour, with the same sums', async (t) => {
  const { clock, project, recorded } = setUp()
  for (const at of [0, 1, 9, 10, 59, 60, 119, 180]) {
    clock.now = start + at * minute
    await project.submitBatch(bodyOf(event({ type: 'a' }), event({ type: 'b' })))
  }
  await untilPut(recorded, 7)
  const sumOf = async (hours: number) => {
    const to = start + 4 * hour
    const activity = await project.getActivity({ from: to - hours * hour, to, by: 'type' })
    t.equal(activity.steps.length, (hours * 3600) / activity.stepSeconds)
    t.match(activity.groups, [
      { accepted: 8, firstAt: start, lastAt: start + 3 * hour },
      { accepted: 8, name: 'b' },
    ])
    return [activity.stepSeconds, activity.steps.filter(({ accepted }) => accepted > 0).map(({ accepted }) => accepted)]
  }
  t.strictSame(await sumOf(6), [60, [2, 2, 2, 2, 2, 2, 2, 2]])
  t.strictSame(await sumOf(24), [600, [6, 2, 2, 2, 2, 2]])
  t.strictSame(await sumOf(25), [3600, [10, 4, 2]])
  const odd = await project.getActivity({ from: start + 1, to: start + minute + 1 })
  t.match(odd, { from: start, to: start + 2 * minute }, 'a range is widened to whole steps')
  const day = await project.getActivity({ from: clock.now - 24 * hour })
  t.equal(day.stepSeconds, 600, 'of a day up to now')
})

t.test('servers of one store agree once each has put its minute', async (t) => {
  const { clock, recorded, ingest, open, project } = setUp()
  const other = open('b')
  const first = event({ type: 'a' })
  await project.submitBatch(bodyOf(first, 7))
  await other.project('p').submitBatch(bodyOf(event({ type: 'b' }), event({ type: 'a' }), 8))
  t.match((await project.getActivity(wide)).steps[60], { accepted: 1, rejected: 1 }, 'of the others, what they put')
  clock.now += minute
  for (const each of [ingest, other]) await each.project('p').submitBatch(bodyOf(first))
  await untilPut(recorded, 2)
  const until = { from: start, to: start + minute }
  const hours = { from: start - 48 * hour, to: start + hour }
  const expected = [{ at: start, accepted: 3, duplicates: 0, rejected: 2 }]
  for (const each of [ingest, other]) {
    const { servers, steps, groups } = await each.project('p').getActivity({ ...until, by: 'type' })
    t.strictSame({ servers, steps }, { servers: 2, steps: expected })
    t.match(groups, [
      { name: 'a', accepted: 2 },
      { name: 'b', accepted: 1 },
      { name: null, accepted: 0, rejected: 2 },
    ])
    const rejections = await each.project('p').listRejected(until)
    t.match(rejections, { total: 2, other: 0 })
    t.match(rejections.groups, [{ count: 2 }], 'one cause, whichever server rejected them')
    t.match((await each.project('p').getActivity(hours)).steps.at(-1), { accepted: 3, rejected: 2, duplicates: 1 })
  }
})

t.test('close puts the counts, and a process that counted nothing writes nothing', async (t) => {
  const { recorded, ingest, open, project } = setUp()
  await project.submitBatch(bodyOf(event(), 7))
  await Promise.all([ingest.close(), ingest.close()])
  const keys = recorded.puts.map((rows) => rows.map(({ projectId, span, at }) => [projectId, span, at]))
  const expected = [
    ['p', 'minute', start],
    ['p', 'rejected-minute', start],
    ['p', 'hour', start],
    ['p', 'rejected-hour', start],
  ]
  t.strictSame(keys, [expected])
  await t.rejects(project.submitBatch(bodyOf(7)), { code: 'store-closed' })
  const reading = open()
  t.match(await reading.project('p').getActivity({ ...wide, by: 'type' }), { servers: 1, groups: [{ accepted: 1 }] })
  t.match(await reading.project('p').listRejected(wide), { total: 1 })
  await reading.close()
  t.equal(recorded.puts.length, 1)
})

t.test('a process that ends without a close loses at most its current minute', async (t) => {
  const { clock, recorded, open, project } = setUp()
  for (const at of [0, minute, 2 * minute]) {
    clock.now = start + at
    await project.submitBatch(bodyOf(event({ type: 'a' }), 7))
  }
  await untilPut(recorded, 2)
  const restarted = open().project('p')
  const counted = async () => (await restarted.getActivity(wide)).steps.slice(60, 63).map(({ accepted }) => accepted)
  t.strictSame(await counted(), [1, 1, 0])
  await restarted.submitBatch(bodyOf(event({ type: 'a' })))
  t.strictSame(await counted(), [1, 1, 1])
  const { steps, servers } = await restarted.getActivity({ from: start - 48 * hour, to: start + hour })
  t.match({ servers, last: steps.at(-1) }, { servers: 1, last: { accepted: 3, rejected: 2 } })
})

t.test('a batch in flight at a close is counted', async (t) => {
  const { store, recorded, open } = setUp()
  let finish = () => {}
  const isFinished = new Promise<void>((resolve) => {
    finish = resolve
  })
  const slow: Store = {
    ...store,
    async append(...args) {
      await isFinished
      return store.append(...args)
    },
  }
  const ingest = createIngest({ store: slow, now: () => start })
  const submitted = ingest.project('p').submitBatch(bodyOf(event()))
  const closed = ingest.close()
  finish()
  t.match(await submitted, { accepted: 1 })
  await closed
  t.equal(recorded.rows('minute').length, 1)
  t.match((await open().project('p').getActivity(wide)).steps[60], { accepted: 1 })
})

t.test('rows that cannot be put are put later, and reported once', async (t) => {
  const { clock, recorded, ingest, project } = setUp()
  const errors: unknown[] = []
  ingest.observe({ onError: (error) => errors.push(error) })
  recorded.isFailing = true
  for (let i = 0; i < 3; i++) {
    await project.submitBatch(bodyOf(event()))
    while (recorded.failures < i) await new Promise(setImmediate)
    clock.now += minute
  }
  t.match(errors, [{ code: 'disk-full' }])
  const counted = async () => (await project.getActivity(wide)).steps.slice(60, 64).map(({ accepted }) => accepted)
  t.strictSame(await counted(), [1, 1, 1, 0], 'what is not put is read')
  const ofHour = async () => (await project.getActivity({ from: start - 30 * hour, to: start + hour })).steps.at(-1)
  t.match(await ofHour(), { accepted: 3 }, 'and of the hour the newest row alone')
  recorded.isFailing = false
  await project.submitBatch(bodyOf(event()))
  await untilPut(recorded, 3)
  t.strictSame(await counted(), [1, 1, 1, 1])
  t.match(await ofHour(), { accepted: 4 })
  recorded.isFailing = true
  clock.now += minute
  await project.submitBatch(bodyOf(event()))
  while (errors.length < 2) await new Promise(setImmediate)
})

t.test('activity is kept for at least an hour', async (t) => {
  t.throws(() => setUp({ activity: { keepMs: hour - 1 } }), { code: 'invalid-argument' })
  t.throws(() => setUp({ activity: { keepMs: Number.NaN } }), { code: 'invalid-argument' })
})

t.test('the id of a key is a string, or nothing is stored', async (t) => {
  const { project } = setUp()
  await t.rejects(project.submitBatch(bodyOf(event({ type: 7 }), event()), { keyId: 5n as never }), {
    code: 'invalid-argument',
  })
  t.equal((await project.getStats()).events, 0)
})

t.test('an invalid name of a server is an invalid argument', async (t) => {
  for (const server of ['', 'x'.repeat(256), 7 as never]) {
    t.throws(() => setUp({ server }), { code: 'invalid-argument' })
  }
})

t.test('a clock that goes backwards replaces no row, and a late batch counts in the current minute', async (t) => {
  const { clock, recorded, open, project } = setUp()
  clock.now = start + 10 * minute
  await project.submitBatch(bodyOf(event()))
  clock.now -= 5
  await project.submitBatch(bodyOf(event()))
  const counts = async (each = project) =>
    (await each.getActivity(wide)).steps.slice(60, 72).map(({ accepted }) => accepted)
  t.strictSame(await counts(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0])
  for (const at of [2, 10, 1, 2, 11]) {
    clock.now = start + at * minute
    await project.submitBatch(bodyOf(event()))
  }
  await untilPut(recorded, 5)
  clock.now = start + 12 * minute
  await project.submitBatch(bodyOf(event()))
  await untilPut(recorded, 6)
  const expected = [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3, 1]
  t.strictSame(await counts(), expected)
  t.strictSame(await counts(open().project('p')), expected)
  const { steps } = await open()
    .project('p')
    .getActivity({ from: start - 30 * hour, to: start + hour })
  t.equal(steps.at(-1)?.accepted, 7)
})

t.test('a clock that comes back to a minute that has been put adds to it', async (t) => {
  const { clock, recorded, ingest, open, project } = setUp()
  for (const at of [10, 12, 10]) {
    clock.now = start + at * minute
    const [projectId, counted] = at === 12 ? ['q', ingest.project('q')] : ['p', project]
    await counted.submitBatch(bodyOf({ ...event(), projectId }))
    await untilPut(recorded, at === 12 ? 1 : 0)
  }
  await ingest.close()
  const { steps } = await open().project('p').getActivity(wide)
  t.equal(steps[70]?.accepted, 2)
})

t.test('a cause is the first issue, build, type and key of an event, with samples', async (t) => {
  const { clock, project } = setUp()
  const parts = { visits: Array.from({ length: 3 }, () => ({})) }
  const long = 'x'.repeat(300)
  const submit = (keyId: string | null, ...events: unknown[]) => project.submitBatch(bodyOf(...events), { keyId })
  await submit('k1', event({ type: 'kill', placeId: [] }), event({ type: 'kill', placeId: {}, sessionId: {} }))
  clock.now += 1
  await submit('k2', event({ type: 'kill', placeId: [] }))
  await submit(null, event({ type: long, buildId: `${long}é` }), { ...parts, projectId: 'q', eventId: 'other' })
  const { groups, total, other } = await project.listRejected()
  t.strictSame([total, other], [5, 0])
  const causes = groups.map(({ code, path, type, buildId, keyId, count }) => [code, path, type, buildId, keyId, count])
  t.strictSame(causes, [
    ['invalid_type', '/placeId', 'kill', null, 'k1', 2],
    ['invalid_type', '/placeId', 'kill', null, 'k2', 1],
    ['too_long', '/type', null, null, null, 1],
    ['project_mismatch', '/projectId', null, null, null, 1],
  ])
  t.match(groups[0], { firstAt: start, lastAt: start, message: 'Expected a string or an integer.' })
  t.strictSame(
    groups[0]?.samples.map(({ issues }) => issues.map(({ path }) => path)),
    [['/placeId'], ['/placeId', '/sessionId']],
  )
})

t.test('a cause names the game servers of its events', async (t) => {
  const { clock, project } = setUp()
  const submit = (...serverIds: unknown[]) =>
    project.submitBatch(bodyOf(...serverIds.map((serverId) => event({ type: 7, serverId }))))
  const counted = async () => (await project.listRejected(wide)).groups.map(({ serverIds }) => serverIds)
  await submit(7, 'jfk-2', undefined, { name: 'secret' }, 'x'.repeat(257))
  clock.now += minute
  await submit('jfk-2', '7', '7', null)
  t.strictSame(await counted(), [
    [
      { serverId: null, count: 4 },
      { serverId: '7', count: 3 },
      { serverId: 'jfk-2', count: 2 },
    ],
  ])
  for (let i = 0; i < 300; i++) {
    if (i % 100 === 0) clock.now += minute
    await submit(`once-${i}`, 'often')
  }
  const [serverIds = []] = await counted()
  t.match(serverIds[0], { serverId: 'often', count: 300 }, 'the most frequent is kept')
  t.ok(serverIds.length <= 8)
})

t.test('a cause has the name of its key, also if the key was revoked since', async (t) => {
  const { ingest, project } = setUp()
  const { record: named } = await ingest.keys.create('p', { name: 'Live servers' })
  const { record: nameless } = await ingest.keys.create('p')
  for (const keyId of [named.keyId, nameless.keyId, 'unknown', null]) {
    await project.submitBatch(bodyOf(event({ type: 7 })), { keyId })
  }
  await ingest.keys.revoke('p', named.keyId)
  const { groups } = await project.listRejected()
  t.strictSame(
    groups.map(({ keyId, keyName }) => [keyId, keyName]),
    [
      [named.keyId, 'Live servers'],
      [nameless.keyId, null],
      ['unknown', null],
      [null, null],
    ],
  )
})

t.test('array indexes in the path of a cause are stars', async (t) => {
  const Visits = { type: 'object', properties: { visits: { type: 'array', items: { type: 'string' } } } } as const
  const { project } = setUp({ schemas: { tour: Visits } })
  await project.submitBatch(bodyOf(event({ type: 'tour', visits: ['a', 5] }), event({ type: 'tour', visits: [5] })))
  t.match(await project.listRejected(), { groups: [{ path: '/visits/*', count: 2 }] })
})

t.test('the newest three samples of a cause are listed', async (t) => {
  const { clock, project } = setUp()
  for (let i = 0; i < 6; i++) {
    clock.now = start + i * minute
    await project.submitBatch(bodyOf({ projectId: 'p', eventId: `s-${i}`, type: i }))
  }
  const { groups } = await project.listRejected(wide)
  t.strictSame(
    groups[0]?.samples.map(({ eventId }) => eventId),
    ['s-5', 's-4', 's-3'],
  )
  t.match(groups[0], { count: 6, firstAt: start, lastAt: start + 5 * minute })
})

t.test('no row has a text of a rejected event, unless they are kept', async (t) => {
  for (const keepEvents of [false, true]) {
    const { ingest, recorded, project } = setUp({ rejected: { keepEvents } })
    const secret = event({ type: 7, note: 'secret' })
    const text = JSON.stringify(secret)
    await project.submitBatch(bodyOf(secret), { mayTransfer: true })
    const large = event({ buildId: 7, note: 'secret'.repeat(5_000) })
    await project.submitBatch(bodyOf(large))
    const { groups } = await project.listRejected()
    t.strictSame(
      groups.map(({ samples }) => samples.map((sample) => sample.event)),
      [[keepEvents ? text : undefined], [undefined]],
      'a large one is left out',
    )
    await ingest.close()
    const bodies = recorded.puts.flat().map(({ body }) => body)
    t.equal(bodies.length, 4)
    t.equal(
      bodies.some((body) => body.includes('secret')),
      keepEvents,
    )
    t.notOk(bodies.some((body) => body.includes('secretsecret')))
  }
})

t.test('the causes and texts of rejected events are not read for outcomes', async (t) => {
  const { ingest, open, project } = setUp({ rejected: { keepEvents: true } })
  await project.submitBatch(bodyOf(event({ type: 'kill' }), event({ type: 7, note: 'x'.repeat(10_000) })))
  await ingest.close()
  const scanned = { activity: 0, rejected: 0 }
  const scan = (name: keyof typeof scanned) => (bytes: number) => {
    scanned[name] += bytes
  }
  const read = open().project('p')
  await read.getActivity({ ...wide, by: 'type', onScan: scan('activity') })
  await read.listRejected({ ...wide, onScan: scan('rejected') })
  t.ok(scanned.activity > 0 && scanned.activity < 1_000)
  t.ok(scanned.rejected > 10_000)
})

t.test('the texts of a response are bounded, and the newest sample of each cause comes first', async (t) => {
  const { clock, project } = setUp({ rejected: { keepEvents: true } })
  const types = Array.from({ length: 15 }, (_, i) => `t-${i}`)
  for (const type of [...types, ...types, ...types]) {
    await project.submitBatch(bodyOf(event({ type, buildId: 7, note: 'x'.repeat(15_000) })))
    clock.now += minute
  }
  const { groups } = await project.listRejected(wide)
  t.ok(groups.every(({ samples }) => samples.length === 3 && samples[0]?.event !== undefined))
  const texts = groups.flatMap(({ samples }) => samples.flatMap(({ event = '' }) => event))
  const bytes = texts.reduce((sum, text) => sum + text.length, 0)
  t.ok(bytes > 500_000 && bytes <= 524_288)
})

t.test('a project with other types, builds and causes in each event has bounded rows and responses', async (t) => {
  const { clock, ingest, recorded, project } = setUp({ rejected: { keepEvents: true } })
  // as JSON, each of these characters takes six bytes
  const hostile = (length: number) => `${count++}`.padEnd(length, '\u0001')
  for (let i = 0; i < 30; i++) {
    const events = Array.from({ length: 50 }, () => event({ type: hostile(200), buildId: `b"${count++}` }))
    const invalid = Array.from({ length: 48 }, () =>
      event({ type: i % 2 ? 'kill' : hostile(200), serverId: hostile(256), buildId: 7, [hostile(100)]: '' }),
    )
    await project.submitBatch(bodyOf(...events, ...invalid, event({ type: 'kill' }), event({ type: 'kill' })))
    if (i % 10 === 9) clock.now += minute
  }
  const activity = await project.getActivity({ ...wide, by: 'type' })
  const { groups = [] } = activity
  t.match(groups[0], { name: 'kill', accepted: 60 }, 'the most frequent is kept')
  t.ok(groups.length <= 101)
  const sum = (of: (group: (typeof groups)[number]) => number) => groups.reduce((total, each) => total + of(each), 0)
  t.strictSame([sum(({ accepted }) => accepted), sum(({ rejected }) => rejected)], [30 * 52, 30 * 48])
  const { total, groups: causes, other } = await project.listRejected(wide)
  t.equal(total, 30 * 48)
  t.ok(causes.length <= 100)
  t.equal(
    causes.reduce((counted, each) => counted + each.count, other),
    total,
  )
  await ingest.close()
  t.equal(recorded.rows('minute').length, 3)
  for (const { body } of recorded.puts.flat()) {
    t.ok(Buffer.byteLength(body) <= activityBodyBytesMax)
    const { types = [], builds = [], rejections = [] } = JSON.parse(body)
    t.ok(types.length <= 51 && builds.length <= 21 && rejections.length <= 20)
  }
})

const noTexts = { store: openMemoryStore(), server: 's', keepEvents: true }
const nothing = { accepted: 0, duplicates: 0, events: encodeEvents([], Buffer.alloc(16)), stored: [], keyId: null }
const largeText = Buffer.alloc(10_000, 'x')
const rejection = (eventId: string, issue: Partial<Issue> = {}) => {
  const issues: Issue[] = [{ code: 'required', path: '/a', message: 'Required.', ...issue }]
  return {
    start: 0,
    end: largeText.length,
    type: null,
    buildId: null,
    serverId: null,
    rejection: { index: 0, eventId, issues },
  }
}

t.test('a batch of many causes does not push out those of others', async (t) => {
  const counter = createActivityCounter({ ...noTexts, now: () => start, onError() {} })
  const count = (...names: string[]) => {
    const rejections = names.map((name) => rejection('e', { path: `/${name}` }))
    counter.count('p', { ...nothing, receivedAt: start, rejections, body: undefined })
  }
  const others = Array.from({ length: 30 }, (_, i) => `other${i}`)
  for (const name of others) count(name)
  count(...Array.from({ length: 100 }, (_, i) => `many${i}`))
  for (const name of others.slice(20)) count(name)
  const { rejected, rejections } = JSON.parse(counter.unputRows('p', 'rejected-minute')[0]?.body ?? '')
  t.equal(rejected, 140)
  const twice = rejections.filter(({ count }: { count: number }) => count === 2)
  t.strictSame(
    twice.map(({ path }: { path: string }) => path),
    others.slice(20).map((name) => `/${name}`),
  )
  await counter.close()
})

t.test('the hours of earlier minutes take memory too', async (t) => {
  const counter = createActivityCounter({ ...noTexts, now: () => start, onError() {}, bytesMax: 100_000 })
  const count = (projectId: string, receivedAt: number) =>
    counter.count(projectId, { ...nothing, receivedAt, rejections: [rejection('e')], body: largeText })
  for (const projectId of ['p', 'q']) for (let batch = 0; batch < 3; batch++) count(projectId, start)
  // ends the minute of the others
  count('first', start + minute)
  count('late', start + minute)
  const [row] = counter.unputRows('late', 'rejected-minute')
  t.match(JSON.parse(row?.body ?? ''), { rejected: 1, rejections: { length: 0 } })
  await counter.close()
})

t.test('beyond the limit of memory, only totals of projects are counted, then nothing', async (t) => {
  const { store, recorded } = openRecordedStore()
  const errors: unknown[] = []
  let now = start
  const onError = (error: unknown) => errors.push(error)
  const counter = createActivityCounter({ ...noTexts, store, now: () => now, onError, bytesMax: 105_000 })
  const count = (projectId: string) =>
    counter.count(projectId, { ...nothing, receivedAt: now, rejections: [rejection('e')], body: largeText })
  const parsed = (projectId: string, span: ActivitySpan) =>
    counter.unputRows(projectId, span).map(({ body }) => JSON.parse(body))
  const counted = (projectId: string) => {
    const rejected = parsed(projectId, 'rejected-minute')
    return parsed(projectId, 'minute').map((row, i) => ({ ...row, ...rejected[i] }))
  }
  for (let i = 0; i < 20; i++) for (let batch = 0; batch < 3; batch++) count(`p${i}`)
  t.match(counted('p0'), [{ rejected: 3, types: [[null, 0, 3]], rejections: [{ count: 3 }] }])
  t.match(counted('p19'), [{ rejected: 3, types: [[null, 0, 3]], builds: [[null, 0, 3]] }])
  t.strictSame(counted('p19')[0].rejections, [])
  t.strictSame(errors, [])
  for (let i = 20; i < 200; i++) count(`p${i}`)
  t.strictSame(counted('p199'), [])
  t.match(errors, [{ code: 'overloaded' }], 'reported once')
  count('p0')
  t.match(counted('p0'), [{ rejected: 4 }], 'those that are counted go on')

  now += minute
  count('late')
  await untilPut(recorded, 20)
  count('p0')
  count('later')
  t.match(counted('later'), [{ rejected: 1, rejections: [{ count: 1 }] }], 'the next minute has room')
  await counter.close()
  const sumOf = async (span: ActivitySpan, projectId: string) => {
    let sum = 0
    for await (const { body } of store.activity(projectId, { span, from: start, to: now + minute })) {
      sum += JSON.parse(body).rejected
    }
    return sum
  }
  for (const span of ['minute', 'hour'] as const) {
    const sums = await Promise.all(['p0', 'p19', 'later'].map((projectId) => sumOf(span, projectId)))
    t.strictSame(sums, [5, 3, 1], 'what was counted after memory was short replaces nothing')
  }
  t.ok(recorded.puts.every((rows) => rows.length <= activityRowsMax))
})

t.test('a put is bounded by bytes too', async (t) => {
  const { store, recorded } = openRecordedStore()
  const counter = createActivityCounter({ ...noTexts, store, now: () => start, onError: t.error })
  for (let i = 0; i < 150; i++) {
    counter.count(`p${i}`, { ...nothing, receivedAt: start, rejections: [rejection('e')], body: largeText })
  }
  await counter.close()
  t.equal(recorded.rows('minute').length, 150)
  t.ok(recorded.puts.length >= 3)
})

t.test('what waits for a store that fails is bounded: further batches are not counted', async (t) => {
  const { store, recorded } = openRecordedStore()
  const errors: unknown[] = []
  const onError = (error: unknown) => errors.push(error)
  const counter = createActivityCounter({ ...noTexts, store, now: () => start, onError, bytesMax: 10_000 })
  const count = (i: number) => {
    const receivedAt = start + i * minute
    counter.count('p', { ...nothing, receivedAt, rejections: [rejection('e')], body: undefined })
  }
  recorded.isFailing = true
  for (let i = 0; i < 200; i++) count(i)
  const rows = counter.unputRows('p', 'minute')
  t.ok(rows.length > 10 && rows.length < 100)
  t.match(errors, [{ code: 'overloaded' }], 'a loss is reported once')
  t.strictSame(
    rows.map(({ at }) => at),
    rows.map((_, i) => start + i * minute),
    'the first are kept',
  )
  const hours = counter.unputRows('p', 'hour').map(({ body }) => JSON.parse(body).rejected)
  t.equal(
    hours.reduce((sum, rejected) => sum + rejected, 0),
    rows.length,
    'the hours have the same',
  )
  while (recorded.failures === 0) await new Promise(setImmediate)
  recorded.isFailing = false
  count(200)
  await untilPut(recorded, rows.length)
  count(201)
  await counter.close()
  t.equal(recorded.rows('minute').length, rows.length + 1, 'once the store works, they are put and counting goes on')
})

t.test('an hour that grows while its row is put is put again', async (t) => {
  const { store, recorded } = openRecordedStore()
  let release = () => {}
  const isReleased = new Promise<void>((resolve) => {
    release = resolve
  })
  let isPutting = false
  const slow: Store = {
    ...store,
    async putActivity(rows) {
      isPutting = true
      await isReleased
      await store.putActivity(rows)
    },
  }
  const counter = createActivityCounter({ ...noTexts, store: slow, now: () => start, onError: t.error })
  const count = (i: number) =>
    counter.count('p', { ...nothing, receivedAt: start + i * minute, rejections: [rejection('e')], body: undefined })
  count(0)
  count(1)
  while (!isPutting) await new Promise(setImmediate)
  count(2)
  release()
  await untilPut(recorded, 2)
  while (counter.unputRows('p', 'minute').length > 1) await new Promise(setImmediate)
  t.equal(JSON.parse(recorded.rows('hour').at(-1)?.body ?? '').rejected, 2)
  await counter.close()
})

t.test('rows that were replaced before they could be put take no memory afterwards', async (t) => {
  const { store, recorded } = openRecordedStore()
  const counter = createActivityCounter({ ...noTexts, store, now: () => start, onError() {}, bytesMax: 80_000 })
  let minutes = 0
  const count = () => {
    const receivedAt = start + minutes * minute
    counter.count('p', { ...nothing, receivedAt, rejections: [rejection('e')], body: undefined })
    minutes++
  }
  for (let i = 0; i < 6; i++) {
    const { failures } = recorded
    recorded.isFailing = true
    for (let i = 0; i < 50; i++) count()
    while (recorded.failures === failures) await new Promise(setImmediate)
    recorded.isFailing = false
    count()
    await untilPut(recorded, minutes - 1)
  }
  count()
  t.match(JSON.parse(counter.unputRows('p', 'rejected-minute').at(-1)?.body ?? ''), { rejections: [{ count: 1 }] })
  await counter.close()
})

t.test('the samples of an hour are bounded', async (t) => {
  const { store, recorded } = openRecordedStore()
  const counter = createActivityCounter({ ...noTexts, store, now: () => start, onError: t.error, bytesMax: 600_000 })
  for (let i = 0; i < 20; i++) {
    const rejections = range(5).map((cause) => rejection('e', { path: `/${i}-${cause}x` }))
    counter.count('p', { ...nothing, receivedAt: start + i * minute, rejections, body: largeText })
    await untilPut(recorded, i)
  }
  const { rejections } = JSON.parse(counter.unputRows('p', 'rejected-minute').at(-1)?.body ?? '')
  t.equal(rejections.length, 5, 'there is memory for causes')
  await counter.close()
})

t.test('a read of many rows that wait for the store takes several turns of the event loop', async (t) => {
  const { clock, recorded, ingest, project } = setUp({ rejected: { keepEvents: true } })
  ingest.observe({ onError() {} })
  recorded.isFailing = true
  for (let i = 0; i < 40; i++) {
    const large = range(5).map((cause) => event({ type: 7, buildId: `b${cause}`, text: 'x'.repeat(10_000) }))
    await project.submitBatch(bodyOf(...large))
    clock.now += minute
  }
  let turns = 0
  let turn = setImmediate(function count() {
    turns++
    turn = setImmediate(count)
  })
  const { total } = await project.listRejected(wide)
  clearImmediate(turn)
  t.equal(total, 200)
  t.ok(turns >= 4, `${turns} turns for 2 MB`)
})

t.test('a minute that is put during a read counts once', async (t) => {
  for (const hours of [1, 30]) {
    const { clock, store, recorded } = setUp()
    const racing: Store = {
      ...store,
      async *activity(...args) {
        clock.now += minute
        await ingest.project('p').submitBatch(bodyOf(event()))
        await untilPut(recorded, 1)
        yield* store.activity(...args)
      },
    }
    const ingest = createIngest({ store: racing, now: () => clock.now })
    await ingest.project('p').submitBatch(bodyOf(event(), event()))
    const { steps } = await ingest.project('p').getActivity({ from: start + (1 - hours) * hour, to: start + hour })
    t.match(steps.find(({ accepted }) => accepted > 0)?.accepted, 2)
  }
})

t.test('a batch that fails counts nothing', async (t) => {
  const { store } = openRecordedStore()
  const ingest = createIngest({ store: { ...store, append: () => Promise.reject(new Error('disk')) } })
  const project = ingest.project('p')
  await t.rejects(project.submitBatch(bodyOf(event())), { message: 'disk' })
  await t.rejects(project.submitBatch(Buffer.from('{')))
  t.match(await project.getActivity(), { servers: 0 })
})
