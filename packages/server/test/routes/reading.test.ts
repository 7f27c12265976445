import type { MapStatus } from '@ingest/core'
import t from 'tap'
import { readBytesMin } from '../../src/limits/rate-limits.ts'
import { byEachEdge, openFetch } from '../edges.ts'
import { bytesOf, freeze, get, manifestOf } from '../map-parts.ts'
import { headersOf, projectId } from '../test-ingest.ts'

const epoch = '1970-01-01T00:00:00.000Z'
const at = '1970-01-01T00:00:01.000Z'
/** The response to a HEAD of what GET returns in JSON. */
const headOnly = { status: 200, headers: { 'content-length': /^[1-9]\d*$/ }, body: /^$/ }

/** The body of a map of an open build. */
function withIsoTime(map: MapStatus | undefined): object {
  return { ...map, publishedAt: new Date(map?.publishedAt ?? Number.NaN).toISOString() }
}

byEachEdge('the status of one map is returned', async (t, open) => {
  const { ingest, key, send } = await open({}, { now: () => 0 })
  const id = { placeId: 'p/1', buildId: 'b ä' }
  const path = `/v1/maps?${new URLSearchParams(id)}`
  t.match(await send(get(path, key)), { status: 404, json: { code: 'map-not-found', retryable: false } })
  await ingest.project(projectId).publishMap({ ...id, map: 1 })
  await ingest.project(projectId).publishMap({ ...id, manifest: manifestOf([bytesOf(10, 'a'), bytesOf(20, 'b')]) })
  const response = await send(get(path, key))
  t.match(response, { status: 200, headers: { 'content-type': 'application/json', 'cache-control': 'no-store' } })
  t.strictSame(response.json, withIsoTime(await ingest.project(projectId).getMap(id)))
  t.match(response.json, { ...id, state: 'complete', frozenAt: null, pending: { chunks: 2 } })
  await freeze(ingest, id.buildId)
  const frozen = await send(get(path, key))
  t.match(frozen.json, { frozen: true, frozenAt: epoch, pending: null })
  t.match(await send(get(path, key, {}, 'HEAD')), headOnly)
})

byEachEdge('maps and builds are listed in pages', async (t, open) => {
  const { ingest, key, send } = await open({}, { now: () => 0 })
  const list = async (path: string) => (await send(get(`/v1/${path}`, key))).json
  t.strictSame(await list('maps'), { maps: [], next: null })
  t.strictSame(await list('builds'), { builds: [], next: null })
  for (const buildId of ['b1', 'b2', 'b3']) {
    for (const placeId of ['p1', 'p2']) await ingest.project(projectId).publishMap({ placeId, buildId, map: placeId })
  }
  const { maps, next } = await ingest.project(projectId).listMaps()
  t.strictSame(await list('maps'), { maps: maps.map(withIsoTime), next })
  t.equal((await list('maps?placeId=p1')).maps.length, 3)
  t.equal((await list('maps?buildId=b2')).maps.length, 2)
  const first = await list('maps?limit=4')
  const rest = await list(`maps?limit=4&cursor=${encodeURIComponent(first.next)}`)
  t.equal(rest.next, null)
  t.strictSame(
    [...first.maps, ...rest.maps].map(({ buildId, placeId }) => `${buildId} ${placeId}`),
    ['b1 p1', 'b1 p2', 'b2 p1', 'b2 p2', 'b3 p1', 'b3 p2'],
  )
  await freeze(ingest, 'b2')
  const all = ['b3', 'b1', 'b2'].map((buildId) => ({ buildId, maps: 2, frozenAt: buildId === 'b2' ? epoch : null }))
  t.strictSame(await list('builds'), { builds: all, next: null })
  const page = await list('builds?limit=2')
  t.strictSame(page.builds, all.slice(0, 2))
  const last = await list(`builds?limit=2&cursor=${encodeURIComponent(page.next)}`)
  t.strictSame(last, { builds: all.slice(2), next: null })
})

