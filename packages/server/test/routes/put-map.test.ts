import { gzipSync } from 'node:zlib'
import t from 'tap'
import { edges, type Sent } from '../edges.ts'
import { bytesOf, digestOf, freeze, manifestOf, put } from '../map-parts.ts'
import { headersOf, openTestIngest, projectId } from '../test-ingest.ts'

const id = { placeId: 'p', buildId: 'b' }
const mapOf = (value: unknown) => ({ ...id, map: value })
const digestOfMap = (value: unknown) => digestOf(Buffer.from(JSON.stringify(value)))
const chunks = [bytesOf(1000, 'a'), bytesOf(2000, 'b'), bytesOf(1000, 'a')]

for (const { name, open } of edges) {
  t.test(`by ${name}, the status is the outcome of a publication`, async (t) => {
    const { ingest, key } = await openTestIngest({ now: () => 0 })
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const publish = async (value: unknown, path = '/v1/maps', headers: Sent['headers'] = []) => {
      const { status, body } = await edge.send(put(path, key, value, headers))
      return { status, ...JSON.parse(body) }
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
    const manifest = manifestOf(chunks)
    const missing = [digestOf(bytesOf(1000, 'a')), digestOf(bytesOf(2000, 'b'))]
    t.match(await publish({ ...id, manifest }), { status: 202, outcome: 'incomplete', missing })
    const star: Sent['headers'] = [['If-None-Match', '*']]
    t.match(await publish(mapOf([3]), '/v1/maps', star), { status: 412, code: 'precondition-failed' })
    const other: Sent['headers'] = [['If-Match', `"${digestOfMap([1])}"`]]
    t.match(await publish(mapOf([3]), '/v1/maps', other), { status: 412, code: 'precondition-failed' })
    const match: Sent['headers'] = [['If-Match', ` "${digestOfMap([2])}"`]]
    t.match(await publish(mapOf([3]), '/v1/maps?dryRun=true', match), { status: 200, outcome: 'replaced' })
    t.match(await publish(mapOf([3]), '/v1/maps?dryRun=false', match), { status: 200, outcome: 'replaced' })
    await freeze(ingest)
    t.match(await publish(mapOf([4])), { status: 409, code: 'map-frozen', retryable: false })
    t.match(await publish(mapOf([3])), { status: 200, outcome: 'unchanged', frozen: true })
  })

  t.test(`by ${name}, an invalid publication is refused, and nothing is published`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const invalid = 'invalid-publication'
    const good = JSON.stringify(mapOf(1))
    const cases: [string, number, string, Sent][] = [
      ['nothing', 400, 'malformed-body', { body: '' }],
      ['half of it', 400, 'malformed-body', { body: good.slice(1) }],
      ['no UTF-8', 400, 'malformed-body', { body: Buffer.from('{"map":"\xe4"}', 'latin1') }],
      ['a list', 400, invalid, { body: '[]' }],
      ['neither map nor manifest', 400, invalid, { body: JSON.stringify(id) }],
      ['both', 400, invalid, { body: JSON.stringify({ ...mapOf(1), manifest: manifestOf(chunks) }) }],
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
      const response = await edge.send({
        method: 'PUT',
        path: '/v1/maps',
        headers: [...headersOf(key), ...headers],
        ...sent,
      })
      t.equal(response.status, status, what)
      const problem = JSON.parse(response.body)
      t.equal(problem.code, code, what)
      if (code === invalid) t.ok(problem.issues.length > 0)
    }
    const bytes = headersOf(key).map(([name, value]) => [name, name === 'Content-Type' ? 'text/plain' : value] as const)
    const response = await edge.send({ method: 'PUT', path: '/v1/maps', headers: bytes, body: good })
    t.equal(JSON.parse(response.body).code, 'unsupported-media-type')
    t.strictSame(await ingest.project(projectId).listMaps(), { maps: [], next: null })
  })

  t.test(`by ${name}, gzip and a byte order mark are accepted`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const body = gzipSync(`\ufeff${JSON.stringify(mapOf('ä'))}`)
    const headers = [...headersOf(key), ['Content-Encoding', 'gzip'] as const]
    const response = await edge.send({ method: 'PUT', path: '/v1/maps', headers, body })
    t.equal(response.status, 201, response.body)
    t.equal(JSON.parse(response.body).digest, digestOfMap('ä'))
  })

  t.test(`by ${name}, a publication of 1 MiB is accepted; one more byte is a 413 that names the fix`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    const [most, tooMany] = [1_048_576, 1_048_577]
    t.teardown(() => edge.close())
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
      const response = await edge.send({
        method: 'PUT',
        path: '/v1/maps',
        headers: [...headersOf(key), ...coding],
        body,
      })
      if (size === most) t.match(response, { status: coding.length > 0 ? 200 : 201 })
      else {
        t.equal(response.status, 413)
        t.match(JSON.parse(response.body), { code: 'body-too-large', limit: most, actual: tooMany, detail: /manifest/ })
      }
    }
  })
}
