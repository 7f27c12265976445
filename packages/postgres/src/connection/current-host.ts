import type { Client, ClientBase } from 'pg'
import { kindOf } from './database-error.ts'
import type { Host } from './hosts.ts'

interface ServerState {
  read_only: string
  wal_file?: string | null
  cluster?: string
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
   * a higher one of the same cluster.
   *
   * If a host leads to another cluster than before, as after a dump was restored behind its address, that one becomes the
   * current one. The former cluster is refused from then on: it lacks what the new one has acknowledged.
   *
   * @throws an error as that of PostgreSQL for a write to a standby
   */
  check(connection: Client): Promise<void>
  /** Whether a connection that was checked leads to a former primary or cluster, by what others have seen since. */
  isFormer(connection: ClientBase): boolean
}

export interface CurrentHostOptions {
  /** Called when a connection sees a higher timeline than those before, or another cluster. */
  onPromotion(): void
  /** Called with a connection to another cluster. @throws if what it has is not the same store */
  checkMoved(connection: Client): Promise<void>
}

const readOnly = "SELECT current_setting('transaction_read_only') AS read_only"
/** The name of a file of the write-ahead log begins with the timeline, in 8 hexadecimal digits. */
const walFile = ', CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(pg_current_wal_lsn()) END AS wal_file'
const cluster = ', (SELECT c.system_identifier::text FROM pg_control_system() c) AS cluster'
/** A service that hides its write-ahead log has failover of its own. */
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

  /** Makes another cluster the current one. @throws if it was left before, belongs to another host, or has another store */
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
