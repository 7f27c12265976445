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

/** The operations on a table that decisions use. */
export interface Rows {
  getBinary(key: Buffer): Buffer | undefined
  doesExist(key: Buffer): boolean
  getKeys(range: KeyRange): Iterable<Buffer>
  put(key: Buffer, value: Buffer): unknown
  remove(key: Buffer): unknown
}

/** An LMDB environment: a directory with one data file, written by one transaction at a time over all processes. */
export interface Environment {
  root: RootDatabase<Buffer, Buffer>
  /**
   * Opens a table. Creating a missing one takes the write lock, so open each table before the first request, and not in
   * a transaction, whose rollback would remove it.
   */
  table(name: string): Table
  /**
   * Runs `work` in one write transaction, which is durable when this returns.
   *
   * @throws {IngestError} `store-failed` when the data file or the lock file was deleted or replaced: the write went to
   *   a file that no other process reads, or another process writes to the same pages
   */
  write<T>(work: () => T): T
  /**
   * The other process that holds the write lock; undefined when it is free, held by this process, or not known.
   */
  lockHolder(): LockHolder | undefined
  /** Set when the data file or the lock file was deleted or replaced: writes are lost, or no longer exclusive. */
  lossReason(): string | undefined
  /** How full the environment is, and its readers, from memory that is shared with other processes. */
  usage(): EnvironmentUsage
  /** Identifies the two files. A thread that opens the environment later passes it to {@link openEnvironment}. */
  fileIds: string
  /** Whether less than 16 MiB of the disk are free. */
  isDiskFull(): boolean
  /** @throws {IngestError} `disk-full` when less than 16 MiB of the disk are free */
  checkSpace(): void
}

export interface EnvironmentUsage {
  /** The most bytes that its data file may have. */
  bytesMax: number
  /** The slots that threads of all processes take for reading. */
  readers: number
  /** How many transactions were committed since the oldest snapshot that is being read: it keeps what they freed. */
  oldestReaderAge: number
}

export interface EnvironmentOptions {
  /** The files that another thread of this process has open. */
  fileIds?: string
}

// address space, not disk: the file grows with its content, except on Windows, where lmdb grows the map instead
const mapBytes = 2 ** 40
/** Creating a data or lock file on a full disk is a SIGBUS, so this much must be free. */
const freeBytesMin = 16 * 2 ** 20
/** The most file descriptors that opening an environment takes: two data files, a lock file, a temporary one. */
const fileDescriptorsMin = 8

/**
 * Opens the environment in `directory`, and creates it when it is missing. LMDB crashes the process (SIGSEGV, SIGBUS)
 * when it fails to open, so the known causes are checked first.
 *
 * @throws {IngestError} `store-incompatible` for files that LMDB cannot open safely, `disk-full`, `store-locked` when
 *   the lock file is missing and another process has the environment open, or when a process with the id of this one
 *   has it open in another container, `overloaded` when the process may open no more files, `store-failed` for files
 *   other than those of the options
 */
export function openEnvironment(directory: string, options: EnvironmentOptions = {}): Environment {
  const [path, lockPath] = [join(directory, 'data.mdb'), join(directory, 'lock.mdb')]
  const exists = checkBeforeOpening(directory, path, lockPath, options)
  const { root, readOnly } = openRoot(directory)
  // LMDB syncs the file, but not the directories that name it
  if (!exists) for (const each of [directory, dirname(directory)]) syncDirectory(each)
  const fileIds = options.fileIds ?? identify(path, lockPath)
  const lossReason = () => lossOf(path, lockPath, fileIds)
  checkFiles()
  const tables = new Map<string, Table>()

  function checkFiles(): void {
    const reason = lossReason()
    if (reason !== undefined) throw new IngestError('store-failed', `${reason}.`)
  }

  function openTable(name: string): Table {
    const options = { ...binary, create: false } as typeof binary
    return readOnly(() => root.openDB<Buffer, Buffer>(name, options)) ?? root.openDB<Buffer, Buffer>(name, binary)
  }

  return {
    root,
    table(name) {
      const table = tables.get(name) ?? openTable(name)
      tables.set(name, table)
      return table
    },
    write(work) {
      // also before, because the pages of this transaction may be those of another writer
      checkFiles()
      // a reader that was killed keeps all pages that were freed since its snapshot
      root.readerCheck()
      const result = root.transactionSync(work)
      checkFiles()
      return result
    },
    lockHolder: openLockProbe(lockPath),
    lossReason,
    usage: () => usageOf(root),
    fileIds,
    checkSpace: () => checkFreeSpace(directory),
    isDiskFull: () => freeBytes(directory) < freeBytesMin,
  }
}

