import type { MapStatus } from '@ingest/core'
import t from 'tap'
import { edges } from '../edges.ts'
import { bytesOf, freeze, get, manifestOf } from '../map-parts.ts'
import { openTestIngest, projectId } from '../test-ingest.ts'

/** The body of a map of an open build. */
function withIsoTime(map: MapStatus | undefined): object {
  return { ...map, publishedAt: new Date(map?.publishedAt ?? Number.NaN).toISOString() }
}

const chunks = [bytesOf(10, 'a'), bytesOf(20, 'b')]

for (const { name, open } of edges) {
  t.test(`by ${name}, the status of one map is returned`, async (t) => {
    const { ingest, key } = await openTestIngest({ now: () => 0 })
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const id = { placeId: 'p/1', buildId: 'b ä' }
    const path = `/v1/maps?${new URLSearchParams(id)}`
    const absent = await edge.send(get(path, key))
    t.equal(absent.status, 404)
    t.match(JSON.parse(absent.body), { code: 'map-not-found', retryable: false })
    await ingest.project(projectId).publishMap({ ...id, map: 1 })
    await ingest.project(projectId).publishMap({ ...id, manifest: manifestOf(chunks) })
    const response = await edge.send(get(path, key))
    t.equal(response.status, 200)
    t.match(response.headers, { 'content-type': 'application/json', 'cache-control': 'no-store' })
    t.strictSame(JSON.parse(response.body), withIsoTime(await ingest.project(projectId).getMap(id)))
    t.match(JSON.parse(response.body), { ...id, state: 'complete', frozenAt: null, pending: { chunks: 2 } })
    await freeze(ingest, id.buildId)
    t.match(JSON.parse((await edge.send(get(path, key))).body), {
      frozen: true,
      frozenAt: '1970-01-01T00:00:00.000Z',
      pending: null,
    })
    const head = await edge.send(get(path, key, [], 'HEAD'))
    t.equal(head.status, 200)
    t.match(head.headers['content-length'], /^[1-9]\d*$/)
    t.equal(head.body, '')
  })

  t.test(`by ${name}, maps are listed in pages`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const list = async (query: string) => JSON.parse((await edge.send(get(`/v1/maps${query}`, key))).body)
    t.strictSame(await list(''), { maps: [], next: null })
    for (const buildId of ['b1', 'b2', 'b3']) {
      for (const placeId of ['p1', 'p2']) await ingest.project(projectId).publishMap({ placeId, buildId, map: placeId })
    }
    const { maps, next } = await ingest.project(projectId).listMaps()
    t.strictSame(await list(''), { maps: maps.map(withIsoTime), next })
    t.equal((await list('?placeId=p1')).maps.length, 3)
    t.equal((await list('?buildId=b2')).maps.length, 2)
    const seen: string[] = []
    let query = '?limit=4'
    for (;;) {
      const { maps, next } = await list(query)
      for (const { placeId, buildId } of maps) seen.push(`${buildId} ${placeId}`)
      if (next === null) break
      query = `?limit=4&cursor=${encodeURIComponent(next)}`
    }
    t.strictSame(seen, ['b1 p1', 'b1 p2', 'b2 p1', 'b2 p2', 'b3 p1', 'b3 p2'])
    for (const [strange, code] of [
      ['?limit=0', 'invalid-argument'],
      ['?limit=1001', 'invalid-argument'],
      ['?cursor=abc', 'invalid-cursor'],
      ['?place=p', 'invalid-argument'],
      ['?placeId=p1&buildId=b1&limit=1', 'invalid-argument'],
      ['?placeId=p1&buildId=', 'invalid-argument'],
    ] as const) {
      t.equal((await list(strange)).code, code, strange)
    }
  })
}
