import { closeSync, openSync, readFileSync, statfsSync, statSync } from 'node:fs'
import { devNull } from 'node:os'
import { dirname, join } from 'node:path'
import { IngestError } from '@ingest/core'
import { type Database, openAsClass, type RootDatabase } from 'lmdb'
import { checkDataFile, checkLockFile, pageSize } from './data-file.ts'
import { makeDirectory, syncDirectory } from './directory.ts'
import { findProcessMapping, type LockHolder, openLockProbe } from './write-lock.ts'

/** A table with binary keys and values. */
export type Table = Database<Buffer, Buffer>

export interface KeyRange {
  start?: Uint8Array
  /** Not in it. */
  end?: Uint8Array
  limit?: number
  reverse?: boolean
}

/** What a decision needs of a table. */
export interface Rows {
  getBinary(key: Buffer): Buffer | undefined
  doesExist(key: Buffer): boolean
  getKeys(range: KeyRange): Iterable<Buffer>
  put(key: Buffer, value: Buffer): unknown
  remove(key: Buffer): unknown
}

/** One LMDB environment: a folder with one data file, written by one transaction at a time over all processes. */
export interface Environment {
  root: RootDatabase<Buffer, Buffer>
  /**
   * Opens a table. Creating one that is missing takes the write lock, so the first call for a name belongs before the
   * first request; and not into a transaction, whose undo would remove the table.
   */
  table(name: string): Table
  /**
   * Runs `work` in one write transaction, which is durable when this returns.
   *
   * @throws {IngestError} `store-failed` when the data file or the lock file was deleted or replaced: what was written
   *   is in no file that another process reads, or another process writes to the same pages.
   */
  write<T>(work: () => T): T
  /**
   * The process that holds the write lock; undefined when it is free, held by this process, or cannot be determined.
   */
  lockHolder(): LockHolder | undefined
  /**
   * Why the files cannot be trusted: one that was deleted or replaced under a running process takes every write and
   * keeps none, and two lock files make two writers.
   */
  lossReason(): string | undefined
  /** Identifies the two files. A thread that opens the environment later passes it to {@link openEnvironment}. */
  fileIds: string
  /** Whether the disk has next to no space left. */
  isDiskFull(): boolean
  /** @throws {IngestError} `disk-full` when the disk has next to no space left. */
  checkSpace(): void
}

export interface EnvironmentOptions {
  /** The files that another thread of this process has open. */
  fileIds?: string
}

// address space, not disk: the file grows as it is filled, except on Windows, where lmdb grows the map instead
const mapBytes = 2 ** 40
/** Creating a data or lock file on a full disk is a SIGBUS, so this much must be free. */
const freeBytesMin = 16 * 2 ** 20
/** How many file descriptors opening an environment takes at most: two data files, a lock file, a temporary one. */
const fileDescriptorsMin = 8

/**
 * Opens the environment in `directory`, and creates it when it is missing. LMDB crashes the process (SIGSEGV, SIGBUS)
 * when it fails to open, so the known causes are checked first.
 *
 * @throws {IngestError} `store-incompatible` for files that LMDB cannot open safely, `disk-full`, `store-locked` when
 *   the lock file is gone and another process has it open, or when a process with the id of this one has it open in
 *   another container, `overloaded` when the process may open no more files, `store-failed` for files other than those
 *   of the options
 */
