import { constants, existsSync, readdirSync, statSync } from 'node:fs'
import { copyFile, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { IngestError } from '@ingest/core'
import { makeDirectory, toWriteError } from '@ingest/core/internal'
import { checkDataFile } from '../environment/data-file.ts'
import { giveAll, makeOwnedDirectory } from '../environment/directory.ts'
import { openEnvironment } from '../environment/environment.ts'
import { beginEpoch, checkEventsPresent, findSiblings, openChunks, openIdentity } from '../environment/identity.ts'
import { asDiskFull } from '../threads/error-transfer.ts'
import { type JobOptions, runJob } from './run-job.ts'
import { checkReport } from './store-report.ts'

/**
 * The staging directory of a restore. While it exists, the directory around it holds nothing but an unfinished restore.
 */
const stagingName = 'restoring'

/** @throws {IngestError} `store-incompatible` for a directory with an unfinished restore */
export function checkRestoreFinished(directory: string): void {
  if (!existsSync(join(directory, stagingName))) return
  throw new IngestError(
    'store-incompatible',
    `${directory} holds an unfinished restore: run \`ingest restore\` into it again.`,
  )
}

/**
 * Restores a backup, or a copy of the directory of a store that no process had open, into an empty or missing
 * directory, and verifies it. Does not change the backup. The restored store is in a new epoch: earlier cursors are
 * rejected with `invalid-cursor`. The next restore starts an interrupted one over.
 *
 * @throws {IngestError} `store-missing` without a store in `backup`, `store-incompatible` for one that is incomplete,
 *   `store-damaged`, `invalid-argument` for a directory that is not empty; `store-unavailable`, which is temporary, if a
 *   signal ended the process that copies
 */
export async function restoreLmdbStore(backup: string, directory: string, options: JobOptions = {}): Promise<void> {
  const from = join(backup, 'events')
  if (!checkDataFile(join(from, 'data.mdb'))) {
    checkEventsPresent(from, findSiblings(backup))
    throw new IngestError('store-missing', `There is no store in ${backup}.`)
  }
  checkRestoreFinished(backup)
  const staging = join(directory, stagingName)
  if (existsSync(staging)) await removeUnfinished(directory)
  makeOwnedDirectory(directory)
  if (namesIn(directory).length > 0) {
    throw new IngestError('invalid-argument', `${directory} is not empty: move it away first.`)
  }
  try {
    await restoreInto(backup, directory, staging, options)
  } catch (error) {
    throw asDiskFull(error, () => false)
  }
}

async function restoreInto(backup: string, directory: string, staging: string, options: JobOptions): Promise<void> {
  const owner = statSync(directory)
  // owned by this user until they are filled, so that nobody else can change their contents
  for (const path of [staging, join(staging, 'events'), join(staging, 'chunks')]) makeDirectory(path)
  await copyData(join(backup, 'events'), join(staging, 'events'))
  // a store without maps may lack this file; opening the copy checks it
  if (checkDataFile(join(backup, 'chunks', 'data.mdb'))) await copyData(join(backup, 'chunks'), join(staging, 'chunks'))
  checkReport(backup, await runJob({ directory: staging }, options))
  await startEpoch(staging)
  for (const name of ['chunks', 'events']) giveAll(join(staging, name), owner)
  for (const name of ['chunks', 'events']) await rename(join(staging, name), join(directory, name))
  await syncPath(directory)
  await rm(staging, { recursive: true })
  await syncPath(directory)
}

/** Checks that the parts of the copy belong together, and begins its new epoch. */
async function startEpoch(staging: string): Promise<void> {
  const directory = join(staging, 'events')
  const events = await openEnvironment(directory)
  try {
    const identity = openIdentity(events, directory, [staging])
    const chunks = await openChunks(events, staging, identity)
    beginEpoch(events, chunks)
    await chunks.close()
  } finally {
    await events.close()
  }
}

async function copyData(from: string, to: string): Promise<void> {
  await copyFile(join(from, 'data.mdb'), join(to, 'data.mdb'), constants.COPYFILE_FICLONE)
  await syncPath(join(to, 'data.mdb'))
  await syncPath(to)
}

/** Removes an unfinished restore. */
async function removeUnfinished(directory: string): Promise<void> {
  // the staging directory goes last, because it marks the rest as unfinished
  const names = namesIn(directory).filter((name) => name !== stagingName)
  try {
    for (const name of [...names, stagingName]) await rm(join(directory, name), { recursive: true, force: true })
  } catch (error) {
    throw toWriteError(error as NodeJS.ErrnoException, directory)
  }
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch (error) {
    throw toWriteError(error as NodeJS.ErrnoException, directory)
  }
}

/** Makes a file, or the names in a directory, durable. */
export async function syncPath(path: string): Promise<void> {
  // Windows cannot sync a directory, and does not need to
  if (process.platform === 'win32') return
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
