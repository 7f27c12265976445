import { Readable } from 'node:stream'
import { inspect } from 'node:util'
import { ingestChecks } from '@ingest/checks'
import { type BatchInput, createIngest, type IngestError, openMemoryStore } from '@ingest/core'
import { serve } from '@ingest/server'
import t, { type Test } from 'tap'
import { createClient } from '../src/client.ts'
import {
  cut,
  json,
  key,
  openScriptedClient,
  openScriptedServer,
  problem,
  projectId,
  stall,
  text,
} from './scripted-server.ts'

/** A client of a real server. */
async function openServed() {
  const embedded = createIngest({ store: openMemoryStore() })
  const served = await serve({ ingest: embedded, port: 0, closeTimeoutMs: 1 })
  const { key } = await embedded.keys.create(projectId, { scopes: ['events:write', 'maps:write', 'read'] })
  const ingest = createClient({ url: served.url, projectId, key })
  async function close(): Promise<void> {
    await ingest.close()
    await served.close()
    await embedded.close()
  }
  return { embedded: embedded.project(projectId), served, ingest, close }
}

/** Closed at the end of the test. */
async function openServedFor(t: Test) {
  const opened = await openServed()
  t.teardown(opened.close)
  return opened
}

for (const { name, run } of ingestChecks) {
  t.test(`over HTTP: ${name}`, () =>
    run(async () => {
      const { ingest, close } = await openServed()
      return { ingest, close }
    }),
  )
}

const batch = (count: number, extra = '') => ({
  events: Array.from({ length: count }, (_, i) => ({ projectId, eventId: `e-${i}`, extra })),
})

t.test('a real server stores a batch once, and counts a retry as duplicates', async (t) => {
  const { ingest, embedded } = await openServedFor(t)
  for (const extra of ['', 'x'.repeat(5000)]) {
    const { events } = batch(3, extra)
    const sent = events.map((event) => ({ ...event, eventId: `${event.eventId}-${extra.length}` }))
    t.strictSame(await ingest.submitBatch({ events: sent }), { accepted: 3, duplicates: 0, rejected: [] })
    t.strictSame(await ingest.submitBatch(Buffer.from(JSON.stringify({ events: sent }))), {
      accepted: 0,
      duplicates: 3,
      rejected: [],
    })
  }
  t.match(await embedded.findEvent('e-2-5000'), { bytes: /x{5000}/ })
})

t.test('an aborted upload to a real server resumes, and the map is read back', async (t) => {
  const { ingest, embedded } = await openServedFor(t)
  const content = Buffer.from(JSON.stringify(Array.from({ length: 150_000 }, (_, part) => ({ part, at: part % 97 }))))
  const id = { placeId: '1', buildId: 'b' }
  const controller = new AbortController()
  const reason = new Error('aborted by the test')
  const upload = ingest.publishMap(
    { ...id, source: Readable.from([content]) },
    {
      concurrency: 1,
      signal: controller.signal,
      onProgress: ({ phase, chunksDone }) => phase === 'upload' && chunksDone === 3 && controller.abort(reason),
    },
  )
  await t.rejects(upload, reason)
  t.equal(await ingest.getMapContent(id), undefined)
  const result = await ingest.publishMap({ ...id, source: content })
  t.match(result, { outcome: 'created', size: content.length, reusedChunks: 3 })
  t.equal(result.uploadedChunks, result.chunks - 3)
  for (const each of [ingest, embedded]) {
    const map = await each.getMapContent(id)
    const chunks = []
    for await (const chunk of map?.bytes(5) ?? []) chunks.push(chunk)
    t.ok(Buffer.concat(chunks).equals(content.subarray(5)))
  }
})

