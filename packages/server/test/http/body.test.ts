import { createServer } from 'node:http'
import { gzipSync } from 'node:zlib'
import { batchBytesMax, IngestError } from '@ingest/core'
import t, { type Test } from 'tap'
import { inflateBody, readBody } from '../../src/http/body.ts'
import { concurrencyLimits, shareMaxOf } from '../../src/limits/concurrency.ts'
import { createHandler } from '../../src/node-handler.ts'
import { requestBytes } from '../edges.ts'
import { listen, openServed } from '../open-server.ts'
import { openRaw } from '../raw-connection.ts'
import { batchOf, batchOfBytes, headersOf, openTestIngest } from '../test-ingest.ts'

const chunked = ['Transfer-Encoding', 'chunked'] as const

function inChunks(body: Uint8Array, size: number): Buffer {
  const parts: Uint8Array[] = []
  for (let start = 0; start < body.length; start += size) {
    const part = body.subarray(start, start + size)
    parts.push(Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n'))
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')])
}

t.test('a chunked body of 262,144 bytes is accepted, one of 262,145 is not', async (t) => {
  for (const [size, status] of [
    [batchBytesMax - 1, 202],
    [batchBytesMax, 202],
    [batchBytesMax + 1, 413],
  ] as const) {
    const { raw, headers, storedCount } = await openServed(t)
    raw.write(requestBytes({ headers: [...headers, chunked], body: inChunks(Buffer.from(batchOfBytes(size)), 1000) }))
    t.equal((await raw.read()).status, status)
    t.equal(await storedCount(), status === 202 ? 1 : 0)
  }
})

t.test('compressed bytes have the same limit, whatever they inflate to', async (t) => {
  const { raw, headers } = await openServed(t)
  const body = Buffer.concat(Array<Buffer>(20_000).fill(gzipSync('')))
  t.ok(body.length > batchBytesMax)
  raw.write(
    requestBytes({ headers: [...headers, ['Content-Encoding', 'gzip'], chunked], body: inChunks(body, 10_000) }),
  )
  t.equal((await raw.read()).status, 413)
})

t.test('262,144 bytes are inflated, one more is too large', async (t) => {
  const limit = { bytesMax: batchBytesMax, tooLarge: () => new RangeError('too large') as IngestError }
  t.equal((await inflateBody(gzipSync(Buffer.alloc(batchBytesMax)), limit)).length, batchBytesMax)
  await t.rejects(inflateBody(gzipSync(Buffer.alloc(batchBytesMax + 1)), limit), RangeError)
})

t.test('a body may arrive byte by byte', async (t) => {
  const { raw, headers, storedCount } = await openServed(t)
  raw.socket.setNoDelay(true)
  for (const byte of requestBytes({ headers, body: batchOf(2) })) {
    await new Promise((resolve) => raw.socket.write(Buffer.of(byte), resolve))
  }
  t.equal((await raw.read()).status, 202)
  t.equal(await storedCount(), 2)
})

t.test('an event is stored byte for byte, however its body was chunked', async (t) => {
  const { ingest, raw, headers } = await openServed(t)
  const event = '{ "projectId":"game-1",\t"eventId":"\\u00e4ö", "n": 12345678901234567890.10 }'
  const body = inChunks(Buffer.from(`{"events":[${event}]}`), 7)
  raw.write(requestBytes({ headers: [...headers, chunked], body }))
  t.equal((await raw.read()).status, 202)
  t.equal(Buffer.from((await ingest.project('game-1').findEvent('äö'))?.bytes ?? []).toString(), event)
})

t.test('a client that disconnects in the middle of its body releases its slot, and nothing is stored', async (t) => {
  const { connect, headers, storedCount } = await openServed(t)
  const body = batchOf(1)
  const bytes = requestBytes({ headers: [...headers, ['Expect', '100-continue']], body })
  for (let left = shareMaxOf(concurrencyLimits.batches); left > 0; left -= 64) {
    await Promise.all(
      Array.from({ length: 64 }, async () => {
        const raw = await connect()
        raw.write(bytes.subarray(0, -body.length))
        t.equal((await raw.read()).status, 100, 'it has a slot')
        raw.write(bytes.subarray(-body.length, -1))
        raw.socket.resetAndDestroy()
      }),
    )
  }
  const last = await connect()
  last.write(requestBytes({ headers, body: batchOf(1, 'other') }))
  t.equal((await last.read()).status, 202)
  t.equal(await storedCount(), 1)
})

t.test(
  'a client that half-closes its connection in the middle of the body gets no 400, which would make it drop the batch',
  async (t) => {
    for (const framing of [[], [chunked]]) {
      const { raw, headers, storedCount } = await openServed(t)
      const body = framing.length > 0 ? inChunks(Buffer.from(batchOf(3)), 30) : batchOf(3)
      raw.socket.end(requestBytes({ headers: [...headers, ...framing], body }).subarray(0, -10))
      await raw.ended
      await t.rejects(raw.read(), /ended after ""/)
      t.equal(await storedCount(), 0)
    }
  },
)

/** A server, and how many chunks of bodies it received. */
async function openCounting(t: Test) {
  const opened = await openTestIngest()
  const handler = createHandler(opened.ingest)
  const seen = { chunks: 0 }
  const server = createServer((req, res) => {
    const push = req.push.bind(req)
    req.push = (chunk, ...rest) => {
      seen.chunks++
      return push(chunk, ...rest)
    }
    handler(req, res)
  })
  return { ...opened, seen, port: await listen(t, server) }
}

t.test('a body in chunks of a few bytes is accepted', async (t) => {
  const { port, headers, storedCount } = await openCounting(t)
  const raw = await openRaw(port)
  raw.write(requestBytes({ headers: [...headers, chunked], body: inChunks(Buffer.from(batchOfBytes(262_144)), 8) }))
  t.equal((await raw.read()).status, 202)
  raw.write(requestBytes({ headers: [...headers, chunked], body: inChunks(Buffer.from(batchOf(3)), 1) }))
  t.equal((await raw.read()).status, 202)
  t.equal(await storedCount(), 4)
})

t.test('a large body in chunks of one byte is refused and no longer parsed', async (t) => {
  for (const isKnown of [true, false]) {
    const { port, key, headers, seen, storedCount } = await openCounting(t)
    const raw = await openRaw(port)
    raw.socket.on('error', () => {})
    const sent = [...headersOf(isKnown ? key : 'junk'), chunked]
    raw.write(requestBytes({ headers: sent, body: inChunks(Buffer.from(batchOfBytes(262_144)), 1) }))
    const response = await raw.read()
    t.equal(response.status, isKnown ? 400 : 401)
    if (isKnown) t.match(response.json, { code: 'malformed-request', detail: /larger chunks/ })
    t.equal(response.headers.connection, 'close')
    raw.socket.end()
    await raw.ended
    t.ok(seen.chunks > 0)
    t.ok(seen.chunks < 8000, `${seen.chunks} chunks`)
    t.equal(await storedCount(), 0)

    // Node reuses the parsers of closed connections
    for (let i = 0; i < 5; i++) {
      const next = await openRaw(port)
      next.write(requestBytes({ headers, body: batchOf(1, `${i}-`) }))
      t.equal((await next.read()).status, 202)
      next.socket.destroy()
    }
    t.equal(await storedCount(), 5)
  }
})

t.test('a small body that arrives with the headers of a refused request leaves the connection open', async (t) => {
  const { raw, headers } = await openServed(t)
  const body = batchOf(1)
  raw.write(requestBytes({ headers: [...headersOf('wrong'), ['Content-Length', `${body.length}`]], body }))
  const refused = await raw.read()
  t.equal(refused.status, 401)
  t.equal(refused.headers.connection, 'keep-alive')
  raw.write(requestBytes({ headers, body }))
  t.equal((await raw.read()).status, 202)
})

t.test('a body is not read on while the receiver waits', async (t) => {
  let isWaiting = false
  let early = 0
  let waits = 0
  async function receive() {
    if (isWaiting) early++
    isWaiting = true
    waits++
    for (let i = 0; i < 5; i++) await new Promise(setImmediate)
    isWaiting = false
  }
  const limit = { bytesMax: 2 ** 22, tooLarge: () => new IngestError('body-too-large', ''), receive }
  const server = createServer(async (req, res) => {
    const body = await readBody(req, false, limit)
    res.end(`${body.length}`)
  })
  const response = await fetch(`http://127.0.0.1:${await listen(t, server)}`, {
    method: 'PUT',
    body: Buffer.alloc(2 ** 22, 'a'),
  })
  t.equal(await response.text(), `${2 ** 22}`)
  t.ok(waits > 10, `${waits} parts`)
  t.equal(early, 0)
})
