import { gzipSync } from 'node:zlib'
import { chunkBytesMax, createIngest, type EmbeddedIngest, openMemoryStore, type Publication } from '@ingest/core'
import { chunksMax } from '@ingest/core/wire'
import t, { type Test } from 'tap'
import { concurrencyLimits, shareMaxOf } from '../../src/limits/concurrency.ts'
import { chunksBytesMax } from '../../src/routes/put-chunks.ts'
import { parsers } from '../../src/uploads/parse-upload.ts'
import { parseUpload, smallBytesMax } from '../../src/uploads/upload-parser.ts'
import { byEachEdge, requestBytes, type Sent } from '../edges.ts'
import { bytesOf, digestOf, freeze, manifestOf, put } from '../map-parts.ts'
import { openServed } from '../open-server.ts'
import { batchOf, headersOf, projectId } from '../test-ingest.ts'

const id = { placeId: 'p', buildId: 'b' }
const mapOf = (value: unknown) => ({ ...id, map: value })
const digestOfMap = (value: unknown) => digestOf(Buffer.from(JSON.stringify(value)))
const parts = [bytesOf(1000, 'a'), bytesOf(2000, 'b'), bytesOf(1000, 'a')]

byEachEdge('the status is the outcome of a publication', async (t, open) => {
  const { ingest, key, send } = await open({}, { now: () => 0 })
  const publish = async (value: unknown, path = '/v1/maps', headers: Record<string, string> = {}) => {
    const { status, json } = await send(put(path, key, value, headers))
    return { status, ...json }
  }
  const created = { status: 201, outcome: 'created' }
  t.match(await publish(mapOf(1), '/v1/maps?dryRun=true'), created)
  t.strictSame(await publish(mapOf([1])), {
    ...created,
    ...id,
    state: 'complete',
    digest: digestOfMap([1]),
    size: 3,
    contentType: 'application/json',
    chunks: 1,
    frozen: false,
    missing: [],
    publishedAt: '1970-01-01T00:00:00.000Z',
  })
  t.match(await publish(mapOf([1])), { status: 200, outcome: 'unchanged' })
  t.match(await publish(mapOf([2])), { status: 200, outcome: 'replaced' })
  const manifest = manifestOf(parts)
  const missing = [digestOf(bytesOf(1000, 'a')), digestOf(bytesOf(2000, 'b'))]
  t.match(await publish({ ...id, manifest }), { status: 202, outcome: 'incomplete', missing })
  const star = { 'If-None-Match': '*' }
  t.match(await publish(mapOf([3]), '/v1/maps', star), { status: 412, code: 'precondition-failed' })
  const other = { 'If-Match': `"${digestOfMap([1])}"` }
  t.match(await publish(mapOf([3]), '/v1/maps', other), { status: 412, code: 'precondition-failed' })
  const match = { 'If-Match': ` "${digestOfMap([2])}"` }
  t.match(await publish(mapOf([3]), '/v1/maps?dryRun=true', match), { status: 200, outcome: 'replaced' })
  t.match(await publish(mapOf([3]), '/v1/maps?dryRun=false', match), { status: 200, outcome: 'replaced' })
  await freeze(ingest)
  t.match(await publish(mapOf([4])), { status: 409, code: 'map-frozen', retryable: false })
  t.match(await publish(mapOf([3])), { status: 200, outcome: 'unchanged', frozen: true })
})

