import { randomUUID } from 'node:crypto'
import type { Database } from './connection/database.ts'

const heartbeatMs = 2000
/** A server whose last heartbeat is older than this is not counted. */
const expiresAfterMs = 7000

/** Sends heartbeats that announce this process as a server of the store. */
export interface Servers {
  /** Starts the heartbeats; returns a function that returns the number of live servers as of the last one. */
  register(): () => number
  /** Live servers as of the last heartbeat. */
  count(): number
  /** Stops the heartbeats and withdraws this server. */
  close(): Promise<void>
}

export function createServers(database: Database): Servers {
  const id = randomUUID()
  let count = 1
  let beating: Promise<void> | undefined
  let timer: NodeJS.Timeout | undefined
  let isClosed = false

  async function beat(): Promise<void> {
    try {
      const [row] = await database.query<{ servers: number }>('register-server', [id, expiresAfterMs])
      // if its own heartbeat took too long, this server is not in the row: it still counts itself
      count = Math.max(1, row?.servers ?? 1)
    } catch {
      // while the database is unreachable, the count stays
    }
    if (isClosed) return
    timer = setTimeout(() => {
      beating = beat()
    }, heartbeatMs)
    timer.unref()
  }

  return {
    register() {
      beating ??= beat()
      return () => count
    },
    count: () => count,

    async close() {
      isClosed = true
      clearTimeout(timer)
      if (!beating) return
      await beating
      await database.query('unregister-server', [id]).catch(() => {})
    },
  }
}
