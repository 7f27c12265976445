import { createHash } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { chunkBytesMax } from '@ingest/core'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { toFetchHandler } from '../../src/fetch-handler.ts'
import { concurrencyLimits, shareMaxOf } from '../../src/limits/concurrency.ts'
import { readBytesMin } from '../../src/limits/rate-limits.ts'
import { lookUpReadBytes } from '../../src/routes/get-events.ts'
import { entityTag, listsTag, parseByteRange } from '../../src/routes/get-map-content.ts'
import type { ServeOptions } from '../../src/serve.ts'
import { byEachEdge, requestBytes } from '../edges.ts'
import { bytesOf, digestOf, freeze, get, manifestOf, publish, put } from '../map-parts.ts'
import { openServed } from '../open-server.ts'
import { openRaw } from '../raw-connection.ts'
import { batchOf, collectErrors, openTestIngest, projectId, withMethods } from '../test-ingest.ts'

const path = '/v1/maps/content?placeId=p&buildId=b'
const chunks = [bytesOf(1000, 'a'), bytesOf(chunkBytesMax, 'b'), bytesOf(1000, 'a'), bytesOf(1, 'c')]
const kept = 'private, max-age=31536000, immutable'

byEachEdge('a map is returned byte for byte, with headers for caches', async (t, open) => {
  const { ingest, key, send } = await open()
  const whole = await publish(ingest, chunks)
  const expected = {
    'content-type': 'application/octet-stream',
    'content-length': String(whole.length),
    'accept-ranges': 'bytes',
    'cache-control': 'private, no-cache',
    'x-content-type-options': 'nosniff',
    etag: `"${digestOf(whole)}"`,
    vary: 'X-Project-Id',
  }
  const response = await send(get(path, key))
  t.equal(response.status, 200)
  t.ok(response.bytes.equals(whole))
  t.match(response.headers, expected)
  t.notOk('transfer-encoding' in response.headers)
  await freeze(ingest)
  const head = await send(get(path, key, {}, 'HEAD'))
  t.equal(head.status, 200)
  t.equal(head.bytes.length, 0)
  t.match(head.headers, { ...expected, 'cache-control': kept })
})

byEachEdge('a JSON map is returned as canonical JSON', async (t, open) => {
  const { ingest, key, send } = await open()
  await ingest.project(projectId).publishMap({ placeId: 'p', buildId: 'b', map: { b: 1, a: ['ä'] } })
  const response = await send(get(path, key))
  t.equal(response.body, '{"a":["ä"],"b":1}')
  t.equal(response.headers['content-type'], 'application/json')
})

byEachEdge('a range of the bytes is returned', async (t, open) => {
  const { ingest, key, send } = await open()
  const whole = await publish(ingest, chunks)
  const size = whole.length
  const tag = `"${digestOf(whole)}"`
  for (const [range, start, end] of [
    ['bytes=10-', 10, size],
    ['bytes=-5', size - 5, size],
    ['bytes=500-1050000', 500, 1_050_001],
    [`bytes=${size - 1}-${size + 100}`, size - 1, size],
  ] as const) {
    for (const headers of [{}, { 'If-Range': tag }]) {
      const response = await send(get(path, key, { Range: range, ...headers }))
      t.equal(response.status, 206, range)
      t.equal(response.headers['content-range'], `bytes ${start}-${end - 1}/${size}`)
      t.equal(response.headers['content-length'], String(end - start))
      t.equal(response.headers.etag, tag)
      t.ok(response.bytes.equals(whole.subarray(start, end)), range)
    }
  }
  for (const headers of [
    { Range: 'bytes=0-1,4-5' },
    { Range: 'lines=0-1' },
    { Range: 'bytes=5-4' },
    { Range: 'bytes=0-1', 'If-Range': '"sha256:0"' },
    { Range: 'bytes=0-1', 'If-Range': `W/${tag}` },
    { Range: 'bytes=0-1', 'If-Range': 'Fri, 20 Nov 2026 19:49:02 GMT' },
    { Range: `bytes=${size}-`, 'If-Range': '"sha256:0"' },
  ]) {
    const response = await send(get(path, key, headers))
    t.equal(response.status, 200, JSON.stringify(headers))
    t.ok(response.bytes.equals(whole))
  }
  for (const range of [`bytes=${size}-`, 'bytes=-0']) {
    const response = await send(get(path, key, { Range: range }))
    t.equal(response.status, 416)
    t.equal(response.headers['content-range'], `bytes */${size}`)
    t.match(response.json, { code: 'range-not-satisfiable', limit: size })
  }
  const head = await send(get(path, key, { Range: 'bytes=0-1' }, 'HEAD'))
  t.match(head, { status: 200, headers: { 'content-length': String(size) } }, 'ranges are for GET only')
})

