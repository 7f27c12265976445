import { getEventListeners } from 'node:events'
import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createIngest, openMemoryStore, type Store } from '@ingest/core'
import t, { type Test } from 'tap'
import { toFetchHandler } from '../../src/fetch-handler.ts'
import { createCancellation, createWait } from '../../src/http/cancellation.ts'
import type { HttpRequest } from '../../src/http/request.ts'
import { concurrencyLimits, shareMaxOf } from '../../src/limits/concurrency.ts'
import type { ServeOptions } from '../../src/serve.ts'
import { requestBytes } from '../edges.ts'
import { get } from '../map-parts.ts'
import { openServed } from '../open-server.ts'
import { batchOf, headersOf, openTestIngest, projectId, withMethods } from '../test-ingest.ts'

const path = '/v1/events?wait=60'

/** A server, and the number of its open reads. */
async function open(t: Test, options: Partial<ServeOptions> = {}) {
  const { ingest, key } = await openTestIngest()
  const books = { reading: 0, onChange: () => {} }
  const watched = withMethods(ingest, (project) => ({
    async *readPages(options) {
      books.reading++
      books.onChange()
      try {
        yield* project.readPages(options)
      } finally {
        books.reading--
        books.onChange()
      }
    },
  }))
  const { served, connect } = await openServed(t, { ingest: watched, ...options })
  return {
    ingest: watched,
    key,
    served,
    /** Resolves when `count` reads are open. */
    reading: (count: number) =>
      new Promise<void>((resolve) => {
        books.onChange = () => {
          if (books.reading === count) resolve()
        }
        books.onChange()
      }),
    async ask(target = path) {
      const raw = await connect()
      raw.write(requestBytes(get(target, key)))
      return raw
    },
  }
}

t.test('a long poll ends when its client disconnects, however the connection ends', async (t) => {
  const { ask, reading } = await open(t)
  for (const leave of ['destroy', 'resetAndDestroy', 'end'] as const) {
    const raw = await ask()
    await reading(1)
    raw.socket[leave]()
    await reading(0)
  }
})

t.test('a client that leaves in the middle of a response ends its read', async (t) => {
  const { ask, ingest, reading } = await open(t)
  for (let i = 0; i < 60; i++) {
    const events = Array.from({ length: 100 }, (_, k) => ({ projectId, eventId: `${i}-${k}`, fill: 'x'.repeat(2000) }))
    await ingest.project(projectId).submitBatch({ events })
  }
  for (const leave of ['destroy', 'resetAndDestroy'] as const) {
    const raw = await ask('/v1/events?limit=10000')
    raw.socket.pause()
    await reading(1)
    raw.socket[leave]()
    await reading(0)
  }
})

t.test('a client that half-closes its connection gets the events so far', async (t) => {
  const { ask, reading } = await open(t)
  const raw = await ask('/v1/events?wait=60&after=end')
  await reading(1)
  raw.socket.end()
  t.match(await raw.read(), { status: 200, body: /^\{"cursor":"[\w-]{32}"\}\n$/ })
})

t.test('of pipelined long polls, one waits at a time, and none is left when the connection ends', async (t) => {
  const warnings: Error[] = []
  const warn = (warning: Error) => void warnings.push(warning)
  process.on('warning', warn)
  t.teardown(() => process.off('warning', warn))
  const { ask, key, reading } = await open(t)
  const raw = await ask()
  for (let i = 0; i < 9; i++) raw.write(requestBytes(get(path, key)))
  await reading(1)
  raw.socket.resetAndDestroy()
  await reading(0)
  t.strictSame(warnings, [])
})

t.test('long polls end at once when the server drains', async (t) => {
  const { ask, served, reading } = await open(t, { closeTimeoutMs: 600_000 })
  const raws = await Promise.all([ask('/v1/events?wait=60&after=end'), ask()])
  await reading(2)
  const closed = served.close()
  t.match(await raws[0]?.read(), {
    status: 200,
    headers: { connection: 'close' },
    body: /^\{"cursor":"[\w-]{32}"\}\n$/,
  })
  t.match(await raws[1]?.read(), { status: 200, headers: { connection: 'close' }, body: '' })
  await closed
})

t.test('long polls in flight are bounded, and do not count as downloads', async (t) => {
  const { ask, ingest, key, reading } = await open(t)
  const raws = await Promise.all(Array.from({ length: shareMaxOf(concurrencyLimits.longPolls) }, () => ask()))
  await reading(shareMaxOf(concurrencyLimits.longPolls))
  t.ok(
    shareMaxOf(concurrencyLimits.longPolls) > shareMaxOf(concurrencyLimits.downloads),
    'more than the slots for downloads',
  )
  const other = await ask()
  const refused = await other.read()
  t.match(refused, { status: 503, headers: { 'retry-after': /^[1-9]/ } })
  t.equal(refused.json.code, 'overloaded')
  other.write(requestBytes(get('/v1/events', key)))
  t.equal((await other.read()).status, 200)
  await ingest.project(projectId).submitBatch({ events: [{ projectId, eventId: 'a' }] })
  for (const raw of raws) t.match(await raw.read(), { status: 200, body: /"eventId":"a"/ })
  other.write(requestBytes(get(path, key)))
  t.equal((await other.read()).status, 200)
})

