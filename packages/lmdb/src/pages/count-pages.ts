import {
  createPageSet,
  leavesOf,
  nodeAt,
  overflowOf,
  readFreeRuns,
  readTable,
  rowsOf,
} from '../environment/page-file.ts'
import type { Snapshot } from './snapshot.ts'

/** What the pages of a data file are used for. */
export interface PageCount {
  used: number
  free: number
  /** Neither used nor free: they hold no row, and are never used again. */
  leaked: number
  /** Used twice, used and free, free twice, or beyond the end: the next write may destroy rows. */
  conflicts: number
  /** The first page of these. */
  firstConflict?: number
  /** Branches and leaves that cannot be read: what is below them is not counted, and may seem to be leaked. */
  damaged: number
}

/** How many pages are counted between two calls of `onPages`. */
const pagesPerSlice = 4096

/**
 * Counts all pages of a snapshot, by the trees of its tables and the list of free pages. Takes one bit of memory for each
 * page. Calls `onPages` now and then with how many more are counted.
 */
export async function countPages(
  { file, meta }: Snapshot,
  onPages: (pages: number) => Promise<void>,
): Promise<PageCount> {
  const total = meta.lastPage + 1
  const seen = createPageSet(total)
  const count: PageCount = { used: 0, free: 0, leaked: 0, conflicts: 0, damaged: 0 }
  let unreported = 0

  /** Returns whether the page was not counted before. */
  function add(number: number, kind: 'used' | 'free'): boolean {
    if (number >= total || number < 0 || seen.has(number)) {
      count.conflicts++
      count.firstConflict ??= number
      return false
    }
    seen.add(number)
    count[kind]++
    unreported++
    return true
  }

  function addRun({ first, count }: { first: number; count: number }, kind: 'used' | 'free'): void {
    // a damaged run may be of any length
    for (let page = first; page < first + count && page <= total; page++) add(page, kind)
  }

  const options = {
    onPage: (number: number) => add(number, 'used'),
    onDamage: () => void count.damaged++,
  }

  async function addTable(root: bigint): Promise<void> {
    for (const page of leavesOf(file, root, options)) {
      for (let index = 0; index < page.count; index++) {
        const node = nodeAt(page, index)
        const run = node?.isBig ? overflowOf(page, node) : undefined
        if (run) addRun(run, 'used')
        if (!node || (node.isBig && !run)) count.damaged++
      }
      if (unreported < pagesPerSlice) continue
      await onPages(unreported)
      unreported = 0
    }
  }

  // the meta pages
  addRun({ first: 0, count: 2 }, 'used')
  await addTable(meta.free)
  // its pages are counted already
  for (const row of rowsOf(file, meta.free, { onDamage: () => {} })) {
    for (const run of readFreeRuns(row)) addRun(run, 'free')
  }
  await addTable(meta.main)
  for (const row of rowsOf(file, meta.main, { onDamage: () => {} })) {
    const table = row.isTable ? readTable(row) : undefined
    if (table) await addTable(table.root)
  }
  count.leaked = total - count.used - count.free
  return count
}
