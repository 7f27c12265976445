import { createIngest, type EmbeddedIngest, openMemoryStore, type Publication } from '@ingest/core'
import t, { type Test } from 'tap'
import { concurrencyLimits } from '../../src/limits/concurrency.ts'
import { serve } from '../../src/serve.ts'
import { edges, requestBytes } from '../edges.ts'
import { bytesOf, manifestOf, put } from '../map-parts.ts'
import { openRaw } from '../raw-connection.ts'
import { batchOf, headersOf, openTestIngest, projectId } from '../test-ingest.ts'

const id = { placeId: 'p', buildId: 'b' }
const publication = { ...id, map: 1 }
const body = JSON.stringify(publication)

async function open(t: Test) {
  const opened = await openTestIngest()
  const served = await serve({ ingest: opened.ingest, port: 0, closeTimeoutMs: 1 })
  t.teardown(() => served.close())
  return { ...opened, served }
}

const chunk = bytesOf(1000)
const [ref] = manifestOf([chunk]).chunks as [{ digest: string; size: number }]

/** A manifest of `times` the same stored chunk, with a wrong digest: it is verified on every attempt. */
async function prepareWrong(ingest: EmbeddedIngest, times: number): Promise<Publication> {
  const keeper = manifestOf([chunk, bytesOf(1, 'missing')])
  await ingest.project(projectId).publishMap({ placeId: 'keeper', buildId: 'b', manifest: keeper })
  await ingest.project(projectId).putChunk(ref.digest, chunk)
  const chunks = Array.from({ length: times }, () => ref)
  return { ...id, manifest: { contentType: 'a/b', size: 1000 * times, digest: ref.digest, chunks } }
}

