import { createIngest, openMemoryStore, type StoreMetric } from '@ingest/core'
import { Counter, collectDefaultMetrics, Registry } from 'prom-client'
import t, { type Test } from 'tap'
import { toFetchHandler } from '../src/fetch-handler.ts'
import { createMetrics } from '../src/metrics/metrics.ts'
import type { HandlerOptions } from '../src/public-router.ts'
import { headersOf, openTestIngest, projectId, withMethods } from './test-ingest.ts'

const batchPath = '/v1/events/batch'
const silent = { debug() {}, info() {}, warn() {}, error() {}, isLevelEnabled: () => false }

/** The value of a sample; undefined if it is missing. */
function sampleOf(text: string, sample: string): number | undefined {
  const line = text.split('\n').find((each) => each.startsWith(`${sample} `))
  return line === undefined ? undefined : Number(line.split(' ').at(-1))
}

function has(t: Test, text: string, samples: Record<string, number | undefined>): void {
  for (const [sample, value] of Object.entries(samples)) t.equal(sampleOf(text, sample), value, sample)
}

async function openMeasured(options: HandlerOptions = {}) {
  const { ingest, key } = await openTestIngest()
  const metrics = createMetrics(ingest)
  const handle = toFetchHandler(ingest, { metrics, log: silent, ...options })
  async function send(path: string, body?: string, headers = headersOf(key), method = body ? 'POST' : 'GET') {
    const response = await handle(new Request(`http://localhost${path}`, { headers, method, ...(body && { body }) }))
    return { status: response.status, length: (await response.text()).length }
  }
  const sendEvents = (...events: object[]) => send(batchPath, batchOf(...events))
  return { ingest, metrics, key, handle, send, sendEvents }
}

function batchOf(...events: object[]): string {
  return JSON.stringify({ events: events.map((event) => ({ projectId, ...event })) })
}

t.test('batches and events are counted by project and outcome', async (t) => {
  const { metrics, sendEvents } = await openMeasured()
  await sendEvents({ eventId: 'a', buildId: 'b-1' }, { eventId: 'b' }, { type: 1 })
  await sendEvents({ eventId: 'a', type: 'other' })
  await sendEvents({ type: 1 })
  has(t, await metrics.render(), {
    'ingest_events_total{project="game-1",outcome="accepted"}': 2,
    'ingest_events_total{project="game-1",outcome="duplicate"}': 1,
    'ingest_events_total{project="game-1",outcome="rejected"}': 2,
    'ingest_batches_total{project="game-1",outcome="accepted"}': 1,
    'ingest_batches_total{project="game-1",outcome="duplicate"}': 1,
    'ingest_batches_total{project="game-1",outcome="rejected"}': 1,
    'ingest_batches_total{project="game-1",outcome="refused"}': 0,
    'ingest_event_issues_total{project="game-1",code="required"}': 2,
    'ingest_duplicate_conflicts_total{project="game-1"}': 1,
    'ingest_builds_frozen_total{project="game-1"}': 1,
    'ingest_batch_duration_seconds_count{status="202"}': 3,
    'ingest_batch_step_duration_seconds_count{step="authenticate"}': 3,
    'ingest_batch_step_duration_seconds_count{step="body"}': 3,
    'ingest_batch_step_duration_seconds_count{step="decide"}': 3,
    'ingest_batch_step_duration_seconds_count{step="append"}': 2,
    'ingest_batch_step_duration_seconds_count{step="respond"}': 3,
  })
})

t.test('bytes are counted by project: received, stored and read', async (t) => {
  const { metrics, key, send } = await openMeasured()
  const [stored, received, read] = ['stored', 'received', 'read'].map((kind) => {
    return `ingest_${kind}_bytes_total{project="game-1"}`
  }) as [string, string, string]
  const event = JSON.stringify({ projectId, eventId: 'a' })
  const body = `{ "events": [${event}, ${event}, {}] }`
  await send(batchPath, body)
  await send(batchPath, body)
  await send(batchPath, '{')
  const text = await metrics.render()
  has(t, text, { [stored]: event.length, [received]: 2 * body.length + 1, [read]: 0 })

  const map = JSON.stringify({ placeId: 'p', buildId: 'b', map: { parts: [] } })
  t.match(await send('/v1/maps', map, headersOf(key), 'PUT'), { status: 201 })
  const { length } = await send('/v1/events')
  await send('/v1/events', undefined, headersOf(key), 'HEAD')
  t.match(await send('/v1/nothing'), { status: 404 })
  has(t, await metrics.render(), { [received]: 2 * body.length + 1 + map.length, [read]: length })
})

