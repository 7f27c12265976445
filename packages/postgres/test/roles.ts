import { randomBytes } from 'node:crypto'
import { migratePostgres } from '../src/schema/migrate.ts'
import { cleanUp, createDatabase, openTestServer, runSql } from './database.ts'

/** What a password may hold. */
const password = 'p@ss word/'

let roles: Promise<string[]> | undefined

/** The URLs of a new database for the owner of its schema, a role of servers, and one that was granted nothing. */
export async function createForRoles(): Promise<{ asOwner: string; asServer: string; asStranger: string }> {
  roles ??= createRoles()
  const [owner, server, stranger] = (await roles) as [string, string, string]
  const url = await createDatabase()
  await runSql(await openTestServer(), `ALTER DATABASE ${new URL(url).pathname.slice(1)} OWNER TO ${owner}`)
  const asOwner = urlFor(url, owner)
  await migratePostgres(asOwner, { grantTo: server })
  return { asOwner, asServer: urlFor(url, server), asStranger: urlFor(url, stranger) }
}

async function createRoles(): Promise<string[]> {
  const admin = await openTestServer()
  const id = randomBytes(8).toString('hex')
  const names = ['owner', 'server', 'stranger'].map((name) => `ingest_test_${name}_${id}`)
  for (const name of names) await runSql(admin, `CREATE ROLE ${name} LOGIN PASSWORD '${password}'`)
  cleanUp(() => runSql(admin, `DROP ROLE ${names}`))
  return names
}

function urlFor(url: string, role: string): string {
  const changed = new URL(url)
  changed.username = role
  changed.password = encodeURIComponent(password)
  return changed.href
}