for (const { name, open } of edges) {
  t.test(
    `by ${name}, a verification is a 429 until the budget allows it, and a retry after Retry-After is accepted`,
    async (t) => {
      for (const path of ['/v1/maps', '/v1/maps?dryRun=true']) {
        let time = 0
        const { ingest, key } = await openTestIngest()
        const edge = await open(ingest, { rateLimits: { mapBytes: { perSecond: 1000, burst: 8000 }, now: () => time } })
        t.teardown(() => edge.close())
        // the larger one exceeds the burst; before laterMs, its body alone would be refused
        for (const [times, laterMs] of [
          [6, 0],
          [12, 7000],
        ] as const) {
          const publication = await prepareWrong(ingest, times)
          const text = JSON.stringify(publication)
          const declared = ['Content-Length', String(text.length)] as const
          const verify = () => edge.send(put(path, key, publication, [declared]))
          t.match(await verify(), { status: 400, body: /digest-mismatch/ }, 'with an empty bucket')
          time += laterMs
          const refused = await verify()
          t.equal(refused.status, 429)
          t.match(JSON.parse(refused.body), { code: 'rate-limited', retryable: true })
          const window = Math.ceil((text.length + times * 1000) / 1000)
          t.match(refused.headers.ratelimit, /, "map-bytes";r=\d+;t=\d+$/)
          time += Number(refused.headers['retry-after']) * 1000
          t.match(await verify(), { status: 400, body: /digest-mismatch/ }, `after ${refused.headers['retry-after']} s`)
          time += (window + 10) * 1000
        }
      }
    },
  )

  t.test(`by ${name}, a last chunk beyond the budget is stored, and its map is completed later`, async (t) => {
    let time = 0
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest, { rateLimits: { mapBytes: { perSecond: 1000, burst: 1500 }, now: () => time } })
    t.teardown(() => edge.close())
    const publication = { ...id, manifest: manifestOf([chunk, chunk]) }
    await ingest.project(projectId).publishMap(publication)
    const headers = headersOf(key).map(([name, value]): [string, string] =>
      name === 'Content-Type' ? [name, 'application/octet-stream'] : [name, value],
    )
    const path = `/v1/maps/chunks?digest=${ref.digest}`
    const published = () => edge.send(put('/v1/maps', key, publication))
    // the budget is enough for the chunk, and not for the whole map
    t.equal((await edge.send(put('/v1/maps?dryRun=true', key, { ...id, map: 1 }))).status, 201)
    const stored = await edge.send({ method: 'PUT', path, headers, body: chunk })
    t.equal(stored.status, 201)
    t.strictSame(JSON.parse(stored.body).completed, [])
    t.match(await ingest.project(projectId).getMap(id), { state: 'incomplete', missing: [] })
    const refused = await published()
    t.equal(refused.status, 429)
    time += Number(refused.headers['retry-after']) * 1000
    t.match(JSON.parse((await published()).body), { outcome: 'created' })
  })

  t.test(`by ${name}, writing maps needs the scope to write maps`, async (t) => {
    const { ingest } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const { key } = await ingest.keys.create(projectId, { scopes: ['maps:write'] })
    const { key: other } = await ingest.keys.create(projectId, { scopes: ['events:write', 'read'] })
    t.equal((await edge.send(put('/v1/maps', key, publication))).status, 201)
    for (const path of ['/v1/maps', '/v1/maps/chunks']) {
      for (const wrong of [other, 'junk']) t.equal((await edge.send(put(path, wrong, publication))).status, 401)
    }
    t.equal((await edge.send({ headers: headersOf(key), body: batchOf(1) })).status, 401)
  })

  t.test(`by ${name}, a 405 lists the methods of its path`, async (t) => {
    const { ingest } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    for (const [path, allow] of [
      ['/v1/maps', 'GET, HEAD, PUT'],
      ['/v1/maps/chunks', 'GET, HEAD, PUT'],
      ['/v1/maps/content', 'GET, HEAD'],
      ['/v1/events', 'GET, HEAD'],
    ] as const) {
      const response = await edge.send({ method: 'DELETE', path })
      t.equal(response.status, 405)
      t.equal(response.headers.allow, allow)
    }
  })

  t.test(`by ${name}, more map bytes than the limit are a 429, independent of batches`, async (t) => {
    let time = 0
    const { ingest, key, headers } = await openTestIngest()
    const rateLimits = {
      requests: { perSecond: 1, burst: 1 },
      mapBytes: { perSecond: 10, burst: body.length * 2 },
      now: () => time,
    }
    const edge = await open(ingest, { rateLimits })
    t.teardown(() => edge.close())
    const declared = ['Content-Length', String(body.length)] as const
    const publish = () => edge.send(put('/v1/maps', key, publication, [declared]))
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
    t.match(JSON.parse(refused.body), { code: 'rate-limited', retryAfter: wait, limit: 10 })
    t.equal((await edge.send({ headers, body: batchOf(1) })).status, 202)
    time += wait * 1000
    t.equal((await publish()).status, 200)
    t.equal((await edge.send(put('/v1/maps', 'junk', publication))).headers.ratelimit, undefined)
  })

  t.test(`by ${name}, while draining, every route is a 503`, async (t) => {
    if (name.startsWith('serve')) return t.comment('serve decides by itself when it drains')
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest, { draining: AbortSignal.abort() })
    t.teardown(() => edge.close())
    for (const path of ['/v1/maps', '/v1/maps/chunks', '/v1/maps/content', '/v1/events']) {
      const method = path.endsWith('s') && path !== '/v1/events' ? 'PUT' : 'GET'
      const response = await edge.send({ method, path, headers: headersOf(key), ...(method === 'PUT' && { body }) })
      t.equal(response.status, 503)
      t.equal(JSON.parse(response.body).code, 'draining')
    }
  })
}

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
  const served = await serve({ ingest, port: 0, closeTimeoutMs: 600_000 })
  t.teardown(() => served.close())
  return {
    ingest,
    served,
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
    const { served, sent, reads, readsMore } = await openLarge(t)
    for (const leave of ['destroy', 'end'] as const) {
      const raw = await openRaw(served.port)
      raw.write(sent(query))
      await readsMore(5)
      raw.socket[leave]()
      if (leave === 'end') t.match(await raw.read(), { status: 408, body: /request-timeout/ })
      const other = await openRaw(served.port)
      other.write(sent(query))
      await readsMore(5)
      other.socket.destroy()
    }
    await served.close()
    t.ok(reads() < 10_000, `${reads()} chunks were read`)
  })

  t.test(`a verification ends when the server drains: PUT /v1/maps${query}`, async (t) => {
    const { ingest, served, sent, reads, readsMore } = await openLarge(t)
    const raws = await Promise.all([1, 2, 3].map(() => openRaw(served.port)))
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
  const { ingest, key } = await openTestIngest()
  const rateLimits = { mapBytes: { perSecond: 1, burst: 10 }, now: () => 0 }
  const served = await serve({ ingest, port: 0, closeTimeoutMs: 1, rateLimits })
  t.teardown(() => served.close())
  const raw = await openRaw(served.port)
  const framed = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
  const sent = { ...put('/v1/maps', key, publication, [['Transfer-Encoding', 'chunked']]), body: framed }
  raw.write(requestBytes(sent))
  t.equal((await raw.read()).status, 201)
  raw.write(requestBytes(sent))
  const refused = await raw.read()
  t.equal(refused.status, 429)
  t.equal(refused.headers['retry-after'], String(body.length - 10 + 1))
  raw.socket.destroy()
})

