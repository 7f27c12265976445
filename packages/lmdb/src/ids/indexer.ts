import { entriesPerRecordMax, putEntry, wordsPerEntry } from './entry.ts'
import { blocksPerPartition, putFilter } from './fuse-filter.ts'
import type { LogReader } from './log-reader.ts'
import {
  type Blocks,
  blockOf,
  flushBlockBits,
  getPart,
  mergeWidth,
  mergeWidthBits,
  newRun,
  putBlocks,
  type Run,
  toBlocks,
} from './run.ts'
import { createClaim, emptyRunList, type IdTables, type RunList, readRunList, writeRunList } from './run-list.ts'

export interface IndexerOptions {
  tables: IdTables
  log: LogReader
  seed: string
  /** The entries of a run of level 0. */
  entriesPerFlush: number
  /** The block bits of a run of level 0; by default those that fit its entries. */
  blockBits?: number
  /** The clock, in milliseconds since 1970. */
  now?: () => number
}

/** `busy`: another worker has the claim on the runs. */
export type StepOutcome = 'worked' | 'idle' | 'busy'

/** Blocks of each input that one transaction merges: some 60,000 entries, about 10 ms. */
const blocksPerStep = 32
/** Parts of an obsolete run that one transaction removes. */
const garbagePartsPerStep = 4096

interface Merge {
  inputs: Run[]
  output: Run
  /** The next block of the inputs. */
  block: number
  /** The entries of the partition of the output that is not finished. */
  partition: Uint32Array[]
}

/** Moves the ids of the log into runs, and merges runs. */
export type Indexer = ReturnType<typeof createIndexer>

export function createIndexer({ tables, log, seed, entriesPerFlush, now = Date.now, ...options }: IndexerOptions) {
  const { blockBits = flushBlockBits(entriesPerFlush) } = options
  const claim = createClaim(tables, now)
  const gatherer = createGatherer(log, entriesPerFlush)
  let merge: Merge | undefined
  // true from the start, as a worker that was killed may have left an unfinished run
  let hasGarbage = true

  /** Makes the output of an unfinished merge garbage; the merge starts over. */
  function discardUnfinished(): void {
    merge = undefined
    hasGarbage = true
  }

  /** The next thing to do in a transaction, if there is any. */
  function nextWork(list: RunList): ((fresh: RunList) => void) | undefined {
    if (gatherer.gather(list.watermark)) {
      return (fresh) => flush(tables, fresh, log, { ...gatherer.gathered(), blockBits })
    }
    const current = merge
    if (current) {
      return (fresh) => {
        // it is discarded if another worker had the claim
        if (merge === current && advanceMerge(tables, fresh, current)) discardUnfinished()
      }
    }
    if (hasGarbage) {
      return (fresh) => {
        hasGarbage = removeGarbage(tables, fresh)
      }
    }
    if (!mergeCandidates(list)) return undefined
    return (fresh) => {
      merge = beginMerge(tables, fresh)
    }
  }

  return {
    /** Does one short step, in at most one transaction. */
    step(): StepOutcome {
      tables.environment.root.resetReadTxn()
      const work = nextWork(readRunList(tables) ?? emptyRunList(seed))
      if (!work) {
        claim.release()
        return 'idle'
      }
      try {
        return claim.write((claimed) => {
          // another worker may have left an unfinished run, and may have removed the one of this worker
          if (claimed === 'acquired') discardUnfinished()
          work(readRunList(tables) ?? emptyRunList(seed))
        })
      } catch (error) {
        // the unfinished run in memory is not the one on disk
        discardUnfinished()
        throw error
      }
    },

    /** Releases the claim, so that another worker can continue at once. */
    release: claim.release,
  }
}

function publish(tables: IdTables, list: RunList, change: Partial<RunList>): void {
  writeRunList(tables, { ...list, ...change, revision: list.revision + 1 })
}

/** Writes the gathered entries as a run of level 0; the watermark rises in the same transaction. */
function flush(
  tables: IdTables,
  list: RunList,
  log: LogReader,
  { from, to, entries, blockBits }: Gathered & { blockBits: number },
): void {
  if (list.watermark !== from) return
  const run = newRun(list.lastRun + 1, 0, blockBits, entries.length / wordsPerEntry)
  const blocks = toBlocks([entries], 1 << blockBits, (high) => blockOf(high, blockBits))
  putBlocks(tables.blocks, run.id, 0, blocks)
  putFilters(tables, run, blocks)
  const watermarkChecksum = log.checksum(to)
  publish(tables, list, { watermark: to, watermarkChecksum, lastRun: run.id, runs: [run, ...list.runs] })
}

function beginMerge(tables: IdTables, list: RunList): Merge | undefined {
  const inputs = mergeCandidates(list)
  if (!inputs) return undefined
  const count = inputs.reduce((sum, run) => sum + run.count, 0)
  const { level, blockBits } = inputs[0] as Run
  const output = newRun(list.lastRun + 1, level + 1, blockBits + mergeWidthBits, count)
  // reserves the id, so that no flush during the merge takes it too
  publish(tables, list, { lastRun: output.id })
  return { inputs, output, block: 0, partition: [] }
}

