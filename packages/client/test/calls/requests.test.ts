import { type Digest, IngestError } from '@ingest/core'
import t from 'tap'
import type { Client } from '../../src/client.ts'
import type { CallOptions } from '../../src/http/retry.ts'
import { json, openScriptedClient, problem, type Step, text, withUnixTimes } from '../scripted-server.ts'

const time = '2026-11-20T17:51:00.000Z'
const id = { placeId: 'a/b ?', buildId: 'ü' }
const digest: Digest = `sha256:${'0a'.repeat(32)}`
const bytes = Buffer.from([0, 1, 2, 255])
const map = { ...id, state: 'complete', digest, size: 5, contentType: 'text/plain', chunks: 1, frozen: false }
const published = { ...map, outcome: 'created', missing: [], publishedAt: time }
const manifest = { contentType: 'text/plain', size: 5, digest, chunks: [{ digest, size: 5 }] }
const incomplete = { ...published, outcome: 'incomplete', state: 'incomplete', missing: [digest], publishedAt: null }
const pending = { digest, size: 1, contentType: 'a/b', chunks: 1, missing: [digest] }
const known = { ...map, missing: [], publishedAt: time, frozenAt: time, pending }
const issue = { code: 'invalid_type', path: '/type', message: 'Expected a string.' }
const range = { from: time, to: time, stepSeconds: 60 }
const source = { buildId: 'b', type: null, keyId: 'k', keyName: null, serverIds: [{ serverId: null, count: 1 }] }
const sample = { receivedAt: time, eventId: 'e', issues: [issue] }
const spanned = { firstAt: time, lastAt: time, counts: [3] }
const rejections = {
  ...range,
  total: 4,
  steps: [{ at: time, rejected: 4 }],
  groups: [{ ...issue, ...source, count: 3, ...spanned, samples: [{ ...sample, event: '5' }, sample] }],
  other: 1,
}
const steps = [{ at: time, accepted: 1, duplicates: 0, rejected: 2 }]
const groups = [{ name: null, accepted: 3, rejected: 0, ...spanned }]
const counts = { events: 3, batches: 2, bytes: 100, eventsPerSecond: 0.25 }
const builds = [{ buildId: 'é', frozenAt: null, maps: 1 }]
const asJson = { 'content-type': 'application/json' }

interface Call {
  call: (client: Client, options?: CallOptions) => Promise<unknown>
  /** The request that the call sends. Default: GET without a query. */
  request: { method?: string; path: string; query?: object; headers?: object; body?: string | Buffer }
  status?: number
  /** A response, and the result of the call unless it has the same values with times in milliseconds. */
  body: object
  result?: unknown
  /** A member that a response may leave out. */
  optional?: string
}