byEachEdge('bytes that the client has cached are not sent again', async (t, open) => {
  const { ingest, key, send } = await open()
  const whole = await publish(ingest, chunks)
  const tag = `"${digestOf(whole)}"`
  for (const list of [tag, `W/${tag}`, '*', `"a", ${tag}`]) {
    for (const method of ['GET', 'HEAD']) {
      const response = await send(get(path, key, { 'If-None-Match': list, Range: 'bytes=0-1' }, method))
      t.equal(response.status, 304)
      t.equal(response.bytes.length, 0)
      t.match(response.headers, { etag: tag, 'cache-control': 'private, no-cache', 'x-request-id': /-/ })
    }
  }
  for (const headers of [{ 'If-None-Match': '"sha256:0"' }, { 'If-Match': tag }]) {
    const response = await send(get(path, key, headers))
    t.equal(response.status, 200)
    t.ok(response.bytes.equals(whole))
  }
  const failed = await send(get(path, key, { 'If-Match': '"sha256:0"' }))
  t.match(failed, { status: 412, json: { code: 'precondition-failed' } })
})

byEachEdge('only a complete map has content, and only for its own project', async (t, open) => {
  const { ingest, key, send } = await open()
  await ingest.project(projectId).publishMap({ placeId: 'p', buildId: 'b', manifest: manifestOf(chunks) })
  const other = await ingest.keys.create('game-2')
  for (const [sent, status, code] of [
    [get(path, key), 404, 'map-not-found'],
    [get('/v1/maps/content?placeId=p', key), 400, 'invalid-argument'],
    [get(`${path}&range=1`, key), 400, 'invalid-argument'],
    [get('/v1/maps/content?placeId=p&buildId=', key), 400, 'invalid-argument'],
    [get(path, other.key), 401, 'unauthorized'],
  ] as const) {
    const response = await send(sent)
    t.match(response, { status, json: { code } }, response.body)
    t.equal(response.headers['cache-control'], 'no-store')
  }
})

byEachEdge('an empty map has empty content', async (t, open) => {
  const { ingest, key, send } = await open()
  await ingest.project(projectId).publishMap({ placeId: 'p', buildId: 'b', manifest: manifestOf([]) })
  const response = await send(get(path, key))
  t.match(response, { status: 200, body: '', headers: { 'content-length': '0' } })
})

byEachEdge('a chunk is returned by its digest and may be cached permanently', async (t, open) => {
  const { ingest, key, send } = await open()
  await publish(ingest, chunks)
  const bytes = chunks[1] as Buffer
  const digest = digestOf(bytes)
  const of = (value: string) => `/v1/maps/chunks?digest=${value}`
  const response = await send(get(of(digest), key))
  t.equal(response.status, 200)
  t.ok(response.bytes.equals(bytes))
  const expected = {
    'content-type': 'application/octet-stream',
    'content-length': String(bytes.length),
    'cache-control': kept,
    'x-content-type-options': 'nosniff',
    etag: `"${digest}"`,
  }
  t.match(response.headers, expected)
  const head = await send(get(of(digest), key, {}, 'HEAD'))
  t.match(head, { status: 200, body: '', headers: expected })
  t.match(await send(get(of(digest), key, { 'If-None-Match': `"${digest}"` })), { status: 304, body: '' })
  for (const [query, status, code] of [
    [of(digestOf(bytesOf(1, 'unknown'))), 404, 'chunk-not-found'],
    [of('sha256:'), 400, 'invalid-argument'],
    ['/v1/maps/chunks', 400, 'invalid-argument'],
  ] as const) {
    t.match(await send(get(query, key)), { status, json: { code } })
  }
})

