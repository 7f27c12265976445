import t from 'tap'
import { migratePostgres } from '../../src/schema/migrate.ts'
import { confirmed, queries } from '../../src/sql.ts'
import { createDatabase, noPostgres, runSql } from '../database.ts'
import { crossings } from './crossings.ts'

/** Tables of the whole database: a shard has its own. */
const administrationTables = ['ingest.meta', 'ingest.servers']
/** Functions of the whole database. */
const administrationFunctions = ['await_standby_1', 'register_server_1', 'require_durability_1', 'unregister_server_1']

interface Routine {
  name: string
  arguments: string[]
  types: string[]
  volatility: string
  isDefiner: boolean
  settings: string[]
  body: string
}

t.test('the schema can be distributed by project', { skip: noPostgres }, async (t) => {
  const url = await createDatabase()
  await migratePostgres(url, { keyPartitions: 2 })
  const routines = await runSql<Routine>(
    url,
    `SELECT p.proname AS name, p.provolatile AS volatility, p.prosecdef AS "isDefiner",
      coalesce(p.proargnames, '{}') AS arguments, p.proargtypes::regtype[]::text[] AS types,
      coalesce(p.proconfig, '{}') AS settings, p.prosrc AS body
    FROM pg_proc p WHERE p.pronamespace = 'ingest'::regnamespace ORDER BY p.proname`,
  )
  /** Only these may write: PostgreSQL refuses it in others. */
  const volatile = routines.filter(({ volatility }) => volatility === 'v')
  const called = new Set([...queries.values(), confirmed('')].flatMap((sql) => calledIn(sql)))

  t.test('project leads every primary key and every index', async (t) => {
    const indexes = await runSql<{ table: string; columns: string[] }>(
      url,
      `SELECT i.indrelid::regclass::text AS table,
        ARRAY(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY k(no, at)
          JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.no ORDER BY k.at) AS columns
      FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
      WHERE c.relnamespace = 'ingest'::regnamespace`,
    )
    const others = indexes.filter(({ columns }) => columns[0] !== 'project').map(({ table }) => table)
    t.strictSame(others.sort(), administrationTables)
    const tables = await runSql<{ name: string }>(
      url,
      "SELECT oid::regclass::text AS name FROM pg_class WHERE relnamespace = 'ingest'::regnamespace AND relkind IN ('r', 'p')",
    )
    const keyed = new Set(indexes.map(({ table }) => table))
    t.strictSame(
      tables.filter(({ name }) => !keyed.has(name)),
      [],
      'every table has a key',
    )
  })

  t.test('a vacuum freezes what is written once, also in partitions', async (t) => {
    const tables = await runSql(
      url,
      `SELECT c.relname AS name, c.reloptions AS settings FROM pg_class c
      WHERE c.relnamespace = 'ingest'::regnamespace AND c.relkind = 'r' AND c.relname ~ '^(event_keys|batches)'
      ORDER BY 1`,
    )
    const settings = ['autovacuum_freeze_min_age=0', 'autovacuum_vacuum_insert_scale_factor=0.01']
    t.strictSame(
      tables,
      ['batches', 'event_keys_0', 'event_keys_1'].map((name) => ({ name, settings })),
    )
  })

  t.test('project is the first argument of every function that writes', async (t) => {
    const others = volatile.filter(({ arguments: [first], types: [type] }) => first !== 'project' || type !== 'integer')
    t.strictSame(
      others.map(({ name }) => name),
      administrationFunctions,
    )
  })

  t.test('functions that servers call run as their owner, with fixed names and a time limit for locks', async (t) => {
    for (const { name, isDefiner, settings } of volatile) {
      if (!called.has(name)) {
        // only other functions call it: for a server it has the rights of the server
        t.notOk(isDefiner, name)
        continue
      }
      t.ok(isDefiner, name)
      t.ok(settings.includes('search_path=pg_catalog, pg_temp'), `${name}: ${settings}`)
      if (name !== 'unregister_server_1') t.ok(settings.includes('lock_timeout=5s'), name)
    }
    t.ok([...called].length > 5)
  })

  t.test('no function finds a type of its caller first', async (t) => {
    for (const { name, settings } of routines) {
      const path = settings.find((setting) => setting.startsWith('search_path='))
      if (path !== undefined) t.equal(path, 'search_path=pg_catalog, pg_temp', name)
    }
  })

  t.test('functions that servers call to write wait for durability', async (t) => {
    for (const {
      name,
      body,
      arguments: [first],
    } of volatile) {
      if (!called.has(name) || first !== 'project') continue
      t.match(body, /ingest\.require_durability_1\(\)/, name)
    }
  })

  t.test('no statement of a function crosses projects', async (t) => {
    for (const { name, body } of routines) {
      if (!administrationFunctions.includes(name)) t.strictSame(crossings(body), [], name)
    }
  })
})

t.test('statements that cross projects are recognized', async (t) => {
  const kept = [
    'SELECT 1 FROM ingest.heads h WHERE h.project = project',
    'SELECT 1 FROM ingest.heads AS h WHERE $1 = h.project',
    'SELECT 1 FROM ingest.a a JOIN ingest.b b ON b.project = a.project WHERE a.project = $1::int AND EXISTS (SELECT FROM ingest.c c WHERE c.project = b.project)',
    'INSERT INTO ingest.a (project, b) SELECT DISTINCT project, x.b FROM unnest(bs) AS x(b)',
    'INSERT INTO ingest.a AS a (project, b) VALUES ($1, 2) ON CONFLICT ON CONSTRAINT a_pkey DO UPDATE SET b = excluded.b',
    'UPDATE ingest.a a SET b = 1 FROM ingest.c c WHERE a.project = project AND c.project = project',
    "SELECT 'FROM ingest.heads h' -- FROM ingest.heads h",
    'PERFORM ingest.lock_1(project)',
  ]
  for (const sql of kept) t.strictSame(crossings(`BEGIN\n ${sql};\nEND`), [], sql)
  const crossing = [
    'SELECT 1 FROM ingest.heads h',
    'SELECT 1 FROM ingest.heads h WHERE h.project = h.project',
    'SELECT 1 FROM ingest.heads h WHERE h.project > project',
    'SELECT 1 FROM ingest.heads WHERE project = project',
    'SELECT 1 FROM ingest.a a JOIN ingest.b b ON b.x = a.x WHERE a.project = $1::int',
    'SELECT 1 FROM ingest.a a JOIN ingest.b b ON b.project = a.project WHERE a.x = 1',
    'SELECT 1 FROM ingest.a a, ingest.b b WHERE a.project = project',
    'INSERT INTO ingest.a (b, project) VALUES (1, project)',
    'INSERT INTO ingest.a (project, b) VALUES (other, 1)',
    'INSERT INTO ingest.a (project, b) SELECT x.project, 1 FROM unnest(projects) AS x(project)',
    'UPDATE ingest.a a SET b = 1 FROM ingest.c c WHERE c.project = project',
    'DELETE FROM ingest.a a USING ingest.c c WHERE a.project = project',
    'TRUNCATE ingest.a',
  ]
  for (const sql of crossing) t.not(crossings(`BEGIN\n ${sql};\nEND`).length, 0, sql)
})

function calledIn(sql: string): string[] {
  return [...sql.matchAll(/\bingest\.(\w+_\d+)\(/g)].map(([, name]) => name as string)
}
