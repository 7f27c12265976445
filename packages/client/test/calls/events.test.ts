import { randomBytes } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import { eventLine } from '@ingest/core'
import t from 'tap'
import { gzipBytesMin, pageEventsMax } from '../../src/calls/events.ts'
import { createClient } from '../../src/client.ts'
import {
  cut,
  cutAfter,
  json,
  key,
  openScriptedClient,
  openScriptedServer,
  problem,
  projectId,
  type Step,
  stall,
  text,
} from '../scripted-server.ts'

const done = { accepted: 1, duplicates: 0, rejected: [] }
const body = Buffer.from('{ "events" : [] }')

t.test('a batch is sent byte for byte, with the credentials of the client', async (t) => {
  const { client, received } = await openScriptedClient(t, {}, json(202, done))
  t.strictSame(await client.submitBatch(body), done)
  t.match(received, [
    {
      method: 'POST',
      path: '/v1/events/batch',
      headers: {
        'content-type': 'application/json',
        'x-project-id': projectId,
        'x-ingestion-key': 'ik_secret',
        'content-length': String(body.length),
        'content-encoding': undefined,
      },
      body,
    },
  ])
})

t.test('a batch is compressed from 1 KiB on, unless the address is one of this machine', async (t) => {
  const hosts: [string, boolean][] = [
    ['127.0.0.1', false],
    ['127.1', false],
    ['localhost', false],
    // also leads to this machine, but is not recognized as such
    ['0.0.0.0', true],
  ]
  const bytes = randomBytes(40_000)
  const sizes = [gzipBytesMin - 1, gzipBytesMin, 2 * gzipBytesMin, 3 * gzipBytesMin, bytes.length]
  for (const [host, isCompressed] of hosts) {
    const { url, received } = await openScriptedServer(t, json(202, done))
    const client = createClient({ url: url.replace('127.0.0.1', host), projectId, key })
    t.teardown(() => client.close())
    await Promise.all(sizes.map((size) => client.submitBatch(bytes.subarray(0, size))))
    const bodies = received.map(({ headers, body }) => {
      t.equal(headers['content-encoding'], isCompressed && body.length >= gzipBytesMin ? 'gzip' : undefined, host)
      return headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body
    })
    bodies.sort((a, b) => a.length - b.length)
    t.strictSame(
      bodies.map(({ length }) => length),
      sizes,
    )
    t.ok(bodies.every((body) => body.equals(bytes.subarray(0, body.length))))
  }
})

t.test('the same bytes are sent again after a temporary failure', async (t) => {
  const passing: [string, Step][] = [
    ['429', problem(429, 'rate-limited')],
    ['500', problem(500, 'internal-error')],
    ['502 of a proxy', text(502, '<html>')],
    ['a closed connection', cut],
    ['a truncated response', cutAfter('{"acc', { 'Content-Length': '40' }, 202)],
    ['no response', stall],
  ]
  for (const [name, step] of passing) {
    const options = step === stall ? { tryTimeoutMs: 500 } : {}
    const { client, received, pauses } = await openScriptedClient(t, options, step, step, json(202, done))
    t.strictSame(await client.submitBatch(Buffer.alloc(5000, 'x')), done, name)
    t.equal(received.length, 3)
    t.ok(received.every(({ body }) => body.equals(received[0]?.body as Buffer) && body.length > 0))
    t.strictSame(pauses, [500, 1000])
  }
})

t.test('a batch is sent once when its response is final', async (t) => {
  const lasting: [string, Step, string][] = [
    ['400', problem(400, 'malformed-body'), 'malformed-body'],
    ['401', problem(401, 'unauthorized'), 'unauthorized'],
    ['401 of a proxy', text(401, 'no'), 'unauthorized'],
    ['413', problem(413, 'too-many-events'), 'too-many-events'],
    ['404', text(404, 'no'), 'not-found'],
    ['a redirect', text(308, '', { Location: '/elsewhere' }), 'unexpected-response'],
    ['another success status', json(200, done), 'unexpected-response'],
  ]
  for (const [name, step, code] of lasting) {
    const { client, received } = await openScriptedClient(t, {}, step)
    await t.rejects(client.submitBatch(body), { name: 'IngestError', code }, name)
    t.equal(received.length, 1)
  }
})

t.test('pauses respect Retry-After, and the last error contains it', async (t) => {
  const limited = problem(429, 'rate-limited', { retryAfter: 7 }, { 'Retry-After': '7' })
  const { client, pauses } = await openScriptedClient(t, { retries: 2 }, limited)
  await t.rejects(client.submitBatch(body), { code: 'rate-limited', retryAfterSeconds: 7 })
  t.strictSame(pauses, [7500, 8000])
})

