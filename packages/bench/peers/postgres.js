import { answerCalls } from '@ingest/bench/answer-calls'
import pg from 'pg'
import { portOf, servePeer } from './serve-peer.js'

// Fastify and PostgreSQL, as most would write it: one statement a batch, which says how many were new. `isLean` takes
// the types that cost least: ids that must be UUIDs, and events as text that no query looks into.
const connections = 8
/** @type {pg.Pool} */
let pool
/** @type {import('fastify').FastifyInstance} */
let app
let projectId = ''

answerCalls({
  async start({ url, isFresh, isLean, ...options }) {
    projectId = options.projectId
    pool = new pg.Pool({ connectionString: url, max: connections })
    const [idType, eventType] = isLean ? ['uuid', 'text'] : ['text', 'jsonb']
    if (isFresh) {
      await pool.query(`
        CREATE TABLE events (
          project_id text NOT NULL,
          event_id ${idType} NOT NULL,
          received_at timestamptz NOT NULL DEFAULT now(),
          event ${eventType} NOT NULL,
          PRIMARY KEY (project_id, event_id)
        )`)
    }
    const insert = {
      name: 'insert',
      text: `
        INSERT INTO events (project_id, event_id, event)
        SELECT $1, * FROM unnest($2::${idType}[], $3::${eventType}[])
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

  /**
   * Made inside PostgreSQL; the index comes last, with the free space that inserts of such ids leave in it.
   *
   * @param {{ events: number, event: object, idVersion?: 4 | 7 }} options
   */
  async preload({ events, event, idVersion = 4 }) {
    const hex = `lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - ($3 - no) / 100), 12, '0')`
    const random = 'gen_random_uuid()::text'
    const id =
      idVersion === 4 ? random : `left(${hex}, 8) || '-' || substr(${hex}, 9, 4) || '-7' || substr(${random}, 16, 21)`
    const { rows } = await pool.query(`SELECT format_type(atttypid, -1) AS type FROM pg_attribute
      WHERE attrelid = 'events'::regclass AND attname IN ('event_id', 'event') ORDER BY attnum`)
    const [idType, eventType] = rows.map(({ type }) => type)
    await pool.query('ALTER TABLE events DROP CONSTRAINT events_pkey')
    await pool.query(
      `INSERT INTO events (project_id, event_id, event)
       SELECT $1, id::${idType}, replace($2, '${event.eventId}', id)::${eventType}
       FROM (SELECT ${id} AS id FROM generate_series(1, $3::bigint) AS no) AS ids`,
      [projectId, JSON.stringify(event), events],
    )
    await pool.query(
      `ALTER TABLE events ADD PRIMARY KEY (project_id, event_id) WITH (fillfactor = ${idVersion === 4 ? 70 : 90})`,
    )
    await pool.query('ALTER INDEX events_pkey RESET (fillfactor)')
    await pool.query('VACUUM ANALYZE events')
  },

  events: async () => Number((await pool.query('SELECT count(*) FROM events')).rows[0].count),

  async stop() {
    await app?.close()
    await pool?.end()
  },
})
