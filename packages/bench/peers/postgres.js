import { serveCalls } from '@ingest/bench/serve-calls'
import pg from 'pg'
import { portOf, servePeer } from './serve-peer.js'

// Fastify and PostgreSQL, as most people would write it: one statement per batch, which returns the number of new events.
const connections = 8
/** @type {pg.Pool} */
let pool
/** @type {import('fastify').FastifyInstance} */
let app

serveCalls({
  async start({ url, isFresh }) {
    pool = new pg.Pool({ connectionString: url, max: connections })
    if (isFresh) {
      await pool.query(`
        CREATE TABLE events (
          project_id text NOT NULL,
          event_id text NOT NULL,
          received_at timestamptz NOT NULL DEFAULT now(),
          event jsonb NOT NULL,
          PRIMARY KEY (project_id, event_id)
        )`)
    }
    const insert = {
      name: 'insert',
      text: `
        INSERT INTO events (project_id, event_id, event)
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

  async stop() {
    await app?.close()
    await pool?.end()
  },
})
