import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import t from 'tap'
import { json, openScriptedClient, problem, type Received, type Step, text } from '../scripted-server.ts'

const content = Buffer.from('0123456789'.repeat(1000))
const digest = `sha256:${createHash('sha256').update(content).digest('hex')}`
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
  t.match(map, { ...id, digest, size: content.length, contentType: 'text/plain', frozen: true })
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

const replaced: [string, ...Step[]][] = [
  ['412', problem(412, 'precondition-failed')],
  ['503 map-replaced, then 412', problem(503, 'map-replaced'), problem(412, 'precondition-failed')],
  ['another ETag', (res, received) => serve(res, received, undefined, '"sha256:other"')],
  ['no ETag', (res) => void res.writeHead(200).end(content)],
]
for (const [name, ...steps] of replaced) {
  t.test(`${name}: map-replaced, without bytes of the new map`, async (t) => {
    const { map, received } = await open(t, serveFirst(4000), ...steps)
    let read = ''
    await t.rejects(
      async () => {
        for await (const chunk of map.bytes()) read += Buffer.from(chunk).toString()
      },
      { code: 'map-replaced' },
    )
    t.equal(read, content.subarray(0, 4000).toString())
    t.equal(received.length, 2 + steps.length)
  })
}

const strange: [string, Step][] = [
  [
    'another range',
    (res) => void res.writeHead(206, { ETag: `"${digest}"`, 'Content-Range': 'bytes 9-19/10000' }).end('x'),
  ],
  ['a range without Content-Range', (res) => void res.writeHead(206, { ETag: `"${digest}"` }).end('x')],
  ['no content', text(204, '')],
]
for (const [name, step] of strange) {
  t.test(`${name} is unexpected-response`, async (t) => {
    const { map } = await open(t, step)
    await t.rejects(collect(map.bytes()), { code: 'unexpected-response' })
  })
}
