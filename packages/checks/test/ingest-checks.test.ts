import { createIngest, openMemoryStore } from '@ingest/core'
import t from 'tap'
import { ingestChecks } from '../src/index.ts'

t.test('an ingest on the memory store keeps its promises', async (t) => {
  async function open() {
    const embedded = createIngest({ store: openMemoryStore() })
    return { ingest: embedded.project('p'), close: embedded.close }
  }
  for (const { name, run } of ingestChecks) await t.test(name, () => run(open))
})

t.test('the names of the checks are unique', async (t) => {
  t.equal(new Set(ingestChecks.map(({ name }) => name)).size, ingestChecks.length)
})
