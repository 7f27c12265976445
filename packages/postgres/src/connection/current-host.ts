import type { Client, ClientBase } from 'pg'
import { kindOf } from './database-error.ts'
import type { Host } from './hosts.ts'

interface ServerState {
  read_only: string
  wal_file?: string | null
  cluster?: string
}

/** The host of a URL that is in use. */
export interface CurrentHost {
  /** Undefined if the URL has no hosts: `pg` uses its defaults. */
  get(): Host | undefined
  /** Switches to the next host, unless another failure has switched since `tried` was current. */
  leave(tried: Host | undefined): void
  /**
   * Refuses a server that must not get writes: a standby, or a former primary that came back or kept running after a
   * standby was promoted. A former primary is recognized if a connection has seen a higher timeline of the same
   * cluster: the timeline grows with each promotion.
   *
   * If a host leads to another cluster than before, for example after a dump was restored behind its address, that
   * cluster becomes the current one. The former cluster is then refused: it lacks data that the new one has
   * acknowledged.
   *
   * @throws the error that PostgreSQL raises for a write to a standby
   */
  check(connection: Client): Promise<void>
  /** Whether a checked connection leads to a former primary or cluster, according to later connections. */
  isFormer(connection: ClientBase): boolean
}

export interface CurrentHostOptions {
  /** Called when a connection sees a higher timeline than earlier ones, or another cluster. */
  onPromotion(): void
  /** Called with a connection to another cluster. @throws if it does not hold the same store */
  checkMoved(connection: Client): Promise<void>
}

const readOnly = "SELECT current_setting('transaction_read_only') AS read_only"
/** The name of a WAL file begins with the timeline, in 8 hexadecimal digits. */
const walFile = ', CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(pg_current_wal_lsn()) END AS wal_file'
const cluster = ', (SELECT c.system_identifier::text FROM pg_control_system() c) AS cluster'
/** In decreasing detail: a service that hides its write-ahead log has its own failover. */
const stateQueries = [readOnly + walFile + cluster, readOnly + walFile, readOnly]

export function createCurrentHost(
  hosts: readonly Host[],
  { onPromotion, checkMoved }: CurrentHostOptions,
): CurrentHost {
  let index = 0
  let current: { cluster: string; timeline: number } | undefined
  const left = new Set<string>()
  const clusterByHost = new Map<string, string>()
  const seen = new WeakMap<ClientBase, { cluster: string; timeline: number }>()

  /**
   * Makes another cluster the current one. @throws if it was left before, belongs to another host, or holds another
   * store
   */
  async function follow(connection: Client, before: string | undefined, cluster: string): Promise<void> {
    if (left.has(cluster))
      throw refusal('the store was moved from this cluster to another one: restart to return to it')
    if (before !== current?.cluster) throw refusal('this host belongs to another cluster than the others of the URL')
    try {
      await checkMoved(connection)
    } catch (error) {
      if (kindOf(error) !== 'final') throw error
      throw refusal(`this address leads to another cluster now, which is not used: ${(error as Error).message}`)
    }
    if (current === undefined || current.cluster === cluster) return
    left.add(current.cluster)
    current = { cluster, timeline: 0 }
    onPromotion()
  }

  return {
    get: () => hosts[index],

    leave(tried) {
      if (hosts.length > 0 && hosts[index] === tried) index = (index + 1) % hosts.length
    },

    async check(connection) {
      const { read_only: isReadOnly, wal_file: file, cluster = '' } = await readState(connection)
      const host = `${connection.host} ${connection.port}`
      if (isReadOnly === 'on') {
        if (cluster === current?.cluster) clusterByHost.set(host, cluster)
        throw refusal(file ? 'default_transaction_read_only is on' : 'the server is read-only, as a standby is')
      }
      const timeline = Number.parseInt(file?.slice(0, 8) ?? '0', 16)
      current ??= { cluster, timeline: 0 }
      if (cluster !== current.cluster) await follow(connection, clusterByHost.get(host), cluster)
      clusterByHost.set(host, cluster)
      seen.set(connection, { cluster, timeline })
      if (timeline > current.timeline) {
        current.timeline = timeline
        onPromotion()
      }
      if (timeline < current.timeline) throw refusal('another server was promoted since this one was the primary')
    },

    isFormer(connection) {
      const state = seen.get(connection)
      if (state === undefined || current === undefined) return false
      return state.cluster !== current.cluster || state.timeline < current.timeline
    },
  }
}

async function readState(connection: Client): Promise<ServerState> {
  for (const [i, query] of stateQueries.entries()) {
    try {
      return (await connection.query(query)).rows[0] as ServerState
    } catch (error) {
      if (kindOf(error) !== 'final' || i === stateQueries.length - 1) throw error
    }
  }
  throw new Error('unreachable')
}

function refusal(message: string): Error {
  return Object.assign(new Error(message), { code: '25006' })
}
