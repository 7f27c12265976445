import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startProgram } from './start-program.js'

/**
 * A program that is measured.
 *
 * @typedef {object} Contender
 * @property {string} name
 * @property {string} title
 * @property {string} file from the root of this package
 * @property {boolean} [isPeer] whether it is installed on demand
 * @property {boolean} [hasDatabase] whether it stores in PostgreSQL
 * @property {Record<string, unknown>} [options] for its `start`
 * @property {string} [missing] why it cannot be measured on this machine
 */

export const projectId = 'bench'

/** @returns {Contender[]} */
export function findContenders() {
  const noSqlite = { missing: `Node ${process.versions.node} has no node:sqlite; Node 22.13 does` }
  return [
    { name: 'floor', title: 'Floor: only parses', file: 'servers/floor.js' },
    {
      name: 'sync-floor',
      title: 'Synced floor: appends a file',
      file: 'servers/floor.js',
      options: { isSynced: true },
    },
    { name: 'ours', title: 'Ingest over HTTP', file: 'servers/ours.js' },
    { name: 'ours-postgres', title: 'Ingest on PostgreSQL', file: 'servers/ours.js', hasDatabase: true },
    {
      name: 'postgres',
      title: 'Fastify + PostgreSQL',
      file: 'peers/postgres.js',
      isPeer: true,
      hasDatabase: true,
    },
    {
      name: 'sqlite',
      title: 'Fastify + SQLite',
      file: 'peers/sqlite.js',
      isPeer: true,
      ...(hasSqlite() ? {} : noSqlite),
    },
    {
      name: 'nats',
      title: 'Fastify + NATS JetStream',
      file: 'peers/nats.js',
      isPeer: true,
      ...(hasNats() ? {} : { missing: 'nats-server is not installed' }),
    },
  ]
}

function hasNats() {
  return spawnSync('nats-server', ['--version']).status === 0
}

function hasSqlite() {
  try {
    createRequire(import.meta.url)('node:sqlite')
    return true
  } catch {
    return false
  }
}

/**
 * The wanted contenders, and PostgreSQL if any of them stores in it. Installs the peers when they are first needed.
 *
 * @param {readonly string[] | undefined} only names. Default: all
 * @param {{ directory: string, log: (line: string) => void }} options
 * @returns {Promise<{ contenders: Contender[], postgres?: import('./start-program.js').Program }>} contenders that cannot
 *   be measured say why in `missing`
 */
export async function prepareContenders(only, { directory, log }) {
  let contenders = findContenders().filter(({ name }) => only === undefined || only.includes(name))
  const isUsed = (/** @type {keyof Contender} */ property) => (/** @type {Contender} */ contender) =>
    contender[property] === true && contender.missing === undefined
  const leaveOut = (/** @type {keyof Contender} */ property, /** @type {string} */ missing) => {
    contenders = contenders.map((each) => (isUsed(property)(each) ? { ...each, missing } : each))
  }
  let postgres
  if (contenders.some(isUsed('isPeer'))) {
    const reason = installPeers(log)
    if (reason !== undefined) leaveOut('isPeer', reason)
  }
  if (contenders.some(isUsed('hasDatabase'))) {
    try {
      const options = { directory: join(directory, 'postgres'), url: process.env.POSTGRES_URL }
      postgres = await startProgram(new URL('../../servers/postgres-server.js', import.meta.url), options)
    } catch (error) {
      const [reason = ''] = String(error instanceof Error ? error.message : error).split('\n', 1)
      leaveOut('hasDatabase', reason)
    }
  }
  for (const { title, missing } of contenders) if (missing !== undefined) log(`${title} is left out: ${missing}`)
  return { contenders, ...(postgres && { postgres }) }
}

/**
 * Installs the dependencies of the peers. These are outside the workspace, so that tests do not install them.
 *
 * @param {(line: string) => void} log
 * @returns {string | undefined} why it failed
 */
function installPeers(log) {
  const directory = fileURLToPath(new URL('../../peers/', import.meta.url))
  if (existsSync(`${directory}node_modules/.modules.yaml`)) return undefined
  log('installing the peers, which takes a moment the first time')
  const { packageManager } = JSON.parse(readFileSync(new URL('../../../../package.json', import.meta.url), 'utf8'))
  const { npm_config_call, npm_config_package, ...env } = process.env
  const { status, stdout, stderr, error } = spawnSync(
    'npx',
    ['--yes', '--prefer-offline', packageManager, 'install', '--frozen-lockfile'],
    { cwd: directory, env, encoding: 'utf8', shell: process.platform === 'win32' },
  )
  if (status === 0) return undefined
  const said = `${stdout ?? ''}${stderr ?? ''}`.trim().split('\n').slice(-3).join(' ')
  return `the peers cannot be installed: ${error?.message ?? said}`
}