const tag = entityTag('sha256:ab')

t.test('an entity tag is the digest in quotes', async (t) => {
  t.equal(tag, '"sha256:ab"')
})

t.test('a list matches if it has the tag or is *', async (t) => {
  for (const list of [tag, ` ${tag} `, `"a", ${tag}`, `"a",${tag},"b"`, `W/"x" , ${tag}`, '*', ' * ']) {
    t.ok(listsTag(list, tag, 'weak'), list)
    t.ok(listsTag(list, tag, 'strong'), list)
  }
  for (const list of ['', 'sha256:ab', '"sha256:a"', '"sha256:ab', '"a", "b"', '"sha256:AB"']) {
    t.notOk(listsTag(list, tag, 'weak'), list)
    t.notOk(listsTag(list, tag, 'strong'), list)
  }
})

t.test('a weak tag matches for If-None-Match only', async (t) => {
  t.ok(listsTag(`W/${tag}`, tag, 'weak'))
  t.notOk(listsTag(`W/${tag}`, tag, 'strong'))
})

t.test('a range equals a slice', async () => {
  const part = fc.option(fc.nat(30), { nil: undefined })
  fc.assert(
    fc.property(part, part, fc.nat(20), (first, last, size) => {
      const bytes = Array.from({ length: size }, (_, i) => i)
      const range = parseByteRange(`bytes=${first ?? ''}-${last ?? ''}`, size)
      if (first === undefined && last === undefined) return range === undefined
      if (first !== undefined && last !== undefined && last < first) return range === undefined
      const wanted =
        first === undefined ? bytes.slice(-(last as number) || size) : bytes.slice(first, (last ?? size) + 1)
      if (wanted.length === 0) return range === 'unsatisfiable'
      return typeof range === 'object' && String(bytes.slice(range.start, range.end)) === String(wanted)
    }),
    { numRuns: 1000 },
  )
})

t.test('ranges that a server may ignore are ignored', async (t) => {
  for (const header of [
    undefined,
    '',
    'bytes',
    'bytes=',
    'bytes=-',
    'bytes=a-b',
    'bytes=1',
    'bytes=0-1,3-4',
    'lines=0-1',
    'bytes=1-0',
    'bytes=-1-2',
    'bytes =0-1',
    'bytes=0x1-2',
  ]) {
    t.equal(parseByteRange(header, 10), undefined, String(header))
  }
})

t.test('the unit is case-insensitive, and numbers may be large', async (t) => {
  t.strictSame(parseByteRange('Bytes=2-3', 10), { start: 2, end: 4 })
  t.strictSame(parseByteRange(' bytes= 2-3 ', 10), { start: 2, end: 4 })
  t.strictSame(parseByteRange('bytes=2-99999999999999999999', 10), { start: 2, end: 10 })
  t.strictSame(parseByteRange('bytes=-99999999999999999999', 10), { start: 0, end: 10 })
  t.equal(parseByteRange('bytes=99999999999999999999-', 10), 'unsatisfiable')
  t.equal(parseByteRange('bytes=0-', 0), 'unsatisfiable')
})

const id = { placeId: 'p', buildId: 'b' }
/** Exceeds the buffers of a connection. */
const chunkCount = 640
const chunkBytes = bytesOf(65_536)
const size = chunkCount * chunkBytes.length
const bigDigest = (() => {
  const hash = createHash('sha256')
  for (let i = 0; i < chunkCount; i++) hash.update(chunkBytes)
  return `sha256:${hash.digest('hex')}`
})()