t.test('requests are counted by route, never by their path', async (t) => {
  const { metrics, send, handle } = await openMeasured({ rateLimits: { requests: { perSecond: 1, burst: 1 } } })
  await send('/livez')
  await send('/v1/secret?key=secret')
  await send('/v1/consumers/secret', undefined, headersOf('wrong', 'not-a-project'))
  await send('/v1/stats', undefined, headersOf('wrong', 'not-a-project'))
  await send('/v1/events?wait=0')
  await send('/v1/events?wait=0', undefined, headersOf('wrong', 'not-a-project'))
  await send(batchPath, batchOf({ eventId: 'a' }))
  await send(batchPath, batchOf({ eventId: 'b' }))
  await send(batchPath, batchOf({ eventId: 'b' }), headersOf('wrong', 'not-a-project'))
  await handle(new Request('http://localhost/livez', { method: 'SECRET' }))
  const text = await metrics.render()
  has(t, text, {
    'ingest_http_requests_total{route="/livez",method="GET",status="200"}': 1,
    'ingest_http_requests_total{route="/livez",method="other",status="405"}': 1,
    'ingest_http_requests_total{route="unknown",method="GET",status="404"}': 1,
    'ingest_http_requests_total{route="/v1/stats",method="GET",status="401"}': 1,
    'ingest_http_requests_total{route="/v1/consumers/{name}",method="GET",status="401"}': 1,
    'ingest_http_requests_total{route="/v1/events/batch",method="POST",status="202"}': 1,
    'ingest_http_requests_total{route="/v1/events?wait",method="GET",status="200"}': 1,
    'ingest_http_request_duration_seconds_count{route="/v1/events?wait"}': 1,
    'ingest_http_request_duration_seconds_count{route="/v1/events"}': 1,
    'ingest_http_request_duration_seconds_count{route="/v1/events/batch"}': 3,
    'ingest_batch_duration_seconds_count{status="202"}': 1,
    'ingest_batch_duration_seconds_count{status="503"}': 0,
    'ingest_batch_duration_seconds_count{status="429"}': undefined,
    'ingest_http_problems_total{code="unauthorized"}': 4,
    'ingest_http_problems_total{code="disk-full"}': 0,
    'ingest_rate_limited_requests_total{project="game-1",budget="batches"}': 1,
    'ingest_batches_total{project="game-1",outcome="refused"}': 1,
    ingest_http_requests_in_flight: 0,
  })
  t.notMatch(text, /secret|not-a-project/i)
})

t.test('a request is in flight until the end of its body', async (t) => {
  const { ingest, metrics, handle } = await openMeasured()
  const { key } = await ingest.keys.create(projectId)
  const events = Array.from({ length: 100 }, (_, i) => ({ eventId: `e-${i}`, filler: 'x'.repeat(2000) }))
  await ingest.project(projectId).submitBatch(Buffer.from(batchOf(...events)))
  const request = () => new Request('http://localhost/v1/events', { headers: headersOf(key) })
  const response = await handle(request())
  has(t, await metrics.render(), { ingest_http_requests_in_flight: 1 })
  await response.text()
  const canceled = await handle(request())
  await canceled.body?.cancel()
  const text = await metrics.render()
  has(t, text, {
    ingest_http_requests_in_flight: 0,
    'ingest_http_requests_total{route="/v1/events",method="GET",status="200"}': 2,
  })
})