byEachEdge('an invalid publication is refused, and nothing is published', async (t, open) => {
  const { ingest, key, send } = await open()
  const invalid = 'invalid-publication'
  const good = JSON.stringify(mapOf(1))
  const cases: [string, number, string, Sent][] = [
    ['nothing', 400, 'malformed-body', { body: '' }],
    ['half of it', 400, 'malformed-body', { body: good.slice(1) }],
    ['no UTF-8', 400, 'malformed-body', { body: Buffer.from('{"map":"\xe4"}', 'latin1') }],
    ['a list', 400, invalid, { body: '[]' }],
    ['neither map nor manifest', 400, invalid, { body: JSON.stringify(id) }],
    ['both', 400, invalid, { body: JSON.stringify({ ...mapOf(1), manifest: manifestOf(parts) }) }],
    ['no place', 400, invalid, { body: '{"buildId":"b","map":1}' }],
    ['a strange query', 400, 'invalid-argument', { path: '/v1/maps?dryrun=true', body: good }],
    ['a strange value in it', 400, 'invalid-argument', { path: '/v1/maps?dryRun=1', body: good }],
    ['If-None-Match with a tag', 400, 'invalid-argument', { headers: [['If-None-Match', '"a"']], body: good }],
    ['If-Match with a star', 400, 'invalid-argument', { headers: [['If-Match', '*']], body: good }],
    ['If-Match without quotes', 400, 'invalid-argument', { headers: [['If-Match', digestOfMap(1)]], body: good }],
    [
      'If-Match with two',
      400,
      'invalid-argument',
      { headers: [1, 2].map((n): [string, string] => ['If-Match', `"${digestOfMap(n)}"`]), body: good },
    ],
    ['invalid gzip', 400, 'malformed-body', { headers: [['Content-Encoding', 'gzip']], body: good }],
    ['another coding', 400, 'unsupported-coding', { headers: [['Content-Encoding', 'br']], body: good }],
  ]
  for (const [what, status, code, { headers = [], ...sent }] of cases) {
    const response = await send({
      method: 'PUT',
      path: '/v1/maps',
      headers: [...headersOf(key), ...headers],
      ...sent,
    })
    t.equal(response.status, status, what)
    const problem = response.json
    t.equal(problem.code, code, what)
    if (code === invalid) t.ok(problem.issues.length > 0)
  }
  const bytes = headersOf(key).map(([name, value]) => [name, name === 'Content-Type' ? 'text/plain' : value] as const)
  const response = await send({ method: 'PUT', path: '/v1/maps', headers: bytes, body: good })
  t.equal(response.json.code, 'unsupported-media-type')
  t.strictSame(await ingest.project(projectId).listMaps(), { maps: [], next: null })
})

byEachEdge('gzip and a byte order mark are accepted', async (t, open) => {
  const { key, send } = await open()
  const body = gzipSync(`\ufeff${JSON.stringify(mapOf('ä'))}`)
  const headers = [...headersOf(key), ['Content-Encoding', 'gzip'] as const]
  const response = await send({ method: 'PUT', path: '/v1/maps', headers, body })
  t.equal(response.status, 201, response.body)
  t.equal(response.json.digest, digestOfMap('ä'))
})

byEachEdge('a publication of 1 MiB is accepted; one more byte is a 413 that names the fix', async (t, open) => {
  const { key, send } = await open()
  const [most, tooMany] = [1_048_576, 1_048_577]
  const bodyOf = (size: number) => {
    const empty = JSON.stringify(mapOf(''))
    return JSON.stringify(mapOf('x'.repeat(size - empty.length)))
  }
  for (const [size, coding] of [
    [most, []],
    [most, [['Content-Encoding', 'gzip']]],
    [tooMany, []],
    [tooMany, [['Content-Encoding', 'gzip']]],
  ] as const) {
    const body = coding.length > 0 ? gzipSync(bodyOf(size)) : bodyOf(size)
    const response = await send({
      method: 'PUT',
      path: '/v1/maps',
      headers: [...headersOf(key), ...coding],
      body,
    })
    if (size === most) t.match(response, { status: coding.length > 0 ? 200 : 201 })
    else {
      t.equal(response.status, 413)
      t.match(response.json, { code: 'body-too-large', limit: most, actual: tooMany, detail: /manifest/ })
    }
  }
})

const small = bytesOf(10, 'small')
const large = bytesOf(chunkBytesMax, 'large')
const path = '/v1/maps/chunks'
const inJson = (bytes: Buffer) => ({ digest: digestOf(bytes), data: bytes.toString('base64') })

function octets(key: string, bytes: Uint8Array, digest = digestOf(bytes), headers: Sent['headers'] = []): Sent {
  const own = headersOf(key).map(([name, value]) =>
    name === 'Content-Type' ? ([name, 'application/octet-stream'] as const) : ([name, value] as const),
  )
  return { method: 'PUT', path: `${path}?digest=${digest}`, headers: [...own, ...headers], body: bytes }
}

