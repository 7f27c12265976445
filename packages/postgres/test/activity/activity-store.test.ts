import { syncBuiltinESMExports } from 'node:module'
import timers from 'node:timers/promises'
import { digestOf } from '@ingest/core'
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

t.test('an expiry pauses between two statements, and not after the last one', { skip }, async (t) => {
  const store = await openPostgresStore(await createDatabase())
  t.teardown(() => store.close())
  const { setTimeout: sleep } = timers
  let pauses = 0
  const pause: typeof sleep = (...options) => {
    pauses++
    return sleep(...options)
  }
  const use = (setTimeout: typeof sleep) => {
    Object.assign(timers, { setTimeout })
    syncBuiltinESMExports()
  }
  use(pause)
  t.teardown(() => use(sleep))
  const pausesFor = async (rows: number) => {
    for (let at = 0; at < rows; at += 100) {
      await store.putActivity(Array.from({ length: 100 }, (_, i) => ({ ...row, projectId: 'p', at: at + i })))
    }
    pauses = 0
    await store.sweep({ mapsTouched: 0, activity: 1e6 })
    return pauses
  }
  t.strictSame([await pausesFor(100), await pausesFor(600)], [0, 1])
})

t.test('maps are swept although the activity cannot be', { skip }, async (t) => {
  const url = await createDatabase()
  const store = await openPostgresStore(url)
  t.teardown(() => store.close())
  const key = { projectId: 'p', buildId: 'b', placeId: '1' }
  const manifest = { contentType: 'a/b', size: 1, digest: digestOf(), chunks: [{ digest: digestOf(), size: 1 }] }
  await store.updateMap(key, {}, () => ({ contents: { pending: { manifest, touchedAt: 1 } }, result: 1 }))
  await runSql(url, 'ALTER TABLE ingest.activity RENAME TO moved')
  await t.rejects(store.sweep({ mapsTouched: 2, activity: 2 }), { code: 'store-failed' })
  t.strictSame(await store.map(key), {})
})
