import { join } from 'node:path'
import type { Store } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { openPostgresStore } from '@ingest/postgres'
import t from 'tap'
import { allContentsOf, alpha, beta, fillStore } from '../../core/test/copy/filled-store.ts'
import {
  createDatabase,
  dropDatabase,
  nameOf,
  noPostgres,
  openTestServer,
  runSql,
} from '../../postgres/test/database.ts'
import { ended, spawnIngest, startIngest } from './ingest-process.ts'
import { ingest, isWrongUsage, serveHere } from './run-ingest.ts'
import { exportedWithoutCursors, idsOf, linesOf, projectId, send, submitIds, withStore } from './served.ts'

const options = { skip: noPostgres }
const canary = 'c4n4ry'

/** The URL of an empty database, with a password that the server of the tests ignores. */
async function openEmpty(): Promise<{ url: string; env: Record<string, string>; described: string }> {
  const url = new URL(await createDatabase())
  const described = url.href
  url.password = canary
  return { url: url.href, env: { INGEST_STORE: url.href, INGEST_PROJECT_ID: projectId }, described }
}

/** Runs a command line, whose output must not hold the password. */
async function run(args: readonly string[], env: Record<string, string>, stdin = '') {
  const { code, stdout, stderr } = await ingest(args, { env, stdin })
  t.notMatch(stdout + stderr, canary, args.join(' '))
  return { code, stdout, stderr }
}

t.test('every command works with a database, and none prints its password', options, async (t) => {
  const { env, described } = await openEmpty()
  const server = await serveHere(t, [], { env })
  t.match(server.log()[0], {
    msg: 'the database is open, survives loss of the primary: no',
    store: described,
    postgres: /^\d+/,
    schema: Number,
    synchronousCommit: 'on',
  })
  await server.nextRecord(({ msg }) => msg.includes(`create one: ingest keys create --store ${described} --project`))
  const created = await run(['keys', 'create'], env)
  const key = created.stdout.trim()
  t.equal((await send({ ...server, key }, ['served'])).status, 202)

  const map = ['--place', '1', '--build', 'b']
  const commands: [args: string[], stdout: RegExp, stdin?: string][] = [
    [['keys', 'list'], /^KEY /],
    [['send', '-'], /^sent 2 events: 2 accepted/, linesOf('e', 2).join('\n')],
    [['export'], /"eventId":"served".*\n.*"e-\d".*\n.*"e-\d"/],
    [['find', 'e-1'], /^received /],
    [['stats'], /^PROJECT /],
    [['publish-map', '-', ...map], /^created 1 b /, '{"walls":4}'],
    [['maps', 'list'], /^PLACE /],
    [['maps', 'show', ...map], /^place /],
    [['maps', 'download', ...map], /^\{"walls":4\}$/],
    [['maps', 'verify', ...map], /^verified /],
    [['keys', 'rotate', key.slice(3, 11)], /^ik_/],
    [['keys', 'revoke', key.slice(3, 11)], /^revoked /],
    [['migrate'], /^the schema of postgres:.* has version \d+ already\n$/],
  ]
  for (const [args, stdout, stdin] of commands)
    t.match(await run(args, env, stdin), { code: 0, stdout }, args.join(' '))
  server.signal('SIGTERM')
  const { code, stderr, stdout } = await server.exited
  t.equal(code, 0)
  t.notMatch(stdout + stderr, canary)
})

t.test('pool_max_conns of the URL bounds the connections of a server', options, async (t) => {
  const { env, url } = await openEmpty()
  const key = (await run(['keys', 'create'], env)).stdout.trim()
  const single = new URL(env.INGEST_STORE as string)
  single.searchParams.set('pool_max_conns', '1')
  const server = await serveHere(t, [], { env: { ...env, INGEST_STORE: single.href } })
  const headers = { 'X-Project-Id': projectId, 'X-Ingestion-Key': key }
  const reads = Array.from({ length: 10 }, () => fetch(`${server.url}/v1/builds`, { headers }))
  t.ok((await Promise.all(reads)).every(({ status }) => status === 200))
  const open = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'ingest'"
  // for a moment, there is one more connection, which looks for a promotion
  t.ok((await runSql(url, open)).length <= 2)
})

