import { closeSync, openSync, readFileSync, statSync, truncateSync } from 'node:fs'
import { devNull } from 'node:os'
import { dirname, join } from 'node:path'
import { IngestError } from '@ingest/core'
import { syncDirectoryNow } from '@ingest/core/internal'
import { checkDataFile, checkLockFile, type Headers, isUnfinished, openHeaders, syncDataFile } from './data-file.ts'
import { createFiles } from './directory.ts'
import { checkFreeSpace, lacksSpace } from './disk-space.ts'
import { checkBegun, type Gate, gateDirectory, openGate } from './gate.ts'
import { closeRoot, openRoot, openTable, openTables, type Root, readersOf, releaseReused, type Table } from './root.ts'
import type { TableName } from './schema.ts'
import { findProcessMapping, type LockHolder, lockedError, lockTimeoutMs } from './write-lock.ts'

/*
 * All access to LMDB. An environment is a directory with one data file; a store has three: `events`, `ids` and
 * `chunks`. LMDB gives snapshots and atomic, durable transactions, with one writer at a time over all processes. It has
 * no checksums, and crashes the process over some damage. This folder checks files before LMDB opens them.
 *
 * - root: LMDB's handle of an environment; `root.ts` says why each setting has its value
 * - gate: a lock around every opening, commit and closing, over all processes (`gate.ts`); without it, LMDB may undo a
 *   commit
 * - lock holder: the process inside the gate; a stopped one lets others fail with `store-locked` (`write-lock.ts`)
 * - header: the first pages of a data file, checked before LMDB maps the file (`data-file.ts`)
 * - table: a name with keys and values of bytes; `schema.ts` lists all
 * - identity: the id, epoch and secret of a store, which its three environments share (`identity.ts`)
 *
 * Start with `Environment` below, then read `write`: its transaction is the commit that makes a batch durable.
 */

export type { Table }

export interface KeyRange {
  start?: Uint8Array
  /** Not in it. */
  end?: Uint8Array
  limit?: number
  reverse?: boolean
}

/** The operations on a table that decisions use. */
export interface Rows {
  getBinary(key: Buffer): Buffer | undefined
  doesExist(key: Buffer): boolean
  getKeys(range: KeyRange): Iterable<Buffer>
  getKeysCount(range: KeyRange): number
  put(key: Buffer, value: Buffer): unknown
  remove(key: Buffer): unknown
}

/** An LMDB environment: a directory with one data file, written by one transaction at a time over all processes. */
export interface Environment {
  /** Only for reads. Writing and closing without the gate would harm commits of other processes. */
  root: Omit<Root, 'close'>
  /**
   * A table. Creating a missing one is a commit, so ask for each table before the first request, and not in a
   * transaction, whose rollback would remove it.
   *
   * @throws {IngestError} `store-locked` when it is missing, and a process inside the gate is stopped
   */
  table(name: TableName): Table
  /**
   * Runs `work` in one write transaction, which is durable when this returns.
   *
   * @throws {IngestError} `store-failed` when a data file or lock file was deleted or replaced, as the write went to a
   *   file that no other process reads, or another process writes to the same pages; or when the transaction began from
   *   a snapshot before the last commit, and nothing was written
   */
  write<T>(work: () => T): T
  /**
   * Runs `work` while no process commits to the environment.
   *
   * @throws {IngestError} `store-locked` when another process stays inside the gate for {@link lockTimeoutMs}
   */
  withoutCommits<T>(work: () => T): Promise<T>
  /** As {@link Gate.untilTurn}. */
  untilTurn: Gate['untilTurn']
  /** The number of the last transaction that was committed, by any process. */
  newestTransaction(): number
  /** The other process that is inside the gate; undefined when it is free, or not known. */
  lockHolder(): LockHolder | undefined
  /** Set when a data file or lock file was deleted or replaced: writes are lost, or no longer exclusive. */
  lossReason(): string | undefined
  /** How full the environment is, and its readers, from memory that is shared with other processes. */
  usage(): EnvironmentUsage
  /** Identifies the files. A thread that opens the environment later passes it to {@link openEnvironment}. */
  fileIds: string
  /** Whether less than 16 MiB are free on the disk, or below the file size limit of this process. */
  lacksSpace(): boolean
  /** @throws {IngestError} `disk-full` when {@link lacksSpace} */
  checkSpace(): void
  /**
   * Closes it, or leaves that to the end of the process if another process stays inside the gate for
   * {@link lockTimeoutMs}.
   */
  close(): Promise<void>
}

export interface EnvironmentUsage {
  /** The most bytes that its data file may have. */
  bytesMax: number
  /** The slots that threads of all processes take for reading. */
  readers: number
  /** Maximum number of slots. */
  readersMax: number
  /** Transactions committed since the oldest snapshot in use, which keeps the pages that they freed. */
  oldestReaderAge: number
}

