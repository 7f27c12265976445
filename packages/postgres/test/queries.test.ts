import { ingestChecks } from '@ingest/checks'
import { type ActivityToPut, createIngest, digestOf, type Store } from '@ingest/core'
import t from 'tap'
import { byteaArray, int4Array } from '../src/connection/binary-arrays.ts'
import { eventKey } from '../src/events/event-key.ts'
import { openPostgresStore } from '../src/open-postgres-store.ts'
import { numberOf } from '../src/projects/project-numbers.ts'
import { queries } from '../src/sql.ts'
import { batchOf } from './batches.ts'
import { createDatabase, noPostgres, runSql } from './database.ts'

/** A project with some of everything; all other projects are copies of it. */
const projectId = 'game'
const project = numberOf(projectId, 0)
const copies = 300
/** The number of batches, maps and builds of each project. */
const perProject = 60
/** Maximum rows that a query may read of each table: fewer than a project has, and as many as `values` request. */
const rowsMax = 20
/** Rows in tables with one row for each project. */
const headCopies = 20_000
/** Rows in tables that grow with each event: a database with 10 million needs 4 GB and some minutes. */
const eventRows = Number(process.env.INGEST_TEST_ROWS ?? 0)
const eventTables = ['ingest.event_keys', 'ingest.batches']

/** Queries of PostgreSQL's own tables, which do not grow with the store. */
const ofCatalogs = ['size']
/** Tables with one row, or one for each server. */
const smallTables = ['meta', 'servers']

/** The time of activity, which is recent because an Ingest expires older rows. */
const start = Math.floor(Date.now() / 60_000) * 60_000

/** Values as a store sends them. A query that calls a function has none: its statements show in the counters. */
const values: Record<string, unknown[]> = {
  check: [],
  clock: [],
  size: [],
  projects: [0, 10],
  'project-id': [project],
  'project-state': [project],
  find: [project, eventKey('e-7')],
  'batches-from': [project, 3, 4, false],
  'batches-of': [project, byteaArray([eventKey('e-1'), eventKey('none')])],
  'batches-to-expire': [project, Date.now() * 2, 4],
  'first-batch-since': [project, 1],
  totals: [project],
  count: [project, 3, 1, 10],
  consumers: [project],
  activity: [project, 'minute', start + 60_000, Buffer.alloc(0), start + 600_000, 10],
  'activity-projects': [0, 10, start + 60_000],
  'consumer-projects': [0, 10],
  heads: [int4Array([project, 1, 2, 3])],
  maps: [project, null, null, null, null, 10],
  'map-slot': [project, 'build-1', Buffer.from('place'), byteaArray([Buffer.alloc(32)])],
  builds: [project, '9223372036854775807', '', '', 10, 10],
  'build-at': [project, '9223372036854775807', '', 10],
  chunk: [project, Buffer.alloc(32)],
  'pending-totals': [project],
  'maps-to-sweep': [1, 0, '', Buffer.alloc(0), 10],
}

interface Plan {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  'Index Cond'?: string
  'Rows Removed by Filter'?: number
  'Actual Rows': number
  'Actual Loops': number
  'Actual Total Time': number
  'Shared Hit Blocks': number
  'Shared Read Blocks': number
  Plans?: Plan[]
}

