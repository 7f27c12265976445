import { setTimeout as sleep } from 'node:timers/promises'
import pg, { type PoolClient, type PoolConfig } from 'pg'
import { createCurrentHost } from './current-host.ts'
import { parseUrl } from './hosts.ts'

/** Connections to the host that accepts writes. */
export interface Connections {
  /** A connection, which must be released; a new one within {@link connectTimeoutMs}. */
  connect(): Promise<PoolClient>
  size(): { connections: number; idle: number }
  /** Closes all connections; those in use within {@link closeTimeoutMs}. */
  close(): Promise<void>
}

export const connectTimeoutMs = 2000
const closeTimeoutMs = 2000
/** `int8`: those that are read are below 2^53. */
const int8 = 20

/** Opens a pool, which connects on demand. */
export function openConnections(
  target: string | PoolConfig,
  { connectionsMax, statementTimeoutMs }: { connectionsMax: number; statementTimeoutMs: number },
): Connections {
  const { config, hosts } = typeof target === 'string' ? parseUrl(target) : { config: target, hosts: [] }
  const current = createCurrentHost(hosts)
  // PgBouncer refuses startup parameters that it does not know
  let mayStartWithTimeouts = true
  let visited: Promise<void> | undefined
  const clients = new Set<pg.Client>()
  const pool = new pg.Pool({
    application_name: 'ingest',
    ...config,
    max: connectionsMax,
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: statementTimeoutMs + connectTimeoutMs,
    keepAlive: true,
    Client: function createClient(settings: PoolConfig) {
      const timeouts = mayStartWithTimeouts && { statement_timeout: statementTimeoutMs }
      // the pool hides the password from copies of its settings
      const { password } = settings
      const client = new pg.Client({ ...settings, password, ...timeouts, ...current.get() } as PoolConfig)
      clients.add(client)
      client.on('end', () => clients.delete(client))
      // an error while connecting, such as a missing password, leaves the socket open
      client.connection.on('error', () => client.connection.stream.destroy())
      // the statement that is running reports the error
      return client.on('error', () => {})
    } as unknown as typeof pg.Client,
    types: { getTypeParser },
    onConnect: current.check,
  } as PoolConfig)
  // idle connections end when the database restarts
  pool.on('error', () => {})

  /** Connects to each host once, so that a former primary is known from the start. */
  async function visitHosts(): Promise<void> {
    const timeouts = { connectionTimeoutMillis: connectTimeoutMs, query_timeout: connectTimeoutMs }
    const visits = hosts.map(async (host) => {
      const client = new pg.Client({ ...config, ...timeouts, ...host }).on('error', () => {})
      await client.connect()
      await current.check(client).finally(() => client.end())
    })
    await Promise.allSettled(visits)
  }

  return {
    async connect() {
      if (hosts.length > 1) visited ??= visitHosts()
      await visited
      const tried = current.get()
      try {
        return await pool.connect()
      } catch (error) {
        if (/unsupported startup parameter/.test((error as Error).message)) {
          mayStartWithTimeouts = false
          return pool.connect()
        }
        current.leave(tried)
        throw error
      }
    },

    size: () => ({ connections: pool.totalCount, idle: pool.idleCount }),

    async close() {
      await Promise.race([pool.end(), sleep(closeTimeoutMs, undefined, { ref: false })])
      // a database that does not respond must not keep the process from ending
      for (const client of clients) client.connection.stream.destroy()
    },
  }
}

function getTypeParser(oid: number, format?: 'text' | 'binary') {
  return oid === int8 ? Number : pg.types.getTypeParser(oid, format as 'text')
}