t.test('projects beyond the maximum share a label', async (t) => {
  const { ingest } = await openTestIngest()
  const metrics = createMetrics(ingest, { projectsMax: 2 })
  for (const id of ['other', 'a', 'b', 'c', 'd']) {
    await ingest.project(id).submitBatch({ events: [{ projectId: id, eventId: 'e' }] })
  }
  has(t, await metrics.render(), {
    'ingest_events_total{project="a",outcome="accepted"}': 1,
    'ingest_events_total{project="b",outcome="accepted"}': 1,
    'ingest_events_total{project="c",outcome="accepted"}': undefined,
    'ingest_events_total{project="other",outcome="accepted"}': 3,
  })
})

const measured: StoreMetric[] = [
  { name: 'ingest_store_a_bytes', help: 'A.', type: 'gauge', values: [{ value: 5 }] },
  {
    name: 'ingest_store_b_total',
    help: 'B.',
    type: 'counter',
    values: [{ labels: { of: 'x"\\\n' }, value: 7 }],
  },
]

t.test('a store that hangs or fails leaves the other metrics', async (t) => {
  let measure = async () => measured
  let calls = 0
  const counted = () => {
    calls++
    return measure()
  }
  let check = async () => {}
  const ingest = createIngest({ store: { ...openMemoryStore(), measure: counted, check: () => check() } })
  const metrics = createMetrics(ingest)
  has(t, await metrics.render(), {
    ingest_store_up: 1,
    ingest_store_a_bytes: 5,
    'ingest_store_b_total{of="x\\"\\\\\\n"}': 7,
  })
  check = () => Promise.reject(new Error('no database'))
  has(t, await metrics.render(), { ingest_store_up: 0, ingest_store_a_bytes: 5 })
  check = async () => {}
  measure = () => Promise.reject(new Error('gone'))
  has(t, await metrics.render(), { ingest_store_up: 0, ingest_store_a_bytes: undefined })
  measure = () => new Promise(() => {})
  calls = 0
  const [text, same] = await Promise.all([metrics.render(), metrics.render()])
  t.equal(same, text, 'concurrent scrapes share one rendering')
  has(t, text, { ingest_store_up: 0, ingest_http_requests_in_flight: 0 })
  t.equal(calls, 1)
})