byEachEdge('the last chunk completes a map, in JSON or as bytes', async (t, open) => {
  const { ingest, key, send } = await open()
  const chunks = [small, large, bytesOf(20, 'b'), bytesOf(30, 'c')] as const
  await ingest.project(projectId).publishMap({ ...id, manifest: manifestOf(chunks) })
  for (const bytes of [large, small]) {
    const first = await send(octets(key, bytes))
    t.equal(first.status, 201, first.body)
    t.strictSame(first.json, { outcome: 'stored', completed: [] })
  }
  const again = await send(octets(key, gzipSync(small), digestOf(small), [['Content-Encoding', 'gzip']]))
  t.equal(again.status, 200)
  t.strictSame(again.json, { outcome: 'existing', completed: [] })
  const some = await send(put(path, key, { chunks: [inJson(large), inJson(chunks[2])] }))
  t.equal(some.status, 200)
  t.strictSame(some.json, { stored: 1, existing: 1, rejected: [], completed: [] })
  const last = await send(put(path, key, { chunks: [inJson(chunks[3])] }))
  t.match(last.json, {
    stored: 1,
    completed: [{ ...id, outcome: 'created', state: 'complete', digest: digestOf(Buffer.concat(chunks)) }],
  })
})

byEachEdge('invalid chunks do not fail the others', async (t, open) => {
  const { ingest, key, send } = await open()
  await ingest.project(projectId).publishMap({ ...id, manifest: manifestOf([small, large]) })
  const good = inJson(small)
  const data = good.data
  t.ok(data.endsWith('=='))
  const invalid: [unknown, string | null, string, string][] = [
    [null, null, 'not_object', ''],
    [[good], null, 'not_object', ''],
    [{ data }, null, 'required', '/digest'],
    [{ digest: 1, data }, null, 'invalid_type', '/digest'],
    [{ digest: good.digest }, good.digest, 'required', '/data'],
    [{ digest: good.digest, data: 7 }, good.digest, 'invalid_type', '/data'],
    [{ digest: good.digest, data: data.slice(0, -1) }, good.digest, 'invalid_format', '/data'],
    [{ digest: good.digest, data: `${data}\n` }, good.digest, 'invalid_format', '/data'],
    [{ digest: good.digest, data: `${data.slice(0, 4)}-${data.slice(5)}` }, good.digest, 'invalid_format', '/data'],
    [{ digest: good.digest, data: data.replace(/.==$/, 'B==') }, good.digest, 'invalid_format', '/data'],
    [{ digest: good.digest, data: 'AAAA' }, good.digest, 'digest_mismatch', '/digest'],
    [inJson(bytesOf(5, 'unknown')), digestOf(bytesOf(5, 'unknown')), 'undeclared', '/digest'],
  ]
  const chunks = [...invalid.map(([chunk]) => chunk), good]
  // rejected by the Ingest, and before chunks that the route rejects
  chunks.unshift({ digest: 'sha256:abc', data })
  const response = await send(put(path, key, { chunks }))
  t.equal(response.status, 200, response.body)
  const result = response.json
  t.match(result, { stored: 1, existing: 0, completed: { length: 0 } })
  t.match(result.rejected[0], { index: 0, digest: null, issues: [{ code: 'invalid_format', path: '/digest' }] })
  t.strictSame(
    result.rejected
      .slice(1)
      .map(({ index, digest, issues }: (typeof result.rejected)[0]) => [index, digest, issues[0].code, issues[0].path]),
    invalid.map(([, digest, code, pointer], i) => [i + 1, digest, code, pointer]),
  )
})

byEachEdge('a body has 1 to 64 chunks', async (t, open) => {
  const { ingest, key, send } = await open()
  const chunks = Array.from({ length: chunksMax + 1 }, (_, i) => bytesOf(10, String(i)))
  await ingest.project(projectId).publishMap({ ...id, manifest: manifestOf(chunks) })
  for (const value of [[], {}, { chunks: {} }, { chunks: [] }, { chunks: chunks.map(inJson) }]) {
    const response = await send(put(path, key, value))
    t.match(response, { status: 400, json: { code: 'invalid-envelope' } })
  }
  const response = await send(put(path, key, { chunks: chunks.slice(1).map(inJson) }))
  t.match(response.json, { stored: chunksMax, rejected: { length: 0 } })
})

