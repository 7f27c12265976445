import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Transaction } from 'lmdb'
import { inspectDataFile } from '../environment/data-file.ts'
import { openEnvironment, type Table } from '../environment/environment.ts'
import { positionAt, wordsPerEntry } from '../ids/entry.ts'
import { mix } from '../ids/fingerprint.ts'
import { makeQueries, openFilter } from '../ids/fuse-filter.ts'
import { blockOf, getPart, isDamage, type Run } from '../ids/run.ts'
import { openIdTables, readRunList } from '../ids/run-list.ts'
import { readChecksum } from '../log/record.ts'
import { checkPages } from './check-pages.ts'
import { addProblem, type StoreReport } from './store-report.ts'

/** The ids that the runs of the index hold, which are those of the records up to `watermark`. */
export interface IndexedIds {
  watermark: number
  watermarkChecksum: number
  sums: IdSums
}

const remedy = 'stop every process on the directory and delete ids/: the next opening rebuilds it from the log'

/**
 * Reads the runs of the id index on one snapshot: each entry must be in the block in which a look-up searches it, and
 * pass the filter of its run. Returns undefined without an index.
 */
export async function readIndex(
  directory: string,
  seed: string,
  report: StoreReport,
  onEntries: (count: number) => Promise<void>,
): Promise<IndexedIds | undefined> {
  const problem = (message: string) => addProblem(report, { part: 'index', message: `${message}: ${remedy}` })
  if (existsSync(join(directory, 'damaged'))) {
    problem('The id index is marked as damaged')
    return undefined
  }
  const dataFile = inspectDataFile(join(directory, 'data.mdb'))
  if (dataFile === 'damaged') problem('The id index has a damaged data file')
  if (dataFile !== 'whole') return undefined
  const environment = await openEnvironment(directory, { readOnly: true })
  try {
    const leakRemedy = `To get rid of them, ${remedy}`
    await checkPages({ environment, directory, report, part: 'index', remedy: leakRemedy, onSlice: async () => {} })
    const tables = openIdTables(environment)
    environment.root.resetReadTxn()
    // merges that end meanwhile remove runs, but not from this snapshot
    const snapshot = environment.root.useReadTransaction()
    try {
      const list = readRunList(tables)
      if (!list) return undefined
      if (list.seed !== seed) {
        problem('The id index is of another store')
        return undefined
      }
      const sums = createIdSums()
      const snapshotTables = {
        blocks: atSnapshot(tables.blocks, snapshot),
        filters: atSnapshot(tables.filters, snapshot),
      }
      for (const run of list.runs) await readRun(snapshotTables, run, sums, report, onEntries)
      report.indexedIds = sums.count()
      return { watermark: list.watermark, watermarkChecksum: list.watermarkChecksum, sums }
    } finally {
      snapshot.done()
    }
  } catch (error) {
    if (!isDamage(error)) throw error
    problem(`The id index cannot be read (${(error as Error).message})`)
    return undefined
  } finally {
    await environment.close()
  }
}

type SnapshotTable = Pick<Table, 'getBinaryFast'>

/** Reads of a table on one snapshot. */
function atSnapshot(table: Table, transaction: Transaction): SnapshotTable {
  // missing in the types of lmdb
  type WithOptions = { getBinaryFast(key: Buffer, options: { transaction: Transaction }): Buffer | undefined }
  return { getBinaryFast: (key) => (table as unknown as WithOptions).getBinaryFast(key as Buffer, { transaction }) }
}

