import assert from 'node:assert/strict'
import { type SharedStoreCheck, sharedStoreChecks, shareStore, storeChecks } from '@ingest/checks'
import t, { type Test } from 'tap'
import { openPostgresStore } from '../src/open-postgres-store.ts'
import { printMigrations } from '../src/schema/migrate.ts'
import { createDatabase, dropDatabase, noPostgres, runSql } from './database.ts'

interface Variant {
  name: string
  /** Breaks the migrations. */
  change(sql: string): string
  /** The checks that must notice. */
  checks: string[]
}

const headUpdate = / {2}UPDATE ingest\.heads h\n[^;]*;\n {2}IF NOT FOUND THEN\n[^;]*;\n {2}END IF;\n/
const freeze = '      SELECT array_agg(f.build_id) INTO frozen FROM frozen_builds f;\n'
const voided = '\n    AND (b.frozen_at IS NULL OR m.complete IS NULL)'
const buildLock =
  / {4}ON CONFLICT ON CONSTRAINT builds_pkey DO UPDATE SET frozen_at = b\.frozen_at\n {4}RETURNING b\.frozen_at INTO frozen_at;/

const variants: Variant[] = [
  {
    name: 'positions from a sequence, without the lock of the head',
    change(sql) {
      const [update = ''] = headUpdate.exec(sql) ?? []
      const end = `${freeze}    END IF;\n  END IF;\n`
      const sequence = 'CREATE SEQUENCE ingest.positions INCREMENT BY 100;\n'
      const unlocked = replace(sql, update, "  base := nextval('ingest.positions') - 1;\n")
      // the totals stay right
      return replace(unlocked, end, end + update) + sequence
    },
    checks: ['a tail of the log misses nothing while all handles append'],
  },
  {
    name: 'a publication without the lock of its build',
    change: (sql) =>
      replace(
        sql,
        buildLock,
        `    ON CONFLICT DO NOTHING;
  SELECT b.frozen_at INTO frozen_at FROM ingest.builds b WHERE b.project = project AND b.build_id = build;
  -- as on a busy server: otherwise the race is rare
  PERFORM pg_sleep(0.005);`,
      ),
    checks: ['a freeze through one handle voids and ends replacements through another'],
  },
  {
    name: 'keys that are not sorted',
    // slow, so that two appends meet in the midst of theirs
    change: (sql) => replace(sql, /\n +ORDER BY e\.key, e\.batch_no/g, ', LATERAL pg_sleep(e.idx / 1e5) AS s'),
    checks: ['batches of the same events in different orders are stored once, without an error'],
  },
  {
    name: 'a freeze that leaves the pending map',
    change: (sql) => replace(sql, voided, ''),
    checks: [
      'a freeze makes pending replacements of complete maps void, in every place of the build, and nothing else',
      'what a freeze has made void is not seen again, before and after it is swept',
      'a freeze through one handle voids and ends replacements through another',
    ],
  },
]

/** How often a broken store may pass the checks of its fault. */
const attemptsMax = 20

const checks: readonly Pick<SharedStoreCheck, 'name' | 'run'>[] = [...storeChecks, ...sharedStoreChecks]

t.test('the right store passes the checks without a deadlock', { skip: noPostgres }, async (t) => {
  const url = await createDatabase()
  await runSql(url, printMigrations())
  await set(url, 'deadlock_timeout', '10ms')
  t.strictSame(await failing(t, url, new Set(variants.flatMap(({ checks }) => checks))), [])
  t.equal(await countDeadlocks(url), 0)
  await dropDatabase(url)
})

for (const { name, change, checks: noticing } of variants) {
  t.test(`a store with ${name} fails the checks`, { skip: noPostgres }, async (t) => {
    const url = await createDatabase()
    await runSql(url, replace(change(printMigrations()), /lock_timeout = '5s'/g, "lock_timeout = '1s'"))
    // a deadlock is an error: otherwise PostgreSQL resolves it, and the store repeats the append
    await set(url, 'deadlock_timeout', '1min')
    // a race is not lost each time
    const noticed = new Set<string>()
    for (let attempt = 0; attempt < attemptsMax && noticed.size < noticing.length; attempt++) {
      for (const check of await failing(t, url, new Set(noticing))) noticed.add(check)
    }
    t.strictSame(
      noticing.filter((check) => noticed.has(check)),
      noticing,
    )
    await dropDatabase(url)
  })
}

t.test('a deadlock is counted', { skip: noPostgres }, async (t) => {
  const { change, checks: noticing } = variants.find(({ name }) => name === 'keys that are not sorted') as Variant
  const url = await createDatabase()
  await runSql(url, change(printMigrations()))
  await set(url, 'deadlock_timeout', '10ms')
  await failing(t, url, new Set(noticing))
  t.ok((await countDeadlocks(url)) > 0)
  await dropDatabase(url)
})

/** Which of these checks the store in this database fails. */
async function failing(t: Test, url: string, names: ReadonlySet<string>): Promise<string[]> {
  const open = () => openPostgresStore(url)
  const shared = shareStore(open, open)
  const failed: string[] = []
  for (const { name, run } of checks.filter(({ name }) => names.has(name))) {
    await run(shared.open, shared.openAgain).catch((error) => {
      failed.push(name)
      t.comment(`${name}: ${error.message.split('\n')[0]}`)
    })
  }
  await shared.close()
  return failed
}

async function set(url: string, name: string, value: string): Promise<void> {
  await runSql(url, `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET ${name} = '${value}'`)
}

/** Sessions add their deadlocks as they end, so it waits until all others have. */
async function countDeadlocks(url: string): Promise<number> {
  const sql = `SELECT d.deadlocks::int, d.numbackends FROM pg_stat_database d WHERE d.datname = current_database()`
  for (;;) {
    const [row] = await runSql<{ deadlocks: number; numbackends: number }>(url, sql)
    assert.ok(row)
    if (row.numbackends <= 1) return row.deadlocks
  }
}

function replace(sql: string, from: string | RegExp, to: string): string {
  const replaced = sql.replace(from, () => to)
  assert.notEqual(replaced, sql, `the migrations have ${from}`)
  return replaced
}