t.test('errors of a real server equal those of an embedded Ingest', async (t) => {
  const { ingest, embedded, served } = await openServedFor(t)
  const bodies: [string, Uint8Array | BatchInput][] = [
    ['malformed-body', Buffer.from('{')],
    ['invalid-envelope', Buffer.from('{}')],
    ['too-many-events', batch(101)],
    ['too-many-events', Buffer.from(JSON.stringify(batch(101)))],
    ['batch-too-large', Buffer.alloc(262_145, ' ')],
  ]
  for (const [code, body] of bodies) {
    const expected = await embedded.submitBatch(body).catch((error: IngestError) => error)
    t.match(expected, { code })
    const { message, limit, actual } = expected as IngestError
    await t.rejects(ingest.submitBatch(body), { name: 'IngestError', code, message, limit, actual })
  }
  const stranger = createClient({ url: served.url, projectId, key: 'ik_unknown' })
  t.teardown(() => stranger.close())
  await t.rejects(stranger.submitBatch(batch(1)), { code: 'unauthorized' })
})

t.test('the status alone decides whether a call is retried', async (t) => {
  const { client, received } = await openScriptedClient(
    t,
    {},
    problem(503, 'malformed-body'),
    problem(500, 'map-not-found'),
    problem(400, 'overloaded'),
  )
  await t.rejects(client.submitBatch(batch(1)), { code: 'overloaded', status: 400, retryable: false })
  t.equal(received.length, 3)
  const other = await openScriptedClient(t, { retries: 0 }, problem(503, 'map-not-found'))
  const id = { placeId: 'p', buildId: 'b' }
  await t.rejects(other.client.getMap(id), { code: 'map-not-found', status: 503 })
  await t.rejects(other.client.getChunk(`sha256:${'0'.repeat(64)}`), {
    code: 'map-not-found',
    status: 503,
  })
})

t.test('invalid options throw without showing the key', async (t) => {
  const good = { url: 'http://127.0.0.1:1', projectId, key }
  const faults: object[] = [
    { url: 'ingest.example' },
    { url: 'ftp://ingest.example' },
    { url: 'http://user:pass@ingest.example' },
    { url: 'http://ingest.example/?a=b' },
    { url: 'http://ingest.example/#a' },
    { projectId: 'a b' },
    { key: '' },
    { key: 'ik_\nsecret' },
    { key: undefined },
    { retries: -1 },
    { retries: 0.5 },
    { timeoutMs: 0 },
    { tryTimeoutMs: 2 ** 31 },
  ]
  for (const fault of faults) {
    try {
      createClient({ ...good, ...fault })
      t.fail(`${inspect(fault)} was accepted`)
    } catch (error) {
      t.match(error, { code: 'invalid-argument' }, inspect(fault))
      t.notMatch(inspect(error, { depth: 20, showHidden: true }), /secret|pass@/)
    }
  }
})

t.test('errors name a missing option and an invalid url', async (t) => {
  const good = { url: 'http://127.0.0.1:1', projectId, key }
  for (const name of ['url', 'projectId', 'key'] as const) {
    for (const value of [undefined, '']) {
      const message = new RegExp(`^${name} is missing`)
      t.throws(() => createClient({ ...good, [name]: value }), { code: 'invalid-argument', message })
    }
  }
  const shown: [string, string][] = [
    ['ingest.example:8080', '"ingest.example:8080"'],
    ['htp:/ingest.example', '"htp:/ingest.example"'],
    ['http://user:pass@ingest.example/a', '"http://…@ingest.example/a"'],
    ['user:pass@ingest.example', '"…@ingest.example"'],
    ['http://user:x/pass?pass#pass@ingest.example', '"http://…@ingest.example"'],
    ['http://a:p@ss@ingest.example', '"http://…@ingest.example"'],
    ['https://ingest.example/a?token=pass', '"https://ingest.example/a"'],
    ['https://ingest.example/#pass', '"https://ingest.example/"'],
    [`x${'y'.repeat(5000)}`, `"x${'y'.repeat(199)}"`],
  ]
  for (const [url, text] of shown) {
    try {
      createClient({ ...good, url })
      t.fail(url)
    } catch (error) {
      t.match(error, { code: 'invalid-argument' })
      t.ok((error as Error).message.includes(text), (error as Error).message)
      t.notMatch((error as Error).message, /pass|p@ss/)
    }
  }
})

