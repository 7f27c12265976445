import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { TLSSocket } from 'node:tls'
import { IngestError } from '@ingest/core'
import pg from 'pg'
import t from 'tap'
import { certificateA } from '../../../server/test/certificates.ts'
import { openConnections } from '../../src/connection/connections.ts'
import { type FailureKind, kindOf, toOpeningError, toStoreError } from '../../src/connection/database-error.ts'
import { parseUrl } from '../../src/connection/hosts.ts'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { migratePostgres } from '../../src/schema/migrate.ts'
import { batchOf } from '../batches.ts'
import { createDatabase, createForRoles, noPostgres, openTestServer, password, runSql } from '../database.ts'
import { startPostgres, whyNoServer } from '../postgres-server.ts'

const skip = noPostgres

t.test('a connection URL names one or several hosts, and its other parts are decoded', async (t) => {
  const hosts: [list: string, expected: string[]][] = [
    ['', []],
    ['a', ['a 5432']],
    ['a:6000', ['a 6000']],
    ['127.0.0.1:6000', ['127.0.0.1 6000']],
    ['[::1]', ['::1 5432']],
    ['[::1]:6000', ['::1 6000']],
    ['a,b', ['a 5432', 'b 5432']],
    ['a:1,b,[fe80::1]:65535', ['a 1', 'b 5432', 'fe80::1 65535']],
  ]
  for (const [list, expected] of hosts) {
    const parsed = parseUrl(`postgres://u:secret@${list}/db`).hosts
    t.strictSame(
      parsed.map(({ host, port }) => `${host} ${port}`),
      expected,
      list,
    )
    t.ok(parsed.every(({ port }) => typeof port === 'number'))
  }
  const configs: [url: string, expected: object][] = [
    ['postgres://u:p%40%2F%3A%23@h/my%20db', { user: 'u', password: 'p@/:#', database: 'my db' }],
    ['postgresql://u%40corp@a,b/db', { user: 'u@corp', database: 'db' }],
    ['postgres://u:p%2Cq@a:1,b:2/db?target_session_attrs=read-write', { user: 'u', password: 'p,q', database: 'db' }],
    ['postgres://h/db?target_session_attrs=any&application_name=game', { database: 'db', application_name: 'game' }],
  ]
  for (const [url, expected] of configs) {
    const { config } = parseUrl(url)
    t.match(config, expected, url)
    t.notOk('host' in config || 'port' in config || 'target_session_attrs' in config, url)
  }
})

t.test('an invalid URL is refused without its password', async (t) => {
  const urls = [
    '',
    'mysql://u:secret@h/db',
    'postgres:/u:secret@h/db',
    'postgres://u:secret@h:port/db',
    'postgres://u:secret@h:99999/db',
    'postgres://u:secret@a,b:99999/db',
    'postgres://u:secret@a:0,b/db',
    'postgres://u:secret@a,,b/db',
    'postgres://u:secret@a,b:/db',
    'postgres://u:secret@a,b c/db',
    'postgres://u:secret@a,fe80::1/db',
    'postgres://u:secret/word@h/db',
    'postgres://u:secret#word@h/db',
    'postgres://u:secret?word@h/db',
    'postgres://u:secret@h/db?target_session_attrs=standby',
    'postgres://u:secret@h/db?sslmode=verify_full',
    'postgres://u:secret@h/db?sslmode=',
    'postgres://u:secret@h/db?sslmode=prefer',
    'postgres://u:secret@h/db?sslmode=allow',
  ]
  const refused = { name: 'IngestError', code: 'invalid-argument', message: /^The URL of the PostgreSQL database/ }
  for (const url of urls) {
    const error = await errorOf(async () => parseUrl(url))
    t.match(error, refused, url)
    t.notMatch(`${error.message} ${error.cause ?? ''}`, /secret/, url)
  }
})

