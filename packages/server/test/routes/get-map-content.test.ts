import { chunkBytesMax } from '@ingest/core'
import fc from 'fast-check'
import t from 'tap'
import { entityTag, listsTag, parseByteRange } from '../../src/routes/get-map-content.ts'
import { openTestIngest, projectId } from '../batches.ts'
import { edges, type Sent } from '../edges.ts'
import { bytesOf, digestOf, freeze, get, manifestOf, publish } from '../map-parts.ts'

const path = '/v1/maps/content?placeId=p&buildId=b'
const chunks = [bytesOf(1000, 'a'), bytesOf(chunkBytesMax, 'b'), bytesOf(1000, 'a'), bytesOf(1, 'c')]
const kept = 'private, max-age=31536000, immutable'

for (const { name, open } of edges) {
  t.test(`by ${name}, a map comes back byte for byte, with what a cache needs to know`, async (t) => {
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
    const answer = await edge.send(get(path, key))
    t.equal(answer.status, 200)
    t.ok(answer.bytes.equals(whole))
    t.match(answer.headers, expected)
    t.notOk('transfer-encoding' in answer.headers)
    await freeze(ingest)
    const head = await edge.send(get(path, key, [], 'HEAD'))
    t.equal(head.status, 200)
    t.equal(head.bytes.length, 0)
    t.match(head.headers, { ...expected, 'cache-control': kept })
  })

  t.test(`by ${name}, a full map comes back as its canonical JSON`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    await ingest.project(projectId).publishMap({ placeId: 'p', buildId: 'b', map: { b: 1, a: ['ä'] } })
    const answer = await edge.send(get(path, key))
    t.equal(answer.body, '{"a":["ä"],"b":1}')
    t.equal(answer.headers['content-type'], 'application/json')
  })

  t.test(`by ${name}, a range is a part of the bytes`, async (t) => {
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
        const answer = await edge.send(get(path, key, [['Range', range], ...(headers ?? [])]))
        t.equal(answer.status, 206, range)
        t.equal(answer.headers['content-range'], `bytes ${start}-${end - 1}/${size}`)
        t.equal(answer.headers['content-length'], String(end - start))
        t.equal(answer.headers.etag, tag)
        t.ok(answer.bytes.equals(whole.subarray(start, end)), range)
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
      const answer = await edge.send(get(path, key, headers))
      t.equal(answer.status, 200, JSON.stringify(headers))
      t.ok(answer.bytes.equals(whole))
    }
    for (const range of [`bytes=${size}-`, 'bytes=-0']) {
      const answer = await edge.send(get(path, key, [['Range', range]]))
      t.equal(answer.status, 416)
      t.equal(answer.headers['content-range'], `bytes */${size}`)
      t.match(JSON.parse(answer.body), { code: 'range-not-satisfiable', limit: size })
    }
    const head = await edge.send(get(path, key, [['Range', 'bytes=0-1']], 'HEAD'))
    t.match(head, { status: 200, headers: { 'content-length': String(size) } }, 'a range is for GET only')
  })

  t.test(`by ${name}, what the sender has is not sent again`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const whole = await publish(ingest, chunks)
    const tag = `"${digestOf(whole)}"`
    for (const list of [tag, `W/${tag}`, '*', `"a", ${tag}`]) {
      for (const method of ['GET', 'HEAD']) {
        const answer = await edge.send(
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
        t.equal(answer.status, 304)
        t.equal(answer.bytes.length, 0)
        t.match(answer.headers, { etag: tag, 'cache-control': 'private, no-cache', 'x-request-id': /-/ })
      }
    }
    for (const headers of [[['If-None-Match', '"sha256:0"']], [['If-Match', tag]]] as [string, string][][]) {
      const answer = await edge.send(get(path, key, headers))
      t.equal(answer.status, 200)
      t.ok(answer.bytes.equals(whole))
    }
    const failed = await edge.send(get(path, key, [['If-Match', '"sha256:0"']]))
    t.equal(failed.status, 412)
    t.match(JSON.parse(failed.body), { code: 'precondition-failed' })
  })

  t.test(`by ${name}, only a complete map has content, in its own project`, async (t) => {
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
      // the fetch API cannot show a repeated Host otherwise than joined
      const answer = await edge.send(sent)
      t.equal(answer.status, status, answer.body)
      t.match(JSON.parse(answer.body), { code })
      t.equal(answer.headers['cache-control'], 'no-store')
    }
  })

  t.test(`by ${name}, a map of no bytes is one`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    await ingest.project(projectId).publishMap({ placeId: 'p', buildId: 'b', manifest: manifestOf([]) })
    const answer = await edge.send(get(path, key))
    t.match(answer, { status: 200, body: '', headers: { 'content-length': '0' } })
  })

  t.test(`by ${name}, a chunk comes back by its digest, and may be kept for ever`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    await publish(ingest, chunks)
    const bytes = chunks[1] as Buffer
    const digest = digestOf(bytes)
    const of = (value: string) => `/v1/maps/chunks?digest=${value}`
    const answer = await edge.send(get(of(digest), key))
    t.equal(answer.status, 200)
    t.ok(answer.bytes.equals(bytes))
    const expected = {
      'content-type': 'application/octet-stream',
      'content-length': String(bytes.length),
      'cache-control': kept,
      'x-content-type-options': 'nosniff',
      etag: `"${digest}"`,
    }
    t.match(answer.headers, expected)
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

t.test('a tag is the digest in quotes', async (t) => {
  t.equal(tag, '"sha256:ab"')
})

t.test('a list has the tag, or is a star', async (t) => {
  for (const list of [tag, ` ${tag} `, `"a", ${tag}`, `"a",${tag},"b"`, `W/"x" , ${tag}`, '*', ' * ']) {
    t.ok(listsTag(list, tag, 'weak'), list)
    t.ok(listsTag(list, tag, 'strong'), list)
  }
  for (const list of ['', 'sha256:ab', '"sha256:a"', '"sha256:ab', '"a", "b"', '"sha256:AB"']) {
    t.notOk(listsTag(list, tag, 'weak'), list)
    t.notOk(listsTag(list, tag, 'strong'), list)
  }
})

t.test('a weak tag is the same for If-None-Match only', async (t) => {
  t.ok(listsTag(`W/${tag}`, tag, 'weak'))
  t.notOk(listsTag(`W/${tag}`, tag, 'strong'))
})

t.test('a range is what slicing would give', async () => {
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

t.test('what a server may ignore is ignored', async (t) => {
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

t.test('the unit has no case, and numbers may be large', async (t) => {
  t.strictSame(parseByteRange('Bytes=2-3', 10), { start: 2, end: 4 })
  t.strictSame(parseByteRange(' bytes= 2-3 ', 10), { start: 2, end: 4 })
  t.strictSame(parseByteRange('bytes=2-99999999999999999999', 10), { start: 2, end: 10 })
  t.strictSame(parseByteRange('bytes=-99999999999999999999', 10), { start: 0, end: 10 })
  t.equal(parseByteRange('bytes=99999999999999999999-', 10), 'unsatisfiable')
  t.equal(parseByteRange('bytes=0-', 0), 'unsatisfiable')
})
