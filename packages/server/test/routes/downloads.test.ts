import { createHash } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { toFetchHandler } from '../../src/fetch-handler.ts'
import { concurrencyLimits } from '../../src/limits/concurrency.ts'
import { readBytesMin } from '../../src/limits/rate-limits.ts'
import { lookUpReadBytes } from '../../src/routes/get-events.ts'
import { type ServeOptions, serve } from '../../src/serve.ts'
import { batchOf, collectErrors, openTestIngest, projectId, withMethods } from '../batches.ts'
import { edges, requestBytes } from '../edges.ts'
import { bytesOf, digestOf, get, manifestOf, publish } from '../map-parts.ts'
import { openRaw } from '../raw-connection.ts'

const path = '/v1/maps/content?placeId=p&buildId=b'
const id = { placeId: 'p', buildId: 'b' }
/** More than the buffers of a connection hold. */
const pieces = 640
const piece = bytesOf(65_536)
const size = pieces * piece.length
const bigDigest = (() => {
  const hash = createHash('sha256')
  for (let i = 0; i < pieces; i++) hash.update(piece)
  return `sha256:${hash.digest('hex')}`
})()

/** A map of 40 MiB that keeps the books of who reads it. */
async function openBig() {
  const { ingest, key } = await openTestIngest()
  const chunk = { digest: digestOf(piece), size: piece.length }
  const manifest = { contentType: 'a/b', size, digest: bigDigest, chunks: Array.from({ length: pieces }, () => chunk) }
  await ingest.project(projectId).publishMap({ ...id, manifest })
  await ingest.project(projectId).putChunk(chunk.digest, piece)
  const books = { read: 0, open: 0, onClose: () => {} }
  async function* watch(source: AsyncIterable<Uint8Array>) {
    books.open++
    try {
      for await (const each of source) {
        books.read++
        yield each
      }
    } finally {
      books.open--
      books.onClose()
    }
  }
  const watched = withMethods(ingest, (project) => ({
    async getMapContent(id) {
      const map = await project.getMapContent(id)
      return map && { ...map, bytes: (start, end) => watch(map.bytes(start, end)) }
    },
  }))
  /** Resolves when nobody reads any more. */
  const allClosed = () =>
    new Promise<void>((resolve) => {
      books.onClose = () => {
        if (books.open === 0) resolve()
      }
      books.onClose()
    })
  return { ingest: watched, key, books, allClosed }
}