t.test('a TLS mode that pg does not support has its documented meaning, without a warning', async (t) => {
  const warnings: Error[] = []
  const warn = (warning: Error) => void warnings.push(warning)
  process.on('warning', warn)
  t.teardown(() => process.off('warning', warn))
  for (const mode of ['verify-full', 'verify-ca', 'require']) {
    t.strictSame({ ...(parseUrl(`postgres://u@h/db?sslmode=${mode}`).config.ssl as object) }, {}, mode)
  }
  t.match(parseUrl('postgres://u@h/db?sslmode=no-verify').config.ssl, { rejectUnauthorized: false })
  t.equal(parseUrl('postgres://u@h/db?sslmode=disable').config.ssl, false)
  const error = await errorOf(async () => parseUrl('postgres://u@h/db?sslmode=prefer'))
  t.match(error.message, /: sslmode=prefer may connect without TLS: use verify-full, or disable\.$/)
  // a warning is emitted in a later turn
  await new Promise(setImmediate)
  t.strictSame(warnings, [])
})

t.test('a file of the URL that cannot be read is named', async (t) => {
  const directory = t.testdir()
  const ofDirectory = `The file of sslrootcert of the database URL cannot be read (EISDIR): ${directory}.`
  const unreadable = await errorOf(async () => parseUrl(`postgres://u:secret@h/db?sslrootcert=${directory}`))
  t.match(unreadable, { code: 'invalid-argument', message: ofDirectory })
  for (const name of ['sslrootcert', 'sslcert', 'sslkey']) {
    const url = `postgres://u:secret@h/db?sslmode=verify-full&${name}=/nowhere/ca.crt`
    const message = `The file of ${name} of the database URL cannot be read (ENOENT): /nowhere/ca.crt.`
    for (const open of [async () => parseUrl(url), () => openPostgresStore(url), () => migratePostgres(url)]) {
      t.match(await errorOf(open), { name: 'IngestError', code: 'invalid-argument', message })
    }
  }
})

