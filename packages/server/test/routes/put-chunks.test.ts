import { gzipSync } from 'node:zlib'
import { chunkBytesMax } from '@ingest/core'
import { chunksMax } from '@ingest/core/wire'
import t from 'tap'
import { chunksBytesMax } from '../../src/routes/put-chunks.ts'
import { edges, type Sent } from '../edges.ts'
import { bytesOf, digestOf, manifestOf, put } from '../map-parts.ts'
import { headersOf, openTestIngest, projectId } from '../test-ingest.ts'

const id = { placeId: 'p', buildId: 'b' }
const small = bytesOf(10, 'small')
const large = bytesOf(chunkBytesMax, 'large')
const path = '/v1/maps/chunks'
const inJson = (bytes: Buffer) => ({ digest: digestOf(bytes), data: bytes.toString('base64') })

function raw(key: string, bytes: Uint8Array, digest = digestOf(bytes), headers: Sent['headers'] = []): Sent {
  const own = headersOf(key).map(([name, value]) =>
    name === 'Content-Type' ? ([name, 'application/octet-stream'] as const) : ([name, value] as const),
  )
  return { method: 'PUT', path: `${path}?digest=${digest}`, headers: [...own, ...headers], body: bytes }
}

for (const { name, open } of edges) {
  t.test(`by ${name}, the last chunk completes a map, in JSON or as bytes`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const chunks = [small, large, bytesOf(20, 'b'), bytesOf(30, 'c')] as const
    await ingest.project(projectId).publishMap({ ...id, manifest: manifestOf(chunks) })
    for (const bytes of [large, small]) {
      const first = await edge.send(raw(key, bytes))
      t.equal(first.status, 201, first.body)
      t.strictSame(JSON.parse(first.body), { outcome: 'stored', completed: [] })
    }
    const again = await edge.send(raw(key, gzipSync(small), digestOf(small), [['Content-Encoding', 'gzip']]))
    t.equal(again.status, 200)
    t.strictSame(JSON.parse(again.body), { outcome: 'existing', completed: [] })
    const some = await edge.send(put(path, key, { chunks: [inJson(large), inJson(chunks[2])] }))
    t.equal(some.status, 200)
    t.strictSame(JSON.parse(some.body), { stored: 1, existing: 1, rejected: [], completed: [] })
    const last = await edge.send(put(path, key, { chunks: [inJson(chunks[3])] }))
    t.match(JSON.parse(last.body), {
      stored: 1,
      completed: [{ ...id, outcome: 'created', state: 'complete', digest: digestOf(Buffer.concat(chunks)) }],
    })
  })

  t.test(`by ${name}, invalid chunks do not fail the others`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
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
    const response = await edge.send(put(path, key, { chunks }))
    t.equal(response.status, 200, response.body)
    const result = JSON.parse(response.body)
    t.match(result, { stored: 1, existing: 0, completed: [] })
    t.match(result.rejected[0], { index: 0, digest: null, issues: [{ code: 'invalid_format', path: '/digest' }] })
    t.strictSame(
      result.rejected
        .slice(1)
        .map(({ index, digest, issues }: (typeof result.rejected)[0]) => [
          index,
          digest,
          issues[0].code,
          issues[0].path,
        ]),
      invalid.map(([, digest, code, pointer], i) => [i + 1, digest, code, pointer]),
    )
  })

  t.test(`by ${name}, a body has 1 to 64 chunks`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const chunks = Array.from({ length: chunksMax + 1 }, (_, i) => bytesOf(10, String(i)))
    await ingest.project(projectId).publishMap({ ...id, manifest: manifestOf(chunks) })
    for (const value of [[], {}, { chunks: {} }, { chunks: [] }, { chunks: chunks.map(inJson) }]) {
      const response = await edge.send(put(path, key, value))
      t.equal(response.status, 400)
      t.match(JSON.parse(response.body), { code: 'invalid-envelope' })
    }
    const response = await edge.send(put(path, key, { chunks: chunks.slice(1).map(inJson) }))
    t.match(JSON.parse(response.body), { stored: chunksMax, rejected: [] })
  })

  t.test(`by ${name}, a single chunk is refused with a code`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    await ingest.project(projectId).publishMap({ ...id, manifest: manifestOf([small]) })
    const cases: [Sent, number, object][] = [
      [raw(key, bytesOf(1, 'unknown')), 409, { code: 'chunk-undeclared', retryable: false }],
      [raw(key, bytesOf(1, 'unknown'), digestOf(small)), 400, { code: 'digest-mismatch' }],
      [raw(key, new Uint8Array(), digestOf(small)), 400, { code: 'invalid-argument' }],
      [raw(key, small, 'sha256:A'), 400, { code: 'invalid-argument' }],
      [{ ...raw(key, small), path }, 400, { code: 'invalid-argument' }],
      [{ ...raw(key, small), path: `${path}?digest=a&digest=a` }, 400, { code: 'invalid-argument' }],
      [put(`${path}?digest=${digestOf(small)}`, key, { chunks: [] }), 400, { code: 'invalid-argument' }],
      [
        raw(key, bytesOf(chunkBytesMax + 1)),
        413,
        { code: 'chunk-too-large', limit: chunkBytesMax, actual: chunkBytesMax + 1, detail: /smaller/ },
      ],
      [
        raw(key, gzipSync(bytesOf(chunkBytesMax + 1)), digestOf(small), [['Content-Encoding', 'gzip']]),
        413,
        { code: 'chunk-too-large' },
      ],
    ]
    for (const [sent, status, problem] of cases) {
      const response = await edge.send(sent)
      t.equal(response.status, status, response.body)
      t.match(JSON.parse(response.body), problem)
    }
  })

  t.test(`by ${name}, a body of 4 MiB is accepted, one more byte is not`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    await ingest.project(projectId).publishMap({ ...id, manifest: manifestOf([small]) })
    const body = JSON.stringify({ chunks: [inJson(small)] })
    const send = (size: number) => edge.send({ method: 'PUT', path, headers: headersOf(key), body: body.padEnd(size) })
    t.match(JSON.parse((await send(chunksBytesMax)).body), { stored: 1 })
    const refused = await send(chunksBytesMax + 1)
    t.equal(refused.status, 413)
    t.match(JSON.parse(refused.body), { code: 'body-too-large', limit: chunksBytesMax, actual: chunksBytesMax + 1 })
  })
}