byEachEdge('the statistics of a project are returned', async (t, open) => {
  const { ingest, key, send } = await open({}, { now: () => 1_000 })
  const empty = await send(get('/v1/stats', key))
  t.match(empty, { status: 200, headers: { 'content-type': 'application/json', 'cache-control': 'no-store' } })
  t.match(empty.json, { events: 0, firstAt: null, lastAt: null })
  await freeze(ingest, 'b')
  const response = (await send(get('/v1/stats', key))).json
  t.strictSame(response, { ...(await ingest.project(projectId).getStats()), firstAt: at, lastAt: at })
  t.match(response, { events: 1, batches: 1, eventsPerSecond: 1 / 60 })
  t.match(await send(get('/v1/stats', key, {}, 'HEAD')), headOnly)
})

const invalid = `{"projectId":"${projectId}", "eventId":"e-1","type":5}`
/** One accepted and two rejected events. */
const mixed = Buffer.from(`{"events":[{"projectId":"${projectId}","eventId":"e-0"},${invalid},7]}`)

/** The range of `/v1/activity` with all that `mixed` has, in one minute. */
const firstMinute = 'from=1970-01-01T00:00:00Z&to=60000'
const minute = { from: epoch, to: '1970-01-01T00:01:00.000Z', stepSeconds: 60 }

byEachEdge('outcomes over time are returned, of the project alone', async (t, open) => {
  const { ingest, key, send } = await open({}, { now: () => 1_000 })
  await ingest.project(projectId).submitBatch(mixed)
  const response = await send(get(`/v1/activity?${firstMinute}&by=type`, key))
  t.match(response.headers, { 'content-type': 'application/json', 'cache-control': 'no-store' })
  const steps = [{ at: epoch, accepted: 1, duplicates: 0, rejected: 2 }]
  const groups = [{ name: null, accepted: 1, rejected: 2, firstAt: epoch, lastAt: epoch, counts: [1] }]
  t.strictSame(response.json, { ...minute, servers: 1, steps, groups })
  t.strictSame((await send(get(`/v1/activity?${firstMinute}`, key))).json, { ...minute, servers: 1, steps })
  t.match(await send(get(`/v1/activity?${firstMinute}`, key, {}, 'HEAD')), headOnly)
  const { key: stranger } = await ingest.keys.create('game-2')
  for (const [path, nothing] of [
    [`/v1/activity?${firstMinute}`, { servers: 0, steps: [{ accepted: 0, rejected: 0 }] }],
    [`/v1/rejected?${firstMinute}`, { total: 0, groups: [] }],
  ] as const) {
    t.equal((await send(get(path, stranger))).status, 401)
    t.match((await send({ method: 'GET', path, headers: headersOf(stranger, 'game-2') })).json, nothing)
  }
})

byEachEdge('rejected events are returned by cause and key, with their text if it is kept', async (t, open) => {
  for (const keepEvents of [false, true]) {
    const { key, send } = await open({}, { now: () => 1_000, rejected: { keepEvents }, server: 'eu-1' })
    t.equal((await send({ body: mixed, headers: headersOf(key) })).status, 202)
    const issue = { code: 'invalid_type', path: '/type', message: 'Expected a string.' }
    const notObject = { code: 'not_object', path: '', message: 'Expected an object.' }
    const source = { buildId: null, type: null, keyId: key.slice(3, 11), keyName: null }
    const once = {
      ...source,
      count: 1,
      serverIds: [{ serverId: null, count: 1 }],
      firstAt: at,
      lastAt: at,
      counts: [1],
    }
    const groupOf = (first: object, eventId: string | null, event: string) => ({
      ...{ ...first, ...once },
      samples: [{ receivedAt: at, eventId, issues: [first], ...(keepEvents && { event }) }],
    })
    t.strictSame((await send(get(`/v1/rejected?${firstMinute}`, key))).json, {
      ...{ ...minute, total: 2, steps: [{ at: epoch, rejected: 2 }] },
      groups: [groupOf(issue, 'e-1', invalid), groupOf(notObject, null, '7')],
      other: 0,
    })
  }
})