byEachEdge('a single chunk is refused with a code', async (t, open) => {
  const { ingest, key, send } = await open()
  await ingest.project(projectId).publishMap({ ...id, manifest: manifestOf([small]) })
  const cases: [Sent, number, object][] = [
    [octets(key, bytesOf(1, 'unknown')), 409, { code: 'chunk-undeclared', retryable: false }],
    [octets(key, bytesOf(1, 'unknown'), digestOf(small)), 400, { code: 'digest-mismatch' }],
    [octets(key, new Uint8Array(), digestOf(small)), 400, { code: 'invalid-argument' }],
    [octets(key, small, 'sha256:A'), 400, { code: 'invalid-argument' }],
    [{ ...octets(key, small), path }, 400, { code: 'invalid-argument' }],
    [{ ...octets(key, small), path: `${path}?digest=a&digest=a` }, 400, { code: 'invalid-argument' }],
    [put(`${path}?digest=${digestOf(small)}`, key, { chunks: [] }), 400, { code: 'invalid-argument' }],
    [
      octets(key, bytesOf(chunkBytesMax + 1)),
      413,
      { code: 'chunk-too-large', limit: chunkBytesMax, actual: chunkBytesMax + 1, detail: /smaller/ },
    ],
    [
      octets(key, gzipSync(bytesOf(chunkBytesMax + 1)), digestOf(small), [['Content-Encoding', 'gzip']]),
      413,
      { code: 'chunk-too-large' },
    ],
  ]
  for (const [sent, status, problem] of cases) {
    const response = await send(sent)
    t.equal(response.status, status, response.body)
    t.match(response.json, problem)
  }
})

byEachEdge('a body of 4 MiB is accepted, one more byte is not', async (t, open) => {
  const { ingest, key, send } = await open()
  await ingest.project(projectId).publishMap({ ...id, manifest: manifestOf([small]) })
  const body = JSON.stringify({ chunks: [inJson(small)] })
  const sendSize = (size: number) => send({ method: 'PUT', path, headers: headersOf(key), body: body.padEnd(size) })
  t.match((await sendSize(chunksBytesMax)).json, { stored: 1 })
  const refused = await sendSize(chunksBytesMax + 1)
  t.match(refused, { status: 413, json: { code: 'body-too-large', limit: chunksBytesMax, actual: chunksBytesMax + 1 } })
})

const publication = { ...id, map: 1 }
const body = JSON.stringify(publication)

const chunk = bytesOf(1000)
const [ref] = manifestOf([chunk]).chunks as [{ digest: string; size: number }]

/** A manifest that repeats one stored chunk `times` times, with a wrong digest: it is verified on every attempt. */
async function prepareWrong(ingest: EmbeddedIngest, times: number): Promise<Publication> {
  const keeper = manifestOf([chunk, bytesOf(1, 'missing')])
  await ingest.project(projectId).publishMap({ placeId: 'keeper', buildId: 'b', manifest: keeper })
  await ingest.project(projectId).putChunk(ref.digest, chunk)
  const chunks = Array.from({ length: times }, () => ref)
  return { ...id, manifest: { contentType: 'a/b', size: 1000 * times, digest: ref.digest, chunks } }
}

byEachEdge(
  'a verification is a 429 until the budget allows it, and a retry after Retry-After is accepted',
  async (t, open) => {
    for (const path of ['/v1/maps', '/v1/maps?dryRun=true']) {
      let time = 0
      const { ingest, key, send } = await open({
        rateLimits: { mapBytes: { perSecond: 1000, burst: 8000 }, now: () => time },
      })
      // the larger one exceeds the burst; before laterMs, its body alone would be refused
      for (const [times, laterMs] of [
        [6, 0],
        [12, 7000],
      ] as const) {
        const publication = await prepareWrong(ingest, times)
        const text = JSON.stringify(publication)
        const declared = { 'Content-Length': String(text.length) }
        const verify = () => send(put(path, key, publication, declared))
        t.match(await verify(), { status: 400, body: /digest-mismatch/ }, 'with an empty bucket')
        time += laterMs
        const refused = await verify()
        t.match(refused, { status: 429, json: { code: 'rate-limited', retryable: true } })
        const window = Math.ceil((text.length + times * 1000) / 1000)
        t.match(refused.headers.ratelimit, /, "map-bytes";r=\d+;t=\d+$/)
        time += Number(refused.headers['retry-after']) * 1000
        t.match(await verify(), { status: 400, body: /digest-mismatch/ }, `after ${refused.headers['retry-after']} s`)
        time += (window + 10) * 1000
      }
    }
  },
)