/** Does the next step of a merge; returns whether it was the last one, which replaces the inputs by the output. */
function advanceMerge(tables: IdTables, list: RunList, merge: Merge): boolean {
  const { inputs, output, block } = merge
  if (block < blockCount(merge)) {
    mergeBlocks(tables, merge)
    return false
  }
  const merged = new Set(inputs.map(({ id }) => id))
  const last = list.runs.findIndex(({ id }) => id === inputs.at(-1)?.id)
  const runs = list.runs.flatMap((run, i) => (i === last ? [output] : merged.has(run.id) ? [] : [run]))
  publish(tables, list, { runs, merges: list.merges + 1 })
  return true
}

/** The entries of the records after `from`, up to and with `to`. */
interface Gathered {
  from: number
  to: number
  entries: Uint32Array
}

/** Collects the entries of the log that follow a watermark, until there are enough for a run. */
function createGatherer(log: LogReader, entriesPerFlush: number) {
  const entries = new Uint32Array((entriesPerFlush + entriesPerRecordMax) * wordsPerEntry)
  let from = 0
  let to = 0
  let count = 0
  return {
    /** Reads further records of the log; returns whether there are enough entries for a run. */
    gather(watermark: number): boolean {
      log.refresh()
      if (from !== watermark) {
        from = watermark
        to = watermark
        count = 0
      }
      const last = log.lastSequence()
      while (to < last && count < entriesPerFlush) {
        const fingerprints = log.fingerprints(++to)
        for (let index = 0; index * 2 < fingerprints.length; index++) {
          const [high, low] = [fingerprints[index * 2] as number, fingerprints[index * 2 + 1] as number]
          putEntry(entries, count++ * wordsPerEntry, high, low, to, index)
        }
      }
      return count >= entriesPerFlush
    },
    gathered: (): Gathered => ({ from, to, entries: entries.subarray(0, count * wordsPerEntry) }),
  }
}

/** Writes the filters of a run of which all blocks are given. */
function putFilters({ filters }: IdTables, run: Run, { words, starts }: Blocks): void {
  const blocks = blocksPerPartition(run)
  for (let block = 0; block + 1 < starts.length; block += blocks) {
    const [from, to] = [starts[block] as number, starts[block + blocks] as number]
    putFilter(filters, run, block / blocks, [words.subarray(from * wordsPerEntry, to * wordsPerEntry)])
  }
}

/** Merges the next blocks of the inputs: each becomes eight of the output, by the next bits of the fingerprints. */
function mergeBlocks({ blocks, filters }: IdTables, merge: Merge): void {
  const { inputs, output, block } = merge
  const inputBlocksPerPartition = blocksPerPartition(output) >>> mergeWidthBits
  const end = Math.min(block + blocksPerStep, blockCount(merge))
  const mask = (1 << mergeWidthBits) - 1
  for (let at = block; at < end; at++) {
    const parts = inputs.map((run) => getPart(blocks, run.id, at))
    const outputs = toBlocks(parts, mergeWidth, (high) => blockOf(high, output.blockBits) & mask)
    putBlocks(blocks, output.id, at << mergeWidthBits, outputs)
    merge.partition.push(outputs.words)
    if ((at + 1) % inputBlocksPerPartition > 0) continue
    putFilter(filters, output, Math.floor(at / inputBlocksPerPartition), merge.partition)
    merge.partition = []
  }
  merge.block = end
}

/** How many blocks each input of a merge has. */
function blockCount({ output }: Merge): number {
  return 1 << (output.blockBits - mergeWidthBits)
}

/** Removes some parts of a run that is not in the list, merged or unfinished; returns whether there was one. */
function removeGarbage({ blocks, filters }: IdTables, list: RunList): boolean {
  const listed = new Set(list.runs.map(({ id }) => id))
  for (const table of [blocks, filters]) {
    for (let from = 0; ; ) {
      const [key] = [...table.getKeys({ start: runKey(from), limit: 1 })]
      if (!key) break
      const run = key.readUInt32BE()
      from = run + 1
      if (listed.has(run)) continue
      const parts = [...table.getKeys({ start: runKey(run), end: runKey(from), limit: garbagePartsPerStep })]
      for (const part of parts) table.remove(part)
      return true
    }
  }
  return false
}

/** The oldest runs of the smallest size of which there are enough to be merged. */
function mergeCandidates({ runs }: RunList): Run[] | undefined {
  for (const bits of new Set(runs.map(({ blockBits }) => blockBits).sort((a, b) => a - b))) {
    const same = runs.filter(({ blockBits }) => blockBits === bits)
    if (same.length >= mergeWidth) return same.slice(-mergeWidth)
  }
  return undefined
}

function runKey(run: number): Buffer {
  const key = Buffer.allocUnsafe(4)
  key.writeUInt32BE(run)
  return key
}