t.test('no error contains the key', async (t) => {
  const steps = [cut, stall, problem(401, 'unauthorized'), text(200, 'hello'), text(302, '', { Location: '/' })]
  for (const step of steps) {
    const { client } = await openScriptedClient(t, { retries: 0, tryTimeoutMs: 50 }, step)
    const error = await client.submitBatch(batch(1)).catch((error) => error)
    t.match(error, { name: 'IngestError' })
    t.notMatch(inspect(error, { depth: 20, showHidden: true }), new RegExp(key))
  }
})

t.test('close waits for calls in flight and rejects new ones', async (t) => {
  let respond = () => {}
  const { client } = await openScriptedClient(t, {}, (res, received) => {
    respond = () => json(202, { accepted: 1, duplicates: 0, rejected: [] })(res, received)
    arrive()
  })
  let arrive = () => {}
  const isReceived = new Promise<void>((resolve) => {
    arrive = resolve
  })
  const result = client.submitBatch(batch(1))
  await isReceived
  const closed = client.close()
  t.equal(client.close(), closed)
  await t.rejects(client.submitBatch(batch(1)), { code: 'store-closed' })
  respond()
  t.match(await result, { accepted: 1 })
  await closed
  await t.rejects(client.listMaps(), { code: 'store-closed' })
  await t.rejects(client.readEvents()[Symbol.asyncIterator]().next(), { code: 'store-closed' })
})

t.test('close ends streams and pending retries', async (t) => {
  const line = '{"cursor":"1","receivedAt":1,"event":{}}\n'
  const { client } = await openScriptedClient(t, {}, (res) => void res.writeHead(200).write(line))
  const events = client.readEvents()[Symbol.asyncIterator]()
  t.match(await events.next(), { value: { cursor: '1' } })
  const next = t.rejects(events.next(), { code: 'store-closed' })
  await client.close()
  await next

  const { url, received } = await openScriptedServer(t, problem(503, 'overloaded', {}, { 'Retry-After': '50' }))
  const patient = createClient({ url, projectId, key })
  const rejected = t.rejects(patient.submitBatch(batch(1)), { code: 'overloaded', retryAfterSeconds: 50 })
  while (received.length === 0) await new Promise((resolve) => setImmediate(resolve))
  await patient.close()
  await rejected
  t.equal(received.length, 1)
})

t.test('publishMap uploads a source', async (t) => {
  const { client, received } = await openScriptedClient(t, {}, (res, { body }) => {
    const { placeId, buildId, manifest } = JSON.parse(body.toString())
    const { chunks, ...rest } = manifest
    const published = {
      placeId,
      buildId,
      ...rest,
      chunks: chunks.length,
      frozen: false,
      missing: [],
      publishedAt: '2026-11-20T17:51:00.000Z',
    }
    json(200, { ...published, outcome: 'unchanged', state: 'complete' })(res, received[0] as never)
  })
  const result = await client.publishMap({ placeId: '1', buildId: 'b', source: Buffer.from('{}') })
  t.match(result, { outcome: 'unchanged', size: 2, uploadedChunks: 0, reusedChunks: 1 })
})

// without the discard, the connection would stay open until the time-out
t.test('a response with an unexpected status is discarded', { timeout: 20_000 }, async (t) => {
  const timeouts = { tryTimeoutMs: 3_600_000, timeoutMs: 3_600_000 }
  let closed = () => {}
  const isClosed = new Promise<void>((resolve) => {
    closed = resolve
  })
  const { client, received } = await openScriptedClient(t, timeouts, (res) => {
    res.once('close', closed).writeHead(200).write('an incomplete body')
  })
  await t.rejects(client.submitBatch(batch(1)), { code: 'unexpected-response', message: /200/ })
  await isClosed
  t.equal(received.length, 1)
})

t.test('a response of more than 64 MiB is rejected', async (t) => {
  const chunk = Buffer.alloc(1024 * 1024, ' ')
  const { client, received } = await openScriptedClient(t, {}, (res) => {
    async function* body() {
      for (;;) yield chunk
    }
    Readable.from(body()).pipe(res)
  })
  await t.rejects(client.getStats(), { code: 'unexpected-response', message: /longer than 67108864 bytes/ })
  t.equal(received.length, 1)
})
