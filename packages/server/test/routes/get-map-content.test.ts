import { chunkBytesMax } from '@ingest/core'
import fc from 'fast-check'
import t from 'tap'
import { entityTag, listsTag, parseByteRange } from '../../src/routes/get-map-content.ts'
import { edges, type Sent } from '../edges.ts'
import { bytesOf, digestOf, freeze, get, manifestOf, publish } from '../map-parts.ts'
import { openTestIngest, projectId } from '../test-ingest.ts'

const path = '/v1/maps/content?placeId=p&buildId=b'
const chunks = [bytesOf(1000, 'a'), bytesOf(chunkBytesMax, 'b'), bytesOf(1000, 'a'), bytesOf(1, 'c')]
const kept = 'private, max-age=31536000, immutable'

for (const { name, open } of edges) {
  t.test(`by ${name}, a map is returned byte for byte, with headers for caches`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
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
    const response = await edge.send(get(path, key))
    t.equal(response.status, 200)
    t.ok(response.bytes.equals(whole))
    t.match(response.headers, expected)
    t.notOk('transfer-encoding' in response.headers)
    await freeze(ingest)
    const head = await edge.send(get(path, key, [], 'HEAD'))
    t.equal(head.status, 200)
    t.equal(head.bytes.length, 0)
    t.match(head.headers, { ...expected, 'cache-control': kept })
  })

  t.test(`by ${name}, a JSON map is returned as canonical JSON`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    await ingest.project(projectId).publishMap({ placeId: 'p', buildId: 'b', map: { b: 1, a: ['ä'] } })
    const response = await edge.send(get(path, key))
    t.equal(response.body, '{"a":["ä"],"b":1}')
    t.equal(response.headers['content-type'], 'application/json')
  })

  t.test(`by ${name}, a range of the bytes is returned`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const whole = await publish(ingest, chunks)
    const size = whole.length
    const tag = `"${digestOf(whole)}"`
    for (const [range, start, end] of [
      ['bytes=0-0', 0, 1],
      ['bytes=10-', 10, size],
      ['bytes=-5', size - 5, size],
      ['bytes=999-1000', 999, 1001],
      ['bytes=500-1050000', 500, 1_050_001],
      [`bytes=${size - 1}-${size + 100}`, size - 1, size],
    ] as const) {
      for (const headers of [[], [['If-Range', tag]]] as Sent['headers'][]) {
        const response = await edge.send(get(path, key, [['Range', range], ...(headers ?? [])]))
        t.equal(response.status, 206, range)
        t.equal(response.headers['content-range'], `bytes ${start}-${end - 1}/${size}`)
        t.equal(response.headers['content-length'], String(end - start))
        t.equal(response.headers.etag, tag)
        t.ok(response.bytes.equals(whole.subarray(start, end)), range)
      }
    }
    for (const headers of [
      [['Range', 'bytes=0-1,4-5']],
      [
        ['Range', 'bytes=0-1'],
        ['Range', 'bytes=4-5'],
      ],
      [['Range', 'lines=0-1']],
      [['Range', 'bytes=5-4']],
      [
        ['Range', 'bytes=0-1'],
        ['If-Range', '"sha256:0"'],
      ],
      [
        ['Range', 'bytes=0-1'],
        ['If-Range', `W/${tag}`],
      ],
      [
        ['Range', 'bytes=0-1'],
        ['If-Range', 'Fri, 20 Nov 2026 19:49:02 GMT'],
      ],
      [
        ['Range', `bytes=${size}-`],
        ['If-Range', '"sha256:0"'],
      ],
    ] as [string, string][][]) {
      const response = await edge.send(get(path, key, headers))
      t.equal(response.status, 200, JSON.stringify(headers))
      t.ok(response.bytes.equals(whole))
    }
    for (const range of [`bytes=${size}-`, 'bytes=-0']) {
      const response = await edge.send(get(path, key, [['Range', range]]))
      t.equal(response.status, 416)
      t.equal(response.headers['content-range'], `bytes */${size}`)
      t.match(JSON.parse(response.body), { code: 'range-not-satisfiable', limit: size })
    }
    const head = await edge.send(get(path, key, [['Range', 'bytes=0-1']], 'HEAD'))
    t.match(head, { status: 200, headers: { 'content-length': String(size) } }, 'ranges are for GET only')
  })

  t.test(`by ${name}, bytes that the client has cached are not sent again`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const whole = await publish(ingest, chunks)
    const tag = `"${digestOf(whole)}"`
    for (const list of [tag, `W/${tag}`, '*', `"a", ${tag}`]) {
      for (const method of ['GET', 'HEAD']) {
        const response = await edge.send(
          get(
            path,
            key,
            [
              ['If-None-Match', list],
              ['Range', 'bytes=0-1'],
            ],
            method,
          ),
        )
        t.equal(response.status, 304)
        t.equal(response.bytes.length, 0)
        t.match(response.headers, { etag: tag, 'cache-control': 'private, no-cache', 'x-request-id': /-/ })
      }
    }
    for (const headers of [[['If-None-Match', '"sha256:0"']], [['If-Match', tag]]] as [string, string][][]) {
      const response = await edge.send(get(path, key, headers))
      t.equal(response.status, 200)
      t.ok(response.bytes.equals(whole))
    }
    const failed = await edge.send(get(path, key, [['If-Match', '"sha256:0"']]))
    t.equal(failed.status, 412)
    t.match(JSON.parse(failed.body), { code: 'precondition-failed' })
  })

  t.test(`by ${name}, only a complete map has content, and only for its own project`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    await ingest.project(projectId).publishMap({ placeId: 'p', buildId: 'b', manifest: manifestOf(chunks) })
    const other = await ingest.keys.create('game-2')
    for (const [sent, status, code] of [
      [get(path, key), 404, 'map-not-found'],
      [get('/v1/maps/content?placeId=p', key), 400, 'invalid-argument'],
      [get(`${path}&range=1`, key), 400, 'invalid-argument'],
      [get('/v1/maps/content?placeId=p&buildId=', key), 400, 'invalid-argument'],
      [get(path, other.key), 401, 'unauthorized'],
      [
        get(path, key, [
          ['Host', 'a'],
          ['Host', 'b'],
        ]),
        400,
        'repeated-header',
      ],
    ] as const) {
      // the fetch API joins a repeated Host
      const response = await edge.send(sent)
      t.equal(response.status, status, response.body)
      t.match(JSON.parse(response.body), { code })
      t.equal(response.headers['cache-control'], 'no-store')
    }
  })

  t.test(`by ${name}, an empty map has empty content`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    await ingest.project(projectId).publishMap({ placeId: 'p', buildId: 'b', manifest: manifestOf([]) })
    const response = await edge.send(get(path, key))
    t.match(response, { status: 200, body: '', headers: { 'content-length': '0' } })
  })

  t.test(`by ${name}, a chunk is returned by its digest and may be cached permanently`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    await publish(ingest, chunks)
    const bytes = chunks[1] as Buffer
    const digest = digestOf(bytes)
    const of = (value: string) => `/v1/maps/chunks?digest=${value}`
    const response = await edge.send(get(of(digest), key))
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
    const head = await edge.send(get(of(digest), key, [], 'HEAD'))
    t.match(head, { status: 200, body: '', headers: expected })
    t.match(await edge.send(get(of(digest), key, [['If-None-Match', `"${digest}"`]])), { status: 304, body: '' })
    for (const [query, status, code] of [
      [of(digestOf(bytesOf(1, 'unknown'))), 404, 'chunk-not-found'],
      [of('sha256:'), 400, 'invalid-argument'],
      ['/v1/maps/chunks', 400, 'invalid-argument'],
    ] as const) {
      const refused = await edge.send(get(query, key))
      t.equal(refused.status, status)
      t.match(JSON.parse(refused.body), { code })
    }
  })
}

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
