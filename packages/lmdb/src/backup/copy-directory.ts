import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Environment, openEnvironment } from '../environment/environment.ts'
import { checkEventsPresent, findSiblings, hasChunksFile, openChunks, openIdentity } from '../environment/identity.ts'
import type { TableName } from '../environment/schema.ts'
import { lockedError } from '../environment/write-lock.ts'
import { readRows, readTables, type Snapshot, takeSnapshot } from '../pages/snapshot.ts'
import { holdMs, openChunkTables } from '../tables/chunks.ts'
import { asDiskFull } from '../threads/error-transfer.ts'

/** The most bytes of rows that one transaction of the copy writes. */
const transactionBytes = 16 * 2 ** 20

/**
 * Copies `events/` and `chunks/` of a store that other processes use to an empty directory, in this process: the rows of
 * one snapshot each, in the order of their keys, so that the copy has no free pages and nothing of what was erased. Blobs
 * of chunks are written before the rows that name them, so `chunks/` is copied last; and no garbage is deleted meanwhile,
 * so it has every blob that the copy of `events/` names. `onBytes` is called with how many more bytes are copied.
 *
 * @throws {IngestError} `store-damaged` for a page that cannot be read; `disk-full`
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
    const release = holdGarbage(environment)
    const copy = (from: Environment, name: string) =>
      copyEnvironment(from, join(directory, name), join(to, name), onBytes)
    try {
      await copy(environment, 'events')
      if (chunkEnvironment) await copy(chunkEnvironment, 'chunks')
    } finally {
      release()
      await chunkEnvironment?.close()
    }
  } finally {
    await environment.close()
  }
}

async function copyEnvironment(
  from: Environment,
  directory: string,
  to: string,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const snapshot = takeSnapshot(from, directory)
  try {
    const target = await openEnvironment(to)
    try {
      for (const table of readTables(snapshot)) {
        for (const bytes of copyTable(snapshot, table, target)) {
          onBytes(bytes)
          // the hold on garbage is renewed by a timer
          await nextTurn()
        }
      }
    } catch (error) {
      throw asDiskFull(error, target.isDiskFull)
    } finally {
      await target.close()
    }
  } finally {
    snapshot.release()
  }
}

/** Copies a table; yields after each transaction how many bytes it has written. */
function* copyTable(
  snapshot: Snapshot,
  { name, root }: { name: string; root: bigint },
  target: Environment,
): Generator<number> {
  // a table of another version is copied too
  const table = target.table(name as TableName)
  const rows = readRows(snapshot, root)
  for (let isDone = false; !isDone; ) {
    let bytes = 0
    target.write(() => {
      while (bytes < transactionBytes) {
        const { value: row, done } = rows.next()
        if (done) {
          isDone = true
          return
        }
        table.putSync(row.key, row.value, { append: true })
        bytes += row.key.length + row.value.length
      }
    })
    yield bytes
  }
}

/** Holds garbage back until the returned function is called. */
function holdGarbage(environment: Environment): () => void {
  const chunks = openChunkTables(environment.table)

  function write(work: () => void): void {
    const holder = environment.lockHolder()
    if (holder?.isStopped) throw lockedError(holder)
    environment.write(work)
  }

  const hold = () => write(() => chunks.holdGarbage(process.pid, Date.now()))
  hold()
  // a failed renewal is found when the copy is verified
  const timer = setInterval(() => tryTo(hold), holdMs / 3)
  return () => {
    clearInterval(timer)
    tryTo(() => write(() => chunks.releaseGarbage(process.pid)))
  }
}

function tryTo(work: () => void): void {
  try {
    work()
  } catch {
    // the hold ends by itself
  }
}
