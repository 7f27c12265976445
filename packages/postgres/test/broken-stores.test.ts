import assert from 'node:assert/strict'
import { storeChecks } from '@ingest/checks'
import { digestOf, type Store } from '@ingest/core'
import t, { type Test } from 'tap'
import { eventKey } from '../src/events/event-key.ts'
import { openPostgresStore } from '../src/open-postgres-store.ts'
import { numberOf } from '../src/projects/project-numbers.ts'
import { printMigrations } from '../src/schema/migrate.ts'
import { batchOf, batchWith } from './batches.ts'
import { createDatabase, dropDatabase, holdLock, noPostgres, runSql, waitsForLock } from './database.ts'

interface Promised {
  name: string
  /** Breaks the migrations. */
  broken: string
  change(sql: string): string
  /** Whether a store in this database keeps the promise. */
  isKept(t: Test, url: string): Promise<boolean>
}

const project = numberOf('p', 0)
const headUpdate =
  / {2}SELECT h\.ctid INTO head [^;]*;\n {2}IF NOT FOUND THEN\n[^;]*;\n {2}END IF;\n {2}UPDATE ingest\.heads h\n[^;]*;\n/
const freeze = '      SELECT array_agg(f.build_id) INTO frozen FROM frozen_builds f;\n'
const voided = '\n    AND (b.frozen_at IS NULL OR m.complete IS NULL)'
const buildLock =
  / {4}ON CONFLICT ON CONSTRAINT builds_pkey DO UPDATE SET frozen_at = b\.frozen_at\n {4}RETURNING b\.frozen_at INTO frozen_at;/

const promises: Promised[] = [
  {
    name: 'an append waits for the one that has the position before',
    broken: 'positions from a sequence, and totals at the end',
    change(sql) {
      const [update = ''] = headUpdate.exec(sql) ?? []
      const end = `${freeze}    END IF;\n  END IF;\n`
      const unlocked = replace(sql, update, "  base := nextval('ingest.positions') - 1;\n")
      return `${replace(unlocked, end, end + update)}CREATE SEQUENCE ingest.positions INCREMENT BY 100;\n`
    },
    async isKept(t, url) {
      const { store, other } = await openTwo(t, url)
      await publish(store)
      const build = await holdLock(t, url, `SELECT 1 FROM ingest.builds FOR UPDATE`)
      const first = store.append('p', batchWith([{ eventId: 'a', buildId: 'b' }]))
      assert.ok(await waitsForLock(url, first))
      const second = other.append('p', batchOf('c'))
      const isKept = await waitsForLock(url, second, 2)
      await build.release()
      await Promise.all([first, second])
      return isKept
    },
  },
  {
    name: 'the append that freezes a build waits for a publication that decided that it is open',
    broken: 'a publication without the lock of its build',
    change: (sql) =>
      replace(
        sql,
        buildLock,
        `    ON CONFLICT DO NOTHING;
  SELECT b.frozen_at INTO frozen_at FROM ingest.builds b WHERE b.project = project AND b.build_id = build;`,
      ),
    async isKept(t, url) {
      const { store, other } = await openTwo(t, url)
      await publish(store)
      // publications take this lock last
      const maps = await holdLock(t, url, 'SELECT 1 FROM ingest.map_locks FOR UPDATE')
      const publishing = publish(store)
      assert.ok(await waitsForLock(url, publishing))
      const freezing = other.append('p', batchWith([{ eventId: 'a', buildId: 'b' }]))
      const isKept = await waitsForLock(url, freezing, 2)
      await maps.release()
      await Promise.all([publishing, freezing])
      return isKept
    },
  },
  {
    name: 'appends lock ids in one order, so that there is no deadlock',
    broken: 'keys that are not sorted',
    change: (sql) => replace(sql, /\n +ORDER BY e\.key, e\.batch_no/g, ''),
    async isKept(t, url) {
      const { store } = await openTwo(t, url)
      await store.append('p', batchOf('before'))
      const insert = (id: string) =>
        `INSERT INTO ingest.event_keys (project, key, batch, idx)
        VALUES (${project}, '\\x${eventKey(id).toString('hex')}', 1, 0)`
      const lowest = await holdLock(t, url, insert('a'))
      const appending = store.append('p', batchOf('b', 'a'))
      assert.ok(await waitsForLock(url, appending))
      const inserting = runSql(url, `BEGIN; ${insert('b')}; ROLLBACK`)
      const isLocked = await waitsForLock(url, inserting, 2)
      await lowest.release()
      await Promise.all([appending, inserting.catch(() => {})])
      return !isLocked
    },
  },
  {
    name: 'an expiry of activity skips the rows that another server writes',
    broken: 'an expiry that waits for them',
    change: (sql) => replace(sql, ' FOR UPDATE SKIP LOCKED', ' FOR UPDATE'),
    async isKept(t, url) {
      const { store } = await openTwo(t, url)
      const row = { projectId: 'p', span: 'minute', writer: '00000000000000ff', body: '{}' } as const
      await store.putActivity([0, 1, 2].map((at) => ({ ...row, at })))
      const written = await holdLock(t, url, 'SELECT 1 FROM ingest.activity WHERE at = 1 FOR UPDATE')
      const expiring = store.sweep({ mapsTouched: 0, activity: 9 })
      const isKept = !(await waitsForLock(url, expiring))
      if (isKept) {
        await expiring
        assert.deepEqual(await runSql(url, 'SELECT a.at::int AS at FROM ingest.activity a'), [{ at: 1 }])
      }
      await written.release()
      await expiring
      return isKept
    },
  },
  {
    name: 'a freeze voids pending replacements',
    broken: 'a freeze that leaves the pending map',
    change: (sql) => replace(sql, voided, ''),
    async isKept(t, url) {
      const checks = storeChecks.filter(({ name }) => /freeze (makes pending|made void)/.test(name))
      t.ok(checks.length > 1)
      let isKept = true
      for (const { run } of checks) {
        await run(() => openPostgresStore(url)).catch(() => {
          isKept = false
        })
      }
      return isKept
    },
  },
]

for (const { name, broken, change, isKept } of promises) {
  t.test(`${name}; not with ${broken}`, { skip: noPostgres }, async (t) => {
    for (const [sql, expected] of [
      [printMigrations(), true],
      [change(printMigrations()), false],
    ] as const) {
      const url = await createDatabase()
      await runSql(url, sql)
      await t.test(expected ? 'the store' : 'a broken store', async (t) => t.equal(await isKept(t, url), expected))
      await dropDatabase(url)
    }
  })
}

/** Two stores on one database, as two processes have it open. */
async function openTwo(t: Test, url: string): Promise<{ store: Store; other: Store }> {
  const [store, other] = [await openPostgresStore(url), await openPostgresStore(url)]
  t.teardown(() => Promise.all([store.close(), other.close()]))
  return { store, other }
}

/** Publishes an empty map for build `b`. */
async function publish(store: Store): Promise<void> {
  const manifest = { contentType: 'a/b', size: 0, digest: digestOf(), chunks: [] }
  const contents = { complete: { manifest, publishedAt: 1 } }
  await store.updateMap({ projectId: 'p', placeId: '1', buildId: 'b' }, {}, () => ({ contents, result: undefined }))
}

function replace(sql: string, from: string | RegExp, to: string): string {
  const replaced = sql.replace(from, () => to)
  assert.notEqual(replaced, sql, `the migrations have ${from}`)
  return replaced
}
