import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Environment, openEnvironment } from '../environment/environment.ts'
import { checkEventsPresent, findSiblings, hasChunksFile, openChunks, openIdentity } from '../environment/identity.ts'
import type { TableName } from '../environment/schema.ts'
import { readRows, readTables, type Snapshot, takeSnapshot } from '../pages/snapshot.ts'
import { asDiskFull } from '../threads/error-transfer.ts'

/** The most bytes of rows that one transaction of the copy writes. */
const transactionBytes = 16 * 2 ** 20

/**
 * Copies `events/` and `chunks/` of a store that other processes use to an empty directory, in this process: the rows of
 * one snapshot each, in the order of their keys, so that the copy has no free pages and nothing of what was erased.
 * `onBytes` is called with how many more bytes are copied.
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
      const snapshots = await takeSnapshots(directory, environment, chunkEnvironment)
      try {
        for (const [name, snapshot] of snapshots) await copySnapshot(snapshot, join(to, name), onBytes)
      } finally {
        for (const [, snapshot] of snapshots) snapshot.release()
      }
    } finally {
      await chunkEnvironment?.close()
    }
  } finally {
    await environment.close()
  }
}

/**
 * Takes a snapshot of each environment while nothing is committed to `chunks/`, so that this has every blob that `events/`
 * names: a blob is written before it is named, and deleted only after a commit by which no chunk names it any more.
 */
async function takeSnapshots(
  directory: string,
  events: Environment,
  chunks: Environment | undefined,
): Promise<[name: string, snapshot: Snapshot][]> {
  const ofEvents = () => takeSnapshot(events, join(directory, 'events'))
  if (!chunks) return [['events', ofEvents()]]
  return chunks.withoutCommits(() => {
    const snapshot = takeSnapshot(chunks, join(directory, 'chunks'))
    try {
      return [
        ['events', ofEvents()],
        ['chunks', snapshot],
      ]
    } catch (error) {
      snapshot.release()
      throw error
    }
  })
}

async function copySnapshot(snapshot: Snapshot, to: string, onBytes: (bytes: number) => void): Promise<void> {
  const target = await openEnvironment(to)
  try {
    for (const table of readTables(snapshot)) {
      for (const bytes of copyTable(snapshot, table, target)) {
        onBytes(bytes)
        // progress messages are sent between turns of the event loop
        await nextTurn()
      }
    }
  } catch (error) {
    throw asDiskFull(error, target.lacksSpace)
  } finally {
    await target.close()
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
