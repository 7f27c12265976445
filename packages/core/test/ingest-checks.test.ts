import { join } from 'node:path'
import t from 'tap'
import { createIngest } from '../src/ingest.ts'
import { ingestChecks } from '../src/ingest-checks.ts'
import { openMemoryStore } from '../src/memory-store.ts'
import { openLmdbStore } from './lmdb/built-store.ts'

t.test('an ingest on the memory store keeps its promises', async (t) => {
  for (const { name, run } of ingestChecks) {
    await t.test(name, () => run(async () => ({ ingest: createIngest({ store: openMemoryStore() }), projectId: 'p' })))
  }
})

t.test('an ingest on the LMDB store keeps its promises', async (t) => {
  t.testdir()
  for (const [i, { name, run }] of ingestChecks.entries()) {
    let count = 0
    const open = async () => ({
      ingest: createIngest({ store: await openLmdbStore(join(t.testdirName, `${i}-${count++}`)) }),
      projectId: 'p',
    })
    await t.test(name, () => run(open))
  }
})

t.test('the checks have names of their own', async (t) => {
  t.equal(new Set(ingestChecks.map(({ name }) => name)).size, ingestChecks.length)
})
