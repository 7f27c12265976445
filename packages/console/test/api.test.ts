import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { createApi } from '../page/api/api.ts'
import { backoffMs } from '../page/api/backoff.ts'
import { parseEventLines, readLines } from '../page/api/event-lines.ts'
import { isVersion } from '../page/worker/map-calls.ts'

/** An Api whose observer notes what it sees, and the address of a server that responds like this. */
async function connect(t: Test, listener: RequestListener) {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close().closeAllConnections())
  const seen: string[] = []
  const api = createApi(
    { projectId: 'demo', key: 'k' },
    { onResponse: () => seen.push('response'), onError: ({ kind }) => seen.push(kind) },
  )
  return { api, seen, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/events` }
}

t.test('the page of a proxy is no response: it does not end the pauses of other polls', async (t) => {
  const { api, seen, url } = await connect(t, (_request, response) => {
    response.setHeader('Content-Type', 'text/html').end('<!doctype html>\n<p>Sign in to the network\n')
  })
  const offline = { kind: 'offline', message: 'The response was interrupted, or is not from an Ingest server.' }
  await t.rejects(api.json(url), offline)
  await t.rejects(api.body(url, parseEventLines), offline)
  t.strictSame(seen, ['offline', 'offline'])
})

t.test('a body that stalls ends with the time-out', async (t) => {
  const { api, seen, url } = await connect(t, (_request, response) => void response.write('{"events":'))
  await t.rejects(api.json(url, { timeoutMs: 50 }))
  t.strictSame(seen, ['offline'])
})

t.test('a request that is given up is neither a response nor a failure', async (t) => {
  const ending = new AbortController()
  const { api, seen, url } = await connect(t, (_request, response) => {
    response.write('{"events":')
    ending.abort(new Error('given up'))
  })
  await t.rejects(api.json(url, { signal: ending.signal }), { message: 'given up' })
  t.strictSame(seen, [])
})

t.test('a body that can be read is a response', async (t) => {
  const { api, seen, url } = await connect(t, (_request, response) => void response.end('{"events":7}'))
  t.strictSame(await api.json(url), { events: 7 })
  t.strictSame(seen, ['response'])
})

t.test('lines that stop coming are no end', async (t) => {
  const body = new ReadableStream({ start: (stream) => stream.enqueue(new TextEncoder().encode('1\n2\n3')) })
  const lines = readLines(body, 20)
  t.strictSame(await lines.next(), { done: false, value: ['1', '2'] })
  await t.rejects(lines.next(), { message: 'The body stalled.' })
})

t.test('a map is the same version behind a proxy that compresses it', async (t) => {
  for (const etag of ['"sha256:ab"', 'W/"sha256:ab"', '"sha256:ab-gzip"', null]) t.ok(isVersion(etag, 'sha256:ab'))
  t.notOk(isVersion('"sha256:cd"', 'sha256:ab'))
})

t.test('the pause doubles up to a bound; a server may ask for up to an hour', async (t) => {
  const pauses = [1, 2, 3, 10, 1_000].map((attempt) => backoffMs(attempt, 0, () => 1))
  t.strictSame(pauses, [1_000, 2_000, 4_000, 30_000, 30_000])
  t.equal(backoffMs(1, 7_000), 7_000)
  // a timer of more than 24 days ends at once
  t.equal(backoffMs(1, 30 * 86_400_000), 3_600_000)
})
