import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { IngestError } from '@ingest/core'
import { type Environment, openEnvironment } from '../environment/environment.ts'
import type { ExitGuards } from '../threads/exit-guard.ts'
import { type BloomFilter, getFilter, mayHave } from './bloom-filter.ts'
import { type Candidate, positionAt, wordsPerEntry } from './entry.ts'
import { type IndexWorker, startIndexWorker } from './index-worker-handle.ts'
import type { LogReader, RebuildProgress } from './log-reader.ts'
import { createRecentTable, type RecentTable } from './recent-table.ts'
import { blockOf, DamagedRun, getPart, mergeWidth, type Run } from './run.ts'
import {
  emptyRunList,
  type IdTables,
  openIdTables,
  type RunList,
  readRevision,
  readRunList,
  writeRunList,
} from './run-list.ts'

/**
 * Finds where events may be stored, by their fingerprints, at a cost that does not grow with their number. It answers
 * with candidates: whoever asks compares the id that is stored there, so a collision of fingerprints is never taken for
 * a duplicate. Everything in it is derived from the log.
 */
export interface IdIndex {
  /** Resolves when there is room for more: slows appends down to what flushing and merging can keep up with. */
  waitForCapacity(): Promise<void>
  /** Takes in what was appended since, and the runs that were published since, by any process; before each search. */
  catchUp(lastSequence: number): void
  /** Candidates for `count` fingerprints, high and low halves one after another. */
  search(fingerprints: Uint32Array, count: number): Candidate[]
  /** Takes the ids of a record that was appended just now. */
  addRecord(sequence: number, fingerprints: Uint32Array, count: number): void
  /** Forgets what was added and may not have been committed. */
  rollback(): void
  close(): Promise<void>
}

export interface IdIndexOptions {
  directory: string
  log: LogReader
  /** The directory of the log, for the worker. */
  logDirectory: string
  logFileIds: string
  seed: string
  entriesPerFlush: number
  guards: ExitGuards
  onProgress?: (progress: RebuildProgress) => void
}

/** Full tables that wait to be flushed; with more of them, appends wait too. */
const fullTablesMax = 4
/**
 * Runs of level 0 that wait to be merged; with more of them, appends wait too, as each costs every look-up a little.
 */
const unmergedRunsMax = mergeWidth * 4
/** An append that has waited for so long is refused instead, and may be sent again. */
const capacityTimeoutMs = 20_000
/** How often somebody who waits looks again: what another process publishes is not told to this one. */
const pollMs = 20
/** Filters that were made for runs which were never published are let go of, oldest first. */
const unpublishedFiltersMax = 4

/** Opens the index in a directory, and makes it from the log when it is missing, damaged, or of another log. */
export async function openIdIndex(options: IdIndexOptions): Promise<IdIndex> {
  if (existsSync(join(options.directory, damagedMark))) removeDirectory(options.directory)
  let environment: Environment | undefined
  try {
    environment = openEnvironment(options.directory)
    return await openIndexIn(environment, options)
  } catch (error) {
    if (!isDamage(error) && !existsSync(join(options.directory, damagedMark))) throw error
    await environment?.root.close()
    removeDirectory(options.directory)
    return openIndexIn(openEnvironment(options.directory), options)
  }
}