export interface EnvironmentOptions {
  /** The files that another thread of this process has open. */
  fileIds?: string
  /** Creates no table: a missing one is empty. */
  readOnly?: boolean
  /**
   * Reads single pages from the disk, and not those around them. The first opening in a process decides for all of its
   * threads. Ignored on Windows.
   */
  noReadAhead?: boolean
}

// address space, not disk: the file grows with its content, except on Windows, where lmdb grows the map instead
const mapBytes = 2 ** 40
/** The most file descriptors that opening an environment and its gate takes, with temporary ones. */
const fileDescriptorsMin = 16

/**
 * Opens the environment in `directory`, and creates it when it is missing. LMDB crashes the process (SIGSEGV, SIGBUS)
 * when it fails to open, so the known causes are checked first.
 *
 * @throws {IngestError} `store-incompatible` for files that LMDB cannot open safely, `disk-full`, `store-locked` when
 *   the lock file is missing and another process has the environment open, when a process with the id of this one has
 *   it open in another container, or when another process is inside the gate for {@link lockTimeoutMs}, `overloaded`
 *   when the process may open no more files, `store-failed` for files other than those of the options
 */
export async function openEnvironment(directory: string, options: EnvironmentOptions = {}): Promise<Environment> {
  const files = filesOf(directory)
  checkBeforeOpening(directory, files, options)
  const isFirst = options.fileIds === undefined
  const gate = openGate(directory, isFirst)
  let root: Root | undefined
  let headers: Headers | undefined
  try {
    const opened = await gate.enter(() => {
      // no other process creates it now
      if (isUnfinished(files[0])) truncateSync(files[0])
      root = openRoot(directory, mapBytes, options)
      if (isFirst) root = releaseReused(root, () => openRoot(directory, mapBytes, options))
      headers = openHeaders(files[0])
      // before the first commit of any process: the one that created the file may have been killed
      if (headers.newestTransaction() === 0) syncCreated(directory, files[0])
      return { root, headers, tables: openTables(root) }
    })
    const { fileIds = identify(files), readOnly = false } = options
    return createEnvironment(directory, { ...opened, gate, fileIds, readOnly })
  } catch (error) {
    await closeAll({ root, gate, headers })
    throw error
  }
}

/** Syncs a new data file and the directories that name it. */
function syncCreated(directory: string, dataPath: string): void {
  syncDataFile(dataPath)
  for (const each of [directory, dirname(directory)]) syncDirectoryNow(each)
}

interface Opened {
  root: Root
  /** The existing tables, by name. */
  tables: Map<string, Table>
  gate: Gate
  headers: Headers
  fileIds: string
  readOnly: boolean
}

function createEnvironment(directory: string, opened: Opened): Environment {
  const { root, tables, gate, headers, fileIds, readOnly } = opened
  const files = filesOf(directory)
  const lossReason = () => lossOf(files, fileIds)
  /** The number of the last transaction of this thread. */
  let lastCommitted = 0
  checkFiles()

  function checkFiles(): void {
    const reason = lossReason()
    if (reason !== undefined) throw new IngestError('store-failed', `${reason}.`)
  }

  function create(name: string): Table {
    const holder = gate.holder()
    if (holder?.isStopped) throw lockedError(holder)
    return gate.run(() => openTable(root, name))
  }

  /** Checks that the transaction that has begun continues from the last commit, which it would replace otherwise. */
  function checkSnapshot(): number {
    const transaction = checkBegun(root)
    const newest = Math.max(headers.newestTransaction(), lastCommitted)
    if (transaction === newest + 1) return transaction
    throw new IngestError(
      'store-failed',
      `${directory}: transaction ${transaction} would replace the last commit, which has number ${newest}. Nothing was written: end all processes that have the store open, then start them again.`,
    )
  }

  return {
    root,
    table(name) {
      const table = tables.get(name) ?? (readOnly ? emptyTable : create(name))
      tables.set(name, table)
      return table
    },
    write(work) {
      // also before the transaction: if a file was replaced, another writer may write to the same pages
      checkFiles()
      // a reader that was killed keeps all pages that were freed since its snapshot
      root.readerCheck()
      const result = gate.run(() => {
        let transaction = 0
        const result = root.transactionSync(() => {
          transaction = checkSnapshot()
          return work()
        })
        lastCommitted = Math.min(transaction, headers.newestTransaction())
        return result
      })
      checkFiles()
      return result
    },
    withoutCommits: gate.enter,
    untilTurn: gate.untilTurn,
    newestTransaction: headers.newestTransaction,
    lockHolder: gate.holder,
    lossReason,
    usage: () => usageOf(root),
    fileIds,
    checkSpace: () => checkFreeSpace(directory),
    lacksSpace: () => lacksSpace(directory),
    close: () => closeAll(opened),
  }
}

