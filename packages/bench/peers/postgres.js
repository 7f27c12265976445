import { answerCalls } from '@ingest/bench/answer-calls'
import pg from 'pg'
import { portOf, servePeer } from './serve-peer.js'

// Fastify and PostgreSQL, as most would write it: one statement a batch, which says how many were new.
const connections = 8
/** @type {pg.Pool} */
let pool
/** @type {import('fastify').FastifyInstance} */
let app
let projectId = ''
let table = ''

answerCalls({
  async start(options) {
    projectId = options.projectId
    table = options.table
    pool = new pg.Pool({ connectionString: options.url, max: connections })
    if (options.isFresh) await pool.query(`DROP TABLE IF EXISTS ${table}`)
    await pool.query(`
      CREATE TABLE IF NOT EXISTS ${table} (
        project_id text NOT NULL,
        event_id text NOT NULL,
        received_at timestamptz NOT NULL DEFAULT now(),
        event jsonb NOT NULL,
        PRIMARY KEY (project_id, event_id)
      )`)
    const insert = {
      name: 'insert',
      text: `
        INSERT INTO ${table} (project_id, event_id, event)
        SELECT $1, * FROM unnest($2::text[], $3::jsonb[])
        ON CONFLICT DO NOTHING`,
    }
    app = await servePeer(async (project, events) => {
      const ids = events.map(({ eventId }) => eventId)
      const texts = events.map((event) => JSON.stringify(event))
      const { rowCount } = await pool.query({ ...insert, values: [project, ids, texts] })
      return rowCount ?? 0
    })
    return { port: portOf(app) }
  },

  /** Made inside PostgreSQL; the index comes last, as one would do it. */
  async preload({ events, event }) {
    await pool.query(`ALTER TABLE ${table} DROP CONSTRAINT ${table}_pkey`)
    await pool.query(
      `INSERT INTO ${table} (project_id, event_id, event)
       SELECT $1, id, jsonb_set($2::jsonb, '{eventId}', to_jsonb(id))
       FROM (SELECT gen_random_uuid()::text AS id FROM generate_series(1, $3::bigint)) AS ids`,
      [projectId, JSON.stringify(event), events],
    )
    await pool.query(`ALTER TABLE ${table} ADD PRIMARY KEY (project_id, event_id)`)
    await pool.query(`VACUUM ANALYZE ${table}`)
  },

  async settle() {
    await pool.query('CHECKPOINT')
  },

  events: async () => Number((await pool.query(`SELECT count(*) FROM ${table}`)).rows[0].count),
  diskBytes: async () =>
    Number((await pool.query('SELECT pg_total_relation_size($1)', [table])).rows[0].pg_total_relation_size),

  async stop() {
    await app?.close()
    await pool?.end()
  },
})