const calls: Record<string, Call> = {
  submitBatch: {
    call: (client, options) => client.submitBatch({ events: [{ a: 'é' } as never] }, options),
    request: { method: 'POST', path: '/v1/events/batch', headers: asJson, body: '{"events":[{"a":"é"}]}' },
    status: 202,
    body: { accepted: 0, duplicates: 0, rejected: [{ index: 0, eventId: null, issues: [issue] }] },
  },
  'publishMap with a map': {
    call: (client, options) => client.publishMap({ ...id, map: { a: [1.5, 'é'] } }, options),
    request: {
      ...{ method: 'PUT', path: '/v1/maps', body: '{"placeId":"a/b ?","buildId":"ü","map":{"a":[1.5,"é"]}}' },
      headers: { ...asJson, 'if-match': undefined, 'if-none-match': undefined },
    },
    status: 201,
    body: published,
  },
  'publishMap with a manifest, for a slot without a map': {
    call: (client, options) =>
      client.publishMap({ placeId: 1, buildId: 'b', manifest }, { ...options, ifNoneMatch: '*', dryRun: true }),
    request: {
      ...{ method: 'PUT', path: '/v1/maps', query: { dryRun: 'true' } },
      ...{ headers: { 'if-none-match': '*' }, body: JSON.stringify({ placeId: 1, buildId: 'b', manifest }) },
    },
    status: 202,
    body: incomplete,
  },
  'publishMap in place of a map': {
    call: (client, options) => client.publishMap({ ...id, map: 1 }, { ...options, ifMatch: digest, dryRun: false }),
    request: { method: 'PUT', path: '/v1/maps', headers: { 'if-none-match': undefined, 'if-match': `"${digest}"` } },
    body: { ...published, outcome: 'replaced' },
  },
  'putChunk of a new chunk': {
    call: (client, options) => client.putChunk(digest, bytes, options),
    request: {
      ...{ method: 'PUT', path: '/v1/maps/chunks', query: { digest }, body: bytes },
      headers: { 'content-type': 'application/octet-stream', 'content-length': '4' },
    },
    status: 201,
    body: { outcome: 'stored', completed: [published] },
  },
  'putChunk of an existing chunk': {
    call: (client, options) => client.putChunk(digest, bytes, options),
    request: { method: 'PUT', path: '/v1/maps/chunks', query: { digest } },
    body: { outcome: 'existing', completed: [] },
  },
  putChunks: {
    call: (client, options) => client.putChunks([{ digest, bytes: new Uint8Array(9).subarray(5).fill(1) }], options),
    request: {
      ...{ method: 'PUT', path: '/v1/maps/chunks', headers: asJson },
      body: `{"chunks":[{"digest":"${digest}","data":"AQEBAQ=="}]}`,
    },
    body: { stored: 1, existing: 0, rejected: [{ index: 0, digest: null, issues: [] }], completed: [published] },
  },
  getMap: {
    call: (client, options) => client.getMap(id, options),
    request: { path: '/v1/maps', query: id },
    body: known,
  },
  getMapContent: {
    call: async (client, options) => {
      const { bytes: _, ...content } = (await client.getMapContent(id, options)) ?? { bytes }
      return content
    },
    request: { path: '/v1/maps', query: id },
    body: known,
    result: { ...id, digest, size: 5, contentType: 'text/plain', frozen: false },
  },
  listMaps: {
    call: (client, options) => client.listMaps(options),
    request: { path: '/v1/maps' },
    body: { maps: [{ ...known, frozenAt: null, pending: null }], next: 'n' },
  },
  'listMaps from a cursor': {
    call: (client, options) => client.listMaps({ placeId: '1', cursor: 'n', limit: 7, ...options }),
    request: { path: '/v1/maps', query: { placeId: '1', cursor: 'n', limit: '7' } },
    body: { maps: [], next: null },
  },
  'listMaps of a place and a build': {
    call: (client, options) => client.listMaps({ ...id, ...options }),
    request: { path: '/v1/maps', query: id },
    body: known,
    result: { maps: [withUnixTimes(known)], next: null },
  },
  getStats: {
    call: (client, options) => client.getStats(options),
    request: { path: '/v1/stats' },
    body: { ...counts, firstAt: null, lastAt: time },
  },
  listBuilds: {
    call: (client, options) => client.listBuilds(options),
    request: { path: '/v1/builds' },
    body: { builds, next: 'n' },
  },
  'listBuilds from a cursor': {
    call: (client, options) => client.listBuilds({ cursor: 'n', limit: 7, ...options }),
    request: { path: '/v1/builds', query: { cursor: 'n', limit: '7' } },
    body: { builds: [{ ...builds[0], frozenAt: time }], next: null },
  },
  'listBuilds by a search': {
    call: (client, options) => client.listBuilds({ search: '1.42', ...options }),
    request: { path: '/v1/builds', query: { search: '1.42' } },
    body: { builds, next: null },
  },
  getActivity: {
    call: (client, options) => client.getActivity(options),
    request: { path: '/v1/activity' },
    body: { ...range, servers: 2, steps },
  },
  'getActivity of a range by type': {
    call: (client, options) => client.getActivity({ from: 1, to: 2, by: 'type', ...options }),
    request: { path: '/v1/activity', query: { from: '1', to: '2', by: 'type' } },
    body: { ...range, servers: 2, steps, groups },
    optional: 'groups',
  },
  listRejected: {
    call: (client, options) => client.listRejected(options),
    request: { path: '/v1/rejected' },
    body: rejections,
  },
  'listRejected of a range': {
    call: (client, options) => client.listRejected({ from: 1, to: 2, ...options }),
    request: { path: '/v1/rejected', query: { from: '1', to: '2' } },
    body: { ...range, total: 0, steps: [], groups: [], other: 0 },
  },
}

