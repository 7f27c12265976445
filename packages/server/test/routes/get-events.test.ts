import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { toFetchHandler } from '../../src/fetch-handler.ts'
import { createRateLimiter, type RateLimiter } from '../../src/limits/rate-limiter.ts'
import { readBytesMin } from '../../src/limits/rate-limits.ts'
import { eventsReadDefault, eventsScannedMax } from '../../src/routes/get-events.ts'
import { byEachEdge, requestBytes } from '../edges.ts'
import { get } from '../map-parts.ts'
import { openServed } from '../open-server.ts'
import {
  batchOf,
  batchOfBytes,
  collectErrors,
  headersOf,
  openTestIngest,
  projectId,
  withMethods,
} from '../test-ingest.ts'

async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = []
  for await (const item of source) items.push(item)
  return items
}

function linesOf(body: string) {
  t.ok(body === '' || body.endsWith('\n'))
  return body
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line))
}
const idsOf = (body: string) => linesOf(body).map(({ event }) => event.eventId)
/** The ids, and the cursor of a last line without an event. */
function partsOf(body: string): [ids: string[], cursor: string | undefined] {
  const lines = linesOf(body)
  const mark = lines.at(-1)?.event === undefined ? lines.pop()?.cursor : undefined
  return [lines.map(({ event }) => event.eventId), mark]
}

byEachEdge('events are returned oldest first, byte for byte, and continue after a cursor', async (t, open) => {
  const { ingest, key, send } = await open({}, { now: () => 1234 })
  const event = '{ "projectId":"game-1",\t"eventId":"\\u00e4ö", "n": 12345678901234567890.10 }'
  await ingest.project(projectId).submitBatch(Buffer.from(`{"events":[${event}]}`))
  await ingest.project(projectId).submitBatch(Buffer.from(batchOf(4)))
  const response = await send(get('/v1/events', key))
  t.equal(response.status, 200)
  t.match(response.headers, {
    'content-type': 'application/x-ndjson',
    'content-length': String(response.bytes.length),
    'cache-control': 'no-store',
    'x-request-id': /-/,
  })
  t.strictSame(idsOf(response.body), ['äö', 'e-0', 'e-1', 'e-2', 'e-3'])
  const [first] = response.body.split('\n')
  t.ok(first?.endsWith(`"receivedAt":1234,"event":${event}}`))
  const seen: string[] = []
  for (let query = '?limit=2'; ; ) {
    const lines = linesOf((await send(get(`/v1/events${query}`, key))).body)
    seen.push(...lines.map(({ event }) => event.eventId))
    if (lines.length === 0) break
    query = `?limit=2&after=${encodeURIComponent(lines.at(-1).cursor)}`
  }
  t.strictSame(seen, ['äö', 'e-0', 'e-1', 'e-2', 'e-3'])
})

byEachEdge(
  'a project that has used its budget gets the events so far, then a 429, and a retry after Retry-After is accepted',
  async (t, open) => {
    let time = 0
    const rateLimits = { readBytes: { perSecond: 3000, burst: 10_000 }, now: () => time }
    const { ingest, key, send } = await open({ rateLimits })
    await ingest.project(projectId).submitBatch(Buffer.from(batchOf(100)))
    const seen: string[] = []
    const statuses: number[] = []
    for (let after: string | undefined; statuses.length < 20; ) {
      const response = await send(get(`/v1/events${after === undefined ? '' : `?after=${after}`}`, key))
      statuses.push(response.status)
      t.match(response.headers, {
        ratelimit: /, "read-bytes";r=\d+;t=\d+$/,
        'ratelimit-policy': '"read-bytes";q=10000;qu="content-bytes";w=4',
      })
      if (response.status === 429) {
        t.match(response.json, { code: 'rate-limited', retryable: true, limit: 3000 })
        time += Number(response.headers['retry-after']) * 1000
        continue
      }
      const lines = linesOf(response.body)
      if (lines.length === 0) break
      seen.push(...lines.map(({ event }) => event.eventId))
      after = lines.at(-1).cursor
    }
    t.strictSame(
      seen,
      Array.from({ length: 100 }, (_, i) => `e-${i}`),
    )
    t.ok(statuses.includes(429))
    t.notOk(statuses.join().includes('429,429'), 'a retry after Retry-After is accepted')
  },
)