t.test('uploads in flight are bounded, and clients that disconnect release their slots', async (t) => {
  const { served, key, headers } = await open(t)
  const headOnly = requestBytes(put('/v1/maps', key, publication, [['Expect', '100-continue']])).subarray(
    0,
    -body.length,
  )
  const raws = await Promise.all(
    Array.from({ length: concurrencyLimits.uploads.projectMax }, async () => {
      const raw = await openRaw(served.port)
      raw.write(headOnly)
      t.equal((await raw.read()).status, 100, 'it has a slot')
      return raw
    }),
  )
  const late = await openRaw(served.port)
  late.write(requestBytes(put('/v1/maps', key, publication)))
  const refused = await late.read()
  late.socket.destroy()
  t.equal(refused.status, 503)
  t.match(JSON.parse(refused.body), { code: 'overloaded', retryable: true, retryAfter: 1 })
  const other = await openRaw(served.port)
  other.write(requestBytes({ headers, body: batchOf(1) }))
  t.equal((await other.read()).status, 202, 'batches have slots of their own')
  const [first, ...rest] = raws
  first?.write(body)
  t.equal((await first?.read())?.status, 201)
  for (const raw of rest) raw.socket.resetAndDestroy()
  await Promise.all(rest.map((raw) => raw.ended))
  for (let i = 0; i < concurrencyLimits.uploads.projectMax * 2; i++) {
    other.write(requestBytes(put('/v1/maps', key, publication)))
    t.equal((await other.read()).status, 200)
  }
  for (const raw of [first, other]) raw?.socket.destroy()
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
  const served = await serve({ ingest, port: 0, closeTimeoutMs: 1 })
  t.teardown(() => served.close())
  const send = async () => {
    const raw = await openRaw(served.port)
    t.teardown(() => void raw.socket.destroy())
    raw.write(requestBytes(put('/v1/maps', key, publication)))
    return raw
  }
  const stored = await Promise.all(Array.from({ length: concurrencyLimits.storedUploads.projectMax }, send))
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

t.test('uploads that stall before their end refuse no other ones', async (t) => {
  const { served, key } = await open(t)
  const stalled = await Promise.all(
    Array.from({ length: concurrencyLimits.storedUploads.max + 1 }, async () => {
      const raw = await openRaw(served.port)
      raw.write(requestBytes(put('/v1/maps', key, publication)).subarray(0, -1))
      return raw
    }),
  )
  const other = await openRaw(served.port)
  other.write(requestBytes(put('/v1/maps', key, publication)))
  t.equal((await other.read()).status, 201)
  const [first] = stalled
  first?.write(body.slice(-1))
  t.equal((await first?.read())?.status, 200)
  for (const raw of [...stalled, other]) raw.socket.destroy()
})

t.test('a 413 and a 401 reach a client that is still sending, then the connection is closed', async (t) => {
  const { served, key } = await open(t)
  for (const [status, shown] of [
    [413, key],
    [401, 'junk'],
  ] as const) {
    const raw = await openRaw(served.port)
    raw.socket.pause()
    const sent = { ...put('/v1/maps/chunks', shown, 0, [['Content-Length', '8000000']]), body: '' }
    raw.write(requestBytes(sent))
    for (let i = 0; i < 100; i++) await new Promise((resolve) => raw.socket.write(Buffer.alloc(80_000, ' '), resolve))
    raw.socket.resume()
    const response = await raw.read()
    t.equal(response.status, status)
    t.equal(response.headers.connection, 'close')
    t.equal(await raw.ended, 'end', 'the connection is closed, not reset')
  }
})

t.test('a connection is kept after every kind of response', async (t) => {
  const { served, key } = await open(t)
  const raw = await openRaw(served.port)
  for (const [value, status] of [
    [publication, 201],
    [{ ...id, map: 2 }, 200],
    [{ ...id, manifest: manifestOf([bytesOf(10)]) }, 202],
    [{}, 400],
    [publication, 200],
  ] as const) {
    raw.write(requestBytes(put('/v1/maps', key, value)))
    t.match(await raw.read(), { status, headers: { connection: 'keep-alive' } })
  }
  raw.socket.destroy()
})

t.test('an uploaded map is visible in the embedded Ingest', async (t) => {
  const { ingest, served, key } = await open(t)
  const raw = await openRaw(served.port)
  raw.write(requestBytes(put('/v1/maps', key, { placeId: 7, buildId: 'b', map: [] })))
  t.equal((await raw.read()).status, 201)
  t.match(await ingest.project(projectId).getMap({ placeId: '7', buildId: 'b' }), { state: 'complete', size: 2 })
  raw.socket.destroy()
})
