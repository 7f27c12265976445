import { join } from 'node:path'
import { ingestChecks } from '@ingest/checks'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import t from 'tap'

t.test('an ingest on the LMDB store keeps its promises', async (t) => {
  t.testdir()
  let count = 0
  const openNew = () => openLmdbStore(join(t.testdirName, String(count++)))
  const shared = createIngest({ store: await openNew() })
  const openProject = async () => ({ ingest: shared.project(`project-${count++}`), async close() {} })
  async function openStore() {
    const embedded = createIngest({ store: await openNew() })
    return { ingest: embedded.project('p'), close: embedded.close }
  }
  for (const { name, isolated, run } of ingestChecks) {
    await t.test(name, () => run(isolated ? openStore : openProject))
  }
  await shared.close()
})
