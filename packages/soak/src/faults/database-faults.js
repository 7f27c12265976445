import { serveCalls } from '@ingest/bench/serve-calls'
import pg from 'pg'

// Ends connections to a database, as an administrator or a failing network does.

/** @type {pg.Client} */
let client

serveCalls({
  /** @param {{ url: string }} options */
  async start({ url }) {
    client = new pg.Client({ connectionString: url })
    await client.connect()
  },

  /** @returns {Promise<number[]>} the process ids of the other connections to the database */
  async backends() {
    const { rows } = await client.query(
      'SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY pid',
    )
    return rows.map(({ pid }) => pid)
  },

  /** @param {{ pids: number[] }} options */
  async terminate({ pids }) {
    await client.query('SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) AS pid', [pids])
  },

  stop: () => client?.end(),
})