byEachEdge('a scan is charged for the events scanned', async (t, open) => {
  const { ingest, key, send } = await open({ rateLimits: { readBytes: { perSecond: 1, burst: 10_000 }, now: () => 0 } })
  await ingest.project(projectId).submitBatch(Buffer.from(batchOf(100)))
  const scanned = await send(get('/v1/events?type=none', key))
  const [ids, cursor] = partsOf(scanned.body)
  t.strictSame(ids, [])
  const { length } = await all(ingest.project(projectId).readEvents({ after: cursor as string }))
  t.ok(length > 0 && length < 90, `${length} were not scanned`)
  t.match(scanned.headers.ratelimit, '"read-bytes";r=0;')
  t.equal((await send(get('/v1/events?type=none', key))).status, 429)
})

byEachEdge('a long poll is not charged for waiting', async (t, open) => {
  let time = 0
  const { key, send } = await open({
    rateLimits: { readBytes: { perSecond: 1, burst: 10_000 }, now: () => time },
  })
  const waited = await send(get('/v1/events?wait=1', key))
  t.equal(waited.status, 200)
  t.match(waited.headers.ratelimit, `, "read-bytes";r=${10_000 - readBytesMin};t=${readBytesMin}`)
  time = 1e9
  for (const path of ['stats', 'builds', 'activity', 'rejected', 'maps', 'events?eventId=e']) {
    t.equal(
      (await send(get(`/v1/${path}`, key))).headers['ratelimit-policy'],
      '"read-requests";q=400;qu="requests";w=4, "read-bytes";q=10000;qu="content-bytes";w=10000',
    )
    time += 1e12
  }
})

byEachEdge('a response of many chunks is complete', async (t, open) => {
  const { ingest, key, send } = await open()
  const ids: string[] = []
  for (let i = 0; i < 12; i++) {
    const events = Array.from({ length: 100 }, (_, k) => ({
      projectId,
      eventId: `${i}-${k}`,
      filler: 'x'.repeat(2000),
    }))
    await ingest.project(projectId).submitBatch({ events })
    ids.push(...events.map(({ eventId }) => eventId))
  }
  const usual = await send(get('/v1/events', key))
  t.strictSame(idsOf(usual.body), ids.slice(0, eventsReadDefault))
  t.notOk('content-length' in usual.headers, 'its length is not known in advance')
  t.strictSame(idsOf((await send(get('/v1/events?limit=10000', key))).body), ids)
  t.strictSame(idsOf((await send(get('/v1/events?limit=1', key))).body), ids.slice(0, 1))
  const head = await send(get('/v1/events', key, {}, 'HEAD'))
  t.match(head, { status: 200, body: '', headers: { 'content-type': 'application/x-ndjson' } })
})

byEachEdge(
  'events are filtered by type, build and time, and the last line has the cursor of the scan',
  async (t, open) => {
    let now = Date.UTC(2026, 10, 20, 17, 51)
    const { ingest, key, send } = await open({}, { now: () => now })
    for (const [eventId, type, buildId] of [
      ['a', 'kill', 'b 1'],
      ['b', 'join', 'b 1'],
      ['c', 'kill', 'b2'],
      ['d', 'join', 'b2'],
    ] as const) {
      await ingest.project(projectId).submitBatch({ events: [{ projectId, eventId, type, buildId }] })
      now += 1000
    }
    const { key: other } = await ingest.keys.create('other')
    const read = async (query: string) => partsOf((await send(get(`/v1/events?${query}`, key))).body)
    const end = await ingest.project(projectId).lastCursor()
    t.strictSame(await read('type=kill'), [['a', 'c'], end])
    t.strictSame(await read('type=kill&limit=1'), [['a'], undefined], 'the cursor of the event is that of the scan')
    t.strictSame(await read('buildId=b+1'), [['a', 'b'], end])
    t.strictSame(await read('type=join&buildId=b2'), [['d'], undefined])
    t.strictSame(await read('type=none'), [[], end])
    t.strictSame(await read(`type=none&after=${end}`), [[], end])
    t.strictSame(await read('from=2026-11-20T17:51:01Z&to=2026-11-20T18:51:03.000+01:00'), [['b', 'c'], undefined])
    t.strictSame(await read(`from=${now - 2000}`), [['c', 'd'], undefined])
    t.strictSame(await read(`to=${now - 4000}`), [[], undefined])
    t.strictSame(await read('after=end'), [[], end])
    t.strictSame(await read(`after=${end}&wait=0`), [[], end])
    t.strictSame(await read(`after=${end}`), [[], undefined])
    const empty = { ...get('/v1/events?after=end', other), headers: headersOf(other, 'other').slice(0, 2) }
    t.strictSame(partsOf((await send(empty)).body), [[], await ingest.project('other').lastCursor()])
    const foreign = await send({ ...get(`/v1/events?after=${end}`, other), headers: empty.headers })
    t.match([foreign.status, foreign.json], [400, { code: 'invalid-cursor', detail: /another project/ }])
    const head = await send(get(`/v1/events?after=${end}&wait=60`, key, {}, 'HEAD'))
    t.match(head, { status: 200, body: '' }, 'HEAD does not poll')
  },
)

