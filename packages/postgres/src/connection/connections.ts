import { setTimeout as sleep } from 'node:timers/promises'
import pg, { type ClientBase, type PoolClient, type PoolConfig } from 'pg'
import { createCurrentHost } from './current-host.ts'
import { type Host, parseUrl } from './hosts.ts'

/** Connections to the host that accepts writes. */
export interface Connections {
  /** A connection, which must be released. A new one is opened within {@link connectTimeoutMs}. */
  connect(): Promise<PoolClient>
  /**
   * Must be called before the result of a statement is used.
   *
   * @throws an error with the SQLSTATE of an unknown outcome if the commit did not wait for the synchronous standby, or
   *   the connection leads to a former primary
   */
  checkOutcome(client: PoolClient): void
  size(): { connections: number; idle: number }
  /** Closes all connections; those in use within {@link closeTimeoutMs}. */
  close(): Promise<void>
}

export const connectTimeoutMs = 2000
const closeTimeoutMs = 2000
/**
 * For this long, plus {@link connectTimeoutMs}, a former primary that keeps running may get writes after a promotion.
 */
const visitMs = 2000
/** `int8`; the values that are read are below 2^53. */
const int8 = 20
/** `warning`: PostgreSQL raises one if a wait for the standby was cancelled; a commit raises no other. */
const warning = '01000'

export interface DatabaseOptions {
  connectionsMax: number
  statementTimeoutMs: number
  /** Called if the same address leads to another cluster than before. @throws if that cluster must not be used */
  checkMoved?(client: pg.Client): Promise<void>
}

/** Opens a pool, which connects on demand. */
export function openConnections(
  target: string | PoolConfig,
  { connectionsMax, statementTimeoutMs, checkMoved = async () => {} }: DatabaseOptions,
): Connections {
  const { config, hosts } = typeof target === 'string' ? parseUrl(target) : { config: target, hosts: [] }
  const clients = createClients()
  const onPromotion = () => clients.destroy(current.isFormer)
  const current = createCurrentHost(hosts, { onPromotion, checkMoved })
  // PgBouncer refuses startup parameters that it does not know
  let mayStartWithTimeouts = true
  const pool = new pg.Pool({
    application_name: 'ingest',
    ...config,
    max: connectionsMax,
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: statementTimeoutMs + connectTimeoutMs,
    keepAlive: true,
    Client: function createPooled(settings: PoolConfig) {
      const timeouts = mayStartWithTimeouts && { statement_timeout: statementTimeoutMs }
      // the pool hides the password in copies of its settings
      const { password } = settings
      return clients.create({ ...settings, password, ...timeouts, ...current.get() } as PoolConfig)
    } as unknown as typeof pg.Client,
    types: { getTypeParser },
    // a client created by createPooled
    onConnect: (client: ClientBase) => current.check(client as pg.Client),
  } as PoolConfig)
  // idle connections are closed when the database restarts
  pool.on('error', () => {})

  const visits = createVisits(hosts, async (host) => {
    const timeouts = { connectionTimeoutMillis: connectTimeoutMs, query_timeout: connectTimeoutMs }
    const client = clients.create({ ...config, ...timeouts, ...host })
    await client.connect()
    return async () => current.check(client).finally(() => client.end())
  })

  return {
    async connect() {
      await visits.begin()
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

    checkOutcome(client) {
      if (current.isFormer(client)) throw unknownOutcome('another server was promoted')
      if (clients.hasWarned(client)) throw unknownOutcome('the wait for the synchronous standby was cancelled')
    },

    size: () => ({ connections: pool.totalCount, idle: pool.idleCount }),

    async close() {
      visits.end()
      await Promise.race([pool.end(), sleep(closeTimeoutMs, undefined, { ref: false })])
      // an unresponsive database must not keep the process alive
      clients.destroy()
    },
  }
}

/**
 * Visits each host every {@link visitMs} to detect a promotion or another cluster. A single host is visited too,
 * because it may be a proxy or a virtual address: a new connection leads to the new primary while those of the pool
 * stay on the former one.
 *
 * `connect` returns a function that checks the connection. Checks run in the order of the hosts: if the hosts belong to
 * two clusters, servers stay with the cluster of the first host.
 */
function createVisits(hosts: readonly Host[], connect: (host?: Host) => Promise<() => Promise<void>>) {
  let first: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let isEnded = false

  async function visitAll(): Promise<void> {
    const connected = await Promise.allSettled(hosts.length > 0 ? hosts.map((host) => connect(host)) : [connect()])
    for (const each of connected) if (each.status === 'fulfilled') await each.value().catch(() => {})
    schedule()
  }

  function schedule(): void {
    if (!isEnded) timer = setTimeout(visitAll, visitMs).unref()
  }

  return {
    /** Visits all hosts if there are several, so that a former primary is known from the start. */
    async begin(): Promise<void> {
      first ??= hosts.length > 1 ? visitAll() : Promise.resolve(schedule())
      await first
    },

    end(): void {
      isEnded = true
      clearTimeout(timer)
    },
  }
}

function createClients() {
  const clients = new Set<pg.Client>()
  const warned = new WeakSet<pg.Client>()
  return {
    create(settings: PoolConfig): pg.Client {
      const client = new pg.Client(settings)
      clients.add(client)
      client.on('end', () => clients.delete(client))
      // an error while connecting, such as a missing password, would leave the socket open
      client.connection.on('error', () => client.connection.stream.destroy())
      // warnings of the statement itself, for example of an approaching transaction id wraparound, come before its end
      client.connection.on('commandComplete', () => warned.delete(client))
      client.on('notice', ({ code }) => {
        if (code === warning) warned.add(client)
      })
      // the running statement reports the error
      return client.on('error', () => {})
    },

    /** Whether the last commit of a connection had a warning. */
    hasWarned: (client: pg.Client) => warned.has(client),

    destroy(isDoomed: (client: pg.Client) => boolean = () => true): void {
      for (const client of clients) if (isDoomed(client)) client.connection.stream.destroy()
    },
  }
}

function getTypeParser(oid: number, format?: 'text' | 'binary') {
  return oid === int8 ? Number : pg.types.getTypeParser(oid, format as 'text')
}

/** `statement_completion_unknown`. */
function unknownOutcome(message: string): Error {
  return Object.assign(new Error(message), { code: '40003' })
}
