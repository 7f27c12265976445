import type { ServerResponse } from 'node:http'
import { type Digest, digestOf } from '@ingest/core'
import { chunksMax } from '@ingest/core/wire'
import t from 'tap'
import { groupBytesMax, groupChunks } from '../../src/calls/maps.ts'
import { json, openScriptedClient, problem, type Received, type Step, text } from '../scripted-server.ts'

const content = Buffer.from('0123456789'.repeat(1000))
const digest = digestOf(content)
const id = { placeId: '1', buildId: 'b' }
const status = {
  ...id,
  state: 'complete',
  digest,
  size: content.length,
  contentType: 'text/plain',
  chunks: 1,
  frozen: true,
  missing: [],
  publishedAt: '2026-11-20T17:51:00.000Z',
  frozenAt: '2026-11-20T17:52:00.000Z',
  pending: null,
}

/** The response of a server that supports ranges. */
function serve(
  res: ServerResponse,
  { headers }: Received,
  send = (bytes: Buffer): void => void res.end(bytes),
  etag = `"${digest}"`,
): void {
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? []
  if (first === undefined) res.writeHead(200, { ETag: etag, 'Content-Length': content.length })
  else {
    const length = Number(last) - Number(first) + 1
    const range = `bytes ${first}-${last}/${content.length}`
    res.writeHead(206, { ETag: etag, 'Content-Length': length, 'Content-Range': range })
  }
  send(content.subarray(Number(first ?? 0), last === undefined ? undefined : Number(last) + 1))
}

/** Serves `count` bytes of the range and closes the connection. */
const serveFirst =
  (count: number): Step =>
  (res, received) => {
    serve(res, received, (bytes) => void res.write(bytes.subarray(0, count), () => res.socket?.destroySoon()))
  }

async function open(t: Parameters<typeof openScriptedClient>[0], ...steps: Step[]) {
  const opened = await openScriptedClient(t, { retries: 2 }, json(200, status), ...steps)
  const map = await opened.client.getMapContent(id)
  if (!map) throw new Error('There is no map.')
  return { ...opened, map }
}

async function collect(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const all = []
  for await (const chunk of chunks) all.push(chunk)
  return Buffer.concat(all).toString()
}

const all: Step = (res, received) => serve(res, received)

t.test('a download of a map requires its digest as ETag', async (t) => {
  const { map, received } = await open(t, all)
  t.equal(await collect(map.bytes()), content.toString())
  t.match(received[1], {
    path: '/v1/maps/content',
    query: id,
    headers: { 'if-match': `"${digest}"`, range: undefined },
  })
})

t.test('a range of a map is read', async (t) => {
  const { map, received } = await open(t, all)
  const parts: [number, number | undefined, string][] = [
    [5, 25, 'bytes=5-24'],
    [0, 1, 'bytes=0-0'],
    [9999, 10_000, 'bytes=9999-9999'],
    [9000, undefined, 'bytes=9000-9999'],
  ]
  for (const [start, end, range] of parts) {
    t.equal(await collect(map.bytes(start, end)), content.subarray(start, end).toString())
    t.equal(received.at(-1)?.headers.range, range)
  }
  const before = received.length
  t.equal(await collect(map.bytes(7, 7)), '')
  t.equal(received.length, before)
  for (const [start, end] of [
    [-1, 2],
    [2, 1],
    [0, 10_001],
    [0.5, 1],
    [Number.NaN, 1],
  ] as const) {
    await t.rejects(collect(map.bytes(start, end)), { code: 'invalid-argument' })
  }
})

t.test('a broken download continues where it broke', async (t) => {
  const { map, received, pauses } = await open(t, serveFirst(4000), serveFirst(0), serveFirst(1000), all)
  t.equal(await collect(map.bytes()), content.toString())
  t.strictSame(
    received.slice(1).map(({ headers }) => headers.range),
    [undefined, 'bytes=4000-9999', 'bytes=4000-9999', 'bytes=5000-9999'],
  )
  t.ok(received.slice(1).every(({ headers }) => headers['if-match'] === `"${digest}"`))
  t.equal(pauses.length, 3)
})

t.test('a download without progress throws', async (t) => {
  const { map, received } = await open(t, serveFirst(10), serveFirst(0))
  await t.rejects(collect(map.bytes()), { code: 'connection-failed' })
  t.equal(received.length, 1 + 3)
})

t.test('a response that ends too early is continued', async (t) => {
  const short: Step = (res) => void res.writeHead(200, { ETag: `"${digest}"` }).end(content.subarray(0, 4000))
  const { map, received } = await open(t, short, all)
  t.equal(await collect(map.bytes()), content.toString())
  t.equal(received[2]?.headers.range, 'bytes=4000-9999')
})

