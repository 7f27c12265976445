import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { checkDataFile } from '../environment/data-file.ts'
import { makeDirectory } from '../environment/directory.ts'
import { type Environment, openEnvironment } from '../environment/environment.ts'
import { checkEventsPresent, findSiblings, openChunks, openIdentity } from '../environment/identity.ts'
import { lockedError } from '../environment/write-lock.ts'
import { holdMs, openChunkTables } from '../tables/chunks.ts'

/**
 * Copies `events/` and `chunks/` of a store that other processes use to an empty directory, in this process: LMDB's
 * compacting copy of one snapshot each, made in a thread of its own. Blobs of chunks are written before the rows that
 * name them, so `chunks/` is copied last; and no garbage is deleted meanwhile, so it has every blob that the copy of
 * `events/` names. Neither copy is synced.
 */
export async function copyDirectory(directory: string, to: string): Promise<void> {
  const eventsDirectory = join(directory, 'events')
  const environment = openEnvironment(eventsDirectory)
  try {
    const siblings = findSiblings(directory)
    const identity = openIdentity(environment, eventsDirectory, siblings)
    checkEventsPresent(eventsDirectory, [])
    const chunkEnvironment = checkDataFile(join(directory, 'chunks', 'data.mdb'))
      ? await openChunks(environment, directory, identity)
      : undefined
    const release = holdGarbage(environment)
    try {
      await copyEnvironment(environment, join(to, 'events'))
      if (chunkEnvironment) await copyEnvironment(chunkEnvironment, join(to, 'chunks'))
    } finally {
      release()
      chunkEnvironment?.close()
    }
  } finally {
    environment.close()
  }
}

async function copyEnvironment({ root }: Environment, to: string): Promise<void> {
  makeDirectory(to)
  await root.backup(to, true)
  await chmod(join(to, 'data.mdb'), 0o600)
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
