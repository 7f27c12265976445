import { IngestError } from '@ingest/core'
import { type Candidate, entriesPerRecordMax, positionAt, wordsPerEntry } from './entry.ts'
import { makeQueries, openFilter, type Queries, type RunFilter } from './fuse-filter.ts'
import type { LogReader } from './log-reader.ts'
import { createMemoryTable, type MemoryTable } from './memory-table.ts'
import { blockOf, mergeWidth, type Run, viewPart } from './run.ts'
import { emptyRunList, type IdTables, readRevision, readRunList } from './run-list.ts'

/** Full tables that are not flushed yet; with more of them, appends wait. */
const fullTablesMax = 4
/**
 * Runs of level 0 that are not merged yet; with more of them, appends wait, as each run slows every look-up a little.
 */
const unmergedRunsMax = mergeWidth * 4
/** How long the thread reads filters without a pause. */
const filterReadsMs = 20

/** The current size of the index. */
export interface IndexSize {
  /** Runs by level, from 0. */
  runs: number[]
  /** The ids in them. */
  indexedIds: number
  /** The ids that are only in memory. */
  unflushedIds: number
  /** Merges of this store since its index was built. */
  merges: number
  /** Tables and filters of this process. */
  memoryBytes: number
}

export interface IdLookupOptions {
  tables: IdTables
  log: LogReader
  seed: string
  entriesPerFlush: number
  /** Called when there is a table to flush. */
  onTableFull: () => void
}

/** Searches the runs on disk, and the tables in memory with the ids that are in no run yet. */
export type IdLookup = ReturnType<typeof createIdLookup>

export function createIdLookup({ tables, log, seed, entriesPerFlush, onTableFull }: IdLookupOptions) {
  const published = createPublishedRuns(tables, seed)
  const unflushed = createUnflushedIds(entriesPerFlush, onTableFull)

  function refreshRunList(): void {
    if (published.refresh()) unflushed.removeFlushed(published.list().watermark)
  }

  function isFull(): boolean {
    const unmerged = published.list().runs.filter(({ level }) => level === 0)
    return unflushed.fullTables() > fullTablesMax || unmerged.length > unmergedRunsMax
  }

  return {
    /** Reads the list of runs if any process has changed it. */
    refreshRunList,

    /**
     * Reads some filters of the runs in the list; returns whether all are read. Without, a search is correct but slow.
     */
    readFilters: () => published.readFilters(performance.now() + filterReadsMs),

    /** Indexes the log up to the record `last`, or until the tables are full. */
    readLog(last: number, { untilFull } = { untilFull: false }): void {
      for (let next = unflushed.through() + 1; next <= last && !(untilFull && isFull()); next++) {
        const fingerprints = log.fingerprints(next)
        unflushed.addRecord(next, fingerprints, fingerprints.length / 2)
      }
    },

    /** All records up to this one are in a table or a run. */
    indexedThrough: unflushed.through,
    addRecord: unflushed.addRecord,
    checkpoint: unflushed.checkpoint,
    /** Returns to the state at the last checkpoint. */
    rollback: () => unflushed.rollback(published.list().watermark),

    search(fingerprints: Uint32Array, count: number): Candidate[] {
      const found: Candidate[] = []
      unflushed.search(fingerprints, count, found)
      published.search(fingerprints, count, found)
      return found
    },

    /** Whether appends must wait until tables are flushed or runs are merged. */
    isFull,

    size(): IndexSize {
      const { runs, merges } = published.list()
      return {
        runs: countByLevel(runs),
        indexedIds: sum(runs.map(({ count }) => count)),
        unflushedIds: unflushed.count(),
        merges,
        memoryBytes: unflushed.memoryBytes() + published.memoryBytes(),
      }
    },
  }
}

