import { mkdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { serveCalls } from '@ingest/bench/serve-calls'
import { portOf, servePeer } from './serve-peer.js'

// Fastify and SQLite (node:sqlite): WAL with synchronous=FULL, so each commit is synced. WITHOUT ROWID and the default
// checkpoints were tried and are slower. Requests that arrive during a transaction share the next one.
/** @type {import('node:sqlite').DatabaseSync} */
let database
/** @type {import('node:sqlite').StatementSync} */
let insert
/** @type {import('fastify').FastifyInstance} */
let app
/** @type {{ project: string, events: { eventId: string }[], resolve: (accepted: number) => void, reject: (error: unknown) => void }[]} */
let waiting = []

serveCalls({
  async start({ directory }) {
    mkdirSync(directory, { recursive: true })
    // Node.js 20 does not have the module: a static import would fail there
    const { DatabaseSync } = createRequire(import.meta.url)('node:sqlite')
    database = new DatabaseSync(join(directory, 'events.sqlite'))
    database.exec(
      'PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -1000000; PRAGMA wal_autocheckpoint = 20000',
    )
    database.exec(`
      CREATE TABLE IF NOT EXISTS events (
        project_id TEXT NOT NULL, event_id TEXT NOT NULL, event TEXT NOT NULL, PRIMARY KEY (project_id, event_id)
      )`)
    insert = database.prepare('INSERT OR IGNORE INTO events VALUES (?, ?, ?)')
    app = await servePeer((project, events) => {
      return new Promise((resolve, reject) => {
        if (waiting.push({ project, events, resolve, reject }) === 1) setImmediate(insertWaiting)
      })
    })
    return { port: portOf(app) }
  },

  async stop() {
    await app?.close()
    database?.close()
  },
})

function insertWaiting() {
  const group = waiting
  waiting = []
  try {
    const accepted = inTransaction(() => group.map(({ project, events }) => insertAll(project, events)))
    group.forEach(({ resolve }, i) => {
      resolve(accepted[i] ?? 0)
    })
  } catch (error) {
    for (const { reject } of group) reject(error)
  }
}

/** @template T @param {() => T} work @returns {T} */
function inTransaction(work) {
  database.exec('BEGIN IMMEDIATE')
  try {
    const result = work()
    database.exec('COMMIT')
    return result
  } catch (error) {
    database.exec('ROLLBACK')
    throw error
  }
}

/** @param {string} project @param {{ eventId: string }[]} events */
function insertAll(project, events) {
  let accepted = 0
  for (const event of events) accepted += Number(insert.run(project, event.eventId, JSON.stringify(event)).changes)
  return accepted
}
