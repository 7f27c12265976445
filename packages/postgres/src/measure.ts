import type { StoreMetric } from '@ingest/core'
import { storeGauge } from '@ingest/core/internal'
import type { Database } from './connection/database.ts'
import type { AppendQueue } from './events/append-queue.ts'
import type { Servers } from './servers.ts'

/** How long the database's size and oldest snapshot are cached. */
const sizeAgeMs = 60_000
/** An unresponsive database must not delay a scrape. */
const sizeTimeoutMs = 500

/**
 * Returns a function that measures the store. Everything but the size of the database comes from this process's memory.
 */
export function createMeasure(
  database: Database,
  { queue, servers, survivesPrimaryLoss }: { queue: AppendQueue; servers: Servers; survivesPrimaryLoss: boolean },
) {
  const sizeNow = createSizeReader(database)
  return async (): Promise<StoreMetric[]> => {
    const size = await sizeNow()
    const { connections, idle, waiting } = database.size()
    const { requests, bytes: queueBytes, statements } = queue.size()
    const byState = [
      { labels: { state: 'active' }, value: connections - idle },
      { labels: { state: 'idle' }, value: idle },
    ]
    const isDurable = survivesPrimaryLoss ? 1 : 0
    return [
      storeGauge('queue_requests', 'Appends not committed yet.', requests),
      storeGauge('queue_bytes', 'Bytes of appends not committed yet.', queueBytes),
      storeGauge('appends_in_flight', 'Statements of appends that run.', statements),
      storeGauge('connections', 'Connections to the database.', byState),
      storeGauge('connections_max', 'The most connections of this server.', database.connectionsMax),
      storeGauge('waiting_statements', 'Statements that wait for a connection.', waiting),
      storeGauge('servers', 'Live servers of the store.', servers.count()),
      storeGauge('survives_primary_loss', 'Whether commits waited for a standby when the store opened.', isDurable),
      ...(size === undefined ? [] : sizeGauges(size)),
    ]
  }
}

interface Size {
  bytes: number
  /** When this process first saw the current oldest snapshot. */
  snapshotSince: number | undefined
}

function sizeGauges({ bytes, snapshotSince }: Size): StoreMetric[] {
  const seconds = snapshotSince === undefined ? 0 : (performance.now() - snapshotSince) / 1000
  return [
    storeGauge('database_bytes', 'Bytes of all tables of the store.', bytes),
    storeGauge('oldest_snapshot_seconds', 'How long one snapshot has kept dead rows from being removed.', seconds),
  ]
}

/** Reads the size of the tables at most once a minute; returns the last one while it cannot be read. */
function createSizeReader(database: Database): () => Promise<Size | undefined> {
  let size: Size | undefined
  let oldest: string | null = null
  let readAt = Number.NEGATIVE_INFINITY
  return async () => {
    if (performance.now() - readAt < sizeAgeMs) return size
    readAt = performance.now()
    try {
      const [row] = await database.query<{ bytes: number; oldest: string | null }>('size', [], readAt + sizeTimeoutMs)
      if (row) {
        const since = row.oldest === oldest ? size?.snapshotSince : readAt
        oldest = row.oldest
        size = { bytes: row.bytes, snapshotSince: oldest === null ? undefined : since }
      }
    } catch {
      // retried in a minute
    }
    return size
  }
}
