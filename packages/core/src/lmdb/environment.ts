import { closeSync, fsyncSync, openSync, readFileSync, statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Database, open, type RootDatabase } from 'lmdb'
import { IngestError } from '../error.ts'
import { checkDataFile, pageSize } from './check-data-file.ts'
import { makeDirectory } from './make-directory.ts'

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
   * Makes the table when it is missing. The first call for a name takes the write lock, so it belongs where nobody is
   * served yet; and not into a transaction, which would take the table with it if it is undone.
   */
  table(name: string): Table
  /**
   * What stands in the way of trusting the data file now: a file that was deleted or replaced under a running process
   * takes every write and keeps none.
   */
  lost(): string | undefined
  /** Whether the disk has next to no space left. */
  isFull(): boolean
}

// address space, not disk: the file grows as it is filled, except on Windows, where lmdb grows the map instead
const mapBytes = 2 ** 40
/** Creating a data file on a full disk is a SIGBUS, so there has to be this much. */
const freeBytesMin = 16 * 2 ** 20

/**
 * Opens the environment in `directory`, and makes it when it is missing.
 *
 * @throws {IngestError} `store-incompatible` for a data file that LMDB cannot open safely, `disk-full`
 */
export function openEnvironment(directory: string): Environment {
  const path = join(directory, 'data.mdb')
  const existed = checkDataFile(path)
  checkAddressSpace()
  makeDirectory(directory)
  if (!existed) checkFreeSpace(directory)
  const root = open<Buffer, Buffer>({
    path: directory,
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
  } as Parameters<typeof open<Buffer, Buffer>>[0])
  // LMDB syncs the file and not the folder that names it
  if (!existed) for (const folder of [directory, join(directory, '..')]) syncDirectory(folder)
  const { ino } = statSync(path)
  const tables = new Map<string, Table>()
  return {
    root,
    table(name) {
      const table = tables.get(name) ?? root.openDB<Buffer, Buffer>(name, binary)
      tables.set(name, table)
      return table
    },
    lost() {
      const now = statSync(path, { throwIfNoEntry: false })
      return now?.ino === ino ? undefined : `${path} was deleted or replaced while it was open`
    },
    isFull: () => freeBytes(directory) < freeBytesMin,
  }
}

const binary = { encoding: 'binary', keyEncoding: 'binary' } as const

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

/** Mapping more than the process may have ends in a crash. */
function checkAddressSpace(): void {
  if (process.platform !== 'linux') return
  const [, limit] = /^Max address space +(\d+) /m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
  if (limit === undefined || Number(limit) > 4 * mapBytes) return
  throw new IngestError(
    'store-incompatible',
    `This process may map only ${limit} bytes, and the store maps up to ${mapBytes} for each of its files: raise the limit (ulimit -v).`,
  )
}

function freeBytes(directory: string): number {
  const { bavail, bsize } = statfsSync(directory)
  return bavail * bsize
}

function syncDirectory(path: string): void {
  // Windows has no handle for a folder, and no need of one
  if (process.platform === 'win32') return
  const folder = openSync(path, 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}