async function openIndexIn(environment: Environment, options: IdIndexOptions): Promise<IdIndex> {
  const { directory, log, seed, entriesPerFlush, onProgress = () => {} } = options
  const tables = openTables(environment, log, seed)
  /** By the nonce of their run. */
  const filters = new Map<number, BloomFilter>()
  /** Filters that the worker has made of runs that are not in the list yet. */
  const unpublishedFilters = new Map<number, BloomFilter>()
  let list = emptyRunList(seed)
  let current = newTable()
  /** Full ones, newest first, which wait to be flushed. */
  let fullTables: RecentTable[] = []
  /** All records up to this one are in a table or a run. */
  let indexedThrough = 0
  /** The state when the records of other processes were read, before this process added its own. */
  let checkpoint: { current: RecentTable; fullTables: RecentTable[]; indexedThrough: number } | undefined
  let worker: IndexWorker | undefined
  let damage: IngestError | undefined
  /** What the worker has met last. */
  let lastProblem = ''

  function newTable(): RecentTable {
    return createRecentTable(entriesPerFlush + log.entriesPerRecordMax)
  }

  function wakeWorker(): void {
    worker ??= startIndexWorker(
      {
        directory,
        fileIds: environment.fileIds,
        logDirectory: options.logDirectory,
        logFileIds: options.logFileIds,
        seed,
        entriesPerFlush,
        guards: options.guards,
      },
      {
        onFilter: (nonce, filter) => unpublishedFilters.set(nonce, filter),
        onDamage: markDamaged,
        onTrouble: (message) => {
          lastProblem = ` (${message})`
        },
        // the next one who wakes it starts another
        onEnd: () => {
          worker = undefined
        },
      },
    )
    worker.wake()
  }

  /** Damaged runs are of no use to any process: the next one that opens the index makes it again. */
  function markDamaged(message: string): IngestError {
    writeFileSync(join(directory, damagedMark), message)
    damage ??= new IngestError('store-failed', `${message} The index is made again when the store is opened next.`)
    return damage
  }

  function guarded<T>(work: () => T): T {
    try {
      return work()
    } catch (error) {
      throw asRefusal(error)
    }
  }

  function asRefusal(error: unknown): unknown {
    return isDamage(error) ? markDamaged((error as Error).message) : error
  }

  /** Takes over the list of runs if somebody has changed it. */
  function refreshRunList(): void {
    tables.environment.root.resetReadTxn()
    if (readRevision(tables) === list.revision) return
    const next = readRunList(tables) ?? emptyRunList(seed)
    // what was in a run is in no table any more, so nothing here could tell what is known
    if (next.watermark < list.watermark) {
      throw new IngestError('store-failed', 'The id index was made again by another process: open the store anew.')
    }
    const fresh = next.runs.filter(({ nonce }) => !filters.has(nonce))
    const made = fresh.map(
      (run) => [run.nonce, unpublishedFilters.get(run.nonce) ?? getFilter(tables.filters, run)] as const,
    )
    // nothing is changed before everything is read
    list = next
    checkpoint = undefined
    for (const [nonce, filter] of made) filters.set(nonce, filter)
    const listed = new Set(list.runs.map(({ nonce }) => nonce))
    for (const nonce of filters.keys()) if (!listed.has(nonce)) filters.delete(nonce)
    for (const nonce of unpublishedFilters.keys())
      if (listed.has(nonce) || unpublishedFilters.size > unpublishedFiltersMax) unpublishedFilters.delete(nonce)
    fullTables = fullTables.filter((table) => table.lastSequence() > list.watermark)
    if (current.count() > 0 && current.lastSequence() <= list.watermark) current = newTable()
    indexedThrough = Math.max(indexedThrough, list.watermark)
  }

  function addToTable(sequence: number, fingerprints: Uint32Array, count: number): void {
    for (let index = 0; index < count; index++) {
      current.add(fingerprints[index * 2] as number, fingerprints[index * 2 + 1] as number, sequence, index)
    }
    indexedThrough = sequence
    if (current.count() < entriesPerFlush) return
    fullTables = [current, ...fullTables]
    current = newTable()
    wakeWorker()
  }

  function readLog(last: number, until = () => false): void {
    while (indexedThrough < last && !until()) {
      const fingerprints = log.fingerprints(indexedThrough + 1)
      addToTable(indexedThrough + 1, fingerprints, fingerprints.length / 2)
    }
  }

  function searchRun(run: Run, fingerprints: Uint32Array, count: number, found: Candidate[]): void {
    const filter = filters.get(run.nonce) as BloomFilter
    for (let of = 0; of < count; of++) {
      const [high, low] = [fingerprints[of * 2] as number, fingerprints[of * 2 + 1] as number]
      if (!mayHave(filter, high, low)) continue
      const block = getPart(tables.blocks, run.id, blockOf(high, run.level))
      for (let at = 0; at < block.length; at += wordsPerEntry) {
        if (block[at] === high && block[at + 1] === low) found.push({ queryIndex: of, position: positionAt(block, at) })
      }
    }
  }

  function isFull(): boolean {
    return fullTables.length > fullTablesMax || list.runs.filter(({ level }) => level === 0).length > unmergedRunsMax
  }

  /** Reads what of the log is in no run; of more than memory has room for, runs are made first. */
  async function open(): Promise<void> {
    const total = log.lastSequence()
    refreshRunList()
    for (let [since, before] = [Date.now(), 0]; indexedThrough < total; ) {
      readLog(total, isFull)
      if (indexedThrough > before) [since, before] = [Date.now(), indexedThrough]
      if (Date.now() - since > capacityTimeoutMs) {
        throw new IngestError('overloaded', `The id index cannot be made${lastProblem}: try again later.`)
      }
      if (indexedThrough < total) {
        onProgress({ done: indexedThrough, total })
        await waitForRoom()
      }
    }
  }

  async function waitForRoom(): Promise<void> {
    wakeWorker()
    await worker?.changed(pollMs)
    if (damage) throw damage
    refreshRunList()
  }

  await open().catch(async (error) => {
    await worker?.close()
    throw error
  })
  return {
    async waitForCapacity() {
      if (damage) throw damage
      const lost = environment.lossReason()
      if (lost !== undefined) throw new IngestError('store-failed', `${lost}. It is made again at the next opening.`)
      // here rather than in the transaction, because reading the filters of another process's runs may take a while
      guarded(refreshRunList)
      for (const start = Date.now(); isFull(); ) {
        if (Date.now() - start > capacityTimeoutMs) {
          throw new IngestError('overloaded', `The id index cannot keep up${lastProblem}: send this again later.`, {
            retryAfterSeconds: 5,
          })
        }
        await waitForRoom().catch((error) => {
          throw asRefusal(error)
        })
      }
    },

    catchUp(lastSequence) {
      guarded(refreshRunList)
      readLog(lastSequence)
      current.checkpoint()
      checkpoint = { current, fullTables, indexedThrough }
    },

    search(fingerprints, count) {
      const found: Candidate[] = []
      for (const table of [current, ...fullTables]) table.search(fingerprints, count, found)
      guarded(() => {
        for (const run of list.runs) searchRun(run, fingerprints, count, found)
      })
      return found
    },

    addRecord: addToTable,

    rollback() {
      // reading the log again since the last run takes long
      checkpoint ??= { current: newTable(), fullTables: [], indexedThrough: list.watermark }
      current = checkpoint.current
      fullTables = checkpoint.fullTables
      indexedThrough = checkpoint.indexedThrough
      current.rollback()
    },

    async close() {
      await worker?.close()
      await tables.environment.root.close()
    },
  }
}

const damagedMark = 'damaged'

/** Another process may be removing it too, or making it again already. */
function removeDirectory(directory: string): void {
  rmSync(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
}

// MDB_PAGE_NOTFOUND, MDB_CORRUPTED, MDB_PANIC, MDB_VERSION_MISMATCH, MDB_INVALID, MDB_INCOMPATIBLE, MDB_BAD_TXN
const damageCodes = new Set<unknown>([-30797, -30796, -30795, -30794, -30793, -30784, -30782])

/** Whether an error says that what is on disk is not what was written. */
export function isDamage(error: unknown): boolean {
  if (error instanceof IngestError) return error.code === 'store-incompatible'
  return error instanceof DamagedRun || damageCodes.has((error as { code?: unknown }).code)
}

/** The tables of the index, emptied if they are of another log than this one. */
function openTables(environment: Environment, log: LogReader, seed: string): IdTables {
  const tables = openIdTables(environment)

  function isCurrent(list: RunList | undefined): boolean {
    // an older look at the log might not have the record that the list speaks of
    log.refresh()
    return list !== undefined && isOfLog(list, log, seed)
  }

  // a process that only reads needs no write lock
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
