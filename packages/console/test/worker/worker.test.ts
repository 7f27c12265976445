import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { createApi } from '../../page/api/api.ts'
import type { RequestError } from '../../page/api/request-error.ts'
import type { CallContext } from '../../page/worker/call-context.ts'
import { createWorkerClient, type WorkerPort } from '../../page/worker/call-worker.ts'
import { type PagePort, serveCalls } from '../../page/worker/serve-calls.ts'

type TestCall = (
  name: string,
  argument?: unknown,
  options?: { signal?: AbortSignal; onProgress?(progress: unknown): void },
) => Promise<unknown>

/** A client whose "worker" is the other end of a channel in this process. */
function connect(t: Test, calls: object) {
  const { port1, port2 } = new MessageChannel()
  const seen: string[] = []
  const api = createApi(
    { projectId: 'demo', key: 'k' },
    { onResponse: () => seen.push('response'), onError: ({ kind }) => seen.push(kind) },
  )
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
  const { call } = connect(t, {
    async add([a, b]: [number, number], { onProgress }: CallContext<string>) {
      onProgress('half')
      return a + b
    },
  })
  const progress: unknown[] = []
  t.equal(await call('add', [2, 3], { onProgress: (each) => progress.push(each) }), 5)
  t.strictSame(progress, ['half'])
})

t.test('a refused request rejects as it would on the page', async (t) => {
  const server = createServer((_request, response) => {
    response
      .writeHead(401, { 'Content-Type': 'application/problem+json' })
      .end('{"code":"unauthorized","detail":"No."}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/builds`
  const { call, seen } = connect(t, { load: (_: null, { api }: CallContext) => api.json(url) })
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
  const { call } = connect(t, {
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

t.test('the end of the worker rejects what is in flight, and later calls', async (t) => {
  const { call, client } = connect(t, { wait: () => new Promise(() => {}) })
  const result = call('wait')
  client.end()
  await t.rejects(result, { name: 'AbortError' })
  await t.rejects(call('wait'), { name: 'AbortError' })
})
