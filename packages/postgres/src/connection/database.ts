import { setTimeout as sleep } from 'node:timers/promises'
import { IngestError } from '@ingest/core'
import pg, { type PoolClient, type PoolConfig } from 'pg'
import { queries } from '../sql.ts'
import { kindOf, toIngestError } from './database-error.ts'
import { type Host, parseUrl } from './hosts.ts'

export interface DatabaseOptions {
  /** The most connections at once. */
  connectionsMax: number
  /** How long one statement may take. */
  statementTimeoutMs: number
}

/** Runs statements on a database: each a transaction of its own, on any connection. */
export interface Database {
  /**
   * Runs a statement of `sql/queries` by its name and returns its rows. A statement whose connection is lost, or that
   * lost a deadlock, is repeated with the same values for up to {@link retryMs}: every statement must allow that.
   *
   * @throws {IngestError} `store-unavailable`, `disk-full`, `overloaded`
   */
  query<Row>(name: string, values?: readonly unknown[]): Promise<Row[]>
  /** Runs a statement once, within `timeoutMs` with the wait for a connection. */
  queryOnce<Row>(name: string, values: readonly unknown[], timeoutMs: number): Promise<Row[]>
  /** Runs `use` with a connection of its own, for migrations. */
  withConnection<T>(use: (client: PoolClient) => Promise<T>): Promise<T>
  /** Closes all connections; running statements are finished first. */
  close(): Promise<void>
}

const connectTimeoutMs = 2000
/** How long statements are repeated. With one more statement and connection, a request ends within 15 s. */
export const retryMs = 3000
const retryDelayMsMax = 500
/** The most statements that wait for a connection. */
const waitingMax = 10_000
/** `int8`: all numbers of the schema are below 2^53. */
const int8 = 20

/** Opens a pool of connections; connects with the first statement. */
export function openDatabase(target: string | PoolConfig, options: DatabaseOptions): Database {
  const { config, hosts } = typeof target === 'string' ? parseUrl(target) : { config: target, hosts: [] }
  const { statementTimeoutMs, connectionsMax } = options
  let hostIndex = 0
  // PgBouncer refuses startup parameters that it does not know
  let mayStartWithTimeouts = true
  const pool = new pg.Pool({
    application_name: 'ingest',
    ...config,
    max: connectionsMax,
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: statementTimeoutMs + 1000,
    keepAlive: true,
    Client: function connectToHost(settings: PoolConfig) {
      const timeouts = mayStartWithTimeouts && { statement_timeout: statementTimeoutMs }
      return new pg.Client({ ...settings, ...timeouts, ...(hosts[hostIndex] as Host | undefined) })
    } as unknown as typeof pg.Client,
    types: { getTypeParser },
    onConnect: checkWritable,
  } as PoolConfig)
  // idle connections end when the database restarts
  pool.on('error', () => {})
  const slots = createSlots(connectionsMax)

  async function attempt<Row>(name: string, values: readonly unknown[], timeoutMs?: number): Promise<Row[]> {
    const text = queries.get(name)
    if (text === undefined) throw new Error(`sql/queries has no ${name}`)
    const client = await connect()
    let failure: Error | undefined
    try {
      const query = { text, values: values as unknown[], ...(timeoutMs !== undefined && { query_timeout: timeoutMs }) }
      return (await client.query(query)).rows
    } catch (error) {
      // only an error of PostgreSQL itself leaves the connection usable
      if (kindOf(error) === 'lost') {
        failure = error as Error
        nextHost()
      }
      throw error
    } finally {
      client.release(failure)
    }
  }

  async function connect(): Promise<PoolClient> {
    try {
      return await pool.connect()
    } catch (error) {
      if (/unsupported startup parameter/.test((error as Error).message)) {
        mayStartWithTimeouts = false
        return pool.connect()
      }
      nextHost()
      throw error
    }
  }

  function nextHost(): void {
    if (hosts.length > 0) hostIndex = (hostIndex + 1) % hosts.length
  }

  async function repeat<T>(operation: () => Promise<T>): Promise<T> {
    const until = performance.now() + retryMs
    for (let attempts = 0; ; attempts++) {
      try {
        return await operation()
      } catch (error) {
        if (kindOf(error) === 'final' || performance.now() > until) throw toIngestError(error)
        // full jitter: servers must not return all at once
        await sleep(Math.random() * Math.min(retryDelayMsMax, 20 * 2 ** attempts))
      }
    }
  }

  return {
    query: (name, values = []) => slots.run(() => repeat(() => attempt(name, values))),

    async queryOnce<Row>(name: string, values: readonly unknown[], timeoutMs: number) {
      const once = slots.run(() => attempt<Row>(name, values, timeoutMs))
      once.catch(() => {})
      const timeout = sleep(timeoutMs, undefined, { ref: false }).then(() => {
        throw new Error('timeout expired')
      })
      return Promise.race([once, timeout]).catch((error) => {
        throw toIngestError(error)
      })
    },

    async withConnection(use) {
      const client = await repeat(connect)
      try {
        return await use(client)
      } catch (error) {
        throw toIngestError(error)
      } finally {
        // its session may hold settings and locks
        client.release(true)
      }
    },

    close: () => pool.end(),
  }
}

/** Refuses standbys: also after a failover, when the former primary is still there. */
async function checkWritable(client: { query: (text: string) => Promise<{ rows: unknown[] }> }): Promise<void> {
  const { rows } = await client.query("SELECT current_setting('transaction_read_only') AS read_only")
  const [{ read_only: readOnly }] = rows as [{ read_only: string }]
  if (readOnly !== 'on') return
  throw Object.assign(new Error('the server is read-only, as a standby is'), { code: '25006' })
}

function getTypeParser(oid: number, format?: 'text' | 'binary') {
  return oid === int8 ? Number : pg.types.getTypeParser(oid, format as 'text')
}

/** Turns for connections: the connection timeout of a pool also counts the wait for one. */
function createSlots(count: number) {
  let free = count
  const waiting: (() => void)[] = []
  return {
    async run<T>(operation: () => Promise<T>): Promise<T> {
      if (free > 0) free--
      else if (waiting.length < waitingMax) await new Promise<void>((resolve) => waiting.push(resolve))
      else throw new IngestError('overloaded', 'Too many statements wait for the database.', { retryAfterSeconds: 1 })
      try {
        return await operation()
      } finally {
        const next = waiting.shift()
        if (next) next()
        else free++
      }
    },
  }
}