/** The runs in the list that any process has published last, with their filters. */
export function createPublishedRuns(tables: IdTables, seed: string) {
  let list = emptyRunList(seed)
  /** Filters by the nonces of their runs. */
  let filters = new Map<number, RunFilter>()
  const filterOf = ({ nonce }: Run) => filters.get(nonce) as RunFilter
  return {
    list: () => list,

    /** Returns whether the list has changed. */
    refresh(): boolean {
      tables.environment.root.resetReadTxn()
      if (readRevision(tables) === list.revision) return false
      const next = readRunList(tables) ?? emptyRunList(seed)
      // the ids of published runs are in no table any more, so duplicates could no longer be detected
      if (next.watermark < list.watermark) {
        throw new IngestError('store-failed', 'Another process has rebuilt the id index: open the store again.')
      }
      filters = new Map(next.runs.map((run) => [run.nonce, filters.get(run.nonce) ?? openFilter(tables.filters, run)]))
      list = next
      return true
    },

    readFilters: (until: number) => list.runs.every((run) => filterOf(run).read(until)),
    memoryBytes: () => sum([...filters.values()].map((filter) => filter.memoryBytes())),

    search(fingerprints: Uint32Array, count: number, found: Candidate[]): void {
      const queries = makeQueries(fingerprints, count)
      for (const run of list.runs) searchRun(tables, run, filterOf(run).select(queries), queries, found)
    },
  }
}

/** The ids that are in no run yet: in a table that is being filled, and in full ones that wait to be flushed. */
function createUnflushedIds(entriesPerFlush: number, onTableFull: () => void) {
  /** A flushed table for reuse, as the page faults of a new one take some milliseconds. */
  let spare: MemoryTable | undefined
  /** `full` is newest first; all records up to `through` are in a table or a run. */
  let state = { current: newTable(), full: [] as MemoryTable[], through: 0 }
  let checkpoint: typeof state | undefined
  const all = () => [state.current, ...state.full]

  function newTable(): MemoryTable {
    const table = spare ?? createMemoryTable(entriesPerFlush + entriesPerRecordMax)
    spare = undefined
    return table
  }

  function recycle(table: MemoryTable): void {
    table.clear()
    spare = table
  }

  return {
    through: () => state.through,
    fullTables: () => state.full.length,
    count: () => sum(all().map((table) => table.count())),
    memoryBytes: () => sum([...all(), ...(spare ? [spare] : [])].map((table) => table.memoryBytes)),

    addRecord(sequence: number, fingerprints: Uint32Array, count: number): void {
      const { current, full } = state
      for (let index = 0; index < count; index++) {
        current.add(fingerprints[index * 2] as number, fingerprints[index * 2 + 1] as number, sequence, index)
      }
      const isFull = current.count() >= entriesPerFlush
      state = isFull
        ? { current: newTable(), full: [current, ...full], through: sequence }
        : { current, full, through: sequence }
      if (isFull) onTableFull()
    },

    /** Removes the tables of which all entries are in runs, which hold all records up to `watermark`. */
    removeFlushed(watermark: number): void {
      checkpoint = undefined
      const isFlushed = (table: MemoryTable) => table.lastSequence() <= watermark
      const { current, full, through } = state
      for (const table of full) if (isFlushed(table)) recycle(table)
      if (current.count() > 0 && isFlushed(current)) current.clear()
      state = { current, full: full.filter((table) => !isFlushed(table)), through: Math.max(through, watermark) }
    },

    checkpoint(): void {
      state.current.checkpoint()
      checkpoint = state
    },

    rollback(watermark: number): void {
      // without a checkpoint, all of the log after the last run is read again, which takes long
      checkpoint ??= { current: newTable(), full: [], through: watermark }
      state = checkpoint
      state.current.rollback()
    },

    search(fingerprints: Uint32Array, count: number, found: Candidate[]): void {
      for (const table of all()) table.search(fingerprints, count, found)
    },
  }
}

/** Adds the entries of a run with one of the selected fingerprints to `found`. */
function searchRun(
  { blocks }: IdTables,
  run: Run,
  selected: readonly number[],
  { fingerprints }: Queries,
  found: Candidate[],
): void {
  for (const queryIndex of selected) {
    const high = fingerprints[queryIndex * 2] as number
    const low = fingerprints[queryIndex * 2 + 1] as number
    const block = viewPart(blocks, run.id, blockOf(high, run.blockBits))
    for (let at = 0; at < block.length; at += wordsPerEntry) {
      if (block[at] === high && block[at + 1] === low) found.push({ queryIndex, position: positionAt(block, at) })
    }
  }
}

function countByLevel(runs: readonly Run[]): number[] {
  const levels = Math.max(-1, ...runs.map(({ level }) => level)) + 1
  return Array.from({ length: levels }, (_, level) => runs.filter((run) => run.level === level).length)
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