/** A map of 40 MiB, with counts of its readers and of the chunks read. */
async function openBig() {
  const { ingest, key } = await openTestIngest()
  const chunk = { digest: digestOf(chunkBytes), size: chunkBytes.length }
  const manifest = {
    contentType: 'a/b',
    size,
    digest: bigDigest,
    chunks: Array.from({ length: chunkCount }, () => chunk),
  }
  await ingest.project(projectId).publishMap({ ...id, manifest })
  await ingest.project(projectId).putChunk(chunk.digest, chunkBytes)
  const counts = { read: 0, open: 0, onClose: () => {} }
  async function* watch(source: AsyncIterable<Uint8Array>) {
    counts.open++
    try {
      for await (const each of source) {
        counts.read++
        yield each
      }
    } finally {
      counts.open--
      counts.onClose()
    }
  }
  const watched = withMethods(ingest, (project) => ({
    async getMapContent(id) {
      const map = await project.getMapContent(id)
      return map && { ...map, bytes: (start, end) => watch(map.bytes(start, end)) }
    },
  }))
  /** Resolves when no reader is open. */
  const allClosed = () =>
    new Promise<void>((resolve) => {
      counts.onClose = () => {
        if (counts.open === 0) resolve()
      }
      counts.onClose()
    })
  return { ingest: watched, key, counts, allClosed }
}

