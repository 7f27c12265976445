import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { IngestError } from '@ingest/core'
import type { Environment } from '../environment/environment.ts'
import {
  createPageSet,
  openPageFile,
  type PageRun,
  type PageSet,
  pageSize,
  readFreedBy,
  readFreeRuns,
  rowsOf,
} from '../environment/page-file.ts'

/** Where to continue, and how many pages were overwritten. */
export interface Overwritten {
  /** The next page to look at; undefined after the last one. */
  next?: number
  pages: number
}

/** How long a step takes at least, if there is so much to do, in milliseconds. */
const stepMs = 10
/** The most pages that a step writes, so that the next sync takes no longer than that of a large commit. */
const pagesMax = 2048
/** The most pages that are read at once. */
const pagesAtOnce = 64

/**
 * Overwrites free pages with zeros, from page `from` on, unless they are zeros already: those that LMDB's next transaction
 * could use, and what transactions that never committed have left behind the last page. The file does not grow. Call it
 * in a write transaction that has written nothing: no process can take free pages meanwhile. Takes about as long as
 * reading the list of free pages.
 *
 * @throws {IngestError} `overloaded` while a snapshot from before transaction `before` is read, which may need pages that
 *   were freed by then; `store-damaged` for a list of free pages that cannot be read
 */
export function overwriteFreePages(environment: Environment, path: string, before: number, from: number): Overwritten {
  const startedAt = performance.now()
  const oldest = oldestSnapshot(environment)
  if (oldest < before) throw stillRead()
  const free = findFreePages(path, oldest)
  const until = performance.now() + Math.max(stepMs, performance.now() - startedAt)
  const file = openSync(path, 'r+')
  try {
    let pages = 0
    for (const run of free.runs(from, pagesAtOnce)) {
      if (performance.now() > until || pages > pagesMax) return { next: run.first, pages }
      pages += overwrite(file, run)
    }
    return { pages }
  } finally {
    closeSync(file)
  }
}

/** The error of a purge while a snapshot from before it is read. */
export function stillRead(): IngestError {
  return new IngestError(
    'overloaded',
    'A long read of the store, such as a backup, still holds erased bytes: purge again when it has ended.',
    { retryAfterSeconds: 60 },
  )
}

/** The transaction of the oldest snapshot that any process reads; that of the last commit if none is older. */
export function oldestSnapshot({ root }: Environment): number {
  root.resetReadTxn()
  root.readerCheck()
  const { lastTxnId } = root.getStats() as { lastTxnId: number }
  // the last column of LMDB's list
  const snapshots = root
    .readerList()
    .split('\n')
    .map((line) => Number(line.trim().split(/\s+/).at(-1)))
  return Math.min(lastTxnId, ...snapshots.filter((transaction) => transaction > 0))
}

/** Free pages that no snapshot from `oldest` on needs. */
function findFreePages(path: string, oldest: number): PageSet {
  const file = openPageFile(path)
  try {
    const [meta] = file.metas()
    if (!meta || meta.transaction < oldest) throw damagedList(path)
    const onDamage = () => {
      throw damagedList(path)
    }
    // may be less than the list says
    const size = file.size()
    const free = createPageSet(size)
    const addRun = (first: number, end: number) => {
      for (let page = Math.max(first, 2); page < Math.min(end, size); page++) free.add(page)
    }
    for (const row of rowsOf(file, meta.free, { onDamage })) {
      // as LMDB does: a crash may go back to the snapshot before the last commit
      if (readFreedBy(row) >= oldest) continue
      for (const { first, count } of readFreeRuns(row)) addRun(first, first + count)
    }
    addRun(meta.lastPage + 1, size)
    return free
  } finally {
    file.close()
  }
}

const zeros = Buffer.alloc(pagesAtOnce * pageSize)
const buffer = Buffer.alloc(pagesAtOnce * pageSize)

/** Returns how many pages it has written. */
function overwrite(file: number, { first, count }: PageRun): number {
  const read = readSync(file, buffer, 0, count * pageSize, first * pageSize)
  const isClean = (at: number) => buffer.compare(zeros, 0, pageSize, at, at + pageSize) === 0
  let written = 0
  for (let at = 0; at < read; at += pageSize) {
    if (isClean(at)) continue
    let end = at + pageSize
    while (end < read && !isClean(end)) end += pageSize
    // a full disk makes for a short write, and an error of the next one
    for (let from = at; from < end; ) from += writeSync(file, zeros, 0, end - from, first * pageSize + from)
    written += (end - at) / pageSize
    at = end
  }
  return written
}

function damagedList(path: string): IngestError {
  return new IngestError('store-damaged', `The list of free pages of ${path} is damaged: restore a backup.`)
}
