import t from 'tap'
import { digestOf } from '../../src/maps/digest.ts'
import type { Publication } from '../../src/maps/map.ts'
import { chunkBytesMax, manifestChunksMax, parseMapId, parsePublication } from '../../src/maps/publication.ts'

const digest = digestOf(Buffer.from('a'))
const id = { placeId: '1', buildId: 'b' }
const manifest = { contentType: 'a/b', size: 1, digest, chunks: [{ digest, size: 1 }] }

t.test('unknown members of a publication are dropped', async (t) => {
  const chunks = [{ digest, size: 1, more: true }]
  const publication = { ...id, manifest: { ...manifest, chunks, more: true }, more: true } as Publication
  t.strictSame(parsePublication(publication), { ...id, manifest })
})

t.test('a full map is split into distinct chunks of at most 1 MiB', async (t) => {
  const { manifest, uploads = [] } = parsePublication({ ...id, map: 'x'.repeat(3 * chunkBytesMax) })
  t.equal(manifest.size, 3 * chunkBytesMax + 2)
  t.equal(manifest.contentType, 'application/json')
  t.strictSame(
    manifest.chunks.map(({ size }) => size),
    [chunkBytesMax, chunkBytesMax, chunkBytesMax, 2],
  )
  t.equal(uploads.length, 3, 'the two in the middle are the same')
  const parts = manifest.chunks.map((chunk) => uploads.find((upload) => upload.digest === chunk.digest)?.bytes)
  t.equal(manifest.digest, digestOf(...(parts as Uint8Array[])))
  for (const { digest, bytes } of uploads) t.equal(digestOf(bytes), digest)
})

t.test('a place may be a safe integer, which means its decimal string', async (t) => {
  t.strictSame(parseMapId({ placeId: 920_587_237, buildId: 'b' }), { placeId: '920587237', buildId: 'b' })
  t.strictSame(parseMapId({ placeId: -1, buildId: 'b' }), { placeId: '-1', buildId: 'b' })
  for (const placeId of [2 ** 53, 0.5, null, '', 'é'.repeat(65), '\ud800', undefined]) {
    t.throws(() => parseMapId({ placeId, buildId: 'b' }), { code: 'invalid-argument', issues: [{ path: '/placeId' }] })
  }
  t.throws(() => parseMapId('b'), { code: 'invalid-argument' })
})

t.test('a contentType is a media type, with parameters', async (t) => {
  const parse = (contentType: unknown) =>
    parsePublication({ ...id, manifest: { ...manifest, contentType } } as Publication)
  const good = ['a/b', 'application/json', 'text/plain;charset=utf-8', 'text/plain ; a="b c" ;d=e', 'x/vnd.a+b-c']
  for (const contentType of [...good, `a/${'b'.repeat(198)}`])
    t.equal(parse(contentType).manifest.contentType, contentType)
  const path = '/manifest/contentType'
  for (const contentType of ['', 'a', 'a/', '/b', 'a/b;', 'a/b;c', 'a/b\r\nc: d', 'é/b', 'a/b, c/d', 'a /b', 'a/b\n']) {
    t.throws(
      () => parse(contentType),
      { code: 'invalid-publication', issues: [{ code: 'invalid_format', path }] },
      contentType,
    )
  }
  t.throws(() => parse(`a/${'b'.repeat(199)}`), { code: 'invalid-publication', issues: [{ code: 'too_long', path }] })
  t.throws(() => parse(5), { code: 'invalid-publication', issues: [{ code: 'invalid_type', path }] })
})

t.test('one digest has one size', async (t) => {
  const chunks = [
    { digest, size: 1 },
    { digest, size: 2 },
  ]
  const twice = { ...id, manifest: { ...manifest, size: 3, chunks } }
  t.throws(() => parsePublication(twice), {
    code: 'invalid-publication',
    issues: [{ code: 'out_of_range', path: '/manifest/chunks/1/size' }],
  })
})

t.test('a chunk is of 1 byte to 1 MiB, and a manifest has a limit', async (t) => {
  const parse = (chunks: object[], size: number) =>
    parsePublication({ ...id, manifest: { ...manifest, size, chunks } } as Publication)
  t.equal(parse([{ digest, size: chunkBytesMax }], chunkBytesMax).manifest.size, chunkBytesMax)
  for (const size of [0, -1, chunkBytesMax + 1]) {
    t.throws(
      () => parse([{ digest, size }], size),
      { code: 'invalid-publication', issues: [{ code: 'out_of_range' }] },
      String(size),
    )
  }
  const many = Array.from({ length: manifestChunksMax + 1 }, () => ({ digest, size: 1 }))
  t.equal(parse(many.slice(1), manifestChunksMax).manifest.chunks.length, manifestChunksMax)
  t.throws(() => parse(many, many.length), {
    code: 'invalid-publication',
    issues: [{ code: 'too_long', path: '/manifest/chunks' }],
  })
})

t.test('at most 20 issues are reported', async (t) => {
  const chunks = Array.from({ length: 50 }, () => 5)
  const refused = t.throws(() => parsePublication({ ...id, manifest: { ...manifest, chunks } } as never))
  t.equal((refused as unknown as { issues: [] }).issues.length, 20)
})

t.test('a publication is an object', async (t) => {
  for (const input of [null, [], 'a', 5, undefined]) {
    t.throws(() => parsePublication(input), { code: 'invalid-publication', issues: [{ code: 'not_object', path: '' }] })
  }
})
