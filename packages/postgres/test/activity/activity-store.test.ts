import t from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { createDatabase, noPostgres, runSql } from '../database.ts'

const skip = noPostgres
const row = { span: 'minute', at: 60_000, writer: '00000000000000ff', body: '{"accepted":1}' } as const

t.test('activity of a project that a failover lost is written again', { skip }, async (t) => {
  const url = await createDatabase()
  const store = await openPostgresStore(url)
  t.teardown(() => store.close())
  await store.putActivity(['p', 'q'].map((projectId) => ({ ...row, projectId })))
  await runSql(
    url,
    "DELETE FROM ingest.activity a USING ingest.projects p WHERE p.project = a.project AND project_id = 'q'",
  )
  await runSql(url, "DELETE FROM ingest.projects WHERE project_id = 'q'")
  await store.putActivity(['p', 'q'].map((projectId) => ({ ...row, projectId, body: '{"accepted":2}' })))
  const found = await runSql(
    url,
    'SELECT p.project_id, a.body FROM ingest.activity a JOIN ingest.projects p ON p.project = a.project ORDER BY 1',
  )
  t.strictSame(found, [
    { project_id: 'p', body: '{"accepted":2}' },
    { project_id: 'q', body: '{"accepted":2}' },
  ])
})
