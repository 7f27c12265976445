import t from 'tap'
import { createIngest } from '../src/ingest.ts'
import { openMemoryStore } from '../src/memory/memory-store.ts'

t.test('a search that finds less than a page continues after the last build that it examined', async (t) => {
  const looked = { buildId: 'b', frozenAt: 7 }
  const afters: unknown[] = []
  const store = {
    ...openMemoryStore(),
    async builds(_: string, { after }: { after?: unknown }) {
      afters.push(after)
      return { builds: [], ...(after === undefined && { last: looked }) }
    },
  }
  const { listBuilds } = createIngest({ store }).project('p')
  const { builds, next } = await listBuilds({ search: 'x' })
  t.strictSame(builds, [])
  t.strictSame(await listBuilds({ search: 'x', cursor: next ?? '' }), { builds: [], next: null })
  t.strictSame(afters, [undefined, looked])
})
