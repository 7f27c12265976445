import { IngestError } from '@ingest/core'
import { type Candidate, positionAt, wordsPerEntry } from './entry.ts'
import { makeQueries, openFilter, type Queries, type RunFilter } from './fuse-filter.ts'
import type { LogReader } from './log-reader.ts'
import { createMemoryTable, type MemoryTable } from './memory-table.ts'
import { blockOf, mergeWidth, type Run, viewPart } from './run.ts'
import { emptyRunList, type IdTables, readRevision, readRunList } from './run-list.ts'

/** Full tables that are not flushed yet; with more of them, appends wait. */
const fullTablesMax = 4
/** Runs of level 0 that are not merged yet; with more of them, appends wait, as each run slows every look-up a little. */
const unmergedRunsMax = mergeWidth * 4
/** The thread reads filters for so long without a pause. A search needs none of them, but is slow without. */
const filterReadsMs = 20

/** What the index holds now. */
export interface IndexSize {
  /** Runs by level, from 0. */
  runs: number[]
  /** The ids in them. */
  indexedIds: number
  /** The ids that are in memory alone. */
  unflushedIds: number
  /** Merges of this store since its index was built. */
  merges: number
  /** Tables and filters of this process. */
  memoryBytes: number
}

/** Searches the runs on disk, and the tables in memory with the ids that are in no run yet. */
export interface IdLookup {
  /** Reads the list of runs if any process has changed it. */
  refreshRunList(): void
  /** Reads some filters of the runs in the list; returns whether all are read. Call it right after {@link refreshRunList}. */
  readFilters(): boolean
  /** Indexes the log up to the record `last`, or until the tables are full. */
  readLog(last: number, options?: { untilFull: boolean }): void
  /** All records up to this one are in a table or a run. */
  indexedThrough(): number
  addRecord(sequence: number, fingerprints: Uint32Array, count: number): void
  /** `rollback` returns to the state at the last `checkpoint`. */
  checkpoint(): void
  rollback(): void
  search(fingerprints: Uint32Array, count: number): Candidate[]
  /** Whether appends must wait until tables are flushed or runs are merged. */
  isFull(): boolean
  size(): IndexSize
}

export interface IdLookupOptions {
  tables: IdTables
  log: LogReader
  seed: string
  entriesPerFlush: number
  /** Called when there is a table to flush. */
  onTableFull: () => void
}

