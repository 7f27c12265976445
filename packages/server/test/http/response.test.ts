import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer, IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { batchBytesMax, type ErrorCode, errorCodes, errorTable, IngestError } from '@ingest/core'
import t, { type Test } from 'tap'
import { isStream, problemResponse } from '../../src/http/response.ts'
import { discardBytesMax, sendResponse, stalledMs } from '../../src/http/send-response.ts'
import { type BodyStream, startStream } from '../../src/http/stream.ts'
import { codesOfRoutes } from '../../src/openapi/problems.ts'
import { requestBytes } from '../edges.ts'
import { listen, openServed } from '../open-server.ts'
import { openRaw } from '../raw-connection.ts'
import { batchOf, headersOf, projectId } from '../test-ingest.ts'

t.test('every error is a problem document, with a Retry-After if it is a 429 or 503', async (t) => {
  for (const code of errorCodes) {
    const error = new IngestError(code, 'What happened.')
    const { status, headers, body } = problemResponse(error, 'id-1')
    t.equal(status, errorTable[code].status)
    t.match(headers, {
      'Content-Type': 'application/problem+json',
      'Content-Length': String(Buffer.byteLength(body)),
      'Cache-Control': 'no-store',
      'X-Request-Id': 'id-1',
    })
    const { retryAfter, ...problem } = JSON.parse(body)
    const isOfStore = /^(disk-full|permission-denied|store-.*)$/.test(code)
    t.strictSame(problem, {
      type: `urn:ingest:problem:${code}`,
      title: error.title,
      status,
      detail: isOfStore ? 'The store cannot do this now: try again later.' : 'What happened.',
      code,
      requestId: 'id-1',
      retryable: isOfStore || error.retryable,
    })
    const mayRetry = status === 429 || status === 503
    t.equal(headers['Retry-After'], mayRetry ? String(retryAfter) : undefined, code)
    if (mayRetry) t.ok(Number.isInteger(retryAfter) && retryAfter > 0, code)
    if (mayRetry) t.equal(error.retryable, true, code)
    // on which senders drop a batch
    if (status === 400 || status === 413) t.equal(error.retryable, false, code)
  }
})

t.test('the problem has the details of the error', async (t) => {
  const issues = [{ code: 'required' as const, path: '/eventId', message: 'Every event needs an eventId.' }]
  const error = new IngestError('overloaded', '', { limit: 1, actual: 2, retryAfterSeconds: 7, issues })
  const { headers, body } = problemResponse(error, 'id-1')
  t.match(JSON.parse(body), { limit: 1, actual: 2, retryAfter: 7, issues })
  t.equal(headers['Retry-After'], '7')
})

t.test('the docs list every code with its status and whether it is retryable', async (t) => {
  // tests run in a compiled copy of the repository, without docs
  const root = execFileSync('git', ['rev-parse', '--show-toplevel'], { encoding: 'utf8' }).trim()
  const rows = readFileSync(join(root, 'docs/http-api.md'), 'utf8').matchAll(
    /^\| `([a-z-]+)` +\| (\d{3}) +\| (yes|no) /gm,
  )
  const documented = Array.from(rows, ([, code = '', status, retryable]) => [code, Number(status), retryable === 'yes'])
  // a problem document says of every failure of the store that it is retryable
  const isRetryable = (code: ErrorCode) => JSON.parse(problemResponse(new IngestError(code, ''), 'id').body).retryable
  const expectedOf = (code: ErrorCode) =>
    codesOfRoutes.includes(code) ? isRetryable(code) : new IngestError(code, '').retryable
  const expected = errorCodes.map((code) => [code, errorTable[code].status, expectedOf(code)])
  t.strictSame(documented.sort(), expected.sort())
})

