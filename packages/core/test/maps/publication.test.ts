import fc from 'fast-check'
import t from 'tap'
import { canonicalJson, mapDepthMax } from '../../src/json/canonical-json.ts'
import { digestIssue, digestOf, isDigest } from '../../src/maps/digest.ts'
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

const parse = (changes: object) => parsePublication({ ...id, manifest: { ...manifest, ...changes } })

t.test('a contentType is a media type, with parameters', async (t) => {
  const good = ['a/b', 'application/json', 'text/plain;charset=utf-8', 'text/plain ; a="b c" ;d=e', 'x/vnd.a+b-c']
  for (const contentType of [...good, `a/${'b'.repeat(198)}`]) {
    t.equal(parse({ contentType }).manifest.contentType, contentType)
  }
  const bad = ['', 'a', 'a/', '/b', 'a/b;', 'a/b;c', 'a/b\r\nc: d', 'é/b', 'a/b, c/d', 'a /b', 'a/b\n']
  const cases: [string, ...unknown[]][] = [
    ['invalid_format', ...bad],
    ['too_long', `a/${'b'.repeat(199)}`],
    ['invalid_type', 5],
  ]
  for (const [code, ...values] of cases) {
    const error = { code: 'invalid-publication', issues: [{ code, path: '/manifest/contentType' }] }
    for (const contentType of values) t.throws(() => parse({ contentType }), error, String(contentType))
  }
})

t.test('a manifest has up to 11,155 chunks of 1 byte to 1 MiB, one size for one digest', async (t) => {
  t.strictSame([chunkBytesMax, manifestChunksMax], [1_048_576, 11_155])
  const sized = (...sizes: number[]) => ({
    size: Math.max(
      0,
      sizes.reduce((sum, size) => sum + size),
    ),
    chunks: sizes.map((size) => ({ digest, size })),
  })
  t.equal(parse(sized(chunkBytesMax)).manifest.size, chunkBytesMax)
  const many = new Array(manifestChunksMax).fill(1)
  t.equal(parse(sized(...many)).manifest.chunks.length, manifestChunksMax)
  for (const [sizes, code, path] of [
    [[0], 'out_of_range', '/manifest/chunks/0/size'],
    [[-1], 'out_of_range', '/manifest/chunks/0/size'],
    [[chunkBytesMax + 1], 'out_of_range', '/manifest/chunks/0/size'],
    [[1, 2], 'out_of_range', '/manifest/chunks/1/size'],
    [[...many, 1], 'too_long', '/manifest/chunks'],
  ] as const) {
    t.throws(() => parse(sized(...sizes)), { code: 'invalid-publication', issues: [{ code, path }] }, path)
  }
})

t.test('a publication is an object, and at most 20 issues of it are reported', async (t) => {
  for (const input of [null, [], 'a', 5, undefined]) {
    t.throws(() => parsePublication(input), { code: 'invalid-publication', issues: [{ code: 'not_object', path: '' }] })
  }
  const refused = t.throws(() => parse({ chunks: new Array(50).fill(5) }))
  t.equal((refused as unknown as { issues: [] }).issues.length, 20)
})

// FIPS 180-4, example of one block
const abc = 'sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'

