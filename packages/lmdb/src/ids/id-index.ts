import { existsSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { IngestError } from '@ingest/core'
import { createFile } from '../environment/directory.ts'
import { type Environment, openEnvironment } from '../environment/environment.ts'
import { createIdLookup, type IdLookup, type IndexSize } from './id-lookup.ts'
import type { IndexWorkerData } from './index-worker.ts'
import { createIndexerThread } from './indexer-thread.ts'
import type { LogReader } from './log-reader.ts'
import { isDamage } from './run.ts'
import {
  emptyRunList,
  type IdTables,
  idsOptions,
  openIdTables,
  type RunList,
  readRunList,
  writeRunList,
} from './run-list.ts'

/*
 * Finds events by id at a cost that does not grow with the log: a log-structured merge index of fingerprints.
 *
 * - entry: a fingerprint of 64 bits and the position of an event (`entry.ts`)
 * - memory table: the entries of the newest records (`memory-table.ts`); a full one is flushed to a run
 * - run: an immutable set of entries on disk, in blocks that are found by the first bits of a fingerprint (`run.ts`)
 * - level: eight runs of a level are merged into one of the next; a thread flushes and merges (`indexer.ts`,
 *   `index-worker.ts`)
 * - filter: says which fingerprints a run may have, so that most look-ups read no block (`fuse-filter.ts`)
 * - run list: the published runs and the watermark, replaced in one transaction (`run-list.ts`)
 * - watermark: the record up to which all ids are in runs; later ids are read from the log
 * - claim: the right of one process to flush and merge, renewed while it works
 *
 * The index is derived: if it is lost or damaged, it is rebuilt from the log. Start with `search` in `id-lookup.ts`.
 * The decision is described in docs/decisions/id-index.md.
 */

/**
 * Finds where events may be stored, by the fingerprints of their ids, at a cost that does not grow with their number.
 * Returns candidates: the caller compares the id that is stored there, so a collision of fingerprints is never taken
 * for a duplicate. Derived from the log.
 */
export type IdIndex = Awaited<ReturnType<typeof openIdIndex>>

/** Includes the data of the indexer thread. */
export interface IdIndexOptions extends Omit<IndexWorkerData, 'fileIds'> {
  log: LogReader
  onProgress?: (progress: RebuildProgress) => void
}

/** The progress of a rebuild of the index. */
export interface RebuildProgress {
  /** Records of the log. */
  done: number
  total: number
}

/** How long appends wait. Afterwards they are rejected if capacity is missing, and slow if filters are. */
const capacityTimeoutMs = 20_000
/** How often a waiting append polls the list of runs, because other processes do not announce what they publish. */
const pollMs = 20
/** How long after opening the thread starts: after short commands have ended, before load has filled a table. */
const threadStartMs = 1000
/** The file that makes the next opening rebuild the index. */
const damagedMark = 'damaged'

/** Opens the index in a directory, and rebuilds it from the log when it is missing, damaged, or of another log. */
export async function openIdIndex(options: IdIndexOptions) {
  if (existsSync(join(options.directory, damagedMark))) removeDirectory(options.directory)
  try {
    return await openOnce(options)
  } catch (error) {
    if (!isDamage(error) && !existsSync(join(options.directory, damagedMark))) throw error
    removeDirectory(options.directory)
    return openOnce(options)
  }
}

async function openOnce(options: IdIndexOptions) {
  const environment = await openEnvironment(options.directory, idsOptions)
  try {
    return await openIndexIn(environment, options)
  } catch (error) {
    await environment.close()
    throw error
  }
}

async function openIndexIn(environment: Environment, { log, onProgress = () => {}, ...options }: IdIndexOptions) {
  const tables = openTables(environment, log, options.seed)
  const damage = createDamageMark(options.directory)
  const thread = createIndexerThread({ ...options, fileIds: environment.fileIds }, damage.mark)
  const lookup = createIdLookup({ ...options, tables, log, onTableFull: thread.wake })

  /** @throws {IngestError} `overloaded` when appends have waited since then for too long */
  function checkWait(since: number): void {
    if (Date.now() - since <= capacityTimeoutMs) return
    const message = `The id index cannot keep up${thread.lastProblem()}: try again later.`
    throw new IngestError('overloaded', message, { retryAfterSeconds: 5 })
  }

  /** Waits for the thread to flush or merge; not for longer than {@link capacityTimeoutMs} since then. */
  async function waitForThread(since: number): Promise<void> {
    checkWait(since)
    thread.wake()
    await thread.changed(pollMs)
    damage.check()
    lookup.refreshRunList()
  }

  /** When appends began to wait. */
  let waitingSince: number | undefined

  /** Like {@link prepareAppends}, for appends that have been waiting since this time. */
  function prepareSince(since: number): boolean {
    lookup.refreshRunList()
    if (lookup.isFull()) {
      checkWait(since)
      thread.wake()
      return false
    }
    // not in a transaction, because reading takes seconds for many ids that are not in the page cache
    return lookup.readFilters() || Date.now() - since > capacityTimeoutMs
  }

  await buildUp(lookup, log.lastSequence(), onProgress, waitForThread).catch(async (error) => {
    await thread.close()
    throw error
  })
  const starting = setTimeout(thread.start, threadStartMs).unref()

  return {
    /**
     * Returns whether appends may be made now: flushing and merging have kept up, and the filters of all runs are read,
     * as a search without them is slow. Reads some, for about 20 milliseconds. Otherwise call it again after `wait`:
     * appends wait for 20 seconds at most.
     *
     * @throws {IngestError} `overloaded` after 20 seconds without capacity; `store-failed` for an index that is damaged
     *   or deleted
     */
    prepareAppends(): boolean {
      const since = waitingSince ?? Date.now()
      waitingSince = undefined
      damage.check()
      const loss = environment.lossReason()
      if (loss !== undefined) throw new IngestError('store-failed', `${loss}. The next opening rebuilds the index.`)
      const isReady = damage.detect(() => prepareSince(since))
      if (!isReady) waitingSince = since
      return isReady
    },

    /** Resolves after some milliseconds at most, in which the indexer thread may have worked. */
    wait: () => (lookup.isFull() ? thread.changed(pollMs) : nextTurn()),

    /**
     * Lets later reads see what any process has committed: the runs, then the log. A snapshot of the log from before
     * the list of runs may lack records of the runs. Call it before each `catchUp`.
     */
    refresh(): void {
      damage.detect(lookup.refreshRunList)
      log.refresh()
    },

    /** Indexes the records of the log up to this one. Call it before each search. */
    catchUp(lastSequence: number): void {
      lookup.readLog(lastSequence)
      lookup.checkpoint()
    },

    /** Candidates for `count` fingerprints, high and low halves one after another. */
    search: (fingerprints: Uint32Array, count: number) => damage.detect(() => lookup.search(fingerprints, count)),
    /** Adds the ids of a record that was appended just now. */
    addRecord: lookup.addRecord,
    /** Removes the ids added since the last `catchUp`, because their transaction was not committed. */
    rollback: lookup.rollback,

    /** The size of the index, including runs that other processes have merged. */
    size(): IndexSize {
      damage.detect(lookup.refreshRunList)
      return lookup.size()
    },

    async close(): Promise<void> {
      clearTimeout(starting)
      await thread.close()
      await environment.close()
    },
  }
}

/** Indexes the part of the log that is in no run. When it does not fit into memory, runs are flushed on the way. */
async function buildUp(
  lookup: IdLookup,
  total: number,
  onProgress: (progress: RebuildProgress) => void,
  waitForThread: (since: number) => Promise<void>,
): Promise<void> {
  lookup.refreshRunList()
  for (let [since, before] = [Date.now(), 0]; lookup.indexedThrough() < total; ) {
    lookup.readLog(total, { untilFull: true })
    const done = lookup.indexedThrough()
    if (done > before) [since, before] = [Date.now(), done]
    if (done >= total) return
    onProgress({ done, total })
    await waitForThread(since)
  }
}

/** Marks the index in a directory as damaged, so that no process uses it again and the next opening rebuilds it. */
function createDamageMark(directory: string) {
  let damage: IngestError | undefined

  function mark(message: string): IngestError {
    const path = join(directory, damagedMark)
    createFile(path, statSync(directory))
    writeFileSync(path, message)
    damage ??= new IngestError('store-failed', `${message} The next opening of the store rebuilds the index.`)
    return damage
  }

  function rethrow(error: unknown): never {
    throw isDamage(error) ? mark((error as Error).message) : error
  }

  return {
    mark,
    rethrow,
    /** Throws once the index is marked. */
    check() {
      if (damage) throw damage
    },
    /** Runs `read`, and marks the index when it finds damage. */
    detect<T>(read: () => T): T {
      try {
        return read()
      } catch (error) {
        return rethrow(error)
      }
    },
  }
}

/** Retries, because another process may be removing or rebuilding it too. */
function removeDirectory(directory: string): void {
  rmSync(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
}

/** Opens the tables of the index, and empties them when they belong to another log. */
function openTables(environment: Environment, log: LogReader, seed: string): IdTables {
  const tables = openIdTables(environment)

  function isCurrent(list: RunList | undefined): boolean {
    // an older snapshot of the log might not have the record at the watermark
    log.refresh()
    return list !== undefined && isOfLog(list, log, seed)
  }

  // avoids the write lock, which a stopped process may hold
  if (isCurrent(readRunList(tables))) return tables
  environment.write(() => {
    const list = readRunList(tables)
    if (isCurrent(list)) return
    for (const table of [tables.meta, tables.blocks, tables.filters]) table.clearSync()
    writeRunList(tables, { ...emptyRunList(seed), revision: (list?.revision ?? 0) + 1 })
  })
  return tables
}

function isOfLog(list: { seed: string; watermark: number; watermarkChecksum: number }, log: LogReader, seed: string) {
  if (list.seed !== seed) return false
  return list.watermark === 0 || log.checksum(list.watermark) === list.watermarkChecksum
}