t.test('the whole map in place of a range is accepted', async (t) => {
  const whole: Step = (res) => void res.writeHead(200, { ETag: `"${digest}"` }).end(content)
  const { map } = await open(t, serveFirst(4000), whole)
  t.equal(await collect(map.bytes()), content.toString())
  t.equal(await collect(map.bytes(5, 25)), content.subarray(5, 25).toString())
})

t.test('a map that was replaced throws map-replaced, without bytes of the new map', async (t) => {
  const replaced: Record<string, Step[]> = {
    '412': [problem(412, 'precondition-failed')],
    '503 map-replaced, then 412': [problem(503, 'map-replaced'), problem(412, 'precondition-failed')],
    'another ETag': [(res, received) => serve(res, received, undefined, '"sha256:other"')],
    'no ETag': [(res) => void res.writeHead(200).end(content)],
  }
  for (const [name, steps] of Object.entries(replaced)) {
    const { map, received } = await open(t, serveFirst(4000), ...steps)
    let read = ''
    const reading = async () => {
      for await (const chunk of map.bytes()) read += Buffer.from(chunk).toString()
    }
    await t.rejects(reading(), { code: 'map-replaced' }, name)
    t.equal(read, content.subarray(0, 4000).toString())
    t.equal(received.length, 2 + steps.length)
  }
})

t.test('a response that does not say which range it holds is unexpected-response', async (t) => {
  const strange: Record<string, Step> = {
    'another range': (res) =>
      void res.writeHead(206, { ETag: `"${digest}"`, 'Content-Range': 'bytes 9-19/10000' }).end('x'),
    'a range without Content-Range': (res) => void res.writeHead(206, { ETag: `"${digest}"` }).end('x'),
    'no content': text(204, ''),
  }
  for (const [name, step] of Object.entries(strange)) {
    const { map } = await open(t, step)
    await t.rejects(collect(map.bytes()), { code: 'unexpected-response' }, name)
  }
})

const chunk = (size: number, of: Digest = digest) => ({ digest: of, bytes: new Uint8Array(size) })
const sizesOf = (...sizes: number[]) => groupChunks(sizes.map((size) => chunk(size))).map(({ group }) => group.length)

t.test('putChunks sends at most 64 chunks and 4 MiB a request, in their order', async (t) => {
  t.strictSame(
    groupChunks(Array(150).fill(chunk(1))).map(({ first, group }) => [first, group.length]),
    [
      [0, chunksMax],
      [64, chunksMax],
      [128, 22],
    ],
  )
  const mebibyte = 1024 * 1024
  t.strictSame(sizesOf(mebibyte, mebibyte, mebibyte, mebibyte, 10), [2, 3])
  t.strictSame(sizesOf(1, groupBytesMax + 1, 1), [1, 1, 1], 'one that is too large is for the server to reject')
  const data = 'x'.repeat(Math.ceil(groupBytesMax / chunksMax / 3) * 4)
  t.ok(JSON.stringify({ chunks: Array(chunksMax).fill({ digest, data }) }).length <= 4 * mebibyte)
})

t.test('putChunks merges the results of its requests', async (t) => {
  const rejected = [{ index: 1, digest, issues: [{ code: 'undeclared', path: '', message: '' }] }]
  const { client, received } = await openScriptedClient(
    t,
    {},
    json(200, { stored: 62, existing: 1, rejected, completed: [] }),
    json(200, { stored: 1, existing: 0, rejected, completed: [] }),
  )
  const chunks = Array.from({ length: 66 }, (_, i) => chunk(i, digestOf(Buffer.of(i))))
  const result = { stored: 63, existing: 1, rejected: [rejected[0], { ...rejected[0], index: 65 }], completed: [] }
  t.strictSame(await client.putChunks(chunks), result)
  const sent = received.flatMap(({ body }) => JSON.parse(body.toString()).chunks)
  t.strictSame(
    sent,
    chunks.map(({ digest, bytes }) => ({ digest, data: Buffer.from(bytes).toString('base64') })),
  )
})

t.test('getChunk returns bytes that match their digest, and throws for others, without a retry', async (t) => {
  const bodies = [content, content.subarray(1), Buffer.alloc(0), Buffer.from('<html>')]
  const steps = bodies.map(
    (body): Step =>
      (res) =>
        void res.end(body),
  )
  const { client, received } = await openScriptedClient(t, {}, ...steps)
  t.ok(content.equals((await client.getChunk(digest)) ?? Buffer.alloc(0)))
  t.match(received[0], { method: 'GET', path: '/v1/maps/chunks', query: { digest } })
  const message = new RegExp(digest)
  for (const _ of bodies.slice(1)) await t.rejects(client.getChunk(digest), { code: 'digest-mismatch', message })
  t.equal(received.length, bodies.length)
})
