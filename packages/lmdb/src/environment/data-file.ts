import {
  accessSync,
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  openSync,
  readSync,
  type Stats,
  statSync,
} from 'node:fs'
import { IngestError } from '@ingest/core'
import { isPermissionDenied, permissionDenied } from '@ingest/core/internal'

/** The page size of every environment. */
export const pageSize = 4096

// the layout of a meta page in LMDB's data format 2, which lmdb 3.5 writes: a page header of 24 bytes, then MDB_meta
const metaBytes = 168
const magicOffset = 24
const versionOffset = 28
const pageSizeOffset = 48
const lastPageOffset = 144
const transactionOffset = 152
const magic = 0xbeefc0de
const dataVersion = 2
/**
 * LMDB does not write pages that a transaction took at the end of the file and gave back, so a whole file may be
 * shorter than its header says: by a few pages, as measured. Up to a quarter is accepted, and at most 64 MiB.
 */
const unwrittenShareMax = 1 / 4
const unwrittenBytesMax = 64 * 2 ** 20

/**
 * Checks the header of an LMDB data file before LMDB opens it, which would crash the process over a foreign or
 * truncated one (SIGSEGV, SIGBUS). Does not detect that the last pages of a file are missing. Returns whether the file
 * exists and is neither empty nor {@link isUnfinished}.
 *
 * @throws {IngestError} `permission-denied`; `store-incompatible` for a file that was not written by LMDB as used here,
 *   or is truncated
 */
export function checkDataFile(path: string): boolean {
  return withDataFile(path, (file) => !hasUnfinishedHeaders(file) && checkContent(path, file)) ?? false
}

/**
 * Whether the creation of a data file was cut by a power loss: it has at most the two headers of a new file, and lacks
 * one of them. LMDB would crash over it. {@link syncDataFile} comes before the first commit, which makes the file
 * longer.
 */
export function isUnfinished(path: string): boolean {
  return withDataFile(path, hasUnfinishedHeaders) ?? false
}

function hasUnfinishedHeaders(file: number): boolean {
  const { size } = fstatSync(file)
  if (size === 0 || size > 2 * pageSize) return false
  // zeros after the end of the file
  const bytes = Buffer.alloc(2 * pageSize)
  readSync(file, bytes, 0, bytes.length, 0)
  const isBlank = (part: Buffer) => part.every((byte) => byte === 0)
  const isFirst = (page: Buffer) =>
    page.readUInt32LE(magicOffset) === magic &&
    page.readBigUInt64LE(lastPageOffset) === 1n &&
    isBlank(page.subarray(metaBytes))
  const pages = [bytes.subarray(0, pageSize), bytes.subarray(pageSize)]
  return pages.some(isBlank) && pages.every((page) => isBlank(page) || isFirst(page))
}

/** Makes a data file durable that LMDB has created, which does not sync it. */
export function syncDataFile(path: string): void {
  const file = openSync(path, 'r+')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/**
 * The state that {@link checkDataFile} checks; an empty file is a missing one.
 *
 * @throws {IngestError} `permission-denied`; `store-incompatible` if it is not a file, or cannot be opened
 */
export function inspectDataFile(path: string): 'missing' | 'damaged' | 'whole' {
  return withDataFile(path, inspect) ?? 'missing'

  function inspect(file: number): 'missing' | 'damaged' | 'whole' {
    try {
      return checkContent(path, file) ? 'whole' : 'missing'
    } catch (error) {
      if (error instanceof IngestError) return 'damaged'
      throw error
    }
  }
}

/** Calls `use` with the open file; returns undefined for a missing one. */
function withDataFile<T>(path: string, use: (file: number) => T): T | undefined {
  let file: number
  try {
    // opening a FIFO would block until it has a writer
    file = openSync(path, constants.O_RDWR | (constants.O_NONBLOCK ?? 0))
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    if (isPermissionDenied(cause)) throw permissionDenied(path, cause)
    throw new IngestError('store-incompatible', `${path} cannot be opened: ${(cause as Error).message}`, { cause })
  }
  try {
    if (!fstatSync(file).isFile()) throw damaged(path, 'it is not a file')
    return use(file)
  } finally {
    closeSync(file)
  }
}

/** The headers of a data file that is in use. */
export interface Headers {
  /** The number of the last transaction that was committed, which the file itself holds. */
  newestTransaction(): number
  close(): void
}

export function openHeaders(path: string): Headers {
  const file = openSync(path, 'r')
  const bytes = Buffer.alloc(pageSize + metaBytes)
  return {
    newestTransaction() {
      readSync(file, bytes, 0, bytes.length, 0)
      const transactionOf = (page: number) => Number(bytes.readBigUInt64LE(page * pageSize + transactionOffset))
      return Math.max(transactionOf(0), transactionOf(1))
    },
    close: () => closeSync(file),
  }
}

/**
 * Checks an LMDB lock file before LMDB opens it, which crashes the process if it cannot. Returns whether the file
 * exists and has blocks on the disk. The file is not opened here: closing it would release the locks of this process on
 * it.
 *
 * @throws {IngestError} `permission-denied`; `store-incompatible` if it is not a file
 */
export function checkLockFile(path: string): boolean {
  let stat: Stats | undefined
  try {
    stat = statSync(path, { throwIfNoEntry: false })
    if (stat) accessSync(path, constants.R_OK | constants.W_OK)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOTDIR') return false
    if (isPermissionDenied(cause)) throw permissionDenied(path, cause)
    throw new IngestError('store-incompatible', `${path} cannot be opened: ${(cause as Error).message}`, { cause })
  }
  if (!stat) return false
  if (!stat.isFile()) throw damaged(path, 'it is not a file')
  // writing to a sparse file allocates blocks, which is a SIGBUS on a full disk
  return stat.size > 0 && stat.blocks > 0
}

function checkContent(path: string, file: number): boolean {
  // a process that was killed while it created the file leaves it empty, and LMDB starts over
  if (fstatSync(file).size === 0) return false
  const metas = [readMeta(path, file, 0), readMeta(path, file, 1)]
  const newest = metas.reduce((a, b) => (a.transaction >= b.transaction ? a : b))
  // read after the headers: the file of a store in use grows before a header is written
  const { size } = fstatSync(file)
  const expected = (newest.lastPage + 1) * pageSize
  if (size < expected - Math.min(expected * unwrittenShareMax, unwrittenBytesMax))
    throw damaged(path, `it is truncated: ${size} bytes of ${expected}`)
  return true
}

function readMeta(path: string, file: number, page: number): { transaction: number; lastPage: number } {
  const meta = Buffer.alloc(metaBytes)
  if (readSync(file, meta, 0, metaBytes, page * pageSize) < metaBytes) throw damaged(path, 'its header is truncated')
  if (meta.readUInt32LE(magicOffset) !== magic) throw damaged(path, 'it is not an LMDB file')
  // the upper bits of the version are flags
  const version = meta.readUInt32LE(versionOffset) & 0xffff
  if (version !== dataVersion) throw damaged(path, `it has LMDB data version ${version}, not ${dataVersion}`)
  const size = meta.readUInt32LE(pageSizeOffset)
  if (size !== pageSize) throw damaged(path, `it has pages of ${size} bytes, not ${pageSize}`)
  return {
    transaction: Number(meta.readBigUInt64LE(transactionOffset)),
    lastPage: Number(meta.readBigUInt64LE(lastPageOffset)),
  }
}

function damaged(path: string, why: string): IngestError {
  return new IngestError(
    'store-incompatible',
    `${path} cannot be opened: ${why}. Nothing was changed; restore it from a backup, or use another directory.`,
  )
}