export function openEnvironment(directory: string, options: EnvironmentOptions = {}): Environment {
  const [path, lockPath] = [join(directory, 'data.mdb'), join(directory, 'lock.mdb')]
  checkFileDescriptors(directory, fileDescriptorsMin)
  if (options.fileIds !== undefined) checkFiles(options.fileIds)
  const existed = checkDataFile(path)
  const hasLockFile = checkLockFile(lockPath)
  checkAddressSpace()
  makeDirectory(directory)
  if (!existed || !hasLockFile) checkFreeSpace(directory)
  if (existed && !hasLockFile) checkNotInUse(path, lockPath)
  const settings = {
    path: directory,
    isRoot: true,
    // a name with a dot in it would be taken for a file
    noSubdir: false,
    maxDbs: 32,
    ...(process.platform === 'win32' ? {} : { mapSize: mapBytes }),
    pageSize,
    permissionsMode: 0o600,
    // on, data is visible to others before it is durable, and stays visible when the sync fails
    overlappingSync: false,
    // on, a failed commit rejects a promise that nobody can catch, which ends the process
    eventTurnBatching: false,
    noMemInit: false,
    cache: false,
    ...binary,
  }
  // the types of lmdb call its constructor a method
  const Store = openAsClass({ ...settings } as Parameters<typeof openAsClass>[0]) as unknown as new (
    name: null,
    options: object,
  ) => RootDatabase<Buffer, Buffer>
  const root = withoutLock(Store.prototype, () => new Store(null, settings))
  // LMDB syncs the file and not the directory that names it
  if (!existed) for (const each of [directory, dirname(directory)]) syncDirectory(each)
  const files = options.fileIds ?? identify()
  checkFiles(files)
  const findHolder = openLockProbe(lockPath)
  const tables = new Map<string, Table>()

  function identify(): string {
    return [path, lockPath].map(identityOf).join()
  }

  function lossOf(files: string): string | undefined {
    return identify() === files ? undefined : `${path} or its lock.mdb was deleted or replaced while it was open`
  }

  function checkFiles(files: string): void {
    const what = lossOf(files)
    if (what !== undefined) throw new IngestError('store-failed', `${what}.`)
  }

  function openTable(name: string): Table {
    const options = { ...binary, create: false } as typeof binary
    const existing = withoutLock(Store.prototype, () => root.openDB<Buffer, Buffer>(name, options))
    return existing ?? root.openDB<Buffer, Buffer>(name, binary)
  }

  return {
    root,
    table(name) {
      const table = tables.get(name) ?? openTable(name)
      tables.set(name, table)
      return table
    },
    write(work) {
      // before as well: the pages of this transaction may be those of another writer
      checkFiles(files)
      // a reader that was killed keeps all pages that were freed since its snapshot
      root.readerCheck()
      const result = root.transactionSync(work)
      checkFiles(files)
      return result
    },
    lockHolder: findHolder,
    lossReason: () => lossOf(files),
    fileIds: files,
    checkSpace: () => checkFreeSpace(directory),
    isDiskFull: () => freeBytes(directory) < freeBytesMin,
  }
}

const binary = { encoding: 'binary', keyEncoding: 'binary' } as const

/** Opens a table in a read transaction: lmdb always uses a write transaction, even for a table that exists. */
function withoutLock<T>(prototype: Database, openTable: () => T): T {
  const { transactionSync } = prototype
  prototype.transactionSync = function lookOnly<Value>(this: Database, work: () => Value) {
    const { resetReadTxn, ensureReadTxn } = this as Database & { ensureReadTxn(): void }
    const begin = () => ensureReadTxn.call(this)
    const end = () => resetReadTxn.call(this)
    end()
    checkProcessId(begin, end)
    begin()
    return work()
  } as Database['transactionSync']
  try {
    return openTable()
  } finally {
    prototype.transactionSync = transactionSync
  }
}

/**
 * LMDB locks one byte of the lock file for each process, at the offset of its id, before the first read. While another
 * process has that lock, lmdb tries for 10 seconds to begin a read transaction, and goes on without one.
 *
 * @throws {IngestError} `store-locked` for a process with the id of this one, in another PID namespace
 */
function checkProcessId(begin: () => void, end: () => void): void {
  begin()
  try {
    end()
  } catch (cause) {
    throw new IngestError(
      'store-locked',
      `Another process with process id ${process.pid}, in another container, has the store open: let the containers share one PID namespace (docker run --pid=host), or end the other process.`,
      { cause, retryAfterSeconds: 5 },
    )
  }
}

function identityOf(path: string): string {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false })
  return stat ? `${stat.dev}:${stat.ino}` : 'none'
}

/** @throws {IngestError} `disk-full` when there is next to no space left for what is in `directory`. */
export function checkFreeSpace(directory: string): void {
  const actual = freeBytes(directory)
  if (actual >= freeBytesMin) return
  throw new IngestError('disk-full', `${directory} has ${actual} bytes of free space: make room.`, {
    limit: freeBytesMin,
    actual,
    retryAfterSeconds: 5,
  })
}

/** A process that has the data file open, and a lock file that is gone, would not lock out this one. */
function checkNotInUse(path: string, lockPath: string): void {
  const pid = findProcessMapping(path)
  // a process that starts at the same time makes the lock file first
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
 * @throws {IngestError} `overloaded` when this process may not open so many more files
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

function freeBytes(directory: string): number {
  const { bavail, bsize } = statfsSync(directory)
  return bavail * bsize
}