byEachEdge('a last chunk beyond the budget is stored, and its map is completed later', async (t, open) => {
  let time = 0
  const { ingest, key, send } = await open({
    rateLimits: { mapBytes: { perSecond: 1000, burst: 1500 }, now: () => time },
  })
  const publication = { ...id, manifest: manifestOf([chunk, chunk]) }
  await ingest.project(projectId).publishMap(publication)
  const headers = headersOf(key).map(([name, value]): [string, string] =>
    name === 'Content-Type' ? [name, 'application/octet-stream'] : [name, value],
  )
  const path = `/v1/maps/chunks?digest=${ref.digest}`
  const published = () => send(put('/v1/maps', key, publication))
  // the budget is enough for the chunk, and not for the whole map
  t.equal((await send(put('/v1/maps?dryRun=true', key, { ...id, map: 1 }))).status, 201)
  const stored = await send({ method: 'PUT', path, headers, body: chunk })
  t.equal(stored.status, 201)
  t.strictSame(stored.json.completed, [])
  t.match(await ingest.project(projectId).getMap(id), { state: 'incomplete', missing: { length: 0 } })
  const refused = await published()
  t.equal(refused.status, 429)
  time += Number(refused.headers['retry-after']) * 1000
  t.match((await published()).json, { outcome: 'created' })
})

byEachEdge('more map bytes than the limit are a 429, independent of batches', async (t, open) => {
  let time = 0
  const rateLimits = {
    requests: { perSecond: 1, burst: 1 },
    mapBytes: { perSecond: 10, burst: body.length * 2 },
    now: () => time,
  }
  const { key, headers, send } = await open({ rateLimits })
  const declared = { 'Content-Length': String(body.length) }
  const publish = () => send(put('/v1/maps', key, publication, declared))
  t.equal((await publish()).status, 201)
  const second = await publish()
  t.equal(second.status, 200)
  const window = Math.ceil((body.length * 2) / 10)
  t.match(second.headers, {
    ratelimit: `"map-bytes";r=0;t=${window}`,
    'ratelimit-policy': `"map-bytes";q=${body.length * 2};qu="content-bytes";w=${window}`,
  })
  const refused = await publish()
  t.equal(refused.status, 429)
  const wait = Math.ceil(body.length / 10)
  t.equal(refused.headers['retry-after'], String(wait))
  t.match(refused.json, { code: 'rate-limited', retryAfter: wait, limit: 10 })
  t.equal((await send({ headers, body: batchOf(1) })).status, 202)
  time += wait * 1000
  t.equal((await publish()).status, 200)
  t.equal((await send(put('/v1/maps', 'junk', publication))).headers.ratelimit, undefined)
})

/** A server, a map whose verification takes many turns, and the number of chunks read so far. */
async function openLarge(t: Test) {
  const store = openMemoryStore()
  let reads = 0
  let onRead = () => {}
  const counting = {
    ...store,
    readChunk: ((...args) => {
      reads++
      onRead()
      return store.readChunk(...args)
    }) as typeof store.readChunk,
  }
  const ingest = createIngest({ store: counting })
  const { key } = await ingest.keys.create(projectId)
  const large = bytesOf(1_048_576)
  const [own] = manifestOf([large]).chunks as [{ digest: string; size: number }]
  await ingest.project(projectId).publishMap({ placeId: 'keeper', buildId: 'b', manifest: manifestOf([large]) })
  await ingest.project(projectId).putChunk(own.digest, large)
  const chunks = Array.from({ length: 10_000 }, () => own)
  const manifest = { contentType: 'a/b', size: 10_000 * own.size, digest: ref.digest, chunks }
  reads = 0
  return {
    ...(await openServed(t, { ingest, closeTimeoutMs: 600_000 })),
    sent: (query: string) => requestBytes(put(`/v1/maps${query}`, key, { ...id, manifest })),
    reads: () => reads,
    /** Resolves once `count` more chunks are read. */
    readsMore: (count: number) =>
      new Promise<void>((resolve) => {
        const enough = reads + count
        onRead = () => {
          if (reads >= enough) resolve()
        }
      }),
  }
}

