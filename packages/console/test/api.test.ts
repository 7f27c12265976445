import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { createApi } from '../page/api/api.ts'
import { backoffMs } from '../page/api/connection.ts'
import { readEventLines } from '../page/api/event-lines.ts'
import { toRequestError } from '../page/api/ingest-response.ts'
import type { RequestError } from '../page/api/request-error.ts'
import type { CallContext } from '../page/worker/call-context.ts'
import { createWorkerClient, type WorkerPort } from '../page/worker/call-worker.ts'
import { isVersion } from '../page/worker/map-calls.ts'
import { type PagePort, serveCalls } from '../page/worker/serve-calls.ts'
import { refusal } from './lying-proxy.ts'

const json = { 'Content-Type': 'application/json' }

/** Serves the page from a server that responds like this. */
async function listen(t: Test, listener: RequestListener): Promise<void> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close().closeAllConnections())
  const { port } = server.address() as AddressInfo
  Object.assign(globalThis, { location: new URL(`http://127.0.0.1:${port}/console/`) })
}

/** An Api, and the notifications of its observer. */
function observedApi() {
  const seen: string[] = []
  const observer = { onResponse: () => seen.push('response'), onError: ({ kind }: RequestError) => seen.push(kind) }
  return { api: createApi({ projectId: 'demo', key: 'k' }, observer), seen }
}

async function connect(t: Test, listener: RequestListener) {
  await listen(t, listener)
  return observedApi()
}

t.test(
  'a page from a proxy is not a response of the server, so it does not end the pauses of other polls',
  async (t) => {
    const { api, seen } = await connect(t, (_request, response) => {
      response.setHeader('Content-Type', 'text/html').end('<!doctype html>\n<p>Sign in to the network\n')
    })
    await t.rejects(api.json('v1/stats'), { kind: 'foreign', message: /\(status 200\)/ })
    await t.rejects(api.events(), { kind: 'foreign', message: /\(status 200\)/ })
    t.strictSame(seen, ['foreign', 'foreign'])
  },
)

t.test('a stalled body ends with the timeout', async (t) => {
  const { api, seen } = await connect(t, (_request, response) => void response.writeHead(200, json).write('{"events":'))
  await t.rejects(api.json('v1/stats', { timeoutMs: 50 }))
  t.strictSame(seen, ['offline'])
})

t.test('an aborted request counts as neither a response nor a failure', async (t) => {
  const ending = new AbortController()
  const { api, seen } = await connect(t, (_request, response) => {
    response.writeHead(200, json).write('{"events":')
    ending.abort(new Error('aborted'))
  })
  await t.rejects(api.json('v1/stats', { signal: ending.signal }), { message: 'aborted' })
  t.strictSame(seen, [])
})

t.test('a complete body counts as a response', async (t) => {
  const { api, seen } = await connect(t, (_request, response) => {
    response.writeHead(200, json).end('{"events":7}')
  })
  t.strictSame(await api.json('v1/stats'), { events: 7 })
  t.strictSame(seen, ['response'])
})

t.test('a stalled stream of lines is an error', async (t) => {
  const body = new ReadableStream({ start: (stream) => stream.enqueue(new TextEncoder().encode('{"cursor":"1"}\n{')) })
  const lines = readEventLines(new Response(body), 20)
  t.match(await lines.next(), { done: false, value: [{ cursor: '1' }] })
  await t.rejects(lines.next(), { message: 'The body stalled.' })
})

t.test('the version of a map is recognized behind a proxy that compresses it', async (t) => {
  for (const etag of ['"sha256:ab"', 'W/"sha256:ab"', '"sha256:ab-gzip"', null]) t.ok(isVersion(etag, 'sha256:ab'))
  t.notOk(isVersion('"sha256:cd"', 'sha256:ab'))
})

t.test('the pause doubles up to a bound; a server may ask for up to an hour', async (t) => {
  const pauses = [1, 2, 3, 10, 1_000].map((attempt) => backoffMs(attempt, 0, () => 1))
  t.strictSame(pauses, [1_000, 2_000, 4_000, 5_000, 5_000])
  t.equal(backoffMs(1, 7_000), 7_000)
  const asked = async (headers: Record<string, string>) =>
    (await toRequestError(new Response('', { status: 503, headers }))).retryAfterMs
  t.equal(await asked({ 'Retry-After': '7' }), 7_000)
  t.equal(await asked({ 'Retry-After': '2592000' }), 3_600_000)
  t.equal(await asked({ 'Retry-After': 'Fri, 20 Nov 2026 17:51:00 GMT' }), undefined)
  t.equal(await asked({}), undefined)
})

type TestCall = (
  name: string,
  argument?: unknown,
  options?: { signal?: AbortSignal; onProgress?(progress: unknown): void },
) => Promise<unknown>

/** A client whose "worker" is the other end of a channel in this process. */
function connectWorker(t: Test, calls: object) {
  const { port1, port2 } = new MessageChannel()
  const { api, seen } = observedApi()
  const client = createWorkerClient(api, () => {
    serveCalls(port2 as unknown as PagePort, calls)
    port2.start()
    port1.start()
    return Object.assign(port1, { terminate: () => port1.close() }) as unknown as WorkerPort
  })
  t.teardown(() => {
    port1.close()
    port2.close()
  })
  return { call: client.call as unknown as TestCall, client, seen }
}

t.test('a call resolves with its result, after its progress', async (t) => {
  const { call } = connectWorker(t, {
    async add([a, b]: [number, number], { onProgress }: CallContext<string>) {
      onProgress('half')
      return a + b
    },
  })
  const progress: unknown[] = []
  t.equal(await call('add', [2, 3], { onProgress: (each) => progress.push(each) }), 5)
  t.strictSame(progress, ['half'])
})

t.test('a request that the server refuses rejects the call, as on the page', async (t) => {
  const { status, headers, body } = refusal(401, 'unauthorized', { title: 'No' })
  await listen(t, (_request, response) => void response.writeHead(status, headers).end(body))
  const { call, seen } = connectWorker(t, { load: (_: null, { api }: CallContext) => api.json('v1/stats') })
  const error = (await call('load', null).catch((error: unknown) => error)) as RequestError
  t.match(error, { kind: 'unauthorized', status: 401, message: 'No.', problem: { code: 'unauthorized' } })
  t.strictSame(seen, ['response', 'unauthorized'], 'so that the page signs out')
})

t.test('a signal cancels the call on both ends', async (t) => {
  const ending = new AbortController()
  let isAborted = () => {}
  const aborted = new Promise<void>((resolve) => {
    isAborted = resolve
  })
  const { call } = connectWorker(t, {
    async wait(_: null, { signal, onProgress }: CallContext<string>) {
      signal.addEventListener('abort', isAborted)
      onProgress('began')
      await aborted
    },
  })
  const result = call('wait', null, { signal: ending.signal, onProgress: () => ending.abort() })
  await t.rejects(result, { name: 'AbortError' })
  await aborted
})

t.test('ending the worker rejects calls in flight and later ones', async (t) => {
  const { call, client } = connectWorker(t, { wait: () => new Promise(() => {}) })
  const result = call('wait')
  client.end()
  await t.rejects(result, { name: 'AbortError' })
  await t.rejects(call('wait'), { name: 'AbortError' })
})