t.test('every query uses an index in a database with many projects', { skip: noPostgres }, async (t) => {
  const url = await createDatabase()
  const filled = await openPostgresStore(url)
  await fill(url, filled)
  // connections report their statistics when they end
  await filled.close()

  t.test('as planned', async (t) => {
    for (const [name, sql] of queries) {
      if (/\bingest\.\w+_\d+\(/.test(sql)) continue
      const given = values[name]
      if (given === undefined) {
        t.fail(`values for ${name}`)
        continue
      }
      const explained = `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${sql}`
      const [row] = await runSql<{ 'QUERY PLAN': [{ Plan: Plan }] }>(url, explained, given)
      if (eventRows > 0 && row) t.comment(`${name}: ${summaryOf(row['QUERY PLAN'][0].Plan)}`)
      if (ofCatalogs.includes(name)) continue
      for (const scan of row === undefined ? [] : scansOf(row['QUERY PLAN'][0].Plan)) {
        t.not(scan['Node Type'], 'Seq Scan', name)
        const { 'Actual Rows': rows, 'Actual Loops': loops, 'Rows Removed by Filter': removed = 0 } = scan
        // counts all pending maps of a project, whose number a limit bounds
        const max = name === 'pending-totals' ? perProject : rowsMax
        t.ok((rows + removed) * loops <= max, `${name} reads what it returns: ${(rows + removed) * loops} rows`)
      }
    }
  })

  t.test('as counted during the checks of an Ingest', async (t) => {
    await runSql(url, 'SELECT pg_stat_reset()')
    const store = await openPostgresStore(url)
    const ofAll = copiesOf('ingest.projects', 1) + 1
    t.equal((await store.projects()).length, ofAll, 'all projects, in pages')
    t.equal((await store.projects('consumers')).length, ofAll, 'all projects with a consumer')
    await store.sweep({ mapsTouched: 1, activity: 0 })
    const ingest = createIngest({ store })
    let count = 0
    const openShared = async () => ({ ingest: ingest.project(`project-${count++}`), async close() {} })
    const openIsolated = async () => {
      const isolated = createIngest({ store: await openPostgresStore(url) })
      return { ingest: isolated.project(`project-${count++}`), close: isolated.close }
    }
    for (const { name, isolated, run } of ingestChecks) {
      await t.test(name, () => run(isolated ? openIsolated : openShared))
    }
    await store.append(projectId, batchOf('to-erase'))
    t.equal(await store.erase(projectId, ['to-erase', 'e-59', 'unknown']), 2)
    t.ok((await store.expire(projectId, Date.now() * 2)).events > 0)
    await store.putActivity([activityRow(1)])
    async function countOld(): Promise<number> {
      let rows = 0
      for await (const _ of store.activity(projectId, { span: 'minute', from: 0, to: start + 2 })) rows++
      return rows
    }
    t.equal(await countOld(), 1)
    await store.sweep({ mapsTouched: 0, activity: start + 2 })
    t.equal(await countOld(), 0)
    for await (const row of store.activity(projectId, { span: 'minute', from: start, to: start + 600_000 })) t.ok(row)
    await ingest.close()
    const tables = await runSql<{ name: string; whole: number; byIndex: number }>(
      url,
      `SELECT relname AS name, seq_scan::int AS whole, idx_scan::int AS "byIndex"
      FROM pg_stat_user_tables WHERE schemaname = 'ingest'`,
    )
    for (const { name, whole, byIndex } of tables) {
      if (smallTables.includes(name)) continue
      t.equal(whole, 0, `${name} is not read as a whole`)
      t.ok(byIndex > 0, `${name} was read`)
    }
  })
})

/** The scans of a plan. A bitmap scan of a table counts as the index scan below it, which has the condition. */
function scansOf(plan: Plan): Plan[] {
  const below = (plan.Plans ?? []).flatMap(scansOf)
  const isScan = /^(Seq Scan|Index Scan|Index Only Scan|Bitmap Index Scan)$/.test(plan['Node Type'])
  return isScan ? [plan, ...below] : below
}

/** The scans of a plan, the pages that it reads and its milliseconds. */
function summaryOf(plan: Plan): string {
  const scans = scansOf(plan).map((scan) => scan['Index Name'] ?? `${scan['Node Type']} of ${scan['Relation Name']}`)
  const { 'Shared Hit Blocks': hits, 'Shared Read Blocks': reads, 'Actual Total Time': ms } = plan
  return `${[...new Set(scans)].join(', ')}: ${hits + reads} pages, ${ms} ms`
}

/** Stores some of everything in one project, and copies the rows to other projects. */
async function fill(url: string, store: Store): Promise<void> {
  for (let i = 0; i < perProject; i++) await store.append(projectId, batchOf(`e-${i}`, `f-${i}`))
  // more batches than a query may read
  for (let step = 0; step < 2; step++) await store.expire(projectId, Date.now() * 2)
  const ingest = createIngest({ store })
  await ingest.keys.create(projectId)
  const { lastCursor: cursor } = await store.totals(projectId)
  await ingest.project(projectId).putConsumer('warehouse', { cursor, replaces: null })
  for (let i = 0; i < perProject; i++) {
    const id = { placeId: `place-${i % 5}`, buildId: `build-${i}` }
    await ingest.project(projectId).publishMap({ ...id, map: { i } })
    // a pending replacement whose chunk is missing
    const digest = digestOf(Buffer.from(`missing ${i}`))
    const manifest = { contentType: 'text/plain', size: 9, digest, chunks: [{ digest, size: 9 }] }
    await ingest.project(projectId).publishMap({ ...id, manifest })
  }
  await store.putActivity(Array.from({ length: perProject }, (_, i) => activityRow(i)))
  await copyProject(url)
}

function activityRow(minute: number): ActivityToPut {
  return { projectId, span: 'minute', at: start + minute * 60_000, writer: '00000000000000ff', body: '{}' }
}

async function copyProject(url: string): Promise<void> {
  const tables = await runSql<{ name: string; columns: string }>(
    url,
    `SELECT c.oid::regclass::text AS name, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) AS columns
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND a.attgenerated = ''
    WHERE c.relnamespace = 'ingest'::regnamespace AND c.relkind = 'r'
    GROUP BY c.oid`,
  )
  for (const { name, columns } of tables) {
    const names = columns.split(', ')
    if (!names.includes('project')) continue
    const [row] = await runSql<{ count: number }>(url, `SELECT count(*)::int AS count FROM ${name}`)
    t.ok(row && row.count > 0, `${name} has rows to copy`)
    const others = names.filter((each) => each !== 'project').map((each) => `, ${each}`)
    const last = copiesOf(name, row?.count ?? 1)
    await runSql(
      url,
      `INSERT INTO ${name} (project${others.join('')})
      SELECT n${others.join('')} FROM generate_series(1, ${last}) AS n, ${name}`,
    )
  }
  await runSql(url, 'VACUUM ANALYZE')
}

function copiesOf(table: string, rows: number): number {
  if (rows === 1) return Math.max(headCopies, Math.ceil(eventRows / perProject))
  return eventTables.includes(table) ? Math.max(copies, Math.ceil(eventRows / rows)) : copies
}
