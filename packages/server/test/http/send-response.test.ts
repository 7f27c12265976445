import { once } from 'node:events'
import { createServer, IncomingMessage, ServerResponse } from 'node:http'
import { type AddressInfo, Socket } from 'node:net'
import { batchBytesMax } from '@ingest/core'
import t, { type Test } from 'tap'
import { discardBytesMax, sendResponse, stalledMs } from '../../src/http/send-response.ts'
import type { BodyStream } from '../../src/http/stream.ts'
import { serve } from '../../src/serve.ts'
import { requestBytes } from '../edges.ts'
import { openRaw } from '../raw-connection.ts'
import { batchOf, headersOf, openTestIngest, projectId } from '../test-ingest.ts'

async function open(t: Test) {
  const opened = await openTestIngest()
  const served = await serve({ ingest: opened.ingest, port: 0, closeTimeoutMs: 1 })
  t.teardown(() => served.close())
  return { ...opened, raw: await openRaw(served.port) }
}

function chunkOf(size: number): Buffer {
  return Buffer.concat([Buffer.from(`${size.toString(16)}\r\n`), Buffer.alloc(size, ' '), Buffer.from('\r\n')])
}

const refusals = [
  { name: 'a 413 by declared length', status: 413, keyed: true, framing: ['Content-Length', String(discardBytesMax)] },
  { name: 'a 413 by counted length', status: 413, keyed: true, framing: ['Transfer-Encoding', 'chunked'] },
  { name: 'a 401', status: 401, keyed: false, framing: ['Content-Length', String(discardBytesMax)] },
  { name: 'a 401 to a chunked body', status: 401, keyed: false, framing: ['Transfer-Encoding', 'chunked'] },
] as const

for (const { name, status, keyed, framing } of refusals) {
  const isChunked = framing[1] === 'chunked'

  t.test(`${name} reaches a client that reads only after sending its whole body`, async (t) => {
    const { raw, key, storedCount } = await open(t)
    raw.socket.pause()
    raw.write(requestBytes({ headers: [...headersOf(keyed ? key : 'junk'), framing] }))
    const chunk = isChunked ? chunkOf(65_536 - 12) : Buffer.alloc(65_536, ' ')
    for (let sent = 0; sent < discardBytesMax; sent += 65_536) {
      await new Promise((resolve) => raw.socket.write(chunk, resolve))
    }
    if (isChunked) raw.write('0\r\n\r\n')
    raw.socket.resume()
    const response = await raw.read()
    t.equal(response.status, status)
    t.equal(response.headers.connection, 'close')
    t.equal(await raw.ended, 'end', 'the connection is closed, not reset')
    t.equal(await storedCount(), 0)
  })

  t.test(`${name} reaches a client that is still sending`, async (t) => {
    const { raw, key } = await open(t)
    raw.write(requestBytes({ headers: [...headersOf(keyed ? key : 'junk'), framing] }))
    const chunk = isChunked ? chunkOf(batchBytesMax + 1) : Buffer.alloc(batchBytesMax + 1, ' ')
    raw.write(chunk)
    t.equal((await raw.read()).status, status)
    for (let i = 0; i < 10; i++) await new Promise((resolve) => raw.socket.write(chunk, resolve))
    raw.socket.end()
    t.equal(await raw.ended, 'end')
  })
}

t.test('a client that never stops sending is disconnected', async (t) => {
  const { raw } = await open(t)
  raw.write(requestBytes({ headers: [['Content-Length', '1000000000000']] }))
  t.equal((await raw.read()).status, 401)
  let sent = 0
  while (!raw.socket.destroyed && sent < 20 * discardBytesMax) {
    await new Promise((resolve) => raw.socket.write(Buffer.alloc(1_000_000), resolve))
    sent += 1_000_000
  }
  t.ok(sent < 20 * discardBytesMax)
})

t.test('a client that sends nothing of its declared body is disconnected', async (t) => {
  const { raw } = await open(t)
  raw.write(requestBytes({ headers: [['Content-Length', '5']] }))
  t.equal((await raw.read()).status, 401)
  t.equal(await raw.ended, 'end')
})

