import { once } from 'node:events'
import { Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { inspect } from 'node:util'
import { ingestChecks } from '@ingest/checks'
import { createIngest, openMemoryStore } from '@ingest/core'
import { serve } from '@ingest/server'
import t from 'tap'
import { certificateA } from '../../server/test/certificates.ts'
import { createClient } from '../src/client.ts'
import { createSender } from '../src/sender/sender.ts'
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

const embedded = createIngest({ store: openMemoryStore() })
const served = await serve({ ingest: embedded, port: 0, closeTimeoutMs: 1 })
t.teardown(() => served.close().then(embedded.close))
let projects = 0

/** A client of a new project on a real server. */
async function openProject() {
  const projectId = `game-${++projects}`
  const { key } = await embedded.keys.create(projectId)
  const ingest = createClient({ url: served.url, projectId, key })
  return { embedded: embedded.project(projectId), ingest, close: () => ingest.close() }
}

for (const { name, run } of ingestChecks) t.test(`over HTTP: ${name}`, () => run(openProject))

const batch = { events: [{ projectId, eventId: 'e' }] }

t.test('an aborted upload to a real server resumes, and the map is read back', async (t) => {
  const { ingest, embedded, close } = await openProject()
  t.teardown(close)
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
  t.match(await ingest.getMap(id), { state: 'incomplete' })
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

t.test('an invalid option throws an error that names it, without the key or a password', async (t) => {
  const good = { url: 'http://127.0.0.1:1', projectId, key }
  const faults: [options: object, shown: string][] = [
    [{ projectId: 'a b' }, 'project id'],
    [{ key: 'ik_\nsecret' }, 'key contains a space, a control character'],
    [{ key: 'ik_secret\n' }, 'key starts or ends with a space or a line break'],
    [{ key: 'ik_secret\r\n' }, 'key starts or ends with a space or a line break'],
    [{ key: ' ik_secret' }, 'key starts or ends with a space or a line break'],
    [{ key: 'ik_sécret' }, 'one outside of ASCII'],
    [{ key: Buffer.from('ik_secret') }, 'key is not a string'],
    [{ url: 'ik_secret' }, '"ik_…"'],
    [{ url: 'https://ingest.example:ik_secret/' }, '"https://ingest.example:ik_…"'],
    [{ retries: -1 }, 'retries'],
    [{ retries: 0.5 }, 'retries'],
    [{ timeoutMs: 0 }, 'timeoutMs'],
    [{ tryTimeoutMs: 2 ** 31 }, 'tryTimeoutMs'],
    ...['url', 'projectId', 'key'].flatMap((name): [object, string][] => [
      [{ [name]: undefined }, `${name} is missing`],
      [{ [name]: '' }, `${name} is missing`],
    ]),
    [{ url: 'ftp://ingest.example' }, '"ftp://ingest.example"'],
    [{ url: 'ingest.example:8080' }, '"ingest.example:8080"'],
    [{ url: 'htp:/ingest.example' }, '"htp:/ingest.example"'],
    [{ url: 'http://user:pass@ingest.example/a' }, '"http://…@ingest.example/a"'],
    [{ url: 'user:pass@ingest.example' }, '"…@ingest.example"'],
    [{ url: 'http://user:x/pass?pass#pass@ingest.example' }, '"http://…@ingest.example"'],
    [{ url: 'http://a:p@ss@ingest.example' }, '"http://…@ingest.example"'],
    [{ url: 'https://ingest.example/a?token=pass' }, '"https://ingest.example/a"'],
    [{ url: 'https://ingest.example/#pass' }, '"https://ingest.example/"'],
    [{ url: `x${'y'.repeat(5000)}` }, `"x${'y'.repeat(199)}"`],
  ]
  for (const [fault, shown] of faults) {
    try {
      createClient({ ...good, ...fault })
      t.fail(`${inspect(fault)} was accepted`)
    } catch (error) {
      t.match(error, { code: 'invalid-argument' }, inspect(fault))
      t.ok((error as Error).message.includes(shown), (error as Error).message)
      t.notMatch(inspect(error, { depth: 20, showHidden: true }), /secret|pass|p@ss/)
    }
  }
})

t.test('no error contains the key', async (t) => {
  const steps = [cut, stall, problem(401, 'unauthorized'), text(200, 'hello'), text(302, '', { Location: '/' })]
  for (const step of steps) {
    const { client } = await openScriptedClient(t, { retries: 0, tryTimeoutMs: 50 }, step)
    const error = await client.submitBatch(batch).catch((error) => error)
    t.match(error, { name: 'IngestError' })
    t.notMatch(inspect(error, { depth: 20, showHidden: true }), new RegExp(key))
  }
})

t.test('close waits for calls in flight and rejects new ones', async (t) => {
  let respond: (() => void) | undefined
  const { client } = await openScriptedClient(t, {}, (...args) => {
    respond = () => json(202, { accepted: 1, duplicates: 0, rejected: [] })(...args)
  })
  const result = client.submitBatch(batch)
  while (!respond) await turn()
  const closed = client.close()
  t.equal(client.close(), closed)
  await t.rejects(client.submitBatch(batch), { code: 'store-closed' })
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
  const rejected = t.rejects(patient.submitBatch(batch), { code: 'overloaded', retryAfterSeconds: 50 })
  while (received.length === 0) await turn()
  await patient.close()
  await rejected
  t.equal(received.length, 1)
})

// without the discard, the connection would stay open until the time-out
t.test('a response with an unexpected status is discarded', { timeout: 20_000 }, async (t) => {
  const timeouts = { tryTimeoutMs: 3_600_000, timeoutMs: 3_600_000 }
  let closed: Promise<unknown> | undefined
  const { client, received } = await openScriptedClient(t, timeouts, (res) => {
    closed = once(res, 'close')
    res.writeHead(200).write('an incomplete body')
  })
  await t.rejects(client.submitBatch(batch), { code: 'unexpected-response', message: /200/ })
  await closed
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

t.test('a certificate that cannot be verified is an error that says what to set, not a retry', async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  const server = await serve({ ingest, port: 0, tls: certificateA })
  t.teardown(() => server.close().then(ingest.close))
  let retries = 0
  const client = createClient({ url: server.url, projectId: 'p', key: 'k', onRetry: () => retries++ })
  const refused = { code: 'unexpected-response', message: /certificate cannot be verified .* set NODE_EXTRA_CA_CERTS/ }
  await t.rejects(client.submitBatch({ events: [] }), refused)
  t.equal(retries, 0)

  const failed = new Promise<unknown>((resolve) => {
    const sender = createSender(client, {
      flushMs: 1,
      onRetry(error) {
        resolve(error)
        sender.close({ deadlineMs: 0 })
      },
      onDrop() {},
    })
    sender.send({})
  })
  t.match(await failed, refused, 'a sender keeps its events, and says so')
  await client.close()
})