const event = (n: number) => ({ cursor: `c-${n}`, receivedAt: n, bytes: Buffer.from(`{ "n":${n}.0 }`) })
const linesOf = (from: number, to: number) => {
  return Buffer.concat(Array.from({ length: to - from }, (_, i) => eventLine(event(from + i))))
}
const page =
  (from: number, to: number): Step =>
  (res) =>
    void res.writeHead(200, { 'Content-Type': 'application/x-ndjson' }).end(linesOf(from, to))

async function read(events: AsyncIterable<{ cursor: string; receivedAt: number; bytes: Uint8Array }>) {
  const texts = []
  for await (const { cursor, receivedAt, bytes } of events)
    texts.push([cursor, receivedAt, Buffer.from(bytes).toString()])
  return texts
}
const texts = (to: number) => Array.from({ length: to }, (_, n) => [`c-${n}`, n, `{ "n":${n}.0 }`])

t.test('readEvents requests pages up to the last event', async (t) => {
  const { client, received } = await openScriptedClient(t, {}, page(0, 3), page(3, 4), page(4, 4))
  t.strictSame(await read(client.readEvents()), texts(4))
  t.match(received, [
    { path: '/v1/events', query: { limit: '1000' } },
    { query: { after: 'c-2' } },
    { query: { after: 'c-3' } },
  ])
  t.notOk('after' in (received[0]?.query ?? {}))
})

t.test('readEvents requests at most its limit', async (t) => {
  const { client, received } = await openScriptedClient(t, {}, page(1, 3), page(3, 4))
  const events = client.readEvents({ after: 'c-0', limit: 3 })
  t.strictSame(await read(events), texts(4).slice(1))
  t.match(received, [{ query: { after: 'c-0', limit: '3' } }, { query: { after: 'c-2', limit: '1' } }])
  t.equal(received.length, 2)
  t.equal(pageEventsMax, 1000)
  t.strictSame(await read(client.readEvents({ limit: 0 })), [])
  t.equal(received.length, 2)
})

t.test('a rate-limited reader pauses for Retry-After and continues', async (t) => {
  const limited = problem(429, 'rate-limited', {}, { 'Retry-After': '7' })
  const { client, received, pauses } = await openScriptedClient(
    t,
    { retries: 1 },
    ...[limited, page(0, 2), limited, page(2, 3), limited, page(3, 4), page(4, 4)],
  )
  t.strictSame(await read(client.readEvents()), texts(4))
  t.strictSame(
    received.map(({ query }) => query.after),
    [undefined, undefined, 'c-1', 'c-1', 'c-2', 'c-2', 'c-3'],
  )
  t.strictSame(pauses, [7500, 7500, 7500])
})

t.test('a broken page is continued after its last complete event', async (t) => {
  const broken = cutAfter(linesOf(0, 3).subarray(0, -5))
  const { client, received, pauses } = await openScriptedClient(t, {}, broken, cut, page(2, 4), page(4, 4))
  t.strictSame(await read(client.readEvents()), texts(4))
  t.strictSame(
    received.map(({ query }) => query.after),
    [undefined, 'c-1', 'c-1', 'c-3'],
  )
  t.strictSame(pauses, [500, 1000])
})

const mark = (cursor: string) => `{"cursor":"${cursor}"}\n`
const marked =
  (from: number, to: number, cursor: string): Step =>
  (res) =>
    void res.writeHead(200).end(Buffer.concat([linesOf(from, to), Buffer.from(mark(cursor))]))

t.test('skipped events are not requested again, and onProgress gets every cursor', async (t) => {
  const steps = [marked(0, 1, 'm-1'), marked(0, 0, 'm-2'), marked(1, 2, 'm-3'), marked(0, 0, 'm-3')]
  const { client, received } = await openScriptedClient(t, {}, ...steps)
  const cursors: string[] = []
  const onProgress = (cursor: string) => void cursors.push(cursor)
  const events = client.readEvents({ type: 'a&b', buildId: 'é', from: 1, to: 2, limit: 3, onProgress })
  t.strictSame(await read(events), texts(2))
  t.strictSame(cursors, ['c-0', 'm-1', 'm-2', 'c-1', 'm-3', 'm-3'])
  const wanted = { type: 'a&b', buildId: 'é', from: '1', to: '2' }
  t.strictSame(
    received.map(({ query }) => ({ ...query })),
    [
      { limit: '3', ...wanted },
      { after: 'm-1', limit: '2', ...wanted },
      { after: 'm-2', limit: '2', ...wanted },
      { after: 'm-3', limit: '1', ...wanted },
    ],
  )
})

t.test('a long poll is several requests, and ends with the first event', async (t) => {
  const { client, received } = await openScriptedClient(t, {}, page(0, 0), marked(0, 0, 'm'), page(0, 1), page(0, 0))
  t.strictSame(await read(client.readEvents({ waitMs: 600_000 })), texts(1))
  t.strictSame(
    received.map(({ query }) => [query.after, query.wait]),
    [
      [undefined, '30'],
      [undefined, '30'],
      ['m', '30'],
      ['c-0', undefined],
    ],
  )
})