for (const [name, { call, request, status = 200, body, result = withUnixTimes(body), optional }] of Object.entries(
  calls,
)) {
  t.test(`${name} sends its request, also after a 503, and returns the response`, async (t) => {
    const { client, received } = await openScriptedClient(t, {}, problem(503, 'overloaded'), json(status, body))
    t.strictSame(await call(client), result)
    t.equal(received.length, 2)
    const { body: sent, query = {}, ...others } = request
    for (const each of received) {
      t.match(each, { method: 'GET', ...others })
      t.strictSame(each.query, query)
      if (sent !== undefined) t.strictSame(each.body, Buffer.from(sent))
    }
  })

  t.test(`${name} checks the response and allows additional members`, async (t) => {
    let respond: Step = text(status, '<html>')
    const { client, received } = await openScriptedClient(t, {}, (...args) => respond(...args))
    await t.rejects(call(client), { code: 'unexpected-response' })
    const others = [null, 7, 'text', [], {}, [body]]
    const required = Object.keys(body).filter((member) => member !== optional)
    const missing = required.map((member) => ({ [member]: undefined }))
    const faults = [...missing, ...Object.keys(body).map((member) => ({ [member]: [null] }))]
    for (const other of [...others, ...faults.map((fault) => ({ ...body, ...fault }))]) {
      respond = json(status, other)
      await t.rejects(call(client), { code: 'unexpected-response' }, JSON.stringify(other))
    }
    t.equal(received.length, 1 + others.length + faults.length, 'without retries')
    respond = json(status, { ...body, further: 1 })
    t.match(await call(client), result as object)
  })

  t.test(`${name} throws the error of the server, and the reason of its signal`, async (t) => {
    const details = { limit: 1, actual: 2, issues: [issue] }
    const { client, received } = await openScriptedClient(t, {}, problem(409, 'map-frozen', details))
    await t.rejects(call(client), { code: 'map-frozen', message: 'Refused: map-frozen.', ...details })
    const reason = new Error('aborted by the test')
    await t.rejects(call(client, { signal: AbortSignal.abort(reason) }), reason)
    t.equal(received.length, 1)
  })
}

t.test('only a 404 with the code of the requested thing becomes undefined', async (t) => {
  const lookups: [code: string, call: (client: Client) => Promise<unknown>, result?: unknown][] = [
    ['map-not-found', (client) => client.getMap(id)],
    ['map-not-found', (client) => client.getMapContent(id)],
    ['map-not-found', (client) => client.listMaps(id), { maps: [], next: null }],
    ['chunk-not-found', (client) => client.getChunk(digest)],
  ]
  for (const [code, call, result] of lookups) {
    const steps = [problem(404, code), text(404, 'no such page'), problem(503, code)]
    const { client } = await openScriptedClient(t, { retries: 0 }, ...steps)
    t.strictSame(await call(client), result)
    await t.rejects(call(client), { code: 'not-found' }, 'of a wrong url')
    await t.rejects(call(client), { code, status: 503 })
  }
})

t.test('an incomplete map has no content', async (t) => {
  const { client } = await openScriptedClient(t, {}, json(200, { ...known, state: 'incomplete', publishedAt: null }))
  t.equal(await client.getMapContent(id), undefined)
})

t.test('invalid arguments throw without a request', async (t) => {
  const { client, received } = await openScriptedClient(t, {}, json(200, {}))
  const invalid: [code: string, () => Promise<unknown>][] = [
    ['batch-too-large', () => client.submitBatch(Buffer.alloc(262_145))],
    ['malformed-body', () => client.submitBatch({ events: [1n as never] })],
    ['too-many-events', () => client.submitBatch({ events: Array(101).fill({}) })],
    ['invalid-publication', () => client.publishMap({ ...id, map: 1n })],
    ['invalid-argument', () => client.publishMap({ ...id, map: {} }, { ifMatch: 'a"\r\nb' })],
    ['invalid-argument', () => client.putChunk('sha256:', bytes)],
    ['invalid-argument', () => client.getChunk('../')],
    ['invalid-argument', () => client.getMap({ placeId: '1' } as never)],
    ...['', 'a\n', 'a\ud800', undefined].map((eventId): [string, () => Promise<unknown>] => [
      'invalid-argument',
      () => client.findEvent(eventId as string),
    ]),
  ]
  for (const [code, call] of invalid) await t.rejects(call(), { code }, String(call))
  const refuse = (count: number) => {
    throw new IngestError('overloaded', `no ${count}`)
  }
  const batch = client.submitBatch(Buffer.from('{"events":[1,2]}'), { admit: refuse })
  await t.rejects(batch, { message: 'no 2' }, 'admit gets the number of events')
  t.strictSame(await client.putChunks([]), { stored: 0, existing: 0, rejected: [], completed: [] })
  t.equal(received.length, 0)
})
