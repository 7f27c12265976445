import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import { ingestChecks } from '@ingest/core/testing'
import t from 'tap'
import { openLmdbStore } from './built-store.ts'

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