for (const query of ['', '?dryRun=true']) {
  t.test(`a verification ends when its client disconnects: PUT /v1/maps${query}`, async (t) => {
    const { served, connect, sent, reads, readsMore } = await openLarge(t)
    for (const leave of ['destroy', 'end'] as const) {
      const raw = await connect()
      raw.write(sent(query))
      await readsMore(5)
      raw.socket[leave]()
      if (leave === 'end') t.match(await raw.read(), { status: 408, body: /request-timeout/ })
      const other = await connect()
      other.write(sent(query))
      await readsMore(5)
      other.socket.destroy()
    }
    await served.close()
    t.ok(reads() < 10_000, `${reads()} chunks were read`)
  })

  t.test(`a verification ends when the server drains: PUT /v1/maps${query}`, async (t) => {
    const { ingest, served, connect, sent, reads, readsMore } = await openLarge(t)
    const raws = await Promise.all([1, 2, 3].map(connect))
    for (const raw of raws) raw.write(sent(query))
    await readsMore(5)
    const closed = served.close()
    for (const raw of raws)
      t.match(await raw.read(), { status: 503, body: /draining/, headers: { 'retry-after': '1' } })
    await closed
    t.ok(reads() < 10_000, `${reads()} chunks were read`)
    t.equal((await ingest.project(projectId).getMap(id)) === undefined, query !== '', 'the pending map stays')
  })
}

t.test('undeclared bytes are charged after the body is read', async (t) => {
  const { key, raw } = await openServed(t, { rateLimits: { mapBytes: { perSecond: 1, burst: 10 }, now: () => 0 } })
  const framed = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
  const sent = { ...put('/v1/maps', key, publication, { 'Transfer-Encoding': 'chunked' }), body: framed }
  raw.write(requestBytes(sent))
  t.equal((await raw.read()).status, 201)
  raw.write(requestBytes(sent))
  const refused = await raw.read()
  t.equal(refused.status, 429)
  t.equal(refused.headers['retry-after'], String(body.length - 10 + 1))
})

t.test('uploads in flight are bounded, and clients that disconnect release their slots', async (t) => {
  const { connect, key, headers } = await openServed(t)
  const headOnly = requestBytes(put('/v1/maps', key, publication, { Expect: '100-continue' })).subarray(0, -body.length)
  const raws = await Promise.all(
    Array.from({ length: shareMaxOf(concurrencyLimits.uploads) }, async () => {
      const raw = await connect()
      raw.write(headOnly)
      t.equal((await raw.read()).status, 100, 'it has a slot')
      return raw
    }),
  )
  const late = await connect()
  late.write(requestBytes(put('/v1/maps', key, publication)))
  t.match(await late.read(), { status: 503, json: { code: 'overloaded', retryable: true, retryAfter: 1 } })
  const other = await connect()
  other.write(requestBytes({ headers, body: batchOf(1) }))
  t.equal((await other.read()).status, 202, 'batches have slots of their own')
  const [first, ...rest] = raws
  first?.write(body)
  t.equal((await first?.read())?.status, 201)
  for (const raw of rest) raw.socket.resetAndDestroy()
  await Promise.all(rest.map((raw) => raw.ended))
  for (let i = 0; i < shareMaxOf(concurrencyLimits.uploads) * 2; i++) {
    other.write(requestBytes(put('/v1/maps', key, publication)))
    t.equal((await other.read()).status, 200)
  }
})