t.test('the time of a long poll is added to the time-out of an attempt', async (t) => {
  const late: Step = (res) => void setTimeout(() => res.writeHead(200).end(linesOf(0, 1)), 300)
  const { client, received } = await openScriptedClient(t, { tryTimeoutMs: 100, retries: 0 }, late, page(0, 0))
  t.strictSame(await read(client.readEvents({ waitMs: 500 })), texts(1))
  t.equal(received[0]?.query.wait, '1', 'in whole seconds')
})

/** Sends a byte every millisecond, without an end. */
const drip =
  (status: number): Step =>
  (res) => {
    res.writeHead(status)
    const timer = setInterval(() => res.write('x'), 1)
    res.once('close', () => clearInterval(timer))
  }

for (const [name, status, retries] of [
  ['a line', 200, 1],
  ['an error', 503, 0],
] as const) {
  t.test(`readEvents ends when a server drips ${name}`, { timeout: 20_000 }, async (t) => {
    const { client, received } = await openScriptedClient(t, { tryTimeoutMs: 100, retries }, drip(status))
    await t.rejects(read(client.readEvents()), { code: 'request-timeout' })
    t.equal(received.length, 1 + retries)
  })
}

t.test('a page may take any time in which each of its lines is complete soon', async (t) => {
  const count = 25
  let sent = 0
  const slow: Step = (res) => {
    res.writeHead(200)
    const timer = setInterval(() => {
      res.write(linesOf(sent, sent + 1))
      if (++sent < count) return
      clearInterval(timer)
      res.end()
    }, 50)
  }
  const { client, received } = await openScriptedClient(t, { tryTimeoutMs: 1000, retries: 0 }, slow, page(0, 0))
  t.equal((await read(client.readEvents())).length, count)
  t.equal(received.length, 2)
})

t.test('after the last wanted event, errors are ignored and nothing is requested', async (t) => {
  const broken = cutAfter(linesOf(0, 2), { 'Content-Length': '1000' })
  const { client, received } = await openScriptedClient(t, {}, broken, broken, problem(400, 'invalid-argument'))
  t.strictSame(await read(client.readEvents({ limit: 2 })), texts(2))
  for await (const _ of client.readEvents()) break
  t.equal(received.length, 2)
})

t.test('a long poll of a past range ends with the early response of the server', async (t) => {
  const { client, received } = await openScriptedClient(t, {}, marked(0, 0, 'm'), marked(0, 0, 'm'))
  t.strictSame(await read(client.readEvents({ to: 1, waitMs: 600_000 })), [])
  t.strictSame(
    received.map(({ query }) => query.wait),
    ['30', '30'],
  )
})

t.test('lastCursor requests the end of the log', async (t) => {
  const { client, received } = await openScriptedClient(t, {}, marked(0, 0, 'm'), marked(0, 1, 'n'), page(0, 0))
  t.equal(await client.lastCursor(), 'm')
  t.match(received, [{ path: '/v1/events', query: { after: 'end', limit: '1' } }])
  t.equal(await client.lastCursor(), 'n', 'with an event that arrived in between')
  await t.rejects(client.lastCursor(), { code: 'unexpected-response' })
})

t.test('a slow reader applies backpressure to the server', async (t) => {
  const count = 640
  const line = eventLine({ cursor: 'c', receivedAt: 1, bytes: Buffer.from(`{"a":"${'x'.repeat(100_000)}"}`) })
  let sent = 0
  const { client } = await openScriptedClient(
    t,
    {},
    (res) => {
      res.writeHead(200)
      const write = () => {
        if (sent === count) res.end()
        else
          res.write(line, () => {
            sent++
            write()
          })
      }
      write()
    },
    page(0, 0),
  )
  const events = client.readEvents()[Symbol.asyncIterator]()
  await events.next()
  // until all buffers are full
  for (let before = -1; before !== sent; await new Promise((resolve) => setTimeout(resolve, 200))) before = sent
  t.ok(sent < count / 2, `${sent} of ${count}`)
  let read = 1
  while (!(await events.next()).done) read++
  t.equal(read, count)
})

t.test('an invalid cursor and an invalid limit throw', async (t) => {
  const { client } = await openScriptedClient(t, {}, problem(400, 'invalid-cursor'))
  await t.rejects(read(client.readEvents({ after: 'x' })), { code: 'invalid-cursor' })
  for (const limit of [-1, 0.5, Number.NaN]) {
    await t.rejects(read(client.readEvents({ limit })), { code: 'invalid-argument' })
  }
})

t.test('findEvent returns an event by its id, or undefined', async (t) => {
  const { client, received } = await openScriptedClient(t, {}, page(7, 8), page(0, 0), page(0, 0))
  t.match(await client.findEvent('e +&é'), { cursor: 'c-7', receivedAt: 7, bytes: event(7).bytes })
  t.equal(await client.findEvent('e'), undefined)
  t.match(received, [{ path: '/v1/events', query: { eventId: 'e +&é' } }, {}])
})