/** The reads of a table that does not exist. */
const emptyTable = {
  getBinary: () => undefined,
  getBinaryFast: () => undefined,
  doesExist: () => false,
  getKeys: () => [],
  getKeysCount: () => 0,
  getStats: () => ({ entryCount: 0 }),
} as unknown as Table

interface Handles {
  root: Root | undefined
  gate: Gate
  headers: Headers | undefined
}

async function closeAll({ root, gate, headers }: Handles): Promise<void> {
  headers?.close()
  try {
    if (root) await gate.enter(() => closeRoot(root))
  } catch {
    // the end of the process closes it, without destroying the mutexes that others use
    return
  }
  gate.close()
}

/** The files that identify an environment: if one is replaced, processes no longer exclude each other. */
function filesOf(directory: string): [data: string, lock: string, gate: string] {
  const path = (...names: string[]) => join(directory, ...names)
  return [path('data.mdb'), path('lock.mdb'), path(gateDirectory, 'lock.mdb')]
}

/** Checks for causes of a crash of LMDB, and creates the directory. */
function checkBeforeOpening(
  directory: string,
  files: ReturnType<typeof filesOf>,
  { fileIds }: EnvironmentOptions,
): void {
  const [path, ...lockPaths] = files
  checkFileDescriptors(directory, fileDescriptorsMin)
  const reason = fileIds === undefined ? undefined : lossOf(files, fileIds)
  if (reason !== undefined) throw new IngestError('store-failed', `${reason}.`)
  const exists = checkDataFile(path)
  const [hasLockFile] = lockPaths.map(checkLockFile)
  checkAddressSpace()
  // the lock file of the gate too, because it is created before the data file
  if (exists) for (const each of lockPaths) checkNotInUse(path, each)
  createFiles(directory)
  if (!exists || !hasLockFile) checkFreeSpace(directory)
}

function usageOf(root: Root): EnvironmentUsage {
  root.resetReadTxn()
  const stats = root.getStats() as { lastTxnId: number; mapSize: number; maxReaders: number }
  const { lastTxnId, mapSize, maxReaders } = stats
  const transactions = readersOf(root).map(({ transaction }) => transaction)
  const oldest = Math.min(lastTxnId, ...transactions.filter((id) => id > 0))
  return {
    bytesMax: mapSize,
    readers: transactions.length,
    readersMax: maxReaders,
    oldestReaderAge: lastTxnId - oldest,
  }
}

function identify(files: readonly string[]): string {
  return files.map(fileId).join()
}

function lossOf(files: readonly string[], fileIds: string): string | undefined {
  return identify(files) === fileIds
    ? undefined
    : `${files[0]} or one of its lock files was deleted or replaced while it was open`
}

function fileId(path: string): string {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false })
  return stat ? `${stat.dev}:${stat.ino}` : 'none'
}

/**
 * Refuses a data file that another process has open if its lock file is missing: the two processes would not exclude
 * each other.
 */
function checkNotInUse(path: string, lockPath: string): void {
  if (checkLockFile(lockPath)) return
  const pid = findProcessMapping(path)
  // a process that starts at the same time creates the lock file first
  if (pid === undefined || checkLockFile(lockPath)) return
  throw new IngestError(
    'store-locked',
    `${lockPath} is missing, and process ${pid} has the store open: end it first.`,
    {
      retryAfterSeconds: 5,
    },
  )
}

/** LMDB crashes the process when it cannot map the file. */
function checkAddressSpace(): void {
  if (process.platform !== 'linux') return
  const [, limit] = /^Max address space +(\d+) /m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
  if (limit === undefined || Number(limit) > 4 * mapBytes) return
  throw new IngestError(
    'store-incompatible',
    `This process may map only ${limit} bytes, and the store maps up to ${mapBytes} for each of its files: raise the limit (ulimit -v).`,
  )
}

/**
 * LMDB crashes the process when it cannot open a file.
 *
 * @throws {IngestError} `overloaded` if this process may not open `count` more files
 */
export function checkFileDescriptors(directory: string, count: number): void {
  const open: number[] = []
  try {
    while (open.length < count) open.push(openSync(devNull, 'r'))
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    if (code !== 'EMFILE' && code !== 'ENFILE') throw cause
    throw new IngestError('overloaded', `${directory} cannot be opened: ${message}. Raise the limit (ulimit -n).`, {
      cause,
      retryAfterSeconds: 5,
    })
  } finally {
    for (const each of open) closeSync(each)
  }
}
