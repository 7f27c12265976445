import { createIngest, type MapStatus, openMemoryStore } from '@ingest/core'
import t from 'tap'
import { readBytesMin } from '../../src/limits/rate-limits.ts'
import { rejectedReadBytes } from '../../src/routes/get-recent.ts'
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
  const all = ['b1', 'b2', 'b3'].map((buildId) => ({ buildId, maps: 2, frozenAt: buildId === 'b2' ? epoch : null }))
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
  t.match(empty.json, { events: 0, firstAt: null, lastAt: null, builds: 0 })
  await freeze(ingest, 'b')
  await ingest.project(projectId).publishMap({ placeId: '1', buildId: 'c', map: 1 })
  const response = (await send(get('/v1/stats', key))).json
  t.strictSame(response, { ...(await ingest.project(projectId).getStats()), firstAt: at, lastAt: at })
  t.match(response, { events: 1, batches: 1, builds: 2, frozenBuilds: 1, maps: 1, eventsPerSecond: 1 / 60 })
  t.match(await send(get('/v1/stats', key, {}, 'HEAD')), headOnly)
})

const invalid = `{"projectId":"${projectId}", "eventId":"e-1","type":5}`
/** One accepted and two rejected events. */
const mixed = Buffer.from(`{"events":[{"projectId":"${projectId}","eventId":"e-0"},${invalid},7]}`)

byEachEdge('the outcomes of the last minutes are returned, of the project alone', async (t, open) => {
  const { ingest, key, send } = await open({}, { now: () => 1_000 })
  await ingest.project(projectId).submitBatch(mixed)
  const response = await send(get('/v1/activity', key))
  t.match(response.headers, { 'content-type': 'application/json', 'cache-control': 'no-store' })
  const minutes = [{ at: epoch, accepted: 1, duplicates: 0, rejected: 2 }]
  t.strictSame(response.json, { since: at, servers: 1, minutes })
  t.match(await send(get('/v1/activity', key, {}, 'HEAD')), headOnly)
  const { key: stranger } = await ingest.keys.create('game-2')
  for (const [path, nothing] of [
    ['/v1/activity', { minutes: [] }],
    ['/v1/rejected', { total: 0, rejected: [] }],
  ] as const) {
    t.equal((await send(get(path, stranger))).status, 401)
    t.match((await send({ method: 'GET', path, headers: headersOf(stranger, 'game-2') })).json, nothing)
  }
})

byEachEdge('the last rejected events are returned, with their text if they are kept', async (t, open) => {
  for (const keepEvents of [false, true]) {
    const { ingest, key, send } = await open({}, { now: () => 1_000, rejected: { keepEvents } })
    await ingest.project(projectId).submitBatch(mixed)
    const issue = { code: 'invalid_type', path: '/type', message: 'Expected a string.' }
    const notObject = { code: 'not_object', path: '', message: 'Expected an object.' }
    const newest = { receivedAt: at, index: 2, eventId: null, issues: [notObject], ...(keepEvents && { event: '7' }) }
    const older = { receivedAt: at, index: 1, eventId: 'e-1', issues: [issue], ...(keepEvents && { event: invalid }) }
    const groups = [notObject, issue].map((each) => ({ ...each, count: 1, lastAt: at }))
    const all = { since: at, total: 2, groups, rejected: [newest, older] }
    t.strictSame((await send(get('/v1/rejected', key))).json, all)
    t.strictSame((await send(get('/v1/rejected?limit=1', key))).json, { ...all, rejected: [newest] })
  }
})

byEachEdge('an event of a request without a valid key is not among them', async (t, open) => {
  const { key, send } = await open()
  t.equal((await send({ body: '{"events":[7]}', headers: headersOf('ik_wrong') })).status, 401)
  t.match((await send(get('/v1/rejected', key))).json, { total: 0 })
  t.equal((await send({ body: '{"events":[7]}', headers: headersOf(key) })).status, 202)
  t.match((await send(get('/v1/rejected', key))).json, { total: 1 })
})

byEachEdge('a list of rejected events is charged by its bytes and for grouping, also by HEAD', async (t, open) => {
  const burst = 1_000_000
  const { ingest, key, send } = await open({ rateLimits: { readBytes: { perSecond: 1, burst }, now: () => 0 } })
  await ingest.project(projectId).submitBatch(mixed)
  const { body, headers } = await send(get('/v1/rejected', key))
  const charged = readBytesMin + rejectedReadBytes + body.length
  t.match(headers.ratelimit, `"read-bytes";r=${burst - charged};`)
  const head = await send(get('/v1/rejected', key, {}, 'HEAD'))
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
    ...['0', '1001', '-1', 'x', ''].map((limit) => [`rejected?limit=${limit}`, 'invalid-argument'] as const),
  ] as const) {
    t.equal((await send(get(`/v1/${query}`, key))).json.code, code, query)
  }
})

t.test('the servers of a store are those between which the rate limits are divided', async (t) => {
  const store = { ...openMemoryStore(), registerServer: () => () => 3 }
  for (const [options, servers] of [
    [{}, 1],
    [{ rateLimits: {} }, 3],
  ] as const) {
    const { key, send } = await openFetch(t, options, createIngest({ store }))
    t.match((await send(get('/v1/activity', key))).json, { servers })
  }
})
