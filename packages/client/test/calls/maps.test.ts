import { digestOf } from '@ingest/core'
import t from 'tap'
import { groupBytesMax, groupChunks, groupChunksMax } from '../../src/calls/maps.ts'
import { cut, json, openScriptedClient, problem, type Step, text, withUnixTimes } from '../scripted-server.ts'

const id = { placeId: '1', buildId: 'b' }
const digest = `sha256:${'0a'.repeat(32)}`
const other = `sha256:${'0b'.repeat(32)}`
const status = {
  ...id,
  state: 'complete',
  digest,
  size: 5,
  contentType: 'application/json',
  chunks: 1,
  frozen: false,
  missing: [],
  publishedAt: '2026-11-20T17:51:00.000Z',
  frozenAt: null,
  pending: null,
}
const { frozenAt, pending, ...rest } = status
const published = { ...rest, outcome: 'created' }
const missing = problem(404, 'map-not-found')
const bytes = Buffer.from([0, 1, 2, 255])

t.test('publishMap sends the map as JSON', async (t) => {
  const { client, received } = await openScriptedClient(t, {}, cut, json(201, published))
  t.strictSame(await client.publishMap({ ...id, map: { a: [1.5, 'é'] } }), withUnixTimes(published))
  t.equal(received.length, 2)
  for (const request of received) {
    t.match(request, { method: 'PUT', path: '/v1/maps', headers: { 'content-type': 'application/json' } })
    t.equal(request.body.toString(), '{"placeId":"1","buildId":"b","map":{"a":[1.5,"é"]}}')
    t.strictSame(request.query, {})
    t.notOk('if-match' in request.headers || 'if-none-match' in request.headers)
  }
})

t.test('publishMap sends a manifest and its preconditions', async (t) => {
  const incomplete = { ...published, outcome: 'incomplete', state: 'incomplete', missing: [digest], publishedAt: null }
  const { client, received } = await openScriptedClient(t, {}, json(202, incomplete))
  const manifest = { contentType: 'application/json', size: 5, digest: other, chunks: [{ digest, size: 5 }] }
  const publication = { placeId: 1, buildId: 'b', manifest }
  t.strictSame(await client.publishMap(publication, { ifNoneMatch: '*', dryRun: true }), incomplete)
  await client.publishMap(publication, { ifMatch: other, dryRun: false })
  t.match(received[0], { query: { dryRun: 'true' }, headers: { 'if-none-match': '*', 'if-match': undefined } })
  t.match(received[1], { headers: { 'if-none-match': undefined, 'if-match': `"${other}"` } })
  t.strictSame(received[1]?.query, {})
  t.strictSame(JSON.parse(received[0]?.body.toString() ?? ''), publication)
})

t.test('publishMap throws the error of the server', async (t) => {
  const issues = [{ code: 'required', path: '/placeId', message: 'Required.' }]
  const failures = [
    problem(400, 'invalid-publication', { issues }),
    problem(409, 'map-frozen'),
    problem(412, 'precondition-failed'),
    problem(413, 'body-too-large', { limit: 1, actual: 2 }),
  ]
  const { client, received } = await openScriptedClient(t, {}, ...failures)
  const publish = () => client.publishMap({ ...id, map: {} })
  await t.rejects(publish(), { code: 'invalid-publication', issues })
  await t.rejects(publish(), { code: 'map-frozen', message: 'Refused: map-frozen.' })
  await t.rejects(publish(), { code: 'precondition-failed' })
  await t.rejects(publish(), { code: 'body-too-large', limit: 1, actual: 2 })
  t.equal(received.length, 4)
  await t.rejects(client.publishMap({ ...id, map: 1n }), { code: 'invalid-publication' })
  await t.rejects(client.publishMap({ ...id, map: {} }, { ifMatch: 'a"\r\nb' }), {
    code: 'invalid-argument',
  })
  t.equal(received.length, 4)
})

