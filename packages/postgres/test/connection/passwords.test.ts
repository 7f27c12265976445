import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { batchOf } from '../batches.ts'
import { runSql } from '../database.ts'
import { startPostgres, whyNoServer } from '../postgres-server.ts'

const password = 'p@ss word/'

t.test('a server that asks for passwords', { skip: whyNoServer() }, async (t) => {
  const server = await startPostgres()
  t.teardown(() => server.stop('fast'))
  await runSql(server.url, `CREATE ROLE keeper LOGIN SUPERUSER PASSWORD '${password}'`)
  const rules = 'host all keeper 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n'
  writeFileSync(join(server.directory, 'pg_hba.conf'), rules)
  await runSql(server.url, 'SELECT pg_reload_conf()')
  const { port } = server
  const urlWith = (text?: string) =>
    `postgres://keeper${text === undefined ? '' : `:${encodeURIComponent(text)}`}@127.0.0.1:${port}/postgres`

  t.test('the password of a URL, of a list of hosts and of options is used', async (t) => {
    const targets = [
      urlWith(password),
      urlWith(password).replace('@', `@127.0.0.1:${port},`),
      { host: '127.0.0.1', port, user: 'keeper', password, database: 'postgres' },
    ]
    for (const [i, target] of targets.entries()) {
      const store = await openPostgresStore(target)
      t.strictSame((await store.append('p', batchOf(`e-${i}`))).stored, [true])
      await store.close()
    }
  })

  t.test('a wrong or missing password is refused in words', async (t) => {
    const refused = { code: 'invalid-argument', message: /password/ }
    await t.rejects(openPostgresStore(urlWith('canary')), refused)
    await t.rejects(openPostgresStore(urlWith()), { ...refused, message: /PGPASSWORD/ })
    await openPostgresStore(urlWith('canary')).catch(({ message }) => t.notMatch(message, /canary/))
  })

  t.test('a process ends after a missing password', async (t) => {
    const dist = new URL('../../dist/index.js', import.meta.url).href
    const program = `import(${JSON.stringify(dist)}).then(({ openPostgresStore }) => openPostgresStore(${JSON.stringify(urlWith())}))
      .catch(({ code }) => console.log(code))`
    const { stdout, status } = spawnSync(process.execPath, ['-e', program], {
      encoding: 'utf8',
      timeout: 30_000,
    })
    t.strictSame({ stdout, status }, { stdout: 'invalid-argument\n', status: 0 })
  })

  t.test('a role that is refused while a server runs is a fault of the store, not of the request', async (t) => {
    const store = await openPostgresStore(server.url)
    await runSql(server.url, 'CREATE ROLE app LOGIN')
    await runSql(server.url, 'GRANT USAGE ON SCHEMA ingest TO app')
    await runSql(server.url, 'GRANT SELECT ON ALL TABLES IN SCHEMA ingest TO app')
    await runSql(server.url, 'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA ingest TO app')
    const url = new URL(server.url)
    url.username = 'app'
    const app = await openPostgresStore(url.href, { migrate: false })
    await app.append('p', batchOf('before'))
    await runSql(server.url, 'REVOKE USAGE ON SCHEMA ingest FROM app')
    await t.rejects(app.append('p', batchOf('after')), { code: 'store-failed', retryable: true })
    await app.close()
    await store.close()
  })
})