export function createIdLookup({ tables, log, seed, entriesPerFlush, onTableFull }: IdLookupOptions): IdLookup {
  const filters = createFilterCache(tables)
  let list = emptyRunList(seed)
  const recycler = createRecycler()
  let current = newTable()
  /** Newest first. */
  let fullTables: MemoryTable[] = []
  let indexedThrough = 0
  let checkpoint: { current: MemoryTable; fullTables: MemoryTable[]; indexedThrough: number } | undefined

  function newTable(): MemoryTable {
    return recycler.take() ?? createMemoryTable(entriesPerFlush + log.entriesPerRecordMax)
  }

  function addRecord(sequence: number, fingerprints: Uint32Array, count: number): void {
    for (let index = 0; index < count; index++) {
      current.add(fingerprints[index * 2] as number, fingerprints[index * 2 + 1] as number, sequence, index)
    }
    indexedThrough = sequence
    recycler.clear(count)
    if (current.count() < entriesPerFlush) return
    fullTables = [current, ...fullTables]
    current = newTable()
    onTableFull()
  }

  /** Whether all entries of a table are in runs. */
  function isFlushed(table: MemoryTable): boolean {
    return table.lastSequence() <= list.watermark
  }

  function isFull(): boolean {
    return fullTables.length > fullTablesMax || list.runs.filter(({ level }) => level === 0).length > unmergedRunsMax
  }

  return {
    refreshRunList() {
      tables.environment.root.resetReadTxn()
      if (readRevision(tables) === list.revision) return
      const next = readRunList(tables) ?? emptyRunList(seed)
      // the ids of published runs are in no table any more, so duplicates could no longer be detected
      if (next.watermark < list.watermark) {
        throw new IngestError('store-failed', 'Another process has rebuilt the id index: open the store again.')
      }
      filters.refresh(next.runs)
      list = next
      checkpoint = undefined
      for (const table of fullTables) if (isFlushed(table)) recycler.recycle(table)
      fullTables = fullTables.filter((table) => !isFlushed(table))
      if (current.count() > 0 && isFlushed(current)) {
        recycler.recycle(current)
        current = newTable()
      }
      indexedThrough = Math.max(indexedThrough, list.watermark)
    },

    readFilters() {
      const until = performance.now() + filterReadsMs
      return list.runs.every((run) => filters.get(run.nonce).readAll(until))
    },

    readLog(last, { untilFull } = { untilFull: false }) {
      while (indexedThrough < last && !(untilFull && isFull())) {
        const fingerprints = log.fingerprints(indexedThrough + 1)
        addRecord(indexedThrough + 1, fingerprints, fingerprints.length / 2)
      }
    },

    indexedThrough: () => indexedThrough,
    addRecord,

    checkpoint() {
      current.checkpoint()
      checkpoint = { current, fullTables, indexedThrough }
    },

    rollback() {
      // without a checkpoint, all of the log after the last run is read again, which takes long
      const state = checkpoint ?? { current: newTable(), fullTables: [], indexedThrough: list.watermark }
      checkpoint = state
      ;({ current, fullTables, indexedThrough } = state)
      current.rollback()
    },

    search(fingerprints, count) {
      const found: Candidate[] = []
      for (const table of [current, ...fullTables]) table.search(fingerprints, count, found)
      const queries = makeQueries(fingerprints, count)
      const until = performance.now() + filterReadsMs
      for (const run of list.runs) searchRun(tables, run, filters.get(run.nonce).select(queries, until), queries, found)
      return found
    },

    isFull,

    size() {
      const tables = [current, ...fullTables]
      const runs = Array<number>(Math.max(-1, ...list.runs.map(({ level }) => level)) + 1).fill(0)
      for (const { level } of list.runs) runs[level] = (runs[level] as number) + 1
      return {
        runs,
        indexedIds: list.runs.reduce((sum, { count }) => sum + count, 0),
        unflushedIds: tables.reduce((sum, table) => sum + table.count(), 0),
        merges: list.merges,
        memoryBytes: tables.reduce(
          (sum, table) => sum + table.memoryBytes,
          recycler.memoryBytes() + filters.memoryBytes(),
        ),
      }
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

/** Slots of the spare table cleared for each entry added to another: it is clear once that is a quarter full. */
const slotsClearedPerEntry = 9

/**
 * Keeps one flushed table for reuse and clears it in small steps. The page faults of a new table take some five
 * milliseconds, in which batches wait.
 */
function createRecycler() {
  let spare: MemoryTable | undefined
  let isClear = false
  return {
    recycle(table: MemoryTable): void {
      if (spare) return
      spare = table
      isClear = false
    },
    /** Clears some slots of the spare table, by the number of entries that were added. */
    clear(entries: number): void {
      if (spare && !isClear) isClear = spare.clear(entries * slotsClearedPerEntry)
    },
    /** Returns the spare table, cleared. */
    take(): MemoryTable | undefined {
      const table = spare
      if (table && !isClear) table.clear(Number.POSITIVE_INFINITY)
      spare = undefined
      return table
    },
    memoryBytes: () => spare?.memoryBytes ?? 0,
  }
}

/** The filters of the runs in the list, by the nonce of their run. */
function createFilterCache(tables: IdTables) {
  let filters = new Map<number, RunFilter>()
  return {
    get: (nonce: number) => filters.get(nonce) as RunFilter,
    memoryBytes: () => [...filters.values()].reduce((sum, filter) => sum + filter.memoryBytes(), 0),
    /** Keeps those of listed runs that were read before. */
    refresh(runs: readonly Run[]) {
      filters = new Map(runs.map((run) => [run.nonce, filters.get(run.nonce) ?? openFilter(tables.filters, run)]))
    },
  }
}
