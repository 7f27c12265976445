import { join } from 'node:path'
import type { Environment } from '../environment/environment.ts'
import { pageSize } from '../environment/page-file.ts'
import { countPages } from '../pages/count-pages.ts'
import { takeSnapshot } from '../pages/snapshot.ts'
import { addProblem, type StoreReport } from './store-report.ts'

export interface PageCheckOptions {
  environment: Environment
  /** Of the environment. */
  directory: string
  report: StoreReport
  part: 'pages' | 'index'
  /** What to do about leaked pages. */
  remedy: string
  /** Called now and then with how many more pages are counted. */
  onSlice(pages: number): Promise<void>
}

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