t.test('a schema upgrade is announced with a hint at `ingest migrate`', options, async (t) => {
  const { env, url } = await openEmpty()
  const first = await run(['keys', 'create'], env)
  t.notMatch(first.stderr, /upgrading/, 'a new schema takes no time')
  const age = () => runSql(url, "UPDATE ingest.meta SET value = (value::int - 1)::text WHERE name = 'version'")
  await age()
  const hint = /from version \d+ to \d+: it may take minutes, and `ingest migrate` does it before servers start/
  t.match(await run(['keys', 'create'], env), { stderr: hint })
  const served = await run(['serve', '--listen', '127.0.0.1:0'], env)
  t.match(
    served.stdout + served.stderr,
    /"from":0,"to":1,"msg":"upgrading the schema: it may take minutes, and `ingest migrate`/,
  )
})

t.test('a command that reads does not create the schema', options, async (t) => {
  const { env, url } = await openEmpty()
  for (const args of [['export'], ['stats'], ['keys', 'list'], ['serve', '--no-migrate', '--listen', '127.0.0.1:0']]) {
    const { code, stderr } = await run(args, env)
    t.match({ code, stderr }, { code: 2, stderr: /^ingest: .*run `ingest migrate` as its owner\.\n$/ }, args.join(' '))
  }
  t.strictSame(await runSql(url, "SELECT 1 FROM pg_namespace WHERE nspname = 'ingest'"), [])
})

t.test('a refused connection is one line without the password', options, async (t) => {
  const { url } = await openEmpty()
  for (const [name, value] of [
    ['pathname', '/no_such_database'],
    ['username', 'no_such_role'],
  ] as const) {
    const wrong = new URL(url)
    wrong[name] = value
    const { code, stderr } = await run(['stats'], { INGEST_STORE: wrong.href })
    t.match({ code, stderr }, { code: 2, stderr: /^ingest: .*no_such_\w+.*\n$/ })
  }
})

t.test('each refusal of a database has its exit code, and is one line', options, async (t) => {
  const admin = await openTestServer()
  const set = (setting: string) => (url: string) => runSql(admin, `ALTER DATABASE ${nameOf(url)} SET ${setting}`)
  const age = (names: string, by: number) => (url: string) =>
    runSql(url, `UPDATE ingest.meta SET value = (value::int + ${by})::text WHERE name IN (${names})`)
  const sql = (text: string) => (url: string) => runSql(url, text)
  const serve = ['serve', '--no-migrate', '--listen', '127.0.0.1:0']
  const nothing = async () => {}
  const refusals: [name: string, prepare: (url: string) => Promise<unknown>, code: number, query?: string][] = [
    ['no schema', sql('DROP SCHEMA ingest CASCADE'), 2],
    ['no database', dropDatabase, 2],
    ['sslmode=prefer', nothing, 2, 'sslmode=prefer'],
    ['sslmode=allow', nothing, 2, 'sslmode=allow'],
    ['another schema', sql('DROP SCHEMA ingest CASCADE; CREATE SCHEMA ingest; CREATE TABLE ingest.meta (a int)'), 5],
    ['no version', sql("DELETE FROM ingest.meta WHERE name = 'version'"), 5],
    ['a newer schema', age("'version', 'compatible'", 100), 5],
    ['an older schema', age("'version'", -1), 5],
    ['isolation', set('default_transaction_isolation = serializable'), 5],
    ['read only', set('default_transaction_read_only = on'), 6],
  ]
  for (const [name, prepare, code, query = ''] of refusals) {
    const { env, url } = await openEmpty()
    t.equal((await run(['migrate'], env)).code, 0)
    await prepare(url)
    const store = new URL(url)
    store.search = query
    for (const args of [['stats'], serve]) {
      const refused = await run(args, { ...env, INGEST_STORE: store.href })
      t.match(refused, { code, stdout: '', stderr: /^ingest: .*\n$/ }, `${name}: ${args[0]}`)
    }
  }

  const { env, url } = await openEmpty()
  await dropDatabase(url)
  const encoding = "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
  await runSql(admin, `CREATE DATABASE ${nameOf(url)} ${encoding}`)
  t.match(await run(['migrate'], env), { code: 5, stderr: /^ingest: .*LATIN1.*\n$/ })
  const other = await openEmpty()
  await runSql(other.url, 'CREATE SCHEMA ingest; CREATE TABLE ingest.projects (a int)')
  t.match(await run(['migrate'], other.env), { code: 5, stderr: /^ingest: .*is not of Ingest.*\n$/ })
})

