import type { StoreMetric } from '@ingest/core'
import type { Database } from './connection/database.ts'
import type { AppendQueue } from './events/append-queue.ts'
import type { Servers } from './servers.ts'

export interface MeasureOptions {
  database: Database
  queue: AppendQueue
  servers: Servers
  survivesPrimaryLoss: boolean
}

/** How long the size of the database is kept. */
const sizeAgeMs = 60_000
/** A database that does not respond must not delay a scrape. */
const sizeTimeoutMs = 500

/** Returns a function that measures the store: from the memory of this process, but for the size of the database. */
export function createMeasure({ database, queue, servers, survivesPrimaryLoss }: MeasureOptions) {
  const sizeNow = createSizeReader(database)
  return async (): Promise<StoreMetric[]> => {
    const bytes = await sizeNow()
    const { connections, idle, waiting } = database.size()
    const { requests, bytes: queueBytes, statements } = queue.size()
    const byState = [
      { labels: { state: 'active' }, value: connections - idle },
      { labels: { state: 'idle' }, value: idle },
    ]
    const isDurable = survivesPrimaryLoss ? 1 : 0
    return [
      gauge('queue_requests', 'Appends that have not been committed yet.', 'sum', requests),
      gauge('queue_bytes', 'Bytes of the appends that have not been committed yet.', 'sum', queueBytes),
      gauge('appends_in_flight', 'Statements of appends that run.', 'sum', statements),
      gauge('connections', 'Connections to the database.', 'sum', byState),
      gauge('waiting_statements', 'Statements that wait for a connection.', 'sum', waiting),
      gauge('servers', 'Live servers of the store, as of the last heartbeat.', 'max', servers.count()),
      gauge('survives_primary_loss', 'Whether commits waited for a standby when the store opened.', 'max', isDurable),
      ...(bytes === undefined ? [] : [gauge('database_bytes', 'Bytes of all tables of the store.', 'max', bytes)]),
    ]
  }
}

/** The size of the tables, read once a minute at most, and as it was while it cannot be read. */
function createSizeReader(database: Database): () => Promise<number | undefined> {
  let bytes: number | undefined
  let readAt = Number.NEGATIVE_INFINITY
  return async () => {
    if (performance.now() - readAt < sizeAgeMs) return bytes
    readAt = performance.now()
    try {
      const [row] = await database.query<{ bytes: number }>('size', [], readAt + sizeTimeoutMs)
      bytes = row?.bytes
    } catch {
      // the next reading is due in a minute
    }
    return bytes
  }
}

function gauge(
  name: string,
  help: string,
  aggregate: StoreMetric['aggregate'],
  value: number | StoreMetric['values'],
): StoreMetric {
  const values = typeof value === 'number' ? [{ value }] : value
  return { name: `ingest_store_${name}`, help, type: 'gauge', aggregate, values }
}
