import { setTimeout as sleep } from 'node:timers/promises'
import type { PoolClient, PoolConfig, QueryConfig } from 'pg'
import { confirmed, queries } from '../sql.ts'
import { connectTimeoutMs, type DatabaseOptions, openConnections } from './connections.ts'
import { kindOf, toOpeningError, toStoreError } from './database-error.ts'
import { createSlots } from './slots.ts'

/** Runs statements on a database, each as a transaction of its own, on any connection. */
export interface Database {
  readonly connectionsMax: number
  /**
   * Runs a statement of `sql/queries` by its name and returns its rows. A statement whose connection is lost, or that
   * lost a deadlock, is repeated with the same values for up to {@link retryMs}: every statement must allow that. Waits
   * for a connection and a result until `deadline`, a time of `performance.now()`. Default: now plus the statement
   * timeout and the connect timeout.
   *
   * @throws {IngestError} `store-unavailable`, `disk-full`, `overloaded`, `store-failed`
   */
  query<Row>(name: string, values?: readonly unknown[], deadline?: number): Promise<Row[]>
  /**
   * Like {@link query}, but resolves once the synchronous standby has the data that the rows show: if a wait for it is
   * cancelled, rows become visible that it does not have. The first of `values` is the number of the project. If there
   * are no rows, it may not wait.
   */
  queryConfirmed<Row>(name: string, values: readonly unknown[]): Promise<Row[]>
  /** The deadline of a statement that is requested now. */
  deadline(): number
  /**
   * Runs `use` with a dedicated connection, to open or migrate the store.
   *
   * @throws {IngestError} `store-unavailable`; `invalid-argument` if the database refuses the role
   */
  withConnection<T>(use: (client: PoolClient) => Promise<T>): Promise<T>
  /** The number of connections, and of statements that wait for one. */
  size(): { connections: number; idle: number; waiting: number }
  /** Closes all connections after the running statements have finished. */
  close(): Promise<void>
}

/** How long statements are repeated, in milliseconds. */
const retryMs = 3000
const retryDelayMsMax = 500

/** Opens a pool of connections; connects with the first statement. */
export function openDatabase(target: string | PoolConfig, options: DatabaseOptions): Database {
  const { connect, checkOutcome, size, close } = openConnections(target, options)
  const slots = createSlots(options.connectionsMax)

  async function attempt<Row>(text: string, values: readonly unknown[], deadline: number): Promise<Row[]> {
    const client = await connect()
    let failure: Error | undefined
    try {
      const timeLeftMs = Math.max(1, Math.ceil(deadline - performance.now()))
      const query = { text, values: values as unknown[], query_timeout: timeLeftMs } as QueryConfig
      const { rows } = await client.query(query)
      checkOutcome(client)
      return rows
    } catch (error) {
      // only errors of PostgreSQL itself leave the connection usable
      if (kindOf(error) === 'lost') failure = error as Error
      throw error
    } finally {
      client.release(failure)
    }
  }

  async function run<Row>(text: string, values: readonly unknown[], deadline: number): Promise<Row[]> {
    await slots.take(deadline)
    try {
      return await repeat(() => attempt<Row>(text, values, deadline), deadline)
    } finally {
      slots.release()
    }
  }

  const newDeadline = () => performance.now() + options.statementTimeoutMs + connectTimeoutMs

  return {
    connectionsMax: options.connectionsMax,
    deadline: newDeadline,

    query: async (name, values = [], deadline = newDeadline()) => run(textOf(name), values, deadline),

    // one statement, so that no failover can come between the read and the wait
    queryConfirmed: async (name, values) => run(confirmed(textOf(name)), values, newDeadline()),

    async withConnection(use) {
      const client = await repeat(connect, newDeadline(), toOpeningError)
      try {
        return await use(client)
      } catch (error) {
        throw toOpeningError(error)
      } finally {
        // the session may hold settings and locks
        client.release(true)
      }
    },

    size: () => ({ ...size(), waiting: slots.waiting() }),
    close,
  }
}

async function repeat<T>(operation: () => Promise<T>, deadline: number, toError = toStoreError): Promise<T> {
  const until = Math.min(performance.now() + retryMs, deadline)
  for (let attempts = 0; ; attempts++) {
    try {
      return await operation()
    } catch (error) {
      if (kindOf(error) === 'final' || performance.now() > until) throw toError(error)
      // full jitter: servers must not retry all at once
      await sleep(Math.random() * Math.min(retryDelayMsMax, 20 * 2 ** attempts))
    }
  }
}

function textOf(name: string): string {
  const text = queries.get(name)
  if (text === undefined) throw new Error(`sql/queries has no ${name}`)
  return text
}