t.test('the connection is kept after an error response to a complete request', async (t) => {
  const { raw, headers } = await open(t)
  raw.write(requestBytes({ headers, body: '{}' }))
  const response = await raw.read()
  t.equal(response.status, 400)
  t.equal(response.headers.connection, 'keep-alive')
  raw.write(requestBytes({ headers, body: batchOf(1) }))
  t.equal((await raw.read()).status, 202)
  raw.write(requestBytes({ method: 'GET', path: '/nowhere' }))
  t.equal((await raw.read()).status, 404)
  raw.write(requestBytes({ headers, body: batchOf(1) }))
  t.match(JSON.parse((await raw.read()).body), { accepted: 0, duplicates: 1 })
  raw.socket.destroy()
})

t.test('a streamed response reaches a client that is still sending a body', async (t) => {
  for (const framing of [
    ['Content-Length', '1000000'],
    ['Transfer-Encoding', 'chunked'],
  ] as const) {
    const { raw, ingest, key } = await open(t)
    const ids = Array.from({ length: 10 }, (_, i) => `${'x'.repeat(200)}${i}-`)
    for (const id of ids) await ingest.project(projectId).submitBatch(Buffer.from(batchOf(100, id)))
    raw.write(requestBytes({ method: 'GET', path: '/v1/events', headers: [...headersOf(key), framing] }))
    const chunk = framing[1] === 'chunked' ? chunkOf(100_000) : Buffer.alloc(100_000, ' ')
    for (let i = 0; i < 10; i++) await new Promise((resolve) => raw.socket.write(chunk, resolve))
    if (framing[1] === 'chunked') raw.write('0\r\n\r\n')
    const response = await raw.read()
    t.equal(response.status, 200)
    t.equal(response.headers.connection, 'close')
    t.equal(response.body.split('\n').length, 1001)
    t.equal(await raw.ended, 'end')
  }
})

/** A server that responds with `body` and has a short timeout for stalled clients. */
async function openShortTimeout(t: Test, body: BodyStream | Uint8Array) {
  const server = createServer((req, res) => sendResponse(req, res, { status: 200, headers: {}, body }))
  let close = () => {}
  const closed = new Promise<void>((resolve) => {
    close = resolve
  })
  server.on('connection', (socket) => {
    socket.once('close', close)
    const setTimeout = socket.setTimeout.bind(socket)
    // the same timeout, shorter
    socket.setTimeout = (ms, ...rest) => setTimeout(ms === stalledMs ? 20 : ms, ...rest)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => server.close())
  return { closed, ...(await openRaw((server.address() as AddressInfo).port)) }
}

t.test('a client that stalls on a streamed response is disconnected, and the stream is closed', async (t) => {
  let onReturn = () => {}
  const isReturned = new Promise<void>((resolve) => {
    onReturn = resolve
  })
  const body: BodyStream = {
    next: async () => ({ done: false, value: Buffer.alloc(1_000_000) }),
    return: async () => {
      onReturn()
      return { done: true, value: undefined }
    },
    [Symbol.asyncIterator]: () => body,
  }
  const { socket, write, ended } = await openShortTimeout(t, body)
  socket.pause()
  write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await isReturned
  socket.resume()
  await ended
})

t.test('a client that stalls on a buffered response is disconnected', async (t) => {
  const { socket, write, ended, closed } = await openShortTimeout(t, Buffer.alloc(50_000_000))
  socket.pause()
  write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await closed
  socket.resume()
  await ended
})

t.test('a stream that cannot be sent is closed', async (t) => {
  let returned = 0
  const body: BodyStream = {
    next: () => Promise.reject(new Error('read')),
    return: async () => {
      returned++
      return { done: true, value: undefined }
    },
    [Symbol.asyncIterator]: () => body,
  }
  for (const state of [{ headersSent: true }, { destroyed: true }]) {
    const res = Object.assign(new ServerResponse(new IncomingMessage(new Socket())), {})
    for (const [name, value] of Object.entries(state)) Object.defineProperty(res, name, { value })
    sendResponse(res.req, res, { status: 200, headers: {}, body })
  }
  t.equal(returned, 2)
})