async function readRun(
  tables: { blocks: SnapshotTable; filters: SnapshotTable },
  run: Run,
  sums: IdSums,
  report: StoreReport,
  onEntries: (count: number) => Promise<void>,
): Promise<void> {
  const filter = openFilter(tables.filters, run)
  filter.read(Number.POSITIVE_INFINITY)
  let count = 0
  let misplaced = 0
  let last = 0
  for (let block = 0; block < 1 << run.blockBits; block++) {
    const entries = getPart(tables.blocks, run.id, block)
    const fingerprints = entries.filter((_, i) => i % wordsPerEntry < 2)
    const found = new Set(filter.select(makeQueries(fingerprints, fingerprints.length / 2)))
    for (let at = 0; at < entries.length; at += wordsPerEntry) {
      const [high, low] = [entries[at] as number, entries[at + 1] as number]
      const { sequence, index } = positionAt(entries, at)
      sums.add(high, low, sequence, index)
      count++
      if (blockOf(high, run.blockBits) === block && found.has(at / wordsPerEntry)) continue
      misplaced++
      last = sequence
    }
    await onEntries(entries.length / wordsPerEntry)
  }
  if (misplaced === 0 && count === run.count) return
  addProblem(report, {
    part: 'index',
    message: `Run ${run.id} of the id index has ${count} of ${run.count} ids, ${misplaced} of which a look-up does not find: ${remedy}`,
    ...(misplaced > 0 && { record: last }),
  })
}

/** Compares the ids of the log up to the watermark with those of the index, if there is one. */
export function createIndexComparison(indexed: IndexedIds | undefined, report: StoreReport) {
  const { watermark = 0 } = indexed ?? {}
  const logged = createIdSums()
  let watermarkChecksum = 0
  return {
    /** Takes the fingerprints of an intact record. */
    add(sequence: number, fingerprints: Uint32Array): void {
      if (sequence > watermark) return
      for (let i = 0; i * 2 < fingerprints.length; i++) {
        logged.add(fingerprints[i * 2] as number, fingerprints[i * 2 + 1] as number, sequence, i)
      }
    },
    /** Takes each record, which may be missing or damaged. */
    addChecksum(sequence: number, record: Buffer | undefined): void {
      if (sequence === watermark) watermarkChecksum = readChecksum(record)
    },
    end(isLogDamaged: boolean): void {
      if (!indexed) return
      const problem = (message: string, record?: number) =>
        addProblem(report, { part: 'index', message, ...(record !== undefined && { record }) })
      if (watermark > 0 && watermarkChecksum !== indexed.watermarkChecksum) {
        problem(`The id index ends with record ${watermark}, and the log has another record of that number.`, watermark)
      }
      const buckets = isLogDamaged ? 0 : logged.differing(indexed.sums)
      if (buckets === 0) return
      problem(
        `The id index holds ${indexed.sums.count()} ids and the log ${logged.count()} up to record ${watermark}, and they are not the same in ${buckets} of 4,096 parts: ${remedy}`,
      )
    },
  }
}

const bucketBits = 12

/**
 * Sums over a set of entries of the id index, so that two sets of any size are compared in bounded memory: equal sets have
 * equal sums. Entries are spread over buckets by their fingerprint, so that sums which differ point to few entries.
 */
type IdSums = ReturnType<typeof createIdSums>

function createIdSums() {
  const sums = [new Uint32Array(1 << bucketBits), new Uint32Array(1 << bucketBits)] as const
  const [first, second] = sums
  let count = 0
  return {
    sums,
    count: () => count,
    add(high: number, low: number, sequence: number, index: number): void {
      const bucket = blockOf(high, bucketBits)
      const position = mix(
        low ^ Math.imul(sequence | 0, 0x9e3779b1) ^ Math.imul(Math.floor(sequence / 2 ** 32), 0x85ebca6b),
      )
      const value = mix(position ^ high ^ (index << 24))
      // typed arrays wrap around
      first[bucket] = (first[bucket] as number) + value
      second[bucket] = (second[bucket] as number) + mix(value ^ position)
      count++
    },
    /** In how many buckets the sums differ. */
    differing: (other: { sums: typeof sums }) =>
      first.filter((sum, bucket) => sum !== other.sums[0][bucket] || second[bucket] !== other.sums[1][bucket]).length,
  }
}