t.test('uploads that are being stored are bounded', async (t) => {
  let release = () => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  let storing = 0
  const store = openMemoryStore()
  const ingest = createIngest({
    store: {
      ...store,
      async updateMap(...args) {
        storing++
        await held
        return store.updateMap(...args)
      },
    },
  })
  const { key } = await ingest.keys.create(projectId)
  const { connect } = await openServed(t, { ingest })
  const send = async () => {
    const raw = await connect()
    raw.write(requestBytes(put('/v1/maps', key, publication)))
    return raw
  }
  const stored = await Promise.all(Array.from({ length: shareMaxOf(concurrencyLimits.storedUploads) }, send))
  while (storing < stored.length) await new Promise((resolve) => setImmediate(resolve))
  let isRefused = false
  const refused = (await send()).read().finally(() => {
    isRefused = true
  })
  while (!isRefused && storing === stored.length) await new Promise((resolve) => setImmediate(resolve))
  t.equal(storing, stored.length)
  release()
  t.match(await refused, { status: 503, body: /overloaded/ })
  for (const raw of stored) t.match((await raw.read()).status, /^20[01]$/)
  t.equal((await (await send()).read()).status, 200)
})

t.test('uploads that stall before their end do not make others be refused', async (t) => {
  const { connect, key } = await openServed(t)
  const stalled = await Promise.all(
    Array.from({ length: concurrencyLimits.storedUploads.max + 1 }, async () => {
      const raw = await connect()
      raw.write(requestBytes(put('/v1/maps', key, publication)).subarray(0, -1))
      return raw
    }),
  )
  const other = await connect()
  other.write(requestBytes(put('/v1/maps', key, publication)))
  t.equal((await other.read()).status, 201)
  const [first] = stalled
  first?.write(body.slice(-1))
  t.equal((await first?.read())?.status, 200)
})

const padding = ' '.repeat(smallBytesMax)
const base64 = Buffer.from('data').toString('base64')
const zeroDigest = `sha256:${'0'.repeat(64)}`

const bodies = {
  publication: [
    { placeId: '1', buildId: 'b', map: { ü: [1.5, null, { a: 'x'.repeat(9) }] } },
    {
      placeId: 1,
      buildId: 'b',
      manifest: { contentType: 'a/b', size: 4, digest: zeroDigest, chunks: [{ digest: zeroDigest, size: 4 }] },
    },
    {
      placeId: '1',
      buildId: 'b',
      manifest: { contentType: 'a/b', size: 5, digest: zeroDigest, chunks: [{ digest: zeroDigest, size: 4 }] },
    },
    { placeId: '', map: 1 },
    [],
  ],
  chunks: [
    { chunks: [{ digest: zeroDigest, data: base64 }, { digest: 1, data: '?' }, 7] },
    { chunks: [] },
    { chunks: Array(65).fill(0) },
  ],
}

/** The value with bytes of any class as hex digits. */
function withHex(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex')
  if (Array.isArray(value)) return value.map(withHex)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withHex(member)]))
}

/** The result or the error, as comparable values. */
async function outcomeOf(parse: () => unknown): Promise<unknown> {
  try {
    return withHex(await parse())
  } catch (error) {
    const { name, code, message, issues, limit, actual } = error as Record<string, unknown>
    return { name, code, message, issues, limit, actual }
  }
}

t.test('a large body is parsed by the thread as a small one is without it', async (t) => {
  const texts = (['publication', 'chunks'] as const).flatMap((kind) => [
    ...bodies[kind].map((body) => [kind, JSON.stringify(body)] as const),
    [kind, '{'] as const,
    [kind, '\ufeff{}'] as const,
  ])
  for (const [kind, text] of texts) {
    const large = Buffer.from(text + padding)
    t.ok(large.length > smallBytesMax)
    const [byThread, here] = await Promise.all([
      outcomeOf(() => parseUpload('p', kind, large)),
      outcomeOf(() => parsers[kind](large)),
    ])
    t.strictSame(byThread, here, `${kind} ${text}`)
  }
})

t.test('the event loop goes on while a large body is parsed', async (t) => {
  const map = Object.fromEntries(Array.from({ length: 60_000 }, (_, i) => [`name ${i}`, i]))
  const body = Buffer.from(JSON.stringify({ placeId: '1', buildId: 'b', map }))
  let turns = 0
  let isDone = false
  const parsing = parseUpload('p', 'publication', body).finally(() => {
    isDone = true
  })
  while (!isDone) {
    await new Promise((resolve) => setImmediate(resolve))
    turns++
  }
  t.equal((await parsing).uploads?.length, 2)
  // without the thread, the parse is one turn
  t.ok(turns > 10, `${turns} turns`)
})