async function serveBig(t: Test, options: Partial<ServeOptions> = {}) {
  const big = await openBig()
  const served = await serve({ ingest: big.ingest, port: 0, closeTimeoutMs: 1, ...options })
  t.teardown(() => served.close())
  const openPaused = async (count = 1) => {
    const socket = connect(served.port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    await new Promise((resolve) => socket.once('connect', resolve))
    socket.pause()
    for (let i = 0; i < count; i++) socket.write(requestBytes(get(path, big.key)))
    return socket
  }
  return { ...big, served, openPaused }
}

/** Resolves when the server has had many turns, in which it would have gone on if it could. */
async function afterManyTurns(port: number): Promise<void> {
  const raw = await openRaw(port)
  for (let i = 0; i < 200; i++) {
    raw.write(requestBytes({ method: 'GET', path: '/livez' }))
    await raw.read()
  }
  raw.socket.destroy()
}

/** The digest of the body that comes, after the headers, until the connection ends or all of it is here. */
function digestFrom(socket: Socket): Promise<string> {
  return new Promise((resolve, reject) => {
    const hash = createHash('sha256')
    let head = ''
    let left = size
    socket.on('error', reject)
    socket.on('close', () => reject(new Error(`${left} bytes are missing`)))
    socket.on('data', (data) => {
      let body = data
      if (left === size && !head.includes('\r\n\r\n')) {
        head += data.toString('latin1')
        const end = head.indexOf('\r\n\r\n')
        if (end === -1) return
        body = Buffer.from(head.slice(end + 4), 'latin1')
      }
      hash.update(body)
      left -= body.length
      if (left === 0) resolve(`sha256:${hash.digest('hex')}`)
    })
    socket.resume()
  })
}

t.test('who reads slowly holds the server back, and gets everything', async (t) => {
  const { served, openPaused, books, allClosed } = await serveBig(t)
  const socket = await openPaused()
  await afterManyTurns(served.port)
  t.ok(books.read > 0)
  t.ok(books.read < pieces / 2, `${books.read} of ${pieces} pieces were read ahead`)
  t.equal(await digestFrom(socket), bigDigest)
  await allClosed()
  t.equal(books.read, pieces)
})

t.test('so many are answered at once and no more, and those who leave give their place back', async (t) => {
  const { served, openPaused, key, books, allClosed } = await serveBig(t)
  const sockets = await Promise.all(Array.from({ length: concurrencyLimits.downloads.projectMax }, () => openPaused()))
  const raw = await openRaw(served.port)
  while (books.open < concurrencyLimits.downloads.projectMax) {
    raw.write(requestBytes({ method: 'GET', path: '/livez' }))
    await raw.read()
  }
  raw.write(requestBytes(get('/v1/maps', key)))
  const refused = await raw.read()
  t.equal(refused.status, 503)
  t.equal(JSON.parse(refused.body).code, 'overloaded')
  for (const [i, socket] of sockets.entries()) i % 2 === 0 ? socket.resetAndDestroy() : socket.destroy()
  await allClosed()
  for (let i = 0; i < concurrencyLimits.downloads.projectMax * 2; i++) {
    raw.write(requestBytes(get('/v1/maps', key)))
    t.equal((await raw.read()).status, 200)
  }
  raw.socket.destroy()
})

t.test(
  'of requests sent at once one response is open at a time, and a client that leaves leaves nothing behind',
  async (t) => {
    const warnings: Error[] = []
    const warn = (warning: Error) => void warnings.push(warning)
    process.on('warning', warn)
    t.teardown(() => process.off('warning', warn))
    const { served, openPaused, books, allClosed } = await serveBig(t)
    const socket = await openPaused(10)
    await afterManyTurns(served.port)
    t.equal(books.open, 1)
    socket.resetAndDestroy()
    await allClosed()
    t.strictSame(warnings, [])
  },
)

t.test('a HEAD begins nothing that stays', async (t) => {
  const { served, key, books } = await serveBig(t)
  const raw = await openRaw(served.port)
  for (let i = 0; i < concurrencyLimits.downloads.projectMax + 1; i++) {
    raw.write(requestBytes(get(path, key, [], 'HEAD')))
    t.match(await raw.read(true), { status: 200, headers: { 'content-length': String(size) } })
  }
  t.equal(books.open, 0)
  raw.socket.destroy()
})

t.test('an answer that has begun is finished while the server closes', async (t) => {
  const { served, openPaused, books } = await serveBig(t, { closeTimeoutMs: 600_000 })
  const socket = await openPaused()
  await afterManyTurns(served.port)
  t.equal(books.open, 1)
  const closed = served.close()
  t.equal(await digestFrom(socket), bigDigest)
  await closed
})

t.test('an answer that nobody reads is cut off when the time is over', async (t) => {
  const { served, openPaused, allClosed } = await serveBig(t, { closeTimeoutMs: 600 })
  await openPaused()
  await afterManyTurns(served.port)
  await served.close()
  await allClosed()
})

t.test('a map that is replaced while it is read breaks the connection, and is told to nobody as a fault', async (t) => {
  const { log, errors } = collectErrors()
  const { served, ingest, openPaused, allClosed } = await serveBig(t, { log })
  const socket = await openPaused()
  await afterManyTurns(served.port)
  await ingest.project(projectId).publishMap({ ...id, map: 'another' })
  await t.rejects(digestFrom(socket), /bytes are missing/)
  await allClosed()
  t.strictSame(errors, [])
})

t.test('by fetch, a body is read as it is asked for, and let go when it is cancelled', async (t) => {
  const { ingest, key, books } = await openBig()
  const handler = toFetchHandler(ingest)
  const request = () => {
    const { headers = [] } = get(path, key)
    return new Request(`http://localhost${path}`, {
      headers: headers.map(([name, value]): [string, string] => [name, value]),
    })
  }
  for (let i = 0; i < concurrencyLimits.downloads.projectMax + 1; i++) {
    const response = await handler(request())
    t.equal(response.status, 200)
    const reader = response.body?.getReader()
    t.equal((await reader?.read())?.value?.length, piece.length)
    await reader?.cancel()
  }
  t.equal(books.open, 0)
  t.ok(books.read <= 3 * (concurrencyLimits.downloads.projectMax + 1))
  const hash = createHash('sha256')
  for await (const chunk of (await handler(request())).body ?? []) hash.update(chunk)
  t.equal(`sha256:${hash.digest('hex')}`, bigDigest)
})

/** Events that fail after some hundred thousand bytes. */
async function openFailing() {
  const { ingest, key } = await openTestIngest()
  for (let i = 0; i < 10; i++)
    await ingest.project(projectId).submitBatch(Buffer.from(batchOf(100, `${'x'.repeat(200)}${i}-`)))
  const secret = new Error('secret')
  let failAfter = 900
  const failing = withMethods(ingest, (project) => ({
    async *readEvents(options) {
      let left = failAfter
      for await (const event of project.readEvents(options)) {
        if (left-- === 0) throw secret
        yield event
      }
    },
  }))
  const { log, errors } = collectErrors()
  const failAt = (count: number) => {
    failAfter = count
  }
  return { ingest: failing, key, log, errors, secret, failAt }
}

t.test('what fails in the middle breaks the connection, and is reported', async (t) => {
  const { ingest, key, log, errors, secret } = await openFailing()
  const served = await serve({ ingest, port: 0, closeTimeoutMs: 1, log })
  t.teardown(() => served.close())
  const raw = await openRaw(served.port)
  raw.write(requestBytes(get('/v1/events', key)))
  await raw.ended
  await t.rejects(raw.read(), /ended after "HTTP\/1.1 200 OK.*[^0]\\r\\n/s)
  t.match(errors, [{ err: secret, requestId: /-/ }])
  const old = await openRaw(served.port)
  old.write(String(requestBytes(get('/v1/events', key))).replace('HTTP/1.1', 'HTTP/1.0'))
  t.equal(await old.ended, 'reset', 'an end would be the end of the body')
})

t.test('what fails in the beginning is answered as what it is', async (t) => {
  const { ingest, key, log, errors, failAt } = await openFailing()
  failAt(10)
  const served = await serve({ ingest, port: 0, closeTimeoutMs: 1, log })
  t.teardown(() => served.close())
  const raw = await openRaw(served.port)
  for (let i = 0; i < concurrencyLimits.downloads.projectMax + 1; i++) {
    raw.write(requestBytes(get('/v1/events', key)))
    const answer = await raw.read()
    t.equal(answer.status, 500)
    t.notMatch(answer.body, 'secret')
  }
  t.equal(errors.length, concurrencyLimits.downloads.projectMax + 1)
  raw.socket.destroy()
})

t.test('by fetch, what fails in the middle fails the body', async (t) => {
  const { ingest, key, log, errors } = await openFailing()
  const { headers = [] } = get('/v1/events', key)
  const pairs = headers.map(([name, value]): [string, string] => [name, value])
  const response = await toFetchHandler(ingest, { log })(new Request('http://localhost/v1/events', { headers: pairs }))
  t.equal(response.status, 200)
  await t.rejects(response.text(), /secret/)
  t.equal(errors.length, 1)
})

t.test('a connection goes on after every kind of answer', async (t) => {
  const { ingest, key } = await openTestIngest()
  const bytes = bytesOf(200_000)
  const chunks = [bytes.subarray(0, 1000), bytes.subarray(1000, 99_000), bytes.subarray(99_000)]
  await ingest.project(projectId).publishMap({ ...id, manifest: manifestOf(chunks) })
  for (const chunk of chunks) await ingest.project(projectId).putChunk(digestOf(chunk), chunk)
  for (let i = 0; i < 10; i++)
    await ingest.project(projectId).submitBatch(Buffer.from(batchOf(100, `${'x'.repeat(200)}${i}-`)))
  const served = await serve({ ingest, port: 0, closeTimeoutMs: 1 })
  t.teardown(() => served.close())
  const raw = await openRaw(served.port)
  for (const [sent, status, length] of [
    [get(path, key), 200, 200_000],
    [get(path, key, [['Range', 'bytes=900-100000']]), 206, 99_101],
    [get(path, key, [['If-None-Match', '*']]), 304, 0],
    [get(path, key, [['Range', 'bytes=200000-']]), 416, undefined],
    [get(path, key, [], 'HEAD'), 200, 0],
    [get('/v1/events', key), 200, undefined],
    [get('/v1/events', key, [], 'HEAD'), 200, 0],
    [get('/v1/events?limit=1', key), 200, undefined],
    [get('/v1/maps', key), 200, undefined],
    [get('/v1/maps?placeId=1&buildId=2', key), 404, undefined],
    [get(`/v1/maps/chunks?digest=${digestOf(chunks[0] as Buffer)}`, key), 200, 1000],
    [get(path, key), 200, 200_000],
  ] as const) {
    raw.write(requestBytes(sent))
    const answer = await raw.read(sent.method === 'HEAD')
    t.equal(answer.status, status, String(sent.path))
    t.equal(answer.headers.connection, 'keep-alive')
    if (length !== undefined) t.equal(answer.bytes.length, length)
  }
  raw.socket.destroy()
})

for (const { name, open } of edges) {
  t.test(`by ${name}, a read is charged for what it returns or looks up, and a HEAD or a 304 the least`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const burst = 10_000_000
    const edge = await open(ingest, { rateLimits: { readBytes: { perSecond: 1, burst }, now: () => 0 } })
    t.teardown(() => edge.close())
    const chunk = bytesOf(100_000)
    await publish(ingest, [chunk], id)
    let left = burst
    for (const [sent, status, charged] of [
      [get(path, key), 200, chunk.length],
      [get(path, key, [['Range', 'bytes=100-50099']]), 206, 50_000],
      [get(path, key, [['If-None-Match', '*']]), 304, 0],
      [get(path, key, [], 'HEAD'), 200, 0],
      [get(`/v1/maps/chunks?digest=${digestOf(chunk)}`, key), 200, chunk.length],
      [get('/v1/maps', key), 200, undefined],
      [get('/v1/events?eventId=e', key), 200, lookUpReadBytes],
    ] as const) {
      const answer = await edge.send(sent)
      t.equal(answer.status, status)
      left -= readBytesMin + (charged ?? answer.bytes.length)
      t.match(answer.headers.ratelimit, `"read-bytes";r=${left};`, `${sent.method} ${sent.path} ${status}`)
    }
  })
}
