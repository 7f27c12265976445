import t from 'tap'
import { edges } from '../edges.ts'
import { freeze, get } from '../map-parts.ts'
import { openTestIngest, projectId } from '../test-ingest.ts'

for (const { name, open } of edges) {
  t.test(`by ${name}, the statistics of a project are returned`, async (t) => {
    const { ingest, key } = await openTestIngest({ now: () => 1_000 })
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const empty = await edge.send(get('/v1/stats', key))
    t.equal(empty.status, 200)
    t.match(empty.headers, { 'content-type': 'application/json', 'cache-control': 'no-store' })
    t.match(JSON.parse(empty.body), { events: 0, firstAt: null, lastAt: null, builds: 0 })
    await freeze(ingest, 'b')
    await ingest.project(projectId).publishMap({ placeId: '1', buildId: 'c', map: 1 })
    const response = JSON.parse((await edge.send(get('/v1/stats', key))).body)
    const at = '1970-01-01T00:00:01.000Z'
    t.strictSame(response, { ...(await ingest.project(projectId).getStats()), firstAt: at, lastAt: at })
    t.match(response, { events: 1, batches: 1, builds: 2, frozenBuilds: 1, maps: 1, eventsPerSecond: 1 / 60 })
    const head = await edge.send(get('/v1/stats', key, [], 'HEAD'))
    t.match(head, { status: 200, headers: { 'content-length': /^[1-9]\d*$/ }, body: /^$/ })
  })

  t.test(
    `by ${name}, statistics and builds take no unknown parameter and no other method, and need the scope to read`,
    async (t) => {
      const { ingest, key } = await openTestIngest()
      const edge = await open(ingest)
      t.teardown(() => edge.close())
      const { key: writer } = await ingest.keys.create(projectId, { scopes: ['events:write', 'maps:write'] })
      for (const path of ['/v1/stats', '/v1/builds']) {
        t.match(JSON.parse((await edge.send(get(`${path}?a=1`, key))).body), { code: 'invalid-argument' })
        t.match(await edge.send(get(path, key, [], 'DELETE')), { status: 405, headers: { allow: 'GET, HEAD' } })
        t.equal((await edge.send(get(path, writer))).status, 401)
      }
    },
  )
}

for (const { name, open } of edges) {
  t.test(`by ${name}, builds are listed in pages`, async (t) => {
    const { ingest, key } = await openTestIngest({ now: () => 0 })
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const list = async (query: string) => JSON.parse((await edge.send(get(`/v1/builds${query}`, key))).body)
    t.strictSame(await list(''), { builds: [], next: null })
    for (const buildId of ['b1', 'b2', 'b3']) {
      for (const placeId of ['1', '2']) await ingest.project(projectId).publishMap({ placeId, buildId, map: 1 })
    }
    await freeze(ingest, 'b2')
    const all = [
      { buildId: 'b1', maps: 2, frozenAt: null },
      { buildId: 'b2', maps: 2, frozenAt: '1970-01-01T00:00:00.000Z' },
      { buildId: 'b3', maps: 2, frozenAt: null },
    ]
    t.strictSame(await list(''), { builds: all, next: null })
    const { builds, next } = await list('?limit=2')
    t.strictSame(builds, all.slice(0, 2))
    t.strictSame(await list(`?limit=2&cursor=${encodeURIComponent(next)}`), { builds: all.slice(2), next: null })
    for (const [strange, code] of [
      ['?limit=0', 'invalid-argument'],
      ['?limit=1001', 'invalid-argument'],
      ['?cursor=abc', 'invalid-cursor'],
      ['?buildId=b1', 'invalid-argument'],
      ['?cursor=a&cursor=b', 'invalid-argument'],
    ] as const) {
      t.equal((await list(strange)).code, code, strange)
    }
  })
}