t.test('migrate', options, async (t) => {
  const { env, described } = await openEmpty()
  const first = await run(['migrate', '--json', '--key-partitions', '4'], env)
  const { from, to, ...rest } = JSON.parse(first.stdout)
  t.strictSame(rest, { ok: true, store: described, newEpoch: false })
  t.ok(from === 0 && to > 0)
  const again = await run(['migrate', '--json'], env)
  t.match({ ...again, stdout: JSON.parse(again.stdout) }, { code: 0, stdout: { from: to, to } })

  await t.test('--new-epoch refuses cursors from before', async (t) => {
    await run(['send', '-', '--concurrency', '1'], env, linesOf('e', 2).join('\n'))
    const { cursor } = JSON.parse((await run(['find', 'e-0', '--json'], env)).stdout)
    t.match(await run(['export', '--after', cursor], env), { code: 0, stdout: /"e-1"/ })
    t.match(await run(['migrate', '--new-epoch'], env), { code: 0, stdout: /cursors from before are refused\n$/ })
    t.match(await run(['export', '--after', cursor], env), { code: 2, stderr: /^ingest: The cursor is from before/ })
  })

  await t.test('--print', async (t) => {
    const printed = await run(['migrate', '--print', '--grant-to', 'ingest_app'], {})
    t.match(printed, { code: 0, stdout: /CREATE TABLE ingest\.batches(.|\n)*ingest_app/, stderr: '' })
    t.match(JSON.parse((await run(['migrate', '--print', '--json'], {})).stdout), { ok: true, sql: /CREATE TABLE/ })
    await isWrongUsage(t, ['migrate', '--print', '--new-epoch'], /cannot be used with option '--new-epoch'/)
  })
  await isWrongUsage(t, ['migrate', '--store', t.testdir()], /a directory has no migrations/)
  await isWrongUsage(t, ['migrate', '--key-partitions', '0'], /Expected an integer from 1 to 256/)
})

async function withStoreOf<T>(opening: Promise<Store>, use: (store: Store) => Promise<T>): Promise<T> {
  const store = await opening
  try {
    return await use(store)
  } finally {
    await store.close()
  }
}

t.test('a store is copied to a database and back, byte by byte', options, async (t) => {
  const path = t.testdir()
  const [source, back] = [join(path, 'source'), join(path, 'back')]
  const { url, env, described } = await openEmpty()
  await withStoreOf(openLmdbStore(source), fillStore)
  const contents = await withStoreOf(openLmdbStore(source), allContentsOf)
  const there = await run(['copy', '--from', source, '--json'], { INGEST_TO: url })
  t.match({ ...there, stdout: JSON.parse(there.stdout) }, { code: 0, stdout: { from: source, to: described } })
  t.strictSame(await withStoreOf(openPostgresStore(url), allContentsOf), contents)
  t.match(await run(['copy', '--to', back], { INGEST_FROM: url }), { code: 0, stdout: /^copied 125 events/m })
  t.strictSame(await withStoreOf(openLmdbStore(back), allContentsOf), contents)
  for (const project of [alpha, beta]) {
    const exported = await exportedWithoutCursors(['--store', source], project)
    t.equal(await exportedWithoutCursors([], project, env), exported)
    t.equal(await exportedWithoutCursors(['--store', back], project), exported)
  }
})

t.test('a killed copy to a database is continued', options, async (t) => {
  const eventCount = 8000
  const source = t.testdir()
  await withStore(source, (project) => submitIds(project, idsOf('e', eventCount)))
  const { url, env } = await openEmpty()
  const settings = { env: { INGEST_TO: url } }
  const killed = startIngest(['copy', '--from', source], settings)
  const end = ended(killed)
  killed.stderr.on('data', (text) => String(text).includes('copying') && killed.kill('SIGKILL'))
  t.match(await end, { signal: 'SIGKILL' })
  const { code, stdout } = await spawnIngest(['copy', '--from', source, '--json'], settings)
  t.equal(code, 0)
  const [{ copied }] = JSON.parse(stdout).projects
  t.ok(copied > 0 && copied < eventCount, `${copied} events were left`)
  const exported = await exportedWithoutCursors(['--store', source], projectId)
  t.equal(await exportedWithoutCursors([], projectId, env), exported)
})