/** Checks what LMDB would crash over, and creates the directory. Returns whether there is a data file. */
function checkBeforeOpening(
  directory: string,
  path: string,
  lockPath: string,
  { fileIds }: EnvironmentOptions,
): boolean {
  checkFileDescriptors(directory, fileDescriptorsMin)
  const reason = fileIds === undefined ? undefined : lossOf(path, lockPath, fileIds)
  if (reason !== undefined) throw new IngestError('store-failed', `${reason}.`)
  const exists = checkDataFile(path)
  const hasLockFile = checkLockFile(lockPath)
  checkAddressSpace()
  makeDirectory(directory)
  if (!exists || !hasLockFile) checkFreeSpace(directory)
  if (exists && !hasLockFile) checkNotInUse(path, lockPath)
  return exists
}

function openRoot(directory: string) {
  const settings = {
    path: directory,
    isRoot: true,
    // lmdb takes a name with a dot for a file
    noSubdir: false,
    maxDbs: 32,
    ...(process.platform === 'win32' ? {} : { mapSize: mapBytes }),
    pageSize,
    permissionsMode: 0o600,
    // on, data is visible to others before it is durable, and stays visible when the sync fails
    overlappingSync: false,
    // on, a failed commit rejects a promise that cannot be caught, which ends the process
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
  const readOnly = <T>(open: () => T) => withoutLock(Store.prototype, open)
  return { root: readOnly(() => new Store(null, settings)), readOnly }
}

function usageOf(root: RootDatabase<Buffer, Buffer>): EnvironmentUsage {
  root.resetReadTxn()
  const { lastTxnId, mapSize } = root.getStats() as { lastTxnId: number; mapSize: number }
  // below a title, the process, the thread, and its transaction, or a dash without one
  const transactions = [...root.readerList().matchAll(/^ *\d+ +[0-9a-f]+ +(\d+|-)$/gm)].map(([, id]) => Number(id))
  const oldest = Math.min(lastTxnId, ...transactions.filter((id) => id > 0))
  return { bytesMax: mapSize, readers: transactions.length, oldestReaderAge: lastTxnId - oldest }
}

function identify(path: string, lockPath: string): string {
  return [path, lockPath].map(fileId).join()
}

function lossOf(path: string, lockPath: string, fileIds: string): string | undefined {
  return identify(path, lockPath) === fileIds
    ? undefined
    : `${path} or its lock.mdb was deleted or replaced while it was open`
}

const binary = { encoding: 'binary', keyEncoding: 'binary' } as const

/** Opens tables in a read transaction: lmdb uses a write transaction even for a table that exists. */
function withoutLock<T>(prototype: Database, openTable: () => T): T {
  const { transactionSync } = prototype
  prototype.transactionSync = function readTransaction<Value>(this: Database, work: () => Value) {
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
 * Before the first read, LMDB locks one byte of the lock file, at the offset of the process id. While another process
 * has that lock, lmdb tries for 10 seconds to begin a read transaction, and goes on without one.
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

function fileId(path: string): string {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false })
  return stat ? `${stat.dev}:${stat.ino}` : 'none'
}

/** @throws {IngestError} `disk-full` when less than 16 MiB are free on the disk of `directory` */
export function checkFreeSpace(directory: string): void {
  const actual = freeBytes(directory)
  if (actual >= freeBytesMin) return
  throw new IngestError(
    'disk-full',
    `${directory} has ${actual} bytes of free space, and ${freeBytesMin} are needed.`,
    {
      limit: freeBytesMin,
      actual,
      retryAfterSeconds: 5,
    },
  )
}

/** Without its lock file, a process that has the data file open and this one would not exclude each other. */
function checkNotInUse(path: string, lockPath: string): void {
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