t.test('putChunk sends the raw bytes', async (t) => {
  const { client, received } = await openScriptedClient(
    t,
    {},
    problem(503, 'overloaded'),
    json(201, { outcome: 'stored', completed: [published] }),
    json(200, { outcome: 'existing', completed: [] }),
    problem(409, 'chunk-undeclared'),
  )
  t.strictSame(await client.putChunk(digest, bytes), { outcome: 'stored', completed: [withUnixTimes(published)] })
  t.strictSame(await client.putChunk(digest, bytes), { outcome: 'existing', completed: [] })
  await t.rejects(client.putChunk(digest, bytes), { code: 'chunk-undeclared' })
  await t.rejects(client.putChunk('sha256:', bytes), { code: 'invalid-argument' })
  t.equal(received.length, 4)
  for (const request of received) {
    t.match(request, {
      method: 'PUT',
      path: '/v1/maps/chunks',
      query: { digest },
      headers: { 'content-type': 'application/octet-stream', 'content-length': '4' },
    })
    t.ok(request.body.equals(bytes))
  }
})

t.test('putChunks sends JSON requests and merges their results', async (t) => {
  const rejected = [{ index: 1, digest, issues: [{ code: 'undeclared', path: '', message: '' }] }]
  const { client, received } = await openScriptedClient(
    t,
    {},
    json(200, { stored: 62, existing: 1, rejected, completed: [] }),
    json(200, { stored: 1, existing: 0, rejected, completed: [published] }),
  )
  const whole = new Uint8Array(10).fill(7)
  const chunks = Array.from({ length: 66 }, (_, i) => ({
    digest: i === 65 ? other : digest,
    bytes: whole.subarray(i % 10),
  }))
  t.strictSame(await client.putChunks(chunks), {
    stored: 63,
    existing: 1,
    rejected: [rejected[0], { ...rejected[0], index: 65 }],
    completed: [withUnixTimes(published)],
  })
  t.match(received, [
    { method: 'PUT', path: '/v1/maps/chunks', headers: { 'content-type': 'application/json' } },
    { method: 'PUT', path: '/v1/maps/chunks' },
  ])
  const sent = received.flatMap(({ body }) => JSON.parse(body.toString()).chunks)
  t.strictSame(
    sent,
    chunks.map(({ digest, bytes }) => ({ digest, data: Buffer.from(bytes).toString('base64') })),
  )
  t.strictSame(await client.putChunks([]), { stored: 0, existing: 0, rejected: [], completed: [] })
  t.equal(received.length, 2)
})

t.test('getMap returns the status of a map, or undefined', async (t) => {
  const { client, received } = await openScriptedClient(t, {}, json(200, status), missing, text(404, 'no such page'))
  t.strictSame(await client.getMap({ placeId: 'a/b ?', buildId: 'ü' }), withUnixTimes(status))
  t.equal(await client.getMap(id), undefined)
  await t.rejects(client.getMap(id), { code: 'not-found' }, 'the 404 of a wrong url still throws')
  t.match(received, [{ method: 'GET', path: '/v1/maps', query: { placeId: 'a/b ?', buildId: 'ü' } }, {}, {}])
  await t.rejects(client.getMap({ placeId: '1' } as never), { code: 'invalid-argument' })
  t.equal(received.length, 3)
})

t.test('listMaps returns pages', async (t) => {
  const { client, received } = await openScriptedClient(
    t,
    {},
    json(200, { maps: [status], next: 'n' }),
    json(200, { maps: [], next: null }),
    json(200, status),
    missing,
    problem(400, 'invalid-cursor'),
  )
  t.strictSame(await client.listMaps(), { maps: [withUnixTimes(status)], next: 'n' })
  t.strictSame(await client.listMaps({ placeId: '1', cursor: 'n', limit: 7 }), { maps: [], next: null })
  t.strictSame(received[0]?.query, {})
  t.strictSame(received[1]?.query, { placeId: '1', cursor: 'n', limit: '7' })
  t.strictSame(
    await client.listMaps(id),
    { maps: [withUnixTimes(status)], next: null },
    'a single map is a list of one',
  )
  t.strictSame(await client.listMaps(id), { maps: [], next: null })
  await t.rejects(client.listMaps({ cursor: 'x' }), { code: 'invalid-cursor' })
})

