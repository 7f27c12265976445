import t from 'tap'
import { openTestIngest, projectId } from '../batches.ts'
import { edges } from '../edges.ts'
import { freeze, get } from '../map-parts.ts'

for (const { name, open } of edges) {
  t.test(`by ${name}, builds come in pages`, async (t) => {
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
