import { stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { StoreMetric } from '@ingest/core'
import { storeGauge } from '@ingest/core/internal'
import type { Environment } from '../environment/environment.ts'
import type { Writer } from './writer-client.ts'

export interface MeasureOptions {
  directory: string
  environments: Readonly<Record<'events' | 'chunks', Environment>>
  writer: Writer
}

/**
 * The limit of each measurement, in milliseconds. Those that exceed it, as on a disk that does not respond, are left
 * out.
 */
const timeoutMs = 500

/** Returns a function that measures the store; it leaves out figures that cannot be measured. */
export function createMeasure({ directory, environments, writer }: MeasureOptions): () => Promise<StoreMetric[]> {
  const ofWriter = limited(writer.measure)
  const ofFiles = limited(() => filesIn(directory))
  const ofFilesystem = limited(() => statfs(directory))

  return async () => {
    const queue = writer.inFlight()
    const [inWriter, files, filesystem] = await Promise.all([ofWriter(), ofFiles(), ofFilesystem()])
    // LMDB's memory may be the cause of a failure, so it is not read any more
    const usages = writer.failure() ? [] : Object.entries(environments).map(([of, each]) => ({ of, ...each.usage() }))
    const byEnvironment = (value: (usage: (typeof usages)[number]) => number) =>
      usages.map((usage) => ({ labels: { environment: usage.of }, value: value(usage) }))
    // only the writer opens the environment of the ids; it has the same limit as the others
    const idsBytesMax = usages.slice(0, 1).map(({ bytesMax }) => ({ labels: { environment: 'ids' }, value: bytesMax }))
    return [
      storeGauge('queue_requests', 'Requests not committed yet.', queue.requests),
      storeGauge('queue_bytes', 'Bytes of requests not committed yet.', queue.bytes),
      ...(inWriter ? writerMetrics(inWriter) : []),
      storeGauge('file_bytes', 'Size of the data file.', files ?? []),
      storeGauge('file_max_bytes', 'The largest size of the data file.', [
        ...byEnvironment((of) => of.bytesMax),
        ...idsBytesMax,
      ]),
      storeGauge(
        'readers',
        'Slots for readers in use, in all processes.',
        byEnvironment((of) => of.readers),
      ),
      storeGauge(
        'readers_max',
        'The most slots for readers.',
        byEnvironment((of) => of.readersMax),
      ),
      storeGauge(
        'oldest_reader_transactions',
        'Transactions since the oldest snapshot in use.',
        byEnvironment((of) => of.oldestReaderAge),
      ),
      ...(filesystem ? filesystemMetrics(filesystem) : []),
    ].filter(({ values }) => values.length > 0)
  }
}

function writerMetrics({ records, ids }: Awaited<ReturnType<Writer['measure']>>): StoreMetric[] {
  const runs = (ids.runs.length > 0 ? ids.runs : [0]).map((value, level) => ({
    labels: { level: String(level) },
    value,
  }))
  return [
    storeGauge('log_batches', 'Batches in the log, of all projects.', records),
    storeGauge('id_index_ids', 'Event ids in the index.', ids.indexedIds + ids.unflushedIds),
    storeGauge('id_index_unflushed_ids', 'Event ids in no run on disk yet.', ids.unflushedIds),
    storeGauge('id_index_runs', 'Runs of the index on disk; 8 of a level are merged.', runs),
    {
      ...storeGauge('id_index_merges_total', 'Merges of runs since the index was built.', ids.merges),
      type: 'counter',
    },
    storeGauge('id_index_memory_bytes', 'Memory of the index.', ids.memoryBytes),
  ]
}

function filesystemMetrics({ bavail, blocks, bsize }: { bavail: number; blocks: number; bsize: number }) {
  return [
    storeGauge('filesystem_free_bytes', 'Free bytes of the file system.', bavail * bsize),
    storeGauge('filesystem_size_bytes', 'Size of the file system.', blocks * bsize),
  ]
}

async function filesIn(directory: string): Promise<StoreMetric['values']> {
  const names = ['events', 'ids', 'chunks']
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(directory, name, 'data.mdb'))).size))
  return names.map((environment, i) => ({ labels: { environment }, value: sizes[i] as number }))
}

/**
 * The result of `read`, or undefined if it fails or takes too long. Only one read runs at a time, so that reads do not
 * pile up on a disk that does not respond.
 */
function limited<T>(read: () => Promise<T>): () => Promise<T | undefined> {
  let reading: Promise<T | undefined> | undefined
  return async () => {
    reading ??= read()
      .catch(() => undefined)
      .finally(() => {
        reading = undefined
      })
    const ending = new AbortController()
    const { signal } = ending
    const timeout = sleep(timeoutMs, undefined, { ref: false, signal }).catch(() => undefined)
    const result = await Promise.race([reading, timeout])
    ending.abort()
    return result
  }
}
