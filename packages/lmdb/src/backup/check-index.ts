import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { inspectDataFile } from '../environment/data-file.ts'
import { openEnvironment } from '../environment/environment.ts'
import type { Candidate } from '../ids/entry.ts'
import { createPublishedRuns } from '../ids/id-lookup.ts'
import { isDamage } from '../ids/run.ts'
import { idsOptions, openIdTables } from '../ids/run-list.ts'
import { addProblem, type StoreReport } from './store-report.ts'

/** Looks up the ids of the log in the id index, as an append does. */
export interface IndexCheck {
  /** Takes the fingerprints of an intact record, high and low halves. */
  record(sequence: number, fingerprints: Uint32Array): void
  /** Reads the newest list of runs; called at the start of each snapshot. */
  beginSlice(): void
  /** Reports the ids that were not found. */
  end(): void
  close(): Promise<void>
}

const noIndex: IndexCheck = { record() {}, beginSlice() {}, end() {}, async close() {} }

const remedy = 'stop every process on the directory and delete ids/: the next opening rebuilds it from the log'

/** Opens the id index in a directory to check it; nothing is checked if there is none. */
export async function openIndexCheck(directory: string, seed: string, report: StoreReport): Promise<IndexCheck> {
  const problem = (message: string, record?: number) =>
    addProblem(report, { part: 'index', message: `${message}: ${remedy}`, ...(record !== undefined && { record }) })
  if (existsSync(join(directory, 'damaged'))) {
    problem('The id index is marked as damaged')
    return noIndex
  }
  const dataFile = inspectDataFile(join(directory, 'data.mdb'))
  if (dataFile === 'damaged') problem('The id index has a damaged data file')
  if (dataFile !== 'whole') return noIndex
  const environment = await openEnvironment(directory, { ...idsOptions, readOnly: true })
  const runs = createPublishedRuns(openIdTables(environment), seed)
  const lost = { ids: 0, firstRecord: 0 }
  let isReadable = true

  function read(work: () => void): void {
    if (!isReadable) return
    try {
      work()
    } catch (error) {
      if (!isDamage(error)) throw error
      isReadable = false
      problem(`The id index cannot be read (${(error as Error).message})`)
    }
  }

  return {
    beginSlice: () =>
      read(() => {
        runs.refresh()
        // a search without filters is slow
        runs.readFilters(Number.POSITIVE_INFINITY)
      }),

    record: (sequence, fingerprints) =>
      read(() => {
        if (sequence > runs.list().watermark) return
        const missing = new Set(Array.from({ length: fingerprints.length / 2 }, (_, index) => index))
        const found: Candidate[] = []
        runs.search(fingerprints, missing.size, found)
        for (const { queryIndex, position } of found) {
          if (position.sequence === sequence && position.index === queryIndex) missing.delete(queryIndex)
        }
        if (missing.size > 0 && lost.ids === 0) lost.firstRecord = sequence
        lost.ids += missing.size
      }),

    end() {
      const { ids, firstRecord } = lost
      if (ids > 0)
        problem(`The id index lacks ids of the log (${ids}, the first of record ${firstRecord})`, firstRecord)
      const { revision, runs: all } = runs.list()
      if (revision > 0) report.indexedIds = all.reduce((sum, { count }) => sum + count, 0)
    },

    close: () => environment.close(),
  }
}