t.test('an untrusted certificate is reported in one line, and is temporary while a server runs', async (t) => {
  const { cert, key } = certificateA
  const server = createServer((socket) => {
    socket.on('error', () => {})
    // the response to an SSLRequest
    socket.once('data', () => {
      socket.write('S')
      const secure = new TLSSocket(socket, { isServer: true, cert, key })
      secure.on('error', () => {})
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = `postgres://u@127.0.0.1:${(server.address() as { port: number }).port}/db`
  const untrusted = {
    code: 'invalid-argument',
    message: /certificate.*: check the certificate of the server, and sslmode and sslrootcert of the URL\.$/,
  }
  const directory = t.testdir({ 'ca.crt': 'not a certificate' })
  for (const query of ['sslmode=verify-full', `sslmode=verify-full&sslrootcert=${directory}/ca.crt`]) {
    const error = await errorOf(() => openPostgresStore(`${url}?${query}`))
    t.match(error, untrusted, query)
    t.notMatch(error.message, /\n/)
  }
  const connections = openConnections(`${url}?sslmode=verify-full`, { connectionsMax: 1, statementTimeoutMs: 1000 })
  const error = await errorOf(() => connections.connect())
  t.equal(kindOf(error), 'final')
  t.match(toStoreError(error), { code: 'store-unavailable', retryable: true })
  await connections.close()
})

const states: [FailureKind, code: string | undefined, ...sqlStates: string[]][] = [
  ['lost', 'store-unavailable', '08000', '08001', '08003', '08004', '08006', '08P01', '25006', '25P03'],
  ['lost', 'store-unavailable', '40003', '57P01', '57P02', '57P03', '57P04', '57P05'],
  ['retry', 'store-unavailable', '40001', '40P01'],
  ['final', 'store-unavailable', '53000', '53200', '53300', '53400', '25P04', '55P03', '57014'],
  ['final', 'disk-full', '53100'],
  ['final', 'store-failed', '28000', '28P01', '3D000', '42501'],
  ['final', 'store-failed', '3F000', '42883', '42P01', 'IG002', '58030', 'XX001', 'XX002'],
  // faults of the store itself are not translated
  ['final', undefined, '22P02', '23505', '42601', 'P0001', 'XX000'],
]

t.test('an error of PostgreSQL says whether to repeat the statement, and what the caller gets', async (t) => {
  for (const [kind, code, ...sqlStates] of states) {
    for (const sqlState of sqlStates) {
      const error = Object.assign(new Error('the reason'), { code: sqlState })
      t.equal(kindOf(error), kind, sqlState)
      const shown = toStoreError(error)
      if (code === undefined) t.equal(shown, error, sqlState)
      else t.match(shown, { name: 'IngestError', code, message: /the reason/, cause: error }, sqlState)
      t.equal((shown as IngestError).retryAfterSeconds, code === 'store-unavailable' ? 1 : undefined, sqlState)
    }
  }
  const error = new IngestError('overloaded', 'Too many.')
  t.equal(toStoreError(error), error)
})

t.test('a connection that cannot be opened or ends is lost', { skip }, async (t) => {
  const url = new URL(await openTestServer())
  const closed = Object.assign(new URL(url), { port: '1' })
  const slow = new pg.Client({ connectionString: url.href, query_timeout: 1 })
  await slow.connect()
  const errors = [
    await errorOf(() => runSql(closed.href, 'SELECT 1')),
    await errorOf(() => runSql(url.href, 'SELECT pg_terminate_backend(pg_backend_pid())')),
    // the timeout ends the query only on this side
    await errorOf(() => slow.query('SELECT pg_sleep(1)').finally(() => slow.end())),
  ]
  for (const error of errors) {
    t.equal(kindOf(error), 'lost', error.message)
    t.match(toStoreError(error), { code: 'store-unavailable' }, error.message)
  }
})

t.test('an unknown database or role is not retried', { skip }, async (t) => {
  for (const change of [{ pathname: '/missing_database' }, { username: 'missing_role' }]) {
    const url = new URL(await openTestServer())
    Object.assign(url, change, { password: 'secret' })
    const error = await errorOf(() => runSql(url.href, 'SELECT 1'))
    t.equal(kindOf(error), 'final')
    const shown = toStoreError(error) as IngestError
    t.equal(shown.code, 'store-failed', 'while the store is open')
    const opening = toOpeningError(error) as IngestError
    t.match(opening, { code: 'invalid-argument', message: /check the user|create it/ })
    for (const { message } of [shown, opening]) t.notMatch(message, /secret/)
  }
})

t.test(
  'a role that is refused while a server runs is a fault of the store, not of the request',
  { skip },
  async (t) => {
    const { asOwner, asServer } = await createForRoles()
    const store = await openPostgresStore(asServer, { migrate: false })
    await store.append('p', batchOf('before'))
    await runSql(asOwner, `REVOKE USAGE ON SCHEMA ingest FROM "${new URL(asServer).username}"`)
    await t.rejects(store.append('p', batchOf('after')), { code: 'store-failed', retryable: true })
    await store.close()
  },
)

t.test('a database that cannot be reached is temporarily unavailable', async (t) => {
  const error = await errorOf(() => openPostgresStore('postgres://user:canary@127.0.0.1:1/db'))
  t.match(error, { code: 'store-unavailable', retryable: true, retryAfterSeconds: 1 })
  t.notMatch(error.message, /canary/)
})

t.test('a server that asks for passwords', { skip: whyNoServer() }, async (t) => {
  const server = await startPostgres()
  t.teardown(() => server.stop('fast'))
  await runSql(server.url, `CREATE ROLE keeper LOGIN SUPERUSER PASSWORD '${password}'`)
  const rules = 'host all keeper 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n'
  writeFileSync(join(server.directory, 'pg_hba.conf'), rules)
  await runSql(server.url, 'SELECT pg_reload_conf()')
  const urlWith = (text: string) => Object.assign(new URL(server.url), { username: 'keeper', password: text }).href

  t.test('gets the password of a URL, of a list of hosts and of options', async (t) => {
    const { port } = server
    const targets = [
      urlWith(password),
      urlWith(password).replace('@127', `@127.0.0.1:${port},127`),
      { host: '127.0.0.1', port, user: 'keeper', password, database: 'postgres' },
    ]
    for (const [i, target] of targets.entries()) {
      const store = await openPostgresStore(target)
      t.strictSame((await store.append('p', batchOf(`e-${i}`))).stored, [true])
      await store.close()
    }
  })

  t.test('refuses a wrong or missing password with an explanation', async (t) => {
    const wrong = await errorOf(() => openPostgresStore(urlWith('canary')))
    t.match(wrong, { code: 'invalid-argument', message: /password/ })
    t.notMatch(wrong.message, /canary/)
    await t.rejects(openPostgresStore(urlWith('')), { code: 'invalid-argument', message: /PGPASSWORD/ })
  })

  t.test('a process ends after a missing password', async (t) => {
    const dist = new URL('../../dist/index.js', import.meta.url).href
    const program = `import('${dist}').then(({ openPostgresStore }) => openPostgresStore('${urlWith('')}'))
      .catch(({ code }) => console.log(code))`
    const { stdout, status } = spawnSync(process.execPath, ['-e', program], { encoding: 'utf8', timeout: 30_000 })
    t.strictSame({ stdout, status }, { stdout: 'invalid-argument\n', status: 0 })
  })
})

/** An ErrorResponse of the protocol: https://www.postgresql.org/docs/current/protocol-message-formats.html */
function errorResponse(fields: Record<string, string>): Buffer {
  const texts = Object.entries(fields).map(([type, text]) => `${type}${text}\0`)
  const body = Buffer.from(`${texts.join('')}\0`)
  const head = Buffer.from('E....')
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

t.test('a pooler that refuses the startup parameter of timeouts is used without it', { skip }, async (t) => {
  const url = new URL(await createDatabase())
  const { port, hostname } = url
  const startups: boolean[] = []
  const pooler: Server = createServer((client) => {
    client.on('error', () => {})
    client.once('data', (startup) => {
      const hasTimeout = startup.includes('statement_timeout')
      startups.push(hasTimeout)
      if (hasTimeout) {
        const message = 'unsupported startup parameter: statement_timeout'
        client.end(errorResponse({ S: 'FATAL', C: '08P01', M: message }))
        return
      }
      const server = connect(Number(port), hostname)
      server.on('error', () => client.destroy())
      server.write(startup)
      client.pipe(server).pipe(client)
    })
  })
  await new Promise<void>((resolve) => pooler.listen(0, '127.0.0.1', resolve))
  t.teardown(() => pooler.close())
  url.host = `127.0.0.1:${(pooler.address() as { port: number }).port}`
  const connections = openConnections(url.href, { connectionsMax: 2, statementTimeoutMs: 1000 })
  for (let i = 0; i < 2; i++) {
    const client = await connections.connect()
    t.strictSame((await client.query('SELECT 1 AS one')).rows, [{ one: 1 }])
    client.release(true)
  }
  t.strictSame(startups, [true, false, false])
  await connections.close()
})

t.test('a connection has the statement timeout', { skip }, async (t) => {
  const connections = openConnections(await createDatabase(), { connectionsMax: 1, statementTimeoutMs: 1234 })
  const client = await connections.connect()
  t.strictSame((await client.query('SHOW statement_timeout')).rows, [{ statement_timeout: '1234ms' }])
  client.release()
  await connections.close()
})

async function errorOf(call: () => Promise<unknown>): Promise<Error> {
  try {
    await call()
  } catch (error) {
    return error as Error
  }
  throw new Error('no error')
}
