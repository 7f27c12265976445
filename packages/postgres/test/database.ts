import { randomBytes } from 'node:crypto'
import pg from 'pg'
import t from 'tap'
import { startPostgres, whyNoServer } from './postgres-server.ts'

const givenUrl = process.env.INGEST_TEST_POSTGRES

/** For `skip` of tests: why they have no database, or false. */
export const noPostgres: string | false = givenUrl === undefined && whyNoServer()

let server: Promise<string> | undefined

/** The URL of the tests' server, as superuser: one for each test file, or that of `INGEST_TEST_POSTGRES`. */
export function openTestServer(): Promise<string> {
  server ??= givenUrl === undefined ? startPostgres().then(({ url }) => url) : Promise.resolve(givenUrl)
  return server
}

/** The URL of an empty database, in which a store creates the schema when it opens; deleted with the server. */
export async function createDatabase(): Promise<string> {
  return createFrom('template1', await newUrl())
}

/** The URL of a copy of a database without connections. */
export async function copyDatabase(url: string, copy?: string): Promise<string> {
  return createFrom(nameOf(url), copy ?? (await newUrl()))
}

/** Ends its connections, and deletes it. */
export async function dropDatabase(url: string): Promise<void> {
  await runSql(await openTestServer(), `DROP DATABASE IF EXISTS ${nameOf(url)} WITH (FORCE)`)
}

async function createFrom(template: string, url: string): Promise<string> {
  await runSql(await openTestServer(), `CREATE DATABASE ${nameOf(url)} TEMPLATE ${template}`)
  cleanUp(() => dropDatabase(url))
  return url
}

/** Does so at the end, the newest first, on a given server: one of the tests deletes all its data. */
export function cleanUp(how: () => Promise<unknown>): void {
  if (givenUrl !== undefined) t.teardown(how)
}

async function newUrl(): Promise<string> {
  const url = new URL(await openTestServer())
  url.pathname = `/ingest_test_${randomBytes(8).toString('hex')}`
  return url.href
}

function nameOf(url: string): string {
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
