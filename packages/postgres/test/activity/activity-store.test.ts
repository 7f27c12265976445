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

t.test('each transaction writes activity of one project', { skip }, async (t) => {
  const url = await createDatabase()
  const store = await openPostgresStore(url)
  t.teardown(() => store.close())
  const rowsOf = (projectId: string) => [0, 1, 2].map((at) => ({ ...row, projectId, at }))
  await store.putActivity(['p', 'q', 'r', 's'].flatMap(rowsOf))
  const transactions = await runSql(
    url,
    `SELECT count(DISTINCT a.project)::int AS projects, count(*)::int AS rows FROM ingest.activity a
    GROUP BY a.xmin::text`,
  )
  t.strictSame(transactions, Array(4).fill({ projects: 1, rows: 3 }))
})

t.test('an expiry finds rows of every project, over several pages of projects', { skip }, async (t) => {
  const url = await createDatabase()
  const store = await openPostgresStore(url)
  t.teardown(() => store.close())
  for (const projectId of ['p', 'q']) await store.putActivity([0, 1, 2].map((at) => ({ ...row, projectId, at })))
  // the first and the last number, and more projects in between than one page has
  await runSql(
    url,
    `WITH copies(project) AS (SELECT generate_series(1, 2500) UNION SELECT unnest('{-2147483648,2147483647}'::int[])),
    added AS (INSERT INTO ingest.projects (project, project_id) SELECT c.project, c.project::text FROM copies c)
    INSERT INTO ingest.activity (project, span, at, writer, body)
      SELECT c.project, 'hour', c.project % 2, '', '' FROM copies c`,
  )
  const count = async () => (await runSql(url, 'SELECT count(*)::int AS rows FROM ingest.activity'))[0]
  await store.sweep({ mapsTouched: 0, activity: 1 })
  t.strictSame(await count(), { rows: 6 + 2502 - (2 + 1250 + 1) })
  await store.sweep({ mapsTouched: 0, activity: 2 })
  t.strictSame(await count(), { rows: 2 })
  t.strictSame(await runSql(url, 'SELECT DISTINCT a.at::int AS at FROM ingest.activity a'), [{ at: 2 }])
})
