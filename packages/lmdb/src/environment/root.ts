import { createRequire } from 'node:module'
import { IngestError } from '@ingest/core'
import type { Database, RootDatabase } from 'lmdb'
import { pageSize } from './data-file.ts'

// as CommonJS, lmdb is one file, which halves the processor time of loading it in each process and thread
const { openAsClass }: typeof import('lmdb') = createRequire(import.meta.url)('lmdb')

/** The handle of an LMDB environment. */
export type Root = RootDatabase<Buffer, Buffer>
/** A table with binary keys and values. */
export type Table = Database<Buffer, Buffer>

export const binary = { encoding: 'binary', keyEncoding: 'binary' } as const

const tablesMax = 32
/**
 * The slots for readers in a lock file, 64 bytes each: a process takes a few, and LMDB searches only as many as were
 * ever in use at once.
 */
const readersMax = 1000
/**
 * How long an opening is retried after EINVAL: a closing process has destroyed the mutexes. Only a process that has the
 * lock file to itself initializes them again, so concurrent openings retry after random pauses.
 */
const openTimeoutMs = 5000
const pauseMsMax = 20
const EINVAL = 22

/**
 * Opens the environment in an existing directory without its write lock, and registers this process as a reader.
 *
 * @throws {IngestError} `store-locked` for a process with the id of this one in another container
 */
export function openRoot(directory: string, mapSize: number, { noReadAhead = false } = {}): Root {
  for (const end = performance.now() + openTimeoutMs; ; pauseAtRandom()) {
    const settings = {
      path: directory,
      isRoot: true,
      // lmdb treats a name with a dot as a file
      noSubdir: false,
      maxDbs: tablesMax,
      maxReaders: readersMax,
      // on Windows the file would have this size; lmdb grows the map there
      ...(process.platform === 'win32' ? {} : { mapSize }),
      pageSize,
      permissionsMode: 0o600,
      // on, data is visible to others before it is durable, and stays visible when the sync fails
      overlappingSync: false,
      // on, a failed commit rejects a promise that cannot be caught, which ends the process
      eventTurnBatching: false,
      noMemInit: false,
      noReadAhead,
      cache: false,
      ...binary,
    }
    // the types of lmdb call its constructor a method
    const Store = openAsClass({ ...settings } as Parameters<typeof openAsClass>[0]) as unknown as StoreClass
    try {
      return withoutLock(Store.prototype, () => new Store(null, settings))
    } catch (error) {
      // its constructor failed, so there is no other handle
      closeRoot(Object.assign(Object.create(Store.prototype), { isRoot: true }))
      if ((error as { code?: unknown }).code !== EINVAL || performance.now() > end) throw error
    }
  }
}

/** Blocks this thread, like an opening. */
function pauseAtRandom(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Math.random() * pauseMsMax)
}

type StoreClass = { new (name: null, options: object): Root; prototype: Root }

/** Closes the environment, unless other threads of this process have it open too. */
export function closeRoot(root: Root): void {
  // settled, as there are no asynchronous writes
  void root.close()
}

/**
 * Releases the snapshots of a killed process that had the id of this one: LMDB attributes them to this process as long
 * as it runs. Closing releases all readers with the id of this process, unless other threads of it have the environment
 * open, whose readers are alive.
 */
export function releaseReused(root: Root, reopen: () => Root): Root {
  // this opening has given back its own slot
  if (!readersOf(root).some(({ pid }) => pid === process.pid)) return root
  closeRoot(root)
  return reopen()
}

/** The reader slots of the threads of all processes; `transaction` is NaN for a thread that does not read now. */
export function readersOf(root: Omit<Root, 'close'>): { pid: number; transaction: number }[] {
  // below a title, the process, the thread, and its transaction, or a dash without one
  const readers = root.readerList().matchAll(/^ *(\d+) +[0-9a-f]+ +(\d+|-)$/gm)
  return Array.from(readers, ([, pid, transaction]) => ({ pid: Number(pid), transaction: Number(transaction) }))
}

/**
 * Opens all tables that exist, by name. Threads of a process number their tables together, and lmdb guards that with
 * the write lock only: call it inside the gate, like {@link openTable}.
 */
export function openTables(root: Root): Map<string, Table> {
  const tables = new Map<string, Table>()
  for (const name of listTables(root).slice(0, tablesMax)) {
    try {
      tables.set(name, findTable(root, name) as Table)
    } catch {
      // a row of a foreign environment
    }
  }
  return tables
}

/** Opens a table in a read transaction, and creates a missing one in a write transaction. */
export function openTable(root: Root, name: string): Table {
  return findTable(root, name) ?? root.openDB<Buffer, Buffer>(name, binary)
}

/** The names of the tables that exist. */
export function listTables(root: Omit<Root, 'close'>): string[] {
  // lmdb ends their names with a NUL
  return Array.from(root.getKeys({}), (key) => key.toString().replace(/\0$/, ''))
}

function findTable(root: Root, name: string): Table | undefined {
  const options = { ...binary, create: false } as typeof binary
  return withoutLock(Object.getPrototypeOf(root) as Root, () => root.openDB<Buffer, Buffer>(name, options))
}

/** Lets `open` use a read transaction: lmdb uses a write transaction even for a table that exists. */
function withoutLock<T>(prototype: Database, open: () => T): T {
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
    return open()
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
