import { AsyncLocalStorage } from 'node:async_hooks'
import { createIngest, openMemoryStore, type Store, type StoreMetric } from '@ingest/core'
import { type Context, context, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import t, { type Test } from 'tap'
import { toFetchHandler } from '../src/fetch-handler.ts'
import type { RequestRecord } from '../src/http/request-record.ts'
import { createErrorLog, guardLog, type Log } from '../src/log.ts'
import type { HandlerOptions } from '../src/public-router.ts'
import { createTrafficLog, unauthorizedBurst } from '../src/requests/traffic-log.ts'
import { batchOf, collectLines, type Line, openTestIngest, projectId, withMethods } from './test-ingest.ts'

async function openSender(options: HandlerOptions, store = openMemoryStore()) {
  const opened = await openTestIngest(createIngest({ store }))
  const handle = toFetchHandler(opened.ingest, options)
  async function send(headers: [string, string][] = [], body = batchOf(2)) {
    const all = [...opened.headers.filter(([name]) => !headers.some(([other]) => other === name)), ...headers]
    const response = await handle(
      new Request('http://localhost/v1/events/batch?key=secret', { method: 'POST', headers: all, body }),
    )
    await response.text()
    return response
  }
  return { ...opened, handle, send }
}

const traceId = '0af7651916cd43dd8448eb211c80319c'
const parentId = 'b7ad6b7169203331'
const traceparent = `00-${traceId}-${parentId}-01`

t.test('a well-formed X-Request-Id is taken over, any other is replaced', async (t) => {
  const { send } = await openSender({})
  for (const id of ['a', 'A-z_0.9', 'x'.repeat(128)]) {
    t.equal((await send([['X-Request-Id', id]])).headers.get('x-request-id'), id)
  }
  for (const id of ['', 'a b', 'a, b', 'a"b', 'x'.repeat(129), 'a.ik_01234567_secret']) {
    const response = await send([['X-Request-Id', id]], '')
    t.equal(response.status, 400)
    t.match(response.headers.get('x-request-id'), /^[0-9a-f-]{36}$/, id)
  }
})

t.test('at debug, each request is a line', async (t) => {
  const { log, lines } = collectLines('debug')
  const { send, key } = await openSender({ log })
  await send([
    ['X-Request-Id', 'r-1'],
    ['traceparent', traceparent],
  ])
  const other = key.slice(0, -1) + (key.endsWith('0') ? '1' : '0')
  await send([['X-Ingestion-Key', other]])
  await send([['X-Project-Id', 'secret']])
  const shared = { method: 'POST', route: '/v1/events/batch' }
  const keyId = key.slice(3, 11)
  const outcome = { accepted: 2, duplicates: 0, rejected: 0 }
  t.match(lines, [
    [
      'debug',
      'request',
      { ...shared, requestId: 'r-1', traceId, projectId, keyId, status: 202, ...outcome, ms: Number },
    ],
    ['debug', 'request', { ...shared, status: 401, code: 'unauthorized', projectId: undefined, keyId: undefined }],
    ['debug', 'request', { ...shared, status: 401, code: 'unauthorized', projectId: undefined, keyId }],
  ])
  t.notMatch(JSON.stringify(lines), /secret/)
})

t.test('the trace id of an invalid traceparent is ignored', async (t) => {
  const { log, lines } = collectLines('debug')
  const { send } = await openSender({ log })
  const valid = [traceparent, `01-${traceId}-${parentId}-00-later`, `cc-${traceId}-${parentId}-00`]
  const zeros = '0'.repeat(32)
  const invalid = [
    'x',
    `ff-${traceId}-${parentId}-01`,
    `00-${zeros}-${parentId}-01`,
    `00-${traceId}-${'0'.repeat(16)}-01`,
    `00-${traceId.toUpperCase()}-${parentId}-01`,
    `${traceparent}-more`,
    `${traceparent}, ${traceparent}`,
  ]
  for (const header of [...valid, ...invalid]) await send([['traceparent', header]])
  t.strictSame(
    lines.map(([, , fields]) => fields.traceId),
    [...valid.map(() => traceId), ...invalid.map(() => undefined)],
  )
})

t.test('an error of the server is logged with the ids of its request', async (t) => {
  const { log, lines } = collectLines('error')
  const { ingest, headers } = await openTestIngest()
  const failing = withMethods(ingest, () => ({ submitBatch: () => Promise.reject(new Error('unexpected')) }))
  const ids: [string, string][] = [
    ['X-Request-Id', 'r-1'],
    ['traceparent', traceparent],
  ]
  const request = { method: 'POST', headers: [...headers, ...ids], body: batchOf(1) }
  await toFetchHandler(failing, { log })(new Request('http://localhost/v1/events/batch', request))
  t.match(lines, [['error', 'request failed', { requestId: 'r-1', traceId }]])
})

/** A traffic log whose window ends with `endWindow`. */
async function openTraffic(metrics: StoreMetric[] = []) {
  const { log, lines } = collectLines('info')
  const { ingest } = await openTestIngest()
  const ends: (() => void)[] = []
  const measured = { observe: ingest.observe, measure: async () => metrics }
  const traffic = createTrafficLog(log, measured, (onEnd) => void ends.push(onEnd))
  const count = (status: number, more: Partial<RequestRecord> = {}) =>
    traffic.count({
      requestId: 'r',
      route: '/v1/events/batch',
      method: 'POST',
      clientAddress: () => '192.0.2.1',
      startedAt: 0,
      endedAt: 1,
      status,
      ...more,
    })
  return { ingest, lines, count, ends, endWindow: () => ends.shift()?.() }
}

t.test('a minute with traffic has a summary, an idle one has none', async (t) => {
  const { lines, count, ends, endWindow } = await openTraffic()
  t.equal(ends.length, 0)
  count(202, { outcome: { accepted: 3, duplicates: 2, rejected: 1 } })
  count(202, { outcome: { accepted: 1, duplicates: 0, rejected: 0 } })
  count(503)
  t.equal(ends.length, 1, 'one timer')
  endWindow()
  t.equal(ends.length, 0, 'no timer until the next request')
  const outcomes = { accepted: 4, duplicates: 2, rejected: 1 }
  t.strictSame(lines, [['info', 'traffic', { seconds: 60, requests: 3, ...outcomes, failed: 1 }]])
  count(200)
  endWindow()
  t.match(lines[1], ['info', 'traffic', { requests: 1, accepted: 0 }])
})

t.test('conditions that need attention are warnings, once a minute and project', async (t) => {
  const { ingest, lines, count, endWindow } = await openTraffic()
  const limited = { projectId, code: 'rate-limited', budget: 'batches' } as const
  const project = ingest.project(projectId)
  async function makeTrouble() {
    for (let i = 0; i < 3 * unauthorizedBurst; i++) count(401, { code: 'unauthorized' })
    for (let i = 0; i < 3; i++) count(429, limited)
    count(429, { ...limited, projectId: 'game-2' })
    for (const type of ['a', 'b', 'c']) await project.submitBatch({ events: [{ projectId, eventId: 'e', type }] })
  }
  await makeTrouble()
  const warnings: Line[] = [
    ['warn', 'many requests have invalid credentials', { requests: unauthorizedBurst, clientAddress: '192.0.2.1' }],
    ['warn', 'a project reached its rate limit', { projectId, budget: 'batches' }],
    ['warn', 'a project reached its rate limit', { projectId: 'game-2', budget: 'batches' }],
    ['warn', 'an id was used for different events', { projectId, conflicts: 1 }],
  ]
  t.strictSame(lines, warnings)
  endWindow()
  t.match(lines.splice(0).at(-1), ['info', 'traffic', { requests: 34, unauthorized: 30, rateLimited: 4 }])
  await makeTrouble()
  t.strictSame(lines, warnings)
})

t.test('a full disk is a warning below 10 percent, and again for each percent less', async (t) => {
  const gauge = (name: string, value: number): StoreMetric => {
    return { name, help: '', type: 'gauge', values: [{ value }] }
  }
  const metrics: StoreMetric[] = []
  const { lines, count, endWindow } = await openTraffic(metrics)
  for (const free of [50, 9.9, 9.1, 8.5, 50, 9]) {
    metrics.splice(0, 2)
    metrics.push(gauge('ingest_store_filesystem_free_bytes', free), gauge('ingest_store_filesystem_size_bytes', 100))
    count(200)
    endWindow()
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.strictSame(
    lines.filter(([level]) => level === 'warn').map(([, , fields]) => fields),
    [
      { freeBytes: 9.9, percent: 9 },
      { freeBytes: 8.5, percent: 8 },
      { freeBytes: 9, percent: 9 },
    ],
  )
})

t.test('with an SDK of OpenTelemetry, a request is a span with its parent from traceparent', async (t) => {
  const exporter = new InMemorySpanExporter()
  const { log, lines } = collectLines('debug')
  const { send, handle } = await openSender({ log })
  await send()
  register(t, exporter)
  await send([['traceparent', traceparent]])
  await send([['X-Ingestion-Key', 'wrong']])
  await handle(new Request('http://localhost/elsewhere'))
  const spans = exporter.getFinishedSpans().map(({ name, kind, attributes, status, ...span }) => {
    return { name, kind, attributes, status: status.code, parent: span.parentSpanContext?.spanId }
  })
  const shared = { 'http.request.method': 'POST', 'http.route': '/v1/events/batch', 'url.path': '/v1/events/batch' }
  t.match(spans, [
    { name: 'decide', kind: SpanKind.INTERNAL },
    { name: 'append', kind: SpanKind.INTERNAL },
    { name: 'submit batch', kind: SpanKind.INTERNAL },
    {
      name: 'POST /v1/events/batch',
      kind: SpanKind.SERVER,
      parent: parentId,
      status: SpanStatusCode.UNSET,
      attributes: {
        ...shared,
        'http.response.status_code': 202,
        'ingest.project.id': projectId,
        'ingest.events.duplicate': 2,
      },
    },
    { attributes: { ...shared, 'http.response.status_code': 401, 'error.type': 'unauthorized' }, parent: undefined },
    { name: 'GET unknown', attributes: { 'http.response.status_code': 404 } },
  ])
  t.equal(spans.length, 6, 'the request before the SDK has none')
  t.strictSame(
    lines.map(([, , fields]) => fields.traceId),
    [
      undefined,
      ...exporter
        .getFinishedSpans()
        .filter(({ kind }) => kind === SpanKind.SERVER)
        .map((span) => span.spanContext().traceId),
    ],
  )
  t.equal(lines[1]?.[2].traceId, traceId)
})

t.test('a batch has spans of its steps, each within its parent, and the commit that it shares', async (t) => {
  const exporter = new InMemorySpanExporter()
  register(t, exporter)
  const memory = openMemoryStore()
  const store: Store = {
    ...memory,
    async append(id, batch) {
      const startedAt = performance.now()
      const appended = await memory.append(id, batch)
      batch.onCommit?.({ requests: 3, durationMs: performance.now() - startedAt })
      return appended
    },
  }
  const { send, ingest } = await openSender({}, store)
  toFetchHandler(ingest)
  await send()
  await send([], '{"events":[]}')
  const spans = exporter.getFinishedSpans()
  const parents = spans.map(({ name, parentSpanContext, startTime, endTime }) => {
    const parent = spans.find((span) => span.spanContext().spanId === parentSpanContext?.spanId)
    if (parent) {
      t.ok(compareTimes(startTime, parent.startTime) >= 0, `${name} begins in ${parent.name}`)
      t.ok(compareTimes(endTime, parent.endTime) <= 0, `${name} ends in ${parent.name}`)
    }
    return [name, parent?.name]
  })
  const post = 'POST /v1/events/batch'
  t.strictSame(parents, [
    ['decide', 'submit batch'],
    ['append', 'submit batch'],
    ['commit', 'append'],
    ['submit batch', post],
    [post, undefined],
    // without an event there is no append
    ['decide', 'submit batch'],
    ['submit batch', post],
    [post, undefined],
  ])
  t.strictSame(spans[2]?.attributes, { 'ingest.commit.requests': 3 })
})

/** Compares times of seconds and nanoseconds. */
function compareTimes(a: readonly [number, number], b: readonly [number, number]): number {
  return a[0] - b[0] || a[1] - b[1]
}

/** Registers an SDK until the end of a test. */
function register(t: Test, exporter: InMemorySpanExporter): void {
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }))
  propagation.setGlobalPropagator(w3cPropagator)
  context.setGlobalContextManager(asyncContextManager)
  t.teardown(() => {
    trace.disable()
    propagation.disable()
    context.disable()
  })
}

