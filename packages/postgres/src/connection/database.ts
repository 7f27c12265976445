import { setTimeout as sleep } from 'node:timers/promises'
import { IngestError } from '@ingest/core'
import pg, { type PoolClient, type PoolConfig, type QueryConfig } from 'pg'
import { queries } from '../sql.ts'
import { createCurrentHost } from './current-host.ts'
import { kindOf, toIngestError } from './database-error.ts'
import { parseUrl } from './hosts.ts'

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
   * lost a deadlock, is repeated with the same values for up to {@link retryMs}: every statement must allow that. Waits
   * for a connection and a result until `deadline`, a time of `performance.now()`; default: a statement's time-out from
   * now, and the time to connect.
   *
   * @throws {IngestError} `store-unavailable`, `disk-full`, `overloaded`
   */
  query<Row>(name: string, values?: readonly unknown[], deadline?: number): Promise<Row[]>
  /** The deadline of a statement that is requested now. */
  deadline(): number
  /** Runs `use` with a connection of its own, for migrations. */
  withConnection<T>(use: (client: PoolClient) => Promise<T>): Promise<T>
  /** Closes all connections; running statements are finished first. */
  close(): Promise<void>
}

const connectTimeoutMs = 2000
/** How long running statements may take when the database is closed. */
const closeTimeoutMs = 2000
/** How long statements are repeated. */
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
  const current = createCurrentHost(hosts)
  // PgBouncer refuses startup parameters that it does not know
  let mayStartWithTimeouts = true
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
      const client = new pg.Client({ ...settings, ...timeouts, ...current.get() })
      clients.add(client)
      client.on('end', () => clients.delete(client))
      // the statement that is running reports the error
      return client.on('error', () => {})
    } as unknown as typeof pg.Client,
    types: { getTypeParser },
    onConnect: current.check,
  } as PoolConfig)
  // idle connections end when the database restarts
  pool.on('error', () => {})
  const slots = createSlots(connectionsMax)
  let visited: Promise<void> | undefined

  async function attempt<Row>(text: string, values: readonly unknown[], deadline: number): Promise<Row[]> {
    const client = await connect()
    let failure: Error | undefined
    try {
      const timeLeftMs = Math.max(1, Math.ceil(deadline - performance.now()))
      return (await client.query({ text, values: values as unknown[], query_timeout: timeLeftMs } as QueryConfig)).rows
    } catch (error) {
      // only an error of PostgreSQL itself leaves the connection usable
      if (kindOf(error) === 'lost') failure = error as Error
      throw error
    } finally {
      client.release(failure)
    }
  }

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

  async function connect(): Promise<PoolClient> {
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
  }

  async function repeat<T>(operation: () => Promise<T>, deadline: number): Promise<T> {
    const until = Math.min(performance.now() + retryMs, deadline)
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

  const newDeadline = () => performance.now() + statementTimeoutMs + connectTimeoutMs

  return {
    deadline: newDeadline,

    async query<Row>(name: string, values: readonly unknown[] = [], deadline = newDeadline()) {
      const text = queries.get(name)
      if (text === undefined) throw new Error(`sql/queries has no ${name}`)
      await slots.take(deadline)
      try {
        return await repeat(() => attempt<Row>(text, values, deadline), deadline)
      } finally {
        slots.release()
      }
    },

    async withConnection(use) {
      const client = await repeat(connect, newDeadline())
      try {
        return await use(client)
      } catch (error) {
        throw toIngestError(error)
      } finally {
        // its session may hold settings and locks
        client.release(true)
      }
    },

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

/** Slots for connections: the connection timeout of a pool also counts the wait for one. */
function createSlots(count: number) {
  let free = count
  const waiting = new Set<() => void>()
  return {
    /** Takes a slot, which must be released. */
    async take(deadline: number): Promise<void> {
      if (free > 0) {
        free--
        return
      }
      if (waiting.size >= waitingMax) {
        throw new IngestError('overloaded', 'Too many statements wait for the database.', { retryAfterSeconds: 1 })
      }
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(() => {
          waiting.delete(take)
          reject(toIngestError(new Error('timeout expired')))
        }, deadline - performance.now())
        function take(): void {
          clearTimeout(timer)
          resolve()
        }
        waiting.add(take)
      })
    },

    release(): void {
      const [next] = waiting
      if (!next) {
        free++
        return
      }
      waiting.delete(next)
      next()
    },
  }
}
