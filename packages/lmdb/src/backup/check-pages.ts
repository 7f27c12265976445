import { join } from 'node:path'
import type { Environment } from '../environment/environment.ts'
import {
  createPageSet,
  leavesOf,
  nodeAt,
  overflowOf,
  type PageRun,
  pageSize,
  readFreeRuns,
  readTable,
  rowsOf,
} from '../environment/page-file.ts'
import { type Snapshot, takeSnapshot } from '../pages/snapshot.ts'
import { addProblem, type StoreReport } from './store-report.ts'

export interface PageCheckOptions {
  environment: Environment
  /** The directory of the environment. */
  directory: string
  report: StoreReport
  part: 'pages' | 'index'
  /** What to do about leaked pages. */
  remedy: string
  /** Called now and then with how many more pages are counted. */
  onSlice(pages: number): Promise<void>
}

/** How many pages are counted between two calls of `onSlice`. */
const pagesPerSlice = 4096

/**
 * Counts the pages of a data file on one snapshot, which is kept for as long as it takes to read the branches and leaves
 * of its trees. Leaked pages are a warning, because they lose nothing.
 */
export async function checkPages(options: PageCheckOptions): Promise<void> {
  const { environment, directory, report, part, remedy, onSlice } = options
  const snapshot = takeSnapshot(environment, directory)
  try {
    const { leaked, conflicts, firstConflict, damaged } = await countPages(snapshot, onSlice)
    const path = join(directory, 'data.mdb')
    const problem = (message: string) => addProblem(report, { part, message: `${path} has ${message}` })
    if (conflicts > 0) {
      problem(`pages (${conflicts}, the first is ${firstConflict}) that are used twice, or are free and in use.`)
    }
    if (damaged > 0) problem(`pages (${damaged}) that cannot be read.`)
    // what is below a damaged page is not counted
    if (leaked === 0 || damaged > 0) return
    report.warnings.push({
      part,
      message: `${path} has leaked pages (${leaked}, ${leaked * pageSize} bytes), which are neither used nor free: nothing is lost, but they are never used again. ${remedy}.`,
    })
  } finally {
    snapshot.release()
  }
}

/**
 * Counts all pages of a snapshot, by the trees of its tables and the list of free pages, with one bit of memory for each.
 * A conflict is a page that is used twice, used and free, free twice, or beyond the end: the next write may destroy rows.
 */
async function countPages({ file, meta }: Snapshot, onSlice: PageCheckOptions['onSlice']) {
  const total = meta.lastPage + 1
  const seen = createPageSet(total)
  let conflicts = 0
  let firstConflict: number | undefined
  let counted = 0
  let reported = 0
  let damaged = 0

  /** Returns whether the page was not counted before. */
  function add(page: number): boolean {
    if (page >= total || page < 0 || seen.has(page)) {
      conflicts++
      firstConflict ??= page
      return false
    }
    seen.add(page)
    counted++
    return true
  }

  function addRun({ first, count }: PageRun): void {
    // a damaged run may be of any length
    for (let page = first; page < first + count && page <= total; page++) add(page)
  }

  async function addTable(root: bigint): Promise<void> {
    for (const page of leavesOf(file, root, { onPage: add, onDamage: () => void damaged++ })) {
      for (let index = 0; index < page.count; index++) {
        const node = nodeAt(page, index)
        const run = node?.isBig ? overflowOf(page, node) : undefined
        if (run) addRun(run)
        if (!node || (node.isBig && !run)) damaged++
      }
      if (counted - reported < pagesPerSlice) continue
      await onSlice(counted - reported)
      reported = counted
    }
  }

  // the pages of the list of free pages and of the list of tables are counted before their rows are read
  const rowsIn = (root: bigint) => rowsOf(file, root, { onDamage: () => {} })
  addRun({ first: 0, count: 2 })
  await addTable(meta.free)
  for (const row of rowsIn(meta.free)) for (const run of readFreeRuns(row)) addRun(run)
  await addTable(meta.main)
  for (const row of rowsIn(meta.main)) {
    const table = row.isTable ? readTable(row) : undefined
    if (table) await addTable(table.root)
  }
  return { leaked: total - counted, conflicts, firstConflict, damaged }
}
