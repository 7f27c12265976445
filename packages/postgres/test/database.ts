import { randomBytes } from 'node:crypto'
import pg from 'pg'
import t, { type Test } from 'tap'
import { migratePostgres } from '../src/schema/migrate.ts'
import { startPostgres, whyNoServer } from './postgres-server.ts'

const givenUrl = process.env.INGEST_TEST_POSTGRES

/** For `skip` of tests: why there is no database, or false. */
export const noPostgres: string | false = givenUrl === undefined && whyNoServer()

let server: Promise<string> | undefined

/** The superuser URL of the tests' server: one server for each test file, or that of `INGEST_TEST_POSTGRES`. */
export function openTestServer(): Promise<string> {
  server ??= givenUrl === undefined ? startPostgres().then(({ url }) => url) : Promise.resolve(givenUrl)
  return server
}

/** The URL of an empty database, in which a store creates the schema when it opens. It is deleted with the server. */
export async function createDatabase(): Promise<string> {
  return createFrom('template1', await newUrl())
}

/** The URL of a copy of a database, which must have no connections. */
export async function copyDatabase(url: string, copy?: string): Promise<string> {
  return createFrom(nameOf(url), copy ?? (await newUrl()))
}

/** A password with characters that a URL must escape. */
export const password = 'p@ss word/'

let roles: Promise<string[]> | undefined

/** The URLs of a new database for the owner of its schema, a role of servers, and a role without any privilege. */
export async function createForRoles({ isMigrated = true } = {}): Promise<{
  asOwner: string
  asServer: string
  asStranger: string
}> {
  roles ??= createRoles()
  const [owner, server, stranger] = (await roles) as [string, string, string]
  const url = await createDatabase()
  await runSql(await openTestServer(), `ALTER DATABASE ${nameOf(url)} OWNER TO ${owner}`)
  const urlFor = (role: string) => Object.assign(new URL(url), { username: role, password }).href
  if (isMigrated) await migratePostgres(urlFor(owner), { grantTo: server })
  return { asOwner: urlFor(owner), asServer: urlFor(server), asStranger: urlFor(stranger) }
}

async function createRoles(): Promise<string[]> {
  const admin = await openTestServer()
  const id = randomBytes(8).toString('hex')
  const names = ['owner', 'server', 'stranger'].map((name) => `ingest_test_${name}_${id}`)
  for (const name of names) await runSql(admin, `CREATE ROLE ${name} LOGIN PASSWORD '${password}'`)
  cleanUp(() => runSql(admin, `DROP ROLE ${names}`))
  return names
}

/** Ends the connections of a database, and deletes it. */
export async function dropDatabase(url: string): Promise<void> {
  await runSql(await openTestServer(), `DROP DATABASE IF EXISTS ${nameOf(url)} WITH (FORCE)`)
}

async function createFrom(template: string, url: string): Promise<string> {
  await runSql(await openTestServer(), `CREATE DATABASE ${nameOf(url)} TEMPLATE ${template}`)
  cleanUp(() => dropDatabase(url))
  return url
}

/** Runs `how` at the end of the tests, the newest first, on a given server; a server of the tests deletes all its data. */
export function cleanUp(how: () => Promise<unknown>): void {
  if (givenUrl !== undefined) t.teardown(how)
}

async function newUrl(): Promise<string> {
  const url = new URL(await openTestServer())
  url.pathname = `/ingest_test_${randomBytes(8).toString('hex')}`
  return url.href
}

export function nameOf(url: string): string {
  return new URL(url).pathname.slice(1)
}

/** Runs a statement on a connection of its own, and returns its rows. */
export async function runSql<Row extends object>(url: string, sql: string, values?: unknown[]): Promise<Row[]> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    return (await client.query<Row>(sql, values)).rows
  } finally {
    await client.end()
  }
}

/** Runs a statement in a transaction that stays open until `release`, or the end of the test. */
export async function holdLock(t: Test, url: string, sql: string): Promise<{ release(): Promise<void> }> {
  const client = new pg.Client(url)
  await client.connect()
  await client.query('BEGIN')
  await client.query(sql)
  let released: Promise<void> | undefined
  const release = () => {
    released ??= client.query('ROLLBACK').then(() => client.end())
    return released
  }
  t.teardown(release)
  return { release }
}

/** Resolves with true once `sessions` sessions of the database wait for a lock, with false if the operation settles. */
export async function waitsForLock(url: string, operation: Promise<unknown>, sessions = 1): Promise<boolean> {
  let isSettled = false
  const settle = () => {
    isSettled = true
  }
  operation.then(settle, settle)
  for (;;) {
    const wasSettled = isSettled
    const [row] = await runSql<{ waiting: number }>(
      url,
      `SELECT count(*)::int AS waiting FROM pg_stat_activity a
      WHERE a.datname = current_database() AND cardinality(pg_blocking_pids(a.pid)) > 0`,
    )
    if (row && row.waiting >= sessions) return true
    if (wasSettled) return false
  }
}