t.test('a digest is the SHA-256 of bytes, or of parts one after another', async (t) => {
  t.equal(digestOf(Buffer.from('abc')), abc)
  t.equal(digestOf(Buffer.from('a'), Buffer.from('bc')), abc)
  t.equal(digestOf(), 'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
})

t.test('a digest is sha256: and 64 lower-case hex digits', async (t) => {
  t.ok(isDigest(abc))
  t.equal(digestIssue(abc, '/digest'), undefined)
  for (const value of ['', abc.slice(7), abc.toUpperCase(), `${abc}0`, abc.slice(0, -1), `${abc}\n`, 'sha512:00']) {
    t.notOk(isDigest(value))
    t.match(digestIssue(value, '/digest'), { code: 'invalid_format', path: '/digest' }, value)
  }
  t.match(digestIssue(undefined, '/digest'), { code: 'required' })
  for (const value of [null, 5, {}]) t.match(digestIssue(value, '/digest'), { code: 'invalid_type' })
})

const canonical = (value: unknown) => canonicalJson(value, ['map']).toString()

t.test('the example of RFC 8785 section 3.2.2', async (t) => {
  const text = String.raw`{
    "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
    "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
    "literals": [null, true, false]
  }`
  t.equal(
    canonical(JSON.parse(text)),
    String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
  )
})

t.test('members are sorted by UTF-16 code units: RFC 8785 section 3.2.3', async (t) => {
  const values = {
    '\u20ac': 'Euro Sign',
    '\r': 'Carriage Return',
    '\ufb33': 'Hebrew Letter Dalet With Dagesh',
    '1': 'One',
    '\ud83d\ude00': 'Emoji: Grinning Face',
    '\u0080': 'Control',
    '\u00f6': 'Latin Small Letter O With Diaeresis',
  }
  t.strictSame(Object.values(JSON.parse(canonical(values).replace('"1":', '"\\t1":'))), [
    'Carriage Return',
    'One',
    'Control',
    'Latin Small Letter O With Diaeresis',
    'Euro Sign',
    'Emoji: Grinning Face',
    'Hebrew Letter Dalet With Dagesh',
  ])
})

t.test('numbers are written as in RFC 8785 appendix B', async (t) => {
  const numbers: [string, string][] = [
    ['0000000000000000', '0'],
    ['8000000000000000', '0'],
    ['0000000000000001', '5e-324'],
    ['8000000000000001', '-5e-324'],
    ['7fefffffffffffff', '1.7976931348623157e+308'],
    ['ffefffffffffffff', '-1.7976931348623157e+308'],
    ['4340000000000000', '9007199254740992'],
    ['c340000000000000', '-9007199254740992'],
    ['4430000000000000', '295147905179352830000'],
    ['44b52d02c7e14af5', '9.999999999999997e+22'],
    ['44b52d02c7e14af6', '1e+23'],
    ['44b52d02c7e14af7', '1.0000000000000001e+23'],
    ['444b1ae4d6e2ef4e', '999999999999999700000'],
    ['444b1ae4d6e2ef4f', '999999999999999900000'],
    ['444b1ae4d6e2ef50', '1e+21'],
    ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
    ['3eb0c6f7a0b5ed8d', '0.000001'],
    ['41b3de4355555553', '333333333.3333332'],
    ['41b3de4355555554', '333333333.33333325'],
    ['41b3de4355555555', '333333333.3333333'],
    ['41b3de4355555556', '333333333.3333334'],
    ['41b3de4355555557', '333333333.33333343'],
    ['becbf647612f3696', '-0.0000033333333333333333'],
    ['43143ff3c1cb0959', '1424953923781206.2'],
  ]
  for (const [bits, text] of numbers) t.equal(canonical(Buffer.from(bits, 'hex').readDoubleBE()), text, bits)
  for (const bits of ['7fffffffffffffff', '7ff0000000000000', 'fff0000000000000']) {
    t.throws(() => canonical(Buffer.from(bits, 'hex').readDoubleBE()), { code: 'invalid-publication' }, bits)
  }
})

t.test('a value without a canonical form is an invalid publication, with its path', async (t) => {
  const deep = JSON.parse(`${'['.repeat(mapDepthMax + 1)}${']'.repeat(mapDepthMax + 1)}`)
  t.equal(canonical(deep[0]).length, mapDepthMax * 2)
  const refused: [unknown, string, string][] = [
    ['\ud800', 'invalid_format', '/map'],
    [['a', '\udc00\ud800'], 'invalid_format', '/map/1'],
    [{ 'a/b': { '\udfff': 1 } }, 'invalid_format', '/map/a~1b/\udfff'],
    [JSON.parse('{"a":[1e400]}'), 'out_of_range', '/map/a/0'],
    [Number.NaN, 'out_of_range', '/map'],
    [deep, 'too_deep', `/map${'/0'.repeat(mapDepthMax)}`],
    [undefined, 'invalid_type', '/map'],
    [[undefined], 'invalid_type', '/map/0'],
    [{ a: 5n }, 'invalid_type', '/map/a'],
    [{ a: () => 1 }, 'invalid_type', '/map/a'],
    [{ a: Symbol('a') }, 'invalid_type', '/map/a'],
    [[new Date(0)], 'invalid_type', '/map/0'],
    [new Map(), 'invalid_type', '/map'],
    [Buffer.from('a'), 'invalid_type', '/map'],
  ]
  for (const [value, code, path] of refused) {
    t.throws(() => canonical(value), { code: 'invalid-publication', issues: [{ code, path }] }, path)
  }
  // the deepest possible body does not overflow the stack
  t.throws(() => canonical(JSON.parse(`${'['.repeat(500_000)}${']'.repeat(500_000)}`)), { code: 'invalid-publication' })
})

t.test('undefined members are omitted, and no name is special', async (t) => {
  t.equal(canonical({ b: undefined, a: Object.assign(Object.create(null), { c: 1 }) }), '{"a":{"c":1}}')
  t.equal(canonical(JSON.parse('{"__proto__":{"a":1},"toJSON":2}')), '{"__proto__":{"a":1},"toJSON":2}')
})

t.test('any JSON value round-trips, whatever the order of its members', async (t) => {
  const reversed = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(reversed)
    if (typeof value !== 'object' || value === null) return value
    const entries = Object.entries(value).reverse()
    return Object.fromEntries(entries.map(([name, member]) => [name, reversed(member)]))
  }
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = canonical(value)
      return text === canonical(JSON.parse(text)) && text === canonical(reversed(value))
    }),
    { numRuns: 500 },
  )
  t.pass('500 values')
})
