import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { IngestError } from '@ingest/core'
import type { Transaction } from 'lmdb'
import { type Environment, openEnvironment, type Table } from '../environment/environment.ts'
import { checkEventsPresent, findSiblings, hasChunksFile, openChunks, openIdentity } from '../environment/identity.ts'
import { listTables } from '../environment/root.ts'
import type { TableName } from '../environment/schema.ts'
import { asDiskFull } from '../threads/error-transfer.ts'

/** The most bytes of rows that one transaction of the copy writes. */
const transactionBytes = 16 * 2 ** 20

/**
 * Copies `events/` and `chunks/` of a store that other processes use to an empty directory, in this process: the rows
 * of one snapshot each, in the order of their keys, so that the copy has neither free pages nor bytes of erased events.
 * LMDB's own copies do not do that: a plain one contains the free pages, and a compacting one refuses a file with a
 * leaked page. `onBytes` is called with the number of bytes copied since its last call.
 *
 * @throws {IngestError} `store-damaged` for a page that cannot be read; `disk-full`; `store-locked`
 */
export async function copyDirectory(directory: string, to: string, onBytes: (bytes: number) => void): Promise<void> {
  const eventsDirectory = join(directory, 'events')
  const environment = await openEnvironment(eventsDirectory)
  try {
    const siblings = findSiblings(directory)
    const identity = openIdentity(environment, eventsDirectory, siblings)
    checkEventsPresent(eventsDirectory, [])
    const chunkEnvironment = hasChunksFile(environment, directory)
      ? await openChunks(environment, directory, identity)
      : undefined
    try {
      const snapshots = await takeSnapshots(environment, chunkEnvironment)
      try {
        for (const [name, snapshot] of snapshots) {
          await copySnapshot(snapshot, join(directory, name), join(to, name), onBytes)
        }
      } finally {
        for (const snapshot of snapshots.values()) snapshot.release()
      }
    } finally {
      await chunkEnvironment?.close()
    }
  } finally {
    await environment.close()
  }
}

/**
 * Takes a snapshot of each environment while nothing is committed to `chunks/`, so that its snapshot has every blob
 * that `events/` names: a blob is written before it is named, and deleted only after a commit by which no chunk names
 * it any more.
 */
async function takeSnapshots(events: Environment, chunks: Environment | undefined): Promise<Map<string, Snapshot>> {
  const environments = { ...(chunks && { chunks }), events }
  for (;;) {
    // before commits are held up, as opening a table waits for the gate
    const open = new Map(Object.values(environments).map((environment) => [environment, openTables(environment)]))
    const take = () => {
      const taken = new Map<string, Snapshot>()
      try {
        for (const [name, environment] of Object.entries(environments)) {
          taken.set(name, takeSnapshot(environment, open.get(environment) ?? new Map()))
        }
        return taken
      } catch (error) {
        for (const snapshot of taken.values()) snapshot.release()
        throw error
      }
    }
    const snapshots = chunks ? await chunks.withoutCommits(take) : take()
    if ([...snapshots.values()].every(({ isWhole }) => isWhole)) return snapshots
    for (const snapshot of snapshots.values()) snapshot.release()
  }
}

function openTables({ root, table }: Environment): Map<string, Table> {
  root.resetReadTxn()
  return new Map(listTables(root).map((name) => [name, table(name as TableName)]))
}

/** One snapshot of an environment that other processes write to. Its pages are not reused until it is released. */
interface Snapshot {
  transaction: Transaction
  /** False if another process has created a table meanwhile. */
  isWhole: boolean
  tables: { name: string; rows: Table; count: number }[]
  release(): void
}

function takeSnapshot({ root }: Environment, open: ReadonlyMap<string, Table>): Snapshot {
  root.resetReadTxn()
  const transaction = root.useReadTransaction()
  const tables = Array.from(open, ([name, rows]) => ({ name, rows, count: countRows(rows) }))
  const isWhole = listTables(root).every((name) => open.has(name))
  return { transaction, isWhole, tables, release: () => transaction.done() }
}

function countRows(table: Table): number {
  return (table.getStats() as { entryCount: number }).entryCount
}

async function copySnapshot(
  { transaction, tables }: Snapshot,
  from: string,
  to: string,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const target = await openEnvironment(to)
  try {
    for (const { name, rows, count } of tables) {
      // a table of another version is copied too
      const copy = target.table(name as TableName)
      for (const bytes of copyRows(rows, transaction, copy, target)) {
        onBytes(bytes)
        // progress messages are sent only between turns of the event loop
        await nextTurn()
      }
      target.root.resetReadTxn()
      if (countRows(copy) !== count) throw damaged(from, name)
    }
  } catch (error) {
    throw asDiskFull(error, target.lacksSpace)
  } finally {
    await target.close()
  }
}

/** Copies a table until a page of it is damaged; yields after each transaction how many bytes it has written. */
function* copyRows(rows: Table, transaction: Transaction, copy: Table, target: Environment): Generator<number> {
  // the types of lmdb lack this option
  const range = { transaction } as object
  const source = rows.getRange(range)[Symbol.iterator]()
  let last: Buffer | undefined
  for (let isDone = false; !isDone; ) {
    let bytes = 0
    target.write(() => {
      while (bytes < transactionBytes && !isDone) {
        const { value: row, done } = source.next()
        // LMDB follows a damaged page to rows of other pages
        isDone = done === true || (last !== undefined && Buffer.compare(last, row.key) >= 0)
        if (isDone) return
        last = row.key
        copy.putSync(row.key, row.value, { append: true })
        bytes += row.key.length + row.value.length
      }
    })
    yield bytes
  }
}

function damaged(directory: string, table: string): IngestError {
  return new IngestError(
    'store-damaged',
    `${join(directory, 'data.mdb')}: the table ${table} is damaged. \`ingest repair\` saves what is left.`,
  )
}