t.test('the registry of a program has the metrics beside its own, each once', async (t) => {
  const { ingest } = await openTestIngest()
  const register = new Registry()
  collectDefaultMetrics({ register })
  new Counter({ name: 'game_rounds_total', help: 'Rounds.', registers: [register] }).inc(3)
  t.throws(() => createMetrics(ingest, { register }), /already been registered/, 'its default metrics are there twice')
  const text = await createMetrics(ingest, { register, defaultMetrics: false }).render()
  has(t, text, { game_rounds_total: 3, ingest_store_up: 1, ingest_http_requests_in_flight: 0 })
  const names = Array.from(text.matchAll(/^# TYPE (\S+)/gm), ([, name]) => name)
  t.ok(names.includes('process_cpu_seconds_total'))
  t.equal(new Set(names).size, names.length)
  t.notMatch(await createMetrics(ingest, { defaultMetrics: false }).render(), 'process_cpu')
})

t.test('metrics can be read after the Ingest is closed', async (t) => {
  const { ingest, metrics, sendEvents } = await openMeasured()
  await sendEvents({ eventId: 'a' })
  await ingest.close()
  has(t, await metrics.render(), { 'ingest_events_total{project="game-1",outcome="accepted"}': 1 })
})

t.test('a failure of the server is counted', async (t) => {
  const { ingest, key } = await openTestIngest()
  const metrics = createMetrics(ingest)
  const failing = withMethods(ingest, () => ({ submitBatch: () => Promise.reject(new Error('unexpected')) }))
  const handle = toFetchHandler(failing, { metrics, log: silent })
  const body = batchOf({ eventId: 'a' })
  const response = await handle(
    new Request(`http://localhost${batchPath}`, { method: 'POST', headers: headersOf(key), body }),
  )
  t.equal(response.status, 500)
  has(t, await metrics.render(), {
    'ingest_http_problems_total{code="internal-error"}': 1,
    'ingest_batch_duration_seconds_count{status="500"}': 1,
    'ingest_batches_total{project="game-1",outcome="refused"}': 1,
  })
})

t.test('the lag of each consumer is measured, and a deleted one is gone', async (t) => {
  let now = 1_000
  const store = openMemoryStore()
  const ingest = createIngest({ store, now: () => now })
  const metrics = createMetrics(ingest)
  const project = ingest.project('game-1')
  const start = await project.lastCursor()
  await project.submitBatch(Buffer.from(batchOf({ eventId: 'a' }, { eventId: 'b' })))
  for (const name of ['behind', 'done']) {
    const cursor = name === 'done' ? await project.lastCursor() : start
    await project.putConsumer(name, { cursor, replaces: null })
  }
  await store.updateEntry('consumers', 'game-2', () => ({
    entry: [{ name: 'lost', cursor: 'of another epoch', updatedAt: 0 }],
    result: undefined,
  }))
  now = 3_500
  const text = await metrics.render()
  has(t, text, {
    'ingest_consumer_lag_events{project="game-1",consumer="behind"}': 2,
    'ingest_consumer_lag_seconds{project="game-1",consumer="behind"}': 2.5,
    'ingest_consumer_lag_events{project="game-1",consumer="done"}': 0,
    'ingest_consumer_lag_seconds{project="game-1",consumer="done"}': 0,
  })
  t.match(text, 'ingest_consumer_lag_seconds{project="game-2",consumer="lost"} +Inf\n')
  t.notMatch(text, 'ingest_consumer_lag_events{project="game-2"')
  await project.deleteConsumer('behind')
  t.notMatch(await metrics.render(), 'consumer="behind"')
})

t.test('no project hides the consumers of others, and those beyond 1,000 are counted', async (t) => {
  const store = openMemoryStore()
  const ingest = createIngest({ store })
  const metrics = createMetrics(ingest)
  const { lastCursor: cursor } = await store.totals('p')
  const put = (projectId: string, count: number) => {
    const consumers = Array.from({ length: count }, (_, i) => ({ name: `c${i}`, cursor, updatedAt: 0 }))
    return store.updateEntry('consumers', projectId, () => ({ entry: consumers, result: undefined }))
  }
  for (let i = 0; i < 10; i++) await put(`full-${i}`, 100)
  const shownOf = (text: string, project: string) =>
    [...text.matchAll(/^ingest_consumer_lag_seconds\{project="([^"]+)"/gm)].filter(([, each]) => each === project)
      .length
  const full = await metrics.render()
  t.strictSame([shownOf(full, 'full-0'), shownOf(full, 'full-9')], [100, 100])
  has(t, full, { ingest_consumers_hidden: 0 })
  await put('small', 2)
  await put('z', 1)
  const more = await metrics.render()
  has(t, more, { ingest_consumers_hidden: 3 })
  t.strictSame([shownOf(more, 'small'), shownOf(more, 'z')], [2, 1])
  for (let i = 0; i < 1_000; i++) await put(`one-${i}`, 1)
  const many = await metrics.render()
  t.equal([...many.matchAll(/^ingest_consumer_lag_seconds\{/gm)].length, 1_000)
  t.strictSame([shownOf(many, 'full-0'), shownOf(many, 'one-0')], [1, 1])
  has(t, many, { ingest_consumers_hidden: 10 * 99 + 12 })
})

t.test('the time of the last freeze of a build is measured', async (t) => {
  const { metrics, sendEvents } = await openMeasured()
  const sample = 'ingest_last_build_frozen_timestamp_seconds{project="game-1"}'
  await sendEvents({ eventId: 'a' })
  has(t, await metrics.render(), { [sample]: undefined })
  const before = Date.now() / 1000
  await sendEvents({ eventId: 'b', buildId: 'b-1' })
  const frozenAt = sampleOf(await metrics.render(), sample) as number
  t.ok(frozenAt >= before && frozenAt <= Date.now() / 1000)
  await sendEvents({ eventId: 'c', buildId: 'b-1' })
  has(t, await metrics.render(), { [sample]: frozenAt })
})
