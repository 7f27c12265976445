import { createRequire } from 'node:module'

/**
 * What is measured beside others.
 *
 * @typedef {object} Contender
 * @property {string} name
 * @property {string} title
 * @property {string} file
 * @property {boolean} [isPeer] installed on demand
 * @property {boolean} [hasDatabase] in PostgreSQL
 * @property {{ keyPartitions?: number, isLean?: boolean }} [options] for its `start`
 * @property {boolean} [isEmbedded] sends the load itself
 * @property {number} [preloadMax] the most events that are put into it before it is measured; it takes too long with more
 * @property {string} [missing] why it cannot be measured on this machine
 */

export const projectId = 'bench'

/** @returns {Contender[]} */
export function findContenders() {
  return [
    { name: 'floor', title: 'Floor: only parses', file: 'servers/floor.js' },
    { name: 'sync-floor', title: 'Synced floor: appends a file', file: 'servers/sync-floor.js' },
    { name: 'ours', title: 'Ingest over HTTP', file: 'servers/ours.js' },
    { name: 'embedded', title: 'Ingest in process', file: 'servers/embedded.js', isEmbedded: true },
    { name: 'ours-postgres', title: 'Ingest on PostgreSQL', file: 'servers/ours-postgres.js', hasDatabase: true },
    {
      name: 'postgres',
      title: 'Fastify + PostgreSQL',
      file: 'peers/postgres.js',
      isPeer: true,
      hasDatabase: true,
      preloadMax: 10e6,
    },
    {
      name: 'lmdb-table',
      title: 'Fastify + one LMDB B-tree',
      file: 'peers/lmdb-table.js',
      isPeer: true,
      preloadMax: 1e6,
    },
    {
      name: 'sqlite',
      title: 'Fastify + SQLite',
      file: 'peers/sqlite.js',
      isPeer: true,
      preloadMax: 1e6,
      ...missing(hasSqlite() ? undefined : `Node ${process.versions.node} has no node:sqlite; Node 22.13 does`),
    },
  ]
}

/** Other forms of those with a database, only for "pnpm bench postgres". @returns {Contender[]} */
export function findVariants() {
  const all = findContenders()
  return [
    {
      ...named(all, 'ours-postgres'),
      name: 'ours-postgres-16',
      title: 'Ingest on PostgreSQL, 16 key partitions',
      options: { keyPartitions: 16 },
    },
    {
      ...named(all, 'postgres'),
      name: 'postgres-lean',
      title: 'Fastify + PostgreSQL with uuid and text',
      options: { isLean: true },
    },
  ]
}

/** @param {Contender[]} contenders @param {string} name */
function named(contenders, name) {
  return /** @type {Contender} */ (contenders.find((each) => each.name === name))
}

/** @param {string | undefined} reason */
function missing(reason) {
  return reason === undefined ? {} : { missing: reason }
}

function hasSqlite() {
  try {
    createRequire(import.meta.url)('node:sqlite')
    return true
  } catch {
    return false
  }
}