const contexts = new AsyncLocalStorage<Context>()

/** The part of the context manager that a server needs; it is not in the SDK of the test either. */
const asyncContextManager: Parameters<typeof context.setGlobalContextManager>[0] = {
  active: () => contexts.getStore() ?? ROOT_CONTEXT,
  with: (own, action, self, ...args) => contexts.run(own, () => action.apply(self, args)),
  bind: (_, target) => target,
  enable: () => asyncContextManager,
  disable: () => asyncContextManager,
}

/** The part of the W3C propagator that a server needs; it is not in the SDK of the test. */
const w3cPropagator: Parameters<typeof propagation.setGlobalPropagator>[0] = {
  fields: () => ['traceparent'],
  inject() {},
  extract(parent, carrier, getter) {
    const [, traceId = '', spanId = '', flags] = String(getter.get(carrier, 'traceparent')).split('-')
    const isValid = trace.isSpanContextValid({ traceId, spanId, traceFlags: Number(flags) })
    return isValid
      ? trace.setSpanContext(parent, { traceId, spanId, traceFlags: Number(flags), isRemote: true })
      : parent
  },
}

t.test('an error is logged once a second for each code and message, with the number of those left out', async (t) => {
  let time = 0
  const lines: unknown[] = []
  const error = (fields: object, message: string) => void lines.push([message, fields])
  const logError = createErrorLog({ error }, () => time)
  for (; time < 1000; time++) logError('store-unavailable', { at: time }, 'request refused')
  logError('disk-full', { at: time }, 'request refused')
  logError('disk-full', { at: time }, 'keys cannot be checked')
  logError('store-unavailable', { at: time }, 'request refused')
  time = 5000
  logError('store-unavailable', { at: time }, 'request refused')
  t.strictSame(lines, [
    ['request refused', { at: 0 }],
    ['request refused', { at: 1000 }],
    ['keys cannot be checked', { at: 1000 }],
    ['request refused', { at: 1000, suppressed: 999 }],
    ['request refused', { at: 5000 }],
  ])
})

t.test('a log method that is missing or throws is ignored', async (t) => {
  const seen: string[] = []
  const log = guardLog({
    info: (_: object, message: string) => void seen.push(message),
    warn() {
      throw new Error('full')
    },
  } as Partial<Log> as Log)
  for (const level of ['debug', 'info', 'warn', 'error'] as const) log[level]({}, level)
  t.strictSame(seen, ['info'])
  t.equal(log.isLevelEnabled?.('debug'), false)
  t.equal(log.isLevelEnabled?.('warn'), true)
})