byEachEdge('a long poll waits for a matching event', async (t, open) => {
  const { ingest, key, send } = await open()
  const response = send(get('/v1/events?wait=60&type=kill', key))
  const submit = (eventId: string, type: string) =>
    ingest.project(projectId).submitBatch({ events: [{ projectId, eventId, type }] })
  await submit('a', 'join')
  await submit('b', 'kill')
  const { status, body } = await response
  t.equal(status, 200)
  t.strictSame(partsOf(body), [['b'], undefined])
  const end = await ingest.project(projectId).lastCursor()
  t.strictSame(partsOf((await send(get(`/v1/events?wait=1&after=${end}`, key))).body), [[], end])
})

byEachEdge('an event is found by its id', async (t, open) => {
  const { ingest, key, send } = await open()
  await ingest.project(projectId).submitBatch({
    events: [
      { projectId, eventId: 'a b/ä' },
      { projectId, eventId: 'c' },
    ],
  })
  const found = await send(get(`/v1/events?eventId=${encodeURIComponent('a b/ä')}`, key))
  t.equal(found.status, 200)
  t.strictSame(idsOf(found.body), ['a b/ä'])
  const absent = await send(get('/v1/events?eventId=d', key))
  t.match(absent, { status: 200, body: '', headers: { 'content-length': '0' } })
  t.match(absent.headers, { 'content-type': 'application/x-ndjson' })
})

byEachEdge('invalid queries are refused, also by HEAD', async (t, open) => {
  const { key, send } = await open()
  for (const [query, code] of [
    ['?after=nonsense', 'invalid-cursor'],
    ['?after=', 'invalid-cursor'],
    ['?limit=0', 'invalid-argument'],
    ['?limit=10001', 'invalid-argument'],
    ['?limit=all', 'invalid-argument'],
    ['?limit=1&limit=2', 'invalid-argument'],
    ['?since=1', 'invalid-argument'],
    ['?from=yesterday', 'invalid-argument'],
    ['?to=2026-11-20', 'invalid-argument'],
    ['?wait=61', 'invalid-argument'],
    ['?wait=', 'invalid-argument'],
    ['?type=', 'invalid-argument'],
    ['?buildId=', 'invalid-argument'],
    ['?playerId=', 'invalid-argument'],
    ['?playerId=1&playerId=2', 'invalid-argument'],
    ['?wait=1&after=nonsense', 'invalid-cursor'],
    ['?eventId=a&wait=1', 'invalid-argument'],
    ['?eventId=a&type=b', 'invalid-argument'],
    ['?eventId=', 'invalid-argument'],
    ['?eventId=a&limit=1', 'invalid-argument'],
    ['?eventId=a&after=b', 'invalid-argument'],
  ] as const) {
    t.match(await send(get(`/v1/events${query}`, key)), { status: 400, json: { code } }, query)
    t.equal((await send(get(`/v1/events${query}`, key, {}, 'HEAD'))).status, 400, query)
  }
})

t.test('a request scans a bounded number of events, and the next one continues there', async (t) => {
  const { ingest, key } = await openTestIngest()
  let scanned = 0
  const long = withMethods(ingest, () => ({
    async *readPages({ after = '0', signal, type } = {}) {
      t.equal(type, 'kill')
      for (let i = Number(after) + 1; i <= eventsScannedMax + 5; i++) {
        scanned++
        yield { events: [], scanned: [{ cursor: String(i) }] }
        signal?.throwIfAborted()
      }
    },
  }))
  const { raw } = await openServed(t, { ingest: long })
  for (const [after, expected] of [
    ['0', eventsScannedMax],
    [eventsScannedMax, eventsScannedMax + 5],
  ] as const) {
    raw.write(requestBytes(get(`/v1/events?type=kill&after=${after}`, key)))
    t.strictSame(partsOf((await raw.read()).body), [[], String(expected)])
    t.equal(scanned, expected)
  }
})