t.test('getMapContent returns only complete maps', async (t) => {
  const incomplete = { ...status, state: 'incomplete', publishedAt: null }
  const { client } = await openScriptedClient(t, {}, json(200, incomplete), missing, json(200, status))
  t.equal(await client.getMapContent(id), undefined)
  t.equal(await client.getMapContent(id), undefined)
  t.match(await client.getMapContent(id), {
    ...id,
    digest,
    size: 5,
    contentType: 'application/json',
    frozen: false,
  })
})

t.test('getChunk returns the bytes of a chunk, or undefined', async (t) => {
  const digest = digestOf(bytes)
  const { client, received } = await openScriptedClient(
    t,
    {},
    (res) => void res.end(bytes),
    problem(404, 'chunk-not-found'),
    text(404, ''),
  )
  t.ok(bytes.equals((await client.getChunk(digest)) ?? Buffer.alloc(0)))
  t.equal(await client.getChunk(digest), undefined)
  await t.rejects(client.getChunk(digest), { code: 'not-found' })
  t.match(received[0], { method: 'GET', path: '/v1/maps/chunks', query: { digest } })
  await t.rejects(client.getChunk('../'), { code: 'invalid-argument' })
})

t.test('getChunk throws for bytes that do not match the digest', async (t) => {
  const steps = [bytes.subarray(1), Buffer.alloc(0), Buffer.from('<html>')].map(
    (body): Step =>
      (res) =>
        void res.end(body),
  )
  const { client, received } = await openScriptedClient(t, {}, ...steps)
  const message = new RegExp(digestOf(bytes))
  for (const _ of steps) await t.rejects(client.getChunk(digestOf(bytes)), { code: 'digest-mismatch', message })
  t.equal(received.length, steps.length, 'not retried')
})

t.test('a signal aborts a call with its reason', async (t) => {
  const reason = new Error('aborted by the test')
  const { client, received } = await openScriptedClient(t, {}, json(200, status))
  const options = { signal: AbortSignal.abort(reason) }
  const calls: (() => Promise<unknown>)[] = [
    () => client.publishMap({ ...id, map: {} }, options),
    () => client.putChunks([{ digest, bytes }], options),
    () => client.putChunk(digest, bytes, options),
    () => client.getMap(id, options),
    () => client.listMaps(options),
    () => client.getMapContent(id, options),
    () => client.getChunk(digest, options),
  ]
  for (const call of calls) await t.rejects(call(), reason)
  t.equal(received.length, 0)
})

const chunksOf = (...sizes: number[]) => sizes.map((size) => ({ digest, bytes: new Uint8Array(size) }))

t.test('putChunks without chunks sends no request', async (t) => {
  t.strictSame(groupChunks([]), [])
})

t.test('a request has at most 64 chunks, and the index of its first one', async (t) => {
  const groups = groupChunks(chunksOf(...Array(150).fill(1)))
  t.strictSame(
    groups.map(({ first, group }) => [first, group.length]),
    [
      [0, groupChunksMax],
      [64, groupChunksMax],
      [128, 22],
    ],
  )
})

t.test('a request of chunks fits into 4 MiB', async (t) => {
  const mebibyte = 1024 * 1024
  const groups = groupChunks(chunksOf(mebibyte, mebibyte, mebibyte, mebibyte, 10))
  t.strictSame(
    groups.map(({ group }) => group.length),
    [2, 3],
  )
  const most = Array(groupChunksMax).fill({
    digest,
    data: 'x'.repeat(Math.ceil(groupBytesMax / groupChunksMax / 3) * 4),
  })
  t.ok(JSON.stringify({ chunksOf: most }).length <= 4 * mebibyte)
})

t.test('a chunk that is too large is sent alone, for the server to reject', async (t) => {
  const groups = groupChunks(chunksOf(1, groupBytesMax + 1, 1))
  t.strictSame(
    groups.map(({ group }) => group.length),
    [1, 1, 1],
  )
})
