import t from 'tap'
import { openTestIngest, projectId } from '../batches.ts'
import { edges } from '../edges.ts'
import { freeze, get } from '../map-parts.ts'

for (const { name, open } of edges) {
  t.test(`by ${name}, a project is told in numbers`, async (t) => {
    const { ingest, key } = await openTestIngest({ now: () => 1_000 })
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const empty = await edge.send(get('/v1/stats', key))
    t.equal(empty.status, 200)
    t.match(empty.headers, { 'content-type': 'application/json', 'cache-control': 'no-store' })
    t.match(JSON.parse(empty.body), { events: 0, firstAt: null, lastAt: null, builds: 0 })
    await freeze(ingest, 'b')
    await ingest.project(projectId).publishMap({ placeId: '1', buildId: 'c', map: 1 })
    const answer = JSON.parse((await edge.send(get('/v1/stats', key))).body)
    const at = '1970-01-01T00:00:01.000Z'
    t.strictSame(answer, { ...(await ingest.project(projectId).getStats()), firstAt: at, lastAt: at })
    t.match(answer, { events: 1, batches: 1, builds: 2, frozenBuilds: 1, maps: 1, eventsPerSecond: 1 / 60 })
    const head = await edge.send(get('/v1/stats', key, [], 'HEAD'))
    t.match(head, { status: 200, headers: { 'content-length': /^[1-9]\d*$/ }, body: /^$/ })
  })

  t.test(`by ${name}, statistics take no query, no other method, and the scope to read`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const { key: writer } = await ingest.keys.create(projectId, { scopes: ['events:write', 'maps:write'] })
    for (const path of ['/v1/stats', '/v1/builds']) {
      t.match(JSON.parse((await edge.send(get(`${path}?a=1`, key))).body), { code: 'invalid-argument' })
      t.match(await edge.send(get(path, key, [], 'DELETE')), { status: 405, headers: { allow: 'GET, HEAD' } })
      t.equal((await edge.send(get(path, writer))).status, 401)
    }
  })
}