t.test('a scan may end in the middle of a page', async (t) => {
  const { ingest, key } = await openTestIngest()
  const paged = withMethods(ingest, () => ({
    async *readPages({ after = '0', signal } = {}) {
      const scanned = Array.from({ length: eventsScannedMax - 5 }, (_, i) => ({
        cursor: String(Number(after) + i + 1),
      }))
      yield { events: [], scanned }
      const last = Number(scanned.at(-1)?.cursor)
      const bytes = Buffer.from('{"eventId":"e"}')
      const events = Array.from({ length: 9 }, (_, i) => ({ cursor: String(last + i + 1), receivedAt: 1, bytes }))
      yield { events, scanned: events }
      signal?.throwIfAborted()
      t.fail('the next page is not read')
    },
  }))
  const { raw } = await openServed(t, { ingest: paged })
  raw.write(requestBytes(get('/v1/events?type=kill', key)))
  const lines = linesOf((await raw.read()).body)
  t.equal(lines.length, 5)
  t.equal(lines.at(-1).cursor, String(eventsScannedMax))
})

/** Large events, whose pages and charges are recorded; `charged` is called before each charge resolves. */
async function openCharged(charged: (count: number) => unknown, count = 5) {
  const { ingest, key } = await openTestIngest()
  const size = 70_000
  for (let i = 0; i < count; i++) {
    await ingest.project(projectId).submitBatch(Buffer.from(batchOfBytes(size, `${i}`)))
  }
  const steps: string[] = []
  let open = 0
  let charges = 0
  const recorded = withMethods(ingest, (project) => ({
    async *readPages(options) {
      open++
      try {
        // two events in a page
        for (let after = options?.after; ; ) {
          const events = await all(project.readEvents({ ...options, limit: 2, ...(after !== undefined && { after }) }))
          if (events.length === 0) return
          steps.push('page')
          yield { events, scanned: events }
          after = events.at(-1)?.cursor
        }
      } finally {
        open--
      }
    },
  }))
  const limiter = createRateLimiter({ now: () => 0 })
  const rateLimiter: RateLimiter = {
    ...limiter,
    async charge() {
      steps.push('charge')
      await turn()
      await charged(++charges)
      steps.push('charged')
      return true
    },
  }
  const { log, errors } = collectErrors()
  const handler = toFetchHandler(recorded, { rateLimiter, log })
  const request = () => {
    const { headers = [] } = get('/v1/events', key)
    const pairs = headers.map(([name, value]): [string, string] => [name, value])
    return handler(new Request('http://localhost/v1/events', { headers: pairs }))
  }
  return { request, steps, errors, open: () => open }
}

t.test('a scan continues when its charge resolves', async (t) => {
  const { request, steps } = await openCharged(() => {})
  const response = await request()
  t.strictSame(idsOf(await response.text()), ['0', '1', '2', '3', '4'])
  const charge = ['charge', 'charged']
  const page = ['page', ...charge, ...charge]
  t.strictSame(steps, [...charge, ...page, ...page, 'page', ...charge], 'after the minimum')
})

t.test('a charge that fails in the middle of a read breaks the response, and ends the read', async (t) => {
  const secret = new Error('secret')
  const { request, steps, errors, open } = await openCharged((count) => {
    if (count === 10) throw secret
  }, 12)
  const response = await request()
  t.equal(response.status, 200)
  await t.rejects(response.text())
  t.equal(steps.filter((step) => step === 'page').length, 5)
  t.equal(open(), 0)
  t.match(errors, [{ err: secret }])
})

t.test('a large page is sent in chunks of little more than an event', async (t) => {
  const { ingest, key } = await openTestIngest()
  const size = 60_000
  const ids = Array.from({ length: 40 }, (_, i) => `${i}`)
  for (const id of ids) await ingest.project(projectId).submitBatch(Buffer.from(batchOfBytes(size, id)))
  const whole = withMethods(ingest, (project) => ({
    async *readPages(options) {
      const events = await all(project.readEvents(options))
      yield { events, scanned: events }
    },
  }))
  const { headers = [] } = get('/v1/events', key)
  const pairs = headers.map(([name, value]): [string, string] => [name, value])
  const response = await toFetchHandler(whole)(new Request('http://localhost/v1/events', { headers: pairs }))
  const chunks: Uint8Array[] = []
  for await (const chunk of response.body ?? []) chunks.push(chunk)
  t.strictSame(idsOf(Buffer.concat(chunks).toString()), ids)
  t.ok(chunks.every(({ length }) => length < 65_536 + 2 * size))
})
