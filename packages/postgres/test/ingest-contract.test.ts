import { ingestChecks, type OpenIngest } from '@ingest/checks'
import { createClient } from '@ingest/client'
import { createIngest, type EmbeddedIngest } from '@ingest/core'
import { serve } from '@ingest/server'
import t, { type Test } from 'tap'
import { openPostgresStore } from '../src/open-postgres-store.ts'
import { createDatabase, noPostgres } from './database.ts'

const skip = noPostgres

async function openEmbedded(): Promise<EmbeddedIngest> {
  return createIngest({ store: await openPostgresStore(await createDatabase()) })
}

/** Runs all checks with an Ingest of new projects, or of their own if they close it. */
async function runChecks(t: Test, openShared: OpenIngest, openIsolated: OpenIngest): Promise<void> {
  for (const { name, isolated, run } of ingestChecks)
    await t.test(name, () => run(isolated ? openIsolated : openShared))
}

t.test('an ingest on the PostgreSQL store keeps its promises', { skip }, async (t) => {
  const shared = await openEmbedded()
  let count = 0
  await runChecks(
    t,
    async () => ({ ingest: shared.project(`project-${count++}`), async close() {} }),
    async () => {
      const embedded = await openEmbedded()
      return { ingest: embedded.project('p'), close: embedded.close }
    },
  )
  await shared.close()
})

t.test('over HTTP, a server on the PostgreSQL store keeps the promises of an ingest', { skip }, async (t) => {
  const embedded = await openEmbedded()
  const served = await serve({ ingest: embedded, port: 0, closeTimeoutMs: 1 })
  let count = 0
  async function open() {
    const projectId = `project-${count++}`
    const { key } = await embedded.keys.create(projectId, { scopes: ['events:write', 'maps:write', 'read'] })
    const ingest = createClient({ url: served.url, projectId, key })
    return { ingest, close: ingest.close }
  }
  await runChecks(t, open, open)
  await served.close()
  await embedded.close()
})