async function serveBig(t: Test, options: Partial<ServeOptions> = {}) {
  const big = await openBig()
  const { served } = await openServed(t, { ...options, ingest: big.ingest })
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

/** Resolves after many turns of the server, in which it would continue if it could. */
async function afterManyTurns(port: number): Promise<void> {
  const raw = await openRaw(port)
  for (let i = 0; i < 200; i++) {
    raw.write(requestBytes({ method: 'GET', path: '/livez' }))
    await raw.read()
  }
  raw.socket.destroy()
}

/** The digest of the response body. Rejects when the connection ends early. */
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

t.test('a slow reader slows the server down and gets the whole body', async (t) => {
  const { served, openPaused, counts, allClosed } = await serveBig(t)
  const socket = await openPaused()
  await afterManyTurns(served.port)
  t.ok(counts.read > 0)
  t.ok(counts.read < chunkCount / 2, `${counts.read} of ${chunkCount} chunks were read ahead`)
  t.equal(await digestFrom(socket), bigDigest)
  await allClosed()
  t.equal(counts.read, chunkCount)
})

t.test('downloads in flight are bounded, and clients that disconnect release their slots', async (t) => {
  const { served, openPaused, key, counts, allClosed } = await serveBig(t)
  const sockets = await Promise.all(Array.from({ length: shareMaxOf(concurrencyLimits.downloads) }, () => openPaused()))
  const raw = await openRaw(served.port)
  while (counts.open < shareMaxOf(concurrencyLimits.downloads)) {
    raw.write(requestBytes({ method: 'GET', path: '/livez' }))
    await raw.read()
  }
  raw.write(requestBytes(get('/v1/maps', key)))
  t.match(await raw.read(), { status: 503, json: { code: 'overloaded' } })
  for (const [i, socket] of sockets.entries()) i % 2 === 0 ? socket.resetAndDestroy() : socket.destroy()
  await allClosed()
  for (let i = 0; i < shareMaxOf(concurrencyLimits.downloads) * 2; i++) {
    raw.write(requestBytes(get('/v1/maps', key)))
    t.equal((await raw.read()).status, 200)
  }
})

t.test(
  'of pipelined requests, one response is open at a time, and it is closed when the client disconnects',
  async (t) => {
    const warnings: Error[] = []
    const warn = (warning: Error) => void warnings.push(warning)
    process.on('warning', warn)
    t.teardown(() => process.off('warning', warn))
    const { served, openPaused, counts, allClosed } = await serveBig(t)
    const socket = await openPaused(10)
    await afterManyTurns(served.port)
    t.equal(counts.open, 1)
    socket.resetAndDestroy()
    await allClosed()
    t.strictSame(warnings, [])
  },
)

t.test('a HEAD leaves no body open', async (t) => {
  const { served, key, counts } = await serveBig(t)
  const raw = await openRaw(served.port)
  for (let i = 0; i < shareMaxOf(concurrencyLimits.downloads) + 1; i++) {
    raw.write(requestBytes(get(path, key, {}, 'HEAD')))
    t.match(await raw.read(true), { status: 200, headers: { 'content-length': String(size) } })
  }
  t.equal(counts.open, 0)
})

t.test('a started response is completed while the server drains', async (t) => {
  const { served, openPaused, counts } = await serveBig(t, { closeTimeoutMs: 600_000 })
  const socket = await openPaused()
  await afterManyTurns(served.port)
  t.equal(counts.open, 1)
  const closed = served.close()
  t.equal(await digestFrom(socket), bigDigest)
  await closed
})

t.test('a response that is not read is cut off after closeTimeoutMs', async (t) => {
  const { served, openPaused, allClosed } = await serveBig(t, { closeTimeoutMs: 600 })
  await openPaused()
  await afterManyTurns(served.port)
  await served.close()
  await allClosed()
})

t.test('a map that is replaced while it is read aborts the connection, and is not logged as an error', async (t) => {
  const { log, errors } = collectErrors()
  const { served, ingest, openPaused, allClosed } = await serveBig(t, { log })
  const socket = await openPaused()
  await afterManyTurns(served.port)
  await ingest.project(projectId).publishMap({ ...id, map: 'another' })
  await t.rejects(digestFrom(socket), /bytes are missing/)
  await allClosed()
  t.strictSame(errors, [])
})

t.test('by fetch, a body is read on demand and closed when it is cancelled', async (t) => {
  const { ingest, key, counts } = await openBig()
  const handler = toFetchHandler(ingest)
  const request = () => {
    const { headers = [] } = get(path, key)
    return new Request(`http://localhost${path}`, {
      headers: headers.map(([name, value]): [string, string] => [name, value]),
    })
  }
  for (let i = 0; i < shareMaxOf(concurrencyLimits.downloads) + 1; i++) {
    const response = await handler(request())
    t.equal(response.status, 200)
    const reader = response.body?.getReader()
    t.equal((await reader?.read())?.value?.length, chunkBytes.length)
    await reader?.cancel()
  }
  t.equal(counts.open, 0)
  t.ok(counts.read <= 3 * (shareMaxOf(concurrencyLimits.downloads) + 1))
  const hash = createHash('sha256')
  for await (const chunk of (await handler(request())).body ?? []) hash.update(chunk)
  t.equal(`sha256:${hash.digest('hex')}`, bigDigest)
})

/** Reading the events fails after some hundred thousand bytes. */
async function openFailing() {
  const { ingest, key } = await openTestIngest()
  for (let i = 0; i < 10; i++)
    await ingest.project(projectId).submitBatch(Buffer.from(batchOf(100, `${'x'.repeat(200)}${i}-`)))
  const secret = new Error('secret')
  let failAfter = 900
  const failing = withMethods(ingest, (project) => ({
    async *readPages(options) {
      let left = failAfter
      for await (const page of project.readPages(options)) {
        const events = page.events.slice(0, left)
        if (events.length > 0) yield { events, scanned: events }
        if (events.length < page.events.length) throw secret
        left -= events.length
      }
    },
  }))
  const { log, errors } = collectErrors()
  const failAt = (count: number) => {
    failAfter = count
  }
  return { ingest: failing, key, log, errors, secret, failAt }
}

t.test('an error in the middle of a body aborts the connection, and is logged', async (t) => {
  const { ingest, key, log, errors, secret } = await openFailing()
  const { served, raw } = await openServed(t, { ingest, log })
  raw.write(requestBytes(get('/v1/events', key)))
  await raw.ended
  await t.rejects(raw.read(), /ended after "HTTP\/1.1 200 OK.*[^0]\\r\\n/s)
  t.match(errors, [{ err: secret, requestId: /-/ }])
  const old = await openRaw(served.port)
  old.write(String(requestBytes(get('/v1/events', key))).replace('HTTP/1.1', 'HTTP/1.0'))
  t.equal(await old.ended, 'reset', 'an orderly end would be the end of the body')
})

t.test('an error at the start of a body is a problem document', async (t) => {
  const { ingest, key, log, errors, failAt } = await openFailing()
  failAt(10)
  const { raw } = await openServed(t, { ingest, log })
  for (let i = 0; i < shareMaxOf(concurrencyLimits.downloads) + 1; i++) {
    raw.write(requestBytes(get('/v1/events', key)))
    const response = await raw.read()
    t.equal(response.status, 500)
    t.notMatch(response.body, 'secret')
  }
  t.equal(errors.length, shareMaxOf(concurrencyLimits.downloads) + 1)
})

t.test('by fetch, an error in the middle fails the body', async (t) => {
  const { ingest, key, log, errors } = await openFailing()
  const { headers = [] } = get('/v1/events', key)
  const pairs = headers.map(([name, value]): [string, string] => [name, value])
  const response = await toFetchHandler(ingest, { log })(new Request('http://localhost/v1/events', { headers: pairs }))
  t.equal(response.status, 200)
  await t.rejects(response.text(), /secret/)
  t.equal(errors.length, 1)
})

t.test('a connection is kept after every kind of response', async (t) => {
  const { ingest, key, raw } = await openServed(t)
  const bytes = bytesOf(200_000)
  const chunks = [bytes.subarray(0, 1000), bytes.subarray(1000, 99_000), bytes.subarray(99_000)]
  await ingest.project(projectId).publishMap({ ...id, manifest: manifestOf(chunks) })
  for (const chunk of chunks) await ingest.project(projectId).putChunk(digestOf(chunk), chunk)
  for (let i = 0; i < 10; i++)
    await ingest.project(projectId).submitBatch(Buffer.from(batchOf(100, `${'x'.repeat(200)}${i}-`)))
  for (const [sent, status, length] of [
    [put('/v1/maps', key, { ...id, buildId: 'new', map: 1 }), 201, undefined],
    [put('/v1/maps', key, { ...id, buildId: 'new', map: 2 }), 200, undefined],
    [put('/v1/maps', key, { ...id, buildId: 'new', manifest: manifestOf([bytesOf(10)]) }), 202, undefined],
    [put('/v1/maps', key, {}), 400, undefined],
    [get(path, key), 200, 200_000],
    [get(path, key, { Range: 'bytes=900-100000' }), 206, 99_101],
    [get(path, key, { 'If-None-Match': '*' }), 304, 0],
    [get(path, key, { Range: 'bytes=200000-' }), 416, undefined],
    [get(path, key, {}, 'HEAD'), 200, 0],
    [get('/v1/events', key), 200, undefined],
    [get('/v1/events', key, {}, 'HEAD'), 200, 0],
    [get('/v1/events?limit=1', key), 200, undefined],
    [get('/v1/maps', key), 200, undefined],
    [get('/v1/maps?placeId=1&buildId=2', key), 404, undefined],
    [get(`/v1/maps/chunks?digest=${digestOf(chunks[0] as Buffer)}`, key), 200, 1000],
    [get(path, key), 200, 200_000],
  ] as const) {
    raw.write(requestBytes(sent))
    const response = await raw.read(sent.method === 'HEAD')
    t.equal(response.status, status, String(sent.path))
    t.equal(response.headers.connection, 'keep-alive')
    if (length !== undefined) t.equal(response.bytes.length, length)
  }
})

byEachEdge('a read is charged for what it returns or scans; a HEAD and a 304 the minimum', async (t, open) => {
  const burst = 10_000_000
  const { ingest, key, send } = await open({ rateLimits: { readBytes: { perSecond: 1, burst }, now: () => 0 } })
  const chunk = bytesOf(100_000)
  await publish(ingest, [chunk], id)
  let left = burst
  for (const [sent, status, charged] of [
    [get(path, key), 200, chunk.length],
    [get(path, key, { Range: 'bytes=100-50099' }), 206, 50_000],
    [get(path, key, { 'If-None-Match': '*' }), 304, 0],
    [get(path, key, {}, 'HEAD'), 200, 0],
    [get(`/v1/maps/chunks?digest=${digestOf(chunk)}`, key), 200, chunk.length],
    [get('/v1/maps', key), 200, undefined],
    [get('/v1/events?eventId=e', key), 200, lookUpReadBytes],
  ] as const) {
    const response = await send(sent)
    t.equal(response.status, status)
    left -= readBytesMin + (charged ?? response.bytes.length)
    t.match(response.headers.ratelimit, `"read-bytes";r=${left};`, `${sent.method} ${sent.path} ${status}`)
  }
})