byEachEdge('an event of a request without a valid key is not among them', async (t, open) => {
  const { key, send } = await open()
  t.equal((await send({ body: '{"events":[7]}', headers: headersOf('ik_wrong') })).status, 401)
  t.match((await send(get('/v1/rejected', key))).json, { total: 0 })
  t.equal((await send({ body: '{"events":[7]}', headers: headersOf(key) })).status, 202)
  t.match((await send(get('/v1/rejected', key))).json, { total: 1 })
})

byEachEdge('activity is charged by the bytes of the rows that are read, also by HEAD', async (t, open) => {
  const burst = 1_000_000
  let now = 1_000
  const options = { rateLimits: { readBytes: { perSecond: 1, burst }, now: () => 0 } }
  const { ingest, key, send } = await open(options, { now: () => now })
  const project = ingest.project(projectId)
  await project.submitBatch(mixed)
  now += 60_000
  await project.submitBatch(mixed)
  let rowBytes = 0
  const onScan = (bytes: number) => {
    rowBytes += bytes
  }
  while (rowBytes === 0) await project.listRejected({ from: 0, to: 60_000, onScan })
  const { body, headers } = await send(get(`/v1/rejected?${firstMinute}`, key))
  const charged = readBytesMin + rowBytes + body.length
  t.match(headers.ratelimit, `"read-bytes";r=${burst - charged};`)
  const head = await send(get(`/v1/rejected?${firstMinute}`, key, {}, 'HEAD'))
  t.match(head.headers.ratelimit, `"read-bytes";r=${burst - 2 * charged};`, 'it takes the same work')
})

byEachEdge('what a read does not take is refused', async (t, open) => {
  const { key, send } = await open()
  for (const [query, code] of [
    ['maps?limit=0', 'invalid-argument'],
    ['maps?limit=1001', 'invalid-argument'],
    ['maps?cursor=abc', 'invalid-cursor'],
    ['maps?place=p', 'invalid-argument'],
    ['maps?placeId=p1&buildId=b1&limit=1', 'invalid-argument'],
    ['maps?placeId=p1&buildId=', 'invalid-argument'],
    ['builds?limit=0', 'invalid-argument'],
    ['builds?limit=1001', 'invalid-argument'],
    ['builds?cursor=abc', 'invalid-cursor'],
    ['builds?buildId=b1', 'invalid-argument'],
    ['builds?cursor=a&cursor=b', 'invalid-argument'],
    ['stats?a=1', 'invalid-argument'],
    ['activity?a=1', 'invalid-argument'],
    ['rejected?a=1', 'invalid-argument'],
    ['activity?by=place', 'invalid-argument'],
    ...['from=x', 'from=2&to=1', 'from=1&to=1', 'from=0&to=3000000000', 'from=9999999999999'].flatMap((range) => [
      [`activity?${range}`, 'invalid-argument'] as const,
      [`rejected?${range}`, 'invalid-argument'] as const,
    ]),
  ] as const) {
    t.equal((await send(get(`/v1/${query}`, key))).json.code, code, query)
  }
})

t.test('a list of builds is charged for counting their maps', async (t) => {
  const limit = { perSecond: 1, burst: 3 * readBytesMin }
  const { ingest, key, send } = await openFetch(t, { rateLimits: { readBytes: limit, now: () => 0 } })
  for (let i = 0; i < 100; i++) {
    await ingest.project(projectId).publishMap({ placeId: `p-${i}`, buildId: 'b', map: i })
  }
  t.match(await send(get('/v1/builds', key)), { status: 200, json: { builds: [{ maps: 100 }] } })
  t.match(await send(get('/v1/builds', key)), { status: 429, json: { code: 'rate-limited' } })
})
