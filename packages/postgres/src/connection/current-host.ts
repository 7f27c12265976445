import { kindOf } from './database-error.ts'
import type { Host } from './hosts.ts'

interface Connection {
  query(text: string): Promise<{ rows: { read_only: string; wal_file?: string | null }[] }>
}

/** Which of the hosts of a URL is connected to. */
export interface CurrentHost {
  /** Undefined without hosts, for the defaults of `pg`. */
  get(): Host | undefined
  /** Goes on to the next host, unless another failure did so since `tried` was the current one. */
  leave(tried: Host | undefined): void
  /**
   * Refuses a server that a write must not go to: a standby, and a former primary, which came back or keeps running after
   * a standby was promoted. The latter is known by its timeline, which grows with each promotion, if a connection has seen
   * a higher one.
   *
   * @throws an error as that of PostgreSQL for a write to a standby
   */
  check(connection: Connection): Promise<void>
  /** Whether a connection that was checked leads to a former primary, by what others have seen since. */
  isFormer(connection: Connection): boolean
}

const readOnly = "SELECT current_setting('transaction_read_only') AS read_only"
/** The name of a file of the write-ahead log begins with the timeline, in 8 hexadecimal digits. */
const walFile = ', CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(pg_current_wal_lsn()) END AS wal_file'

/** Calls `onPromotion` when a connection sees a higher timeline than those before. */
export function createCurrentHost(hosts: readonly Host[], onPromotion: () => void): CurrentHost {
  let index = 0
  let highestTimeline = 0
  const timelines = new WeakMap<Connection, number>()
  return {
    get: () => hosts[index],

    leave(tried) {
      if (hosts.length > 0 && hosts[index] === tried) index = (index + 1) % hosts.length
    },

    async check(connection) {
      const { rows } = await readState(connection)
      const [{ read_only: isReadOnly, wal_file: file } = { read_only: 'on' }] = rows
      const timeline = Number.parseInt(file?.slice(0, 8) ?? '0', 16)
      timelines.set(connection, timeline)
      if (timeline > highestTimeline) {
        highestTimeline = timeline
        onPromotion()
      }
      if (isReadOnly === 'on') {
        throw refusal(file ? 'default_transaction_read_only is on' : 'the server is read-only, as a standby is')
      }
      if (timeline < highestTimeline) throw refusal('another server was promoted since this one was the primary')
    },

    isFormer: (connection) => (timelines.get(connection) ?? highestTimeline) < highestTimeline,
  }
}

/** A service that hides its write-ahead log has failover of its own. */
async function readState(connection: Connection): ReturnType<Connection['query']> {
  try {
    return await connection.query(readOnly + walFile)
  } catch (error) {
    if (kindOf(error) !== 'final') throw error
    return connection.query(readOnly)
  }
}

function refusal(message: string): Error {
  return Object.assign(new Error(message), { code: '25006' })
}
