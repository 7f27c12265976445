import { IngestError } from '@ingest/core'

/** A problem in the directory of a store. */
export interface StoreProblem {
  /** The part of the store that has the problem. */
  part: 'log' | 'index' | 'counters' | 'freezes' | 'projects' | 'maps'
  /** A sentence for people. It contains no event and no key. */
  message: string
  /** The sequence number of the log record. */
  record?: number
  projectId?: string
}

/** The result of verifying a store. */
export interface StoreReport {
  /** The first `problemsMax` problems. */
  problems: StoreProblem[]
  problemCount: number
  /** Batches in the log; each is one record. */
  records: number
  events: number
  /** Bytes of events, without erased ones. */
  bytes: number
  maps: number
  chunks: number
  chunkBytes: number
  /** Ids in the runs of the id index; null without an index, which the next opening builds. */
  indexedIds: number | null
}

/** The most problems that a report lists. */
const problemsMax = 100

export function emptyReport(): StoreReport {
  return {
    problems: [],
    problemCount: 0,
    records: 0,
    events: 0,
    bytes: 0,
    maps: 0,
    chunks: 0,
    chunkBytes: 0,
    indexedIds: null,
  }
}

export function addProblem(
  report: StoreReport,
  { projectId, ...problem }: Omit<StoreProblem, 'projectId'> & { projectId?: string | undefined },
): void {
  report.problemCount++
  if (report.problems.length >= problemsMax) return
  report.problems.push({ ...problem, ...(projectId !== undefined && { projectId }) })
}

/** @throws {IngestError} `store-damaged` for the first problem of a report */
export function checkReport(
  directory: string,
  { problems, problemCount }: Pick<StoreReport, 'problems' | 'problemCount'>,
): void {
  const [first] = problems
  if (!first) return
  const more = problemCount === 1 ? '' : ` (and ${problemCount - 1} more)`
  throw new IngestError(
    'store-damaged',
    `${directory} is damaged: ${first.message}${more} \`ingest repair\` saves what is left.`,
  )
}
