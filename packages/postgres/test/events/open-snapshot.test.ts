import pg from 'pg'
import t from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { numberOf } from '../../src/projects/project-numbers.ts'
import { batchOf } from '../batches.ts'
import { createDatabase, noPostgres, runSql } from '../database.ts'

/** Commits of others since the snapshot. */
const commits = 3000

t.test('an append costs no more while another session keeps a snapshot open', { skip: noPostgres }, async (t) => {
  const url = await createDatabase()
  const store = await openPostgresStore(url)
  const reader = new pg.Client(url)
  t.teardown(async () => {
    await reader.end()
    await store.close()
  })
  for (let i = 0; i < 10; i++) await store.append('p', batchOf(`before-${i}`))
  await reader.connect()
  await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await reader.query('SELECT FROM ingest.meta')
  const atFirst = await pagesOfAppend('at-first')
  await runSql(
    url,
    `DO $$ BEGIN SET synchronous_commit = off; FOR i IN 1..${commits} LOOP
      UPDATE ingest.heads SET seq = seq; COMMIT; END LOOP; END $$`,
  )
  const later = await pagesOfAppend('later')
  t.comment(`pages of an append: ${atFirst}, and ${later} after ${commits} commits`)
  t.ok(later < atFirst + 10, `${later} pages`)

  /** The number of pages that an append of one new event reads. */
  async function pagesOfAppend(eventId: string): Promise<number> {
    const project = numberOf('p', 0)
    const batch = `${project}, ${Math.round(performance.now() * 1000)}, true, '{1}', '{1}', '{"{}"}', '{\\x02${Buffer.from(eventId).toString('hex')}}'`
    const [row] = await runSql<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
      url,
      `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM ingest.append_1(${batch}, '{0}', '{0}', '{0}', '{}')`,
    )
    const plan = row?.['QUERY PLAN'][0].Plan ?? {}
    return (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0)
  }
})
