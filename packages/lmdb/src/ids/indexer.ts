import { addToFilter, type BloomFilter, createFilter, putFilter } from './bloom-filter.ts'
import { putEntry, wordsPerEntry } from './entry.ts'
import type { LogReader } from './log-reader.ts'
import {
  blockBits,
  blockOf,
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
  /** Told of each run's filter before the run is published. */
  onFilter?: (run: Run, filter: BloomFilter) => void
  /** The clock, in milliseconds since 1970. */
  now?: () => number
}

/** What a step came to. `busy`: another worker has the right to work on these runs. */
export type StepOutcome = 'worked' | 'idle' | 'busy'

/** Follows the log and keeps its ids in runs: what does the work of the index, off the main thread. */
export interface Indexer {
  /** Does one small piece of work, in one transaction at the most. */
  step(): StepOutcome
  /** Leaves the work to others. */
  release(): void
}

/** So many blocks of each input are merged in one transaction: some 60,000 entries, about 10 ms. */
const blocksPerStep = 32
/** So many parts of a run that is no longer needed are removed in one transaction. */
const garbagePartsPerStep = 4096

interface Merge {
  inputs: Run[]
  output: Run
  filter: BloomFilter
  /** The next block of the inputs. */
  block: number
}

export function createIndexer({
  tables,
  log,
  seed,
  entriesPerFlush,
  onFilter = () => {},
  now = Date.now,
}: IndexerOptions): Indexer {
  const claim = createClaim(tables, now)
  const { root, write } = tables.environment
  const entries = new Uint32Array((entriesPerFlush + log.entriesPerRecordMax) * wordsPerEntry)
  let gathered = { from: 0, to: 0, count: 0 }
  let merge: Merge | undefined
  let holdsClaim = false
  let garbageCollected = false

  /** Runs `work` in a transaction if the right to work is ours; what another worker did meanwhile counts. */
  function withClaim(work: (list: RunList) => StepOutcome): StepOutcome {
    try {
      return write(() => {
        const held = claim.acquire()
        holdsClaim = held !== 'busy'
        if (held === 'busy') return 'busy'
        // whoever worked before may have left an unfinished run behind, and what was begun here may be swept by now
        if (held === 'taken') discardUnfinished()
        return work(readRunList(tables) ?? emptyRunList(seed))
      })
    } catch (error) {
      // of what this transaction noted in memory nothing is on disk
      discardUnfinished()
      throw error
    }
  }

  /** Forgets what is half done; it is swept, and done anew. */
  function discardUnfinished(): void {
    merge = undefined
    garbageCollected = false
  }

  function release(): void {
    if (!holdsClaim) return
    write(() => claim.release())
    holdsClaim = false
  }

  function publish(list: RunList, change: Partial<RunList>): void {
    writeRunList(tables, { ...list, ...change, revision: list.revision + 1 })
  }

  /** Reads on in the log until there is enough for a run. */
  function gather(watermark: number): boolean {
    log.refresh()
    if (gathered.from !== watermark) gathered = { from: watermark, to: watermark, count: 0 }
    const last = log.lastSequence()
    while (gathered.to < last && gathered.count < entriesPerFlush) {
      const fingerprints = log.fingerprints(++gathered.to)
      for (let index = 0; index * 2 < fingerprints.length; index++) {
        const at = gathered.count++ * wordsPerEntry
        putEntry(
          entries,
          at,
          fingerprints[index * 2] as number,
          fingerprints[index * 2 + 1] as number,
          gathered.to,
          index,
        )
      }
    }
    return gathered.count >= entriesPerFlush
  }

  /** One run of level 0 of what was gathered; the watermark rises in the same transaction. */
  function flush(list: RunList): StepOutcome {
    if (list.watermark !== gathered.from) return 'worked'
    const { count, to } = gathered
    const own = entries.subarray(0, count * wordsPerEntry)
    const run = newRun(list.lastRun + 1, 0, count)
    const filter = createFilter(count)
    addAll(filter, own)
    onFilter(run, filter)
    putBlocks(
      tables.blocks,
      run.id,
      0,
      toBlocks([own], 1 << blockBits(0), (high) => blockOf(high, 0)),
    )
    putFilter(tables.filters, run, filter)
    const watermarkChecksum = log.checksum(to)
    publish(list, { watermark: to, watermarkChecksum, lastRun: run.id, runs: [run, ...list.runs] })
    return 'worked'
  }

  function beginMerge(list: RunList, inputs: Run[]): StepOutcome {
    const count = inputs.reduce((sum, run) => sum + run.count, 0)
    const output = newRun(list.lastRun + 1, (inputs[0] as Run).level + 1, count)
    // the number is taken at once, so that no flush on the way takes it too
    publish(list, { lastRun: output.id })
    merge = { inputs, output, filter: createFilter(count), block: 0 }
    return 'worked'
  }

  /** Some blocks of the inputs become eight times as many of the output, by the next bits of the fingerprints. */
  function continueMerge({ inputs, output, filter, block }: Merge): number {
    const end = Math.min(block + blocksPerStep, 1 << blockBits(output.level - 1))
    const mask = (1 << mergeWidthBits) - 1
    for (let at = block; at < end; at++) {
      const parts = inputs.map((run) => getPart(tables.blocks, run.id, at))
      for (const part of parts) addAll(filter, part)
      const blocks = toBlocks(parts, mergeWidth, (high) => blockOf(high, output.level) & mask)
      putBlocks(tables.blocks, output.id, at << mergeWidthBits, blocks)
    }
    return end
  }

  function finishMerge(list: RunList, { inputs, output, filter }: Merge): StepOutcome {
    const merged = new Set(inputs.map(({ id }) => id))
    const last = list.runs.findIndex(({ id }) => id === inputs.at(-1)?.id)
    const runs = list.runs.flatMap((run, i) => (i === last ? [output] : merged.has(run.id) ? [] : [run]))
    onFilter(output, filter)
    putFilter(tables.filters, output, filter)
    publish(list, { runs })
    merge = undefined
    garbageCollected = false
    return 'worked'
  }

  /** Removes some of what belongs to no run of the list: what was merged, and what was never finished. */
  function collectGarbage(list: RunList): StepOutcome {
    const listed = new Set(list.runs.map(({ id }) => id))
    for (const table of [tables.blocks, tables.filters]) {
      for (let from = 0; ; ) {
        const [key] = [...table.getKeys({ start: runKey(from), limit: 1 })]
        if (!key) break
        const run = key.readUInt32BE()
        from = run + 1
        if (listed.has(run)) continue
        const parts = [...table.getKeys({ start: runKey(run), end: runKey(from), limit: garbagePartsPerStep })]
        for (const part of parts) table.remove(part)
        return 'worked'
      }
    }
    garbageCollected = true
    return 'worked'
  }

  return {
    step() {
      root.resetReadTxn()
      const list = readRunList(tables) ?? emptyRunList(seed)
      if (gather(list.watermark)) return withClaim(flush)
      if (merge) {
        const current = merge
        const blocks = 1 << blockBits(current.output.level - 1)
        return withClaim((fresh) => {
          if (merge !== current) return 'worked'
          if (current.block === blocks) return finishMerge(fresh, current)
          current.block = continueMerge(current)
          return 'worked'
        })
      }
      const inputs = mergeCandidates(list)
      // at its start too: whoever was here before may have been killed
      if (!garbageCollected) return withClaim((fresh) => (merge ? 'worked' : collectGarbage(fresh)))
      if (inputs)
        return withClaim((fresh) =>
          mergeCandidates(fresh) ? beginMerge(fresh, mergeCandidates(fresh) as Run[]) : 'worked',
        )
      release()
      return 'idle'
    },

    release,
  }
}

/** The oldest runs of the lowest level that has enough of them to be merged. */
function mergeCandidates({ runs }: RunList): Run[] | undefined {
  for (const level of new Set(runs.map((run) => run.level).sort((a, b) => a - b))) {
    const same = runs.filter((run) => run.level === level)
    if (same.length >= mergeWidth) return same.slice(-mergeWidth)
  }
  return undefined
}

function addAll(filter: BloomFilter, entries: Uint32Array): void {
  for (let at = 0; at < entries.length; at += wordsPerEntry) {
    addToFilter(filter, entries[at] as number, entries[at + 1] as number)
  }
}

function runKey(run: number): Buffer {
  const key = Buffer.allocUnsafe(4)
  key.writeUInt32BE(run)
  return key
}