async function start(chunks: (string | Error)[]) {
  const seen = { yielded: 0, errors: [] as unknown[], ends: 0, isClosed: false }
  async function* source() {
    try {
      for (const chunk of chunks) {
        if (chunk instanceof Error) throw chunk
        seen.yielded++
        yield Buffer.from(chunk)
      }
    } finally {
      seen.isClosed = true
    }
  }
  const onEnd = () => {
    seen.ends++
  }
  const started = startStream(source(), { onError: (error) => seen.errors.push(error), onEnd })
  return { seen, body: await started.catch((error: Error) => error) }
}

t.test('a body of at most one chunk is returned as bytes', async (t) => {
  for (const chunks of [[], ['a']]) {
    const { seen, body } = await start(chunks)
    t.equal(String(body), chunks.join(''))
    t.match(seen, { ends: 1, isClosed: true, errors: { length: 0 } })
  }
})

t.test('a longer body is a stream, in order, of which two chunks are read ahead', async (t) => {
  const { seen, body } = await start(['a', 'b', 'c', 'd'])
  t.equal(seen.yielded, 2)
  t.equal(seen.ends, 0)
  const read: string[] = []
  for await (const chunk of body as BodyStream) read.push(String(chunk))
  t.strictSame(read, ['a', 'b', 'c', 'd'])
  t.match(seen, { ends: 1, isClosed: true, errors: { length: 0 } })
  t.match(await (body as BodyStream).next(), { done: true })
  await (body as BodyStream).return()
  t.equal(seen.ends, 1, 'the end is reported once')
})

t.test('an error in the first two chunks rejects, and is not reported to onError', async (t) => {
  const error = new Error('gone')
  for (const chunks of [[error], ['a', error]]) {
    const { seen, body } = await start(chunks)
    t.equal(body, error)
    t.match(seen, { ends: 1, isClosed: true, errors: { length: 0 } })
  }
})

t.test('a later error is reported to onError and thrown to the reader', async (t) => {
  const error = new Error('gone')
  const { seen, body } = await start(['a', 'b', error])
  await t.rejects(async () => {
    for await (const _ of body as BodyStream);
  }, error)
  t.match(seen, { ends: 1, isClosed: true, errors: [error] })
})

t.test('a reader that stops early closes the source, also before the first chunk', async (t) => {
  for (const read of [0, 1, 3]) {
    const { seen, body } = await start(['a', 'b', 'c', 'd'])
    t.ok(body instanceof Error === false && isStream(body))
    const stream = body as BodyStream
    for (let i = 0; i < read; i++) t.notOk((await stream.next()).done)
    t.equal(seen.ends, 0)
    await stream.return()
    t.match(seen, { ends: 1, isClosed: true, errors: { length: 0 } })
    t.match(await stream.next(), { done: true })
  }
})

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
    const { raw, key, storedCount } = await openServed(t)
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
    const { raw, key } = await openServed(t)
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
  const { raw } = await openServed(t)
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
  const { raw } = await openServed(t)
  raw.write(requestBytes({ headers: [['Content-Length', '5']] }))
  t.equal((await raw.read()).status, 401)
  t.equal(await raw.ended, 'end')
})

t.test('the connection is kept after an error response to a complete request', async (t) => {
  const { raw, headers } = await openServed(t)
  raw.write(requestBytes({ headers, body: '{}' }))
  const response = await raw.read()
  t.equal(response.status, 400)
  t.equal(response.headers.connection, 'keep-alive')
  raw.write(requestBytes({ headers, body: batchOf(1) }))
  t.equal((await raw.read()).status, 202)
  raw.write(requestBytes({ method: 'GET', path: '/nowhere' }))
  t.equal((await raw.read()).status, 404)
  raw.write(requestBytes({ headers, body: batchOf(1) }))
  t.match((await raw.read()).json, { accepted: 0, duplicates: 1 })
})

t.test('a streamed response reaches a client that is still sending a body', async (t) => {
  for (const framing of [
    ['Content-Length', '1000000'],
    ['Transfer-Encoding', 'chunked'],
  ] as const) {
    const { raw, ingest, key } = await openServed(t)
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
  return { closed, ...(await openRaw(await listen(t, server))) }
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