t.test('the request timeout does not limit a long poll', async (t) => {
  const { ask } = await open(t, { requestTimeoutMs: 50 })
  // Node checks request timeouts every second
  const raw = await ask('/v1/events?wait=3&after=end')
  t.match(await raw.read(), { status: 200, body: /^\{"cursor":"[\w-]{32}"\}\n$/ })
})

t.test('by fetch, the signal of the request ends a long poll', async (t) => {
  const { ingest, key, reading } = await open(t)
  const controller = new AbortController()
  const { headers = [] } = get(path, key)
  const request = new Request(`http://localhost${path}`, {
    headers: headers.map(([name, value]): [string, string] => [name, value]),
    signal: controller.signal,
  })
  const response = toFetchHandler(ingest)(request)
  await reading(1)
  controller.abort()
  t.equal((await response).status, 200)
  await reading(0)
})

t.test('a request that starts while the server drains is cancelled at once', async (t) => {
  const { signal } = new AbortController()
  const request = { signal: () => signal } as Pick<HttpRequest, 'signal'> as HttpRequest
  const reasons: unknown[] = []
  const stopWatching = createCancellation(AbortSignal.abort()).watch(request, (reason) => reasons.push(reason))
  t.match(reasons, [{ code: 'draining' }])
  stopWatching()
  t.strictSame(getEventListeners(signal, 'abort'), [])
  createCancellation(undefined).watch(request, (reason) => reasons.push(reason))()
  t.equal(reasons.length, 1)
})

const never = () => new Promise<never>(() => {})

function mockTimers(t: Test): void {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
}

t.test('a store that hangs is a 503 in time, whichever step hangs', async (t) => {
  for (const [path, step, body] of [
    ['/v1/events/batch', 'append', batchOf(1)],
    ['/v1/events/batch', 'known', `{"events":[{"projectId":"${projectId}","eventId":"a","buildId":1}]}`],
    ['/v1/builds', 'builds', undefined],
    ['/v1/stats', 'totals', undefined],
    ['/v1/events?eventId=a', 'find', undefined],
    ['/v1/builds', 'entry', undefined],
    ['/v1/consumers/c', 'count', '{"cursor":"","replaces":null}'],
  ] as const) {
    await t.test(`${path}, ${step}`, async (t) => {
      const store: Store = openMemoryStore()
      const { key } = await createIngest({ store }).keys.create(projectId)
      let isAsked = false
      const hang = () => {
        isAsked = true
        return never()
      }
      const handle = toFetchHandler(createIngest({ store: { ...store, [step]: hang } }), {
        log: { error() {}, warn() {}, info() {}, debug() {} } as never,
      })
      mockTimers(t)
      const options = body === undefined ? {} : { method: path.startsWith('/v1/consumers') ? 'PUT' : 'POST', body }
      const request = new Request(`http://localhost${path}`, { headers: headersOf(key), ...options })
      const answered = handle(request) as Promise<Response>
      while (!isAsked) await nextTurn()
      await nextTurn()
      mock.timers.tick(12_000)
      const response = await answered
      t.equal(response.status, 503)
      t.equal(response.headers.get('retry-after'), '1')
      const code = step === 'entry' ? 'key-store-unavailable' : 'store-unavailable'
      t.match(await response.json(), { code })
    })
  }
})

t.test('the time that a body takes does not count against the store', async (t) => {
  const { ingest, key } = await openTestIngest()
  const cursor = await ingest.project(projectId).lastCursor()
  let send: ReadableStreamDefaultController<Uint8Array> | undefined
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      send = controller
    },
  })
  const url = 'http://localhost/v1/consumers/slow'
  const request = new Request(url, { method: 'PUT', headers: headersOf(key), body, duplex: 'half' } as RequestInit)
  mockTimers(t)
  const responding = toFetchHandler(ingest)(request)
  while (!body.locked) await nextTurn()
  mock.timers.tick(29_000)
  send?.enqueue(Buffer.from(JSON.stringify({ cursor, replaces: null })))
  send?.close()
  t.equal((await responding).status, 201)
})

t.test('the steps of a request share its time', async (t) => {
  mockTimers(t)
  let now = 0
  t.intercept(performance, 'now', { value: () => now })
  const wait = createWait()
  t.equal(await wait(Promise.resolve('first')), 'first')
  const slow = wait(
    new Promise((resolve) => {
      setTimeout(resolve, 10_000, 'second')
    }),
  )
  now += 10_000
  mock.timers.tick(10_000)
  t.equal(await slow, 'second')
  let isLate = false
  const third = wait(never()).catch(({ code }) => {
    isLate = true
    return code
  })
  mock.timers.tick(1999)
  await nextTurn()
  t.notOk(isLate)
  mock.timers.tick(1)
  t.equal(await third, 'store-unavailable')
})
