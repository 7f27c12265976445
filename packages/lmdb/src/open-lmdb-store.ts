import { realpathSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { isMainThread } from 'node:worker_threads'
import { IngestError, type Store, type StoreCommit } from '@ingest/core'
import { createOperations, nextReadStep } from '@ingest/core/internal'
import { createActivityStore } from './activity/activity-store.ts'
import { openActivity } from './activity/activity-table.ts'
import { checkRestoreFinished } from './backup/restore-lmdb-store.ts'
import { type ChunkBlobs, openChunkBlobs } from './chunks/chunk-blobs.ts'
import { createEntryStore } from './entries/entry-store.ts'
import { openEntries } from './entries/entry-tables.ts'
import { openProjects } from './entries/projects.ts'
import { checkDataFile } from './environment/data-file.ts'
import { makeOwnedDirectory } from './environment/directory.ts'
import { checkFreeSpace } from './environment/disk-space.ts'
import {
  checkFileDescriptors,
  type Environment,
  type EnvironmentOptions,
  openEnvironment,
} from './environment/environment.ts'
import {
  checkEventsPresent,
  findSiblings,
  type LmdbIdentity,
  openChunks,
  openIdentity,
} from './environment/identity.ts'
import { lockedError } from './environment/write-lock.ts'
import { findClockDoubt } from './events/clock-doubt.ts'
import { createEventStore } from './events/event-store.ts'
import { createFingerprint, fingerprintBits as fingerprintBitsDefault } from './ids/fingerprint.ts'
import { entriesPerFlush as entriesPerFlushDefault } from './ids/run.ts'
import { createEventLog, openEventLogTables } from './log/event-log.ts'
import { createSnapshotReader } from './log/snapshot-reader.ts'
import { createManifestCache } from './maps/manifest-cache.ts'
import { createMapStore } from './maps/map-store.ts'
import { openMapTables } from './maps/map-tables.ts'
import { createSweep } from './maps/sweep.ts'
import { createCommitState } from './threads/commit-state.ts'
import { asDamage, deserializeError, serializeError, toRequestError } from './threads/error-transfer.ts'
import { type ExitGuards, openExitGuards } from './threads/exit-guard.ts'
import { createMeasure } from './writer/measure.ts'
import { startWriter, type Writer } from './writer/writer-client.ts'

export interface LmdbStoreOptions {
  /** Whether to create a missing store; false refuses it with `store-missing`. Default true. */
  create?: boolean
  /**
   * Called once when the store can no longer be trusted: the disk failed, or a data file is gone. Every operation is
   * refused with `store-failed` from then on; end the process with SIGKILL and restart it. Also called with
   * `store-locked` if `close` leaves a thread that waits for another process: an exit of this process would then take
   * up to two seconds and end with SIGKILL.
   */
  onFatal?: (error: IngestError) => void
  /** A commit that takes longer, in milliseconds, fails the store: it may never end. Default 30,000. */
  commitTimeoutMs?: number
  /**
   * Whether each disk read of the log also loads the pages that follow. A process that reads the whole log, such as an
   * export, becomes three times as fast; in a server, other requests wait longer. Default false.
   */
  readAhead?: boolean
  /** Called while opening rebuilds a lost or damaged id index from the log; `done` and `total` count log records. */
  onRebuild?: (progress: { done: number; total: number }) => void
}

/** Replaceable parts of a store, for tests. */
export interface LmdbStoreInternals {
  /** The number of entries in a run of the id index. */
  entriesPerFlush?: number
  /** The number of bits of the fingerprints of ids. */
  fingerprintBits?: number
}

const commitTimeoutMsDefault = 30_000
/** The most file descriptors that the threads and three environments take, each opened in one or two threads. */
const fileDescriptorsMin = 64

/** Directories that this process has open: a second handle would wait for the write lock of the first. */
const openDirectories = new Set<string>()

/**
 * Opens the store in a directory, and creates a missing one. A directory without `events/` or `chunks/` beside the
 * others is refused and not changed, as opening it would lose data; `ids/` is rebuilt. Any number of processes may have
 * the same directory open, each once; it must be on a local disk.
 *
 * @throws {IngestError} `store-incompatible` for files that are damaged, foreign, of another version, or missing beside
 *   others; `store-missing`; `disk-full`; `store-locked` and `overloaded`, which are temporary; `store-damaged` for a
 *   log or an identity that cannot be read; `permission-denied` for files of another user; `internal-error` for a bug;
 *   `invalid-argument` for a directory that cannot be created, or that this
 *   process has open already, and in a worker thread.
 */
export function openLmdbStore(directory: string, options: LmdbStoreOptions = {}): Promise<Store> {
  return openLmdbStoreWith(directory, options, {})
}

/** Like {@link openLmdbStore}, with other internals. */
export async function openLmdbStoreWith(
  path: string,
  options: LmdbStoreOptions,
  internals: LmdbStoreInternals,
): Promise<Store> {
  if (!isMainThread) {
    throw new IngestError(
      'invalid-argument',
      'Open the store in the main thread: a worker thread that ends inside LMDB keeps its locks, which stops all processes.',
    )
  }
  // resolved now, as the process may change its working directory later
  const directory = resolve(path)
  const { create = true, readAhead = false } = options
  checkFileDescriptors(directory, fileDescriptorsMin)
  const eventsDirectory = join(directory, 'events')
  checkRestoreFinished(directory)
  const siblings = findSiblings(directory)
  if (!checkDataFile(join(eventsDirectory, 'data.mdb'))) {
    checkEventsPresent(eventsDirectory, siblings)
    if (!create) {
      throw new IngestError('store-missing', `There is no store in ${directory}: check the path.`)
    }
  }
  const unclaim = claim(directory)
  const exitGuards = openExitGuards()
  const { guards } = exitGuards
  const release = () => {
    exitGuards.release()
    unclaim()
  }
  try {
    const environments = await openEnvironments(directory, siblings, { noReadAhead: !readAhead })
    return await openStore(environments, directory, options, internals, guards, release).catch(async (error) => {
      await closeEnvironments(environments)
      throw error
    })
  } catch (error) {
    release()
    throw deserializeError(serializeError(toRequestError(asDamage(error))))
  }
}

function claim(directory: string): () => void {
  makeOwnedDirectory(directory)
  const path = realpathSync(directory)
  if (openDirectories.has(path)) {
    throw new IngestError('invalid-argument', `${directory} is open in this process already: share that store.`)
  }
  openDirectories.add(path)
  return () => openDirectories.delete(path)
}

interface Environments {
  environment: Environment
  chunkEnvironment: Environment
  identity: LmdbIdentity
}

async function openEnvironments(
  directory: string,
  siblings: readonly string[],
  options: EnvironmentOptions,
): Promise<Environments> {
  const eventsDirectory = join(directory, 'events')
  const environment = await openEnvironment(eventsDirectory, options)
  try {
    const identity = openIdentity(environment, eventsDirectory, siblings)
    const chunkEnvironment = await openChunks(environment, directory, identity)
    return { environment, chunkEnvironment, identity }
  } catch (error) {
    await environment.close()
    throw error
  }
}

async function openStore(
  environments: Environments,
  directory: string,
  options: LmdbStoreOptions,
  { fingerprintBits = fingerprintBitsDefault, entriesPerFlush = entriesPerFlushDefault }: LmdbStoreInternals,
  guards: ExitGuards,
  release: () => void,
): Promise<Store> {
  const { environment, chunkEnvironment, identity } = environments
  const { onFatal = () => {}, commitTimeoutMs: timeoutMs = commitTimeoutMsDefault, onRebuild = () => {} } = options
  const projects = openProjects(environment.table)
  const entries = openEntries(environment.table, projects)
  const activityTable = openActivity(environment.table)
  const tables = openEventLogTables(environment.table)
  const maps = openMapTables(environment.table, () => {}, createManifestCache())
  const blobTable = chunkEnvironment.table('bytes')
  const commitWatchers = new Set<(commit: StoreCommit) => void>()
  // nothing below may throw once the thread has started, as it would have to be ended
  const writer = await startWriter({
    environment,
    data: {
      directory: join(directory, 'events'),
      fileIds: environment.fileIds,
      idsDirectory: join(directory, 'ids'),
      seed: identity.hashKey.toString('hex'),
      entriesPerFlush,
      fingerprintBits,
      guards,
      commitState: createCommitState(),
    },
    onFatal,
    onProgress: onRebuild,
    onGarbage: () => void blobs.collectGarbage(),
    onCommit(commit) {
      for (const onCommit of commitWatchers) onCommit(commit)
    },
    timeoutMs,
  })
  const log = createEventLog(tables)
  const reader = createSnapshotReader(environment, writer, projects, log)
  const { readSnapshot } = reader
  const blobs = openChunkBlobs({
    environment: chunkEnvironment,
    blobs: blobTable,
    directory: join(directory, 'chunks'),
    tables: maps.chunks,
    writer,
    readSnapshot,
    guards,
    timeoutMs,
  })
  const operations = createOperations()
  const { checkOpen } = operations
  const slicedReads = (projectId: string) => ({ readSnapshot, nextStep: () => nextReadStep(projectId) })
  const events = createEventStore({
    identity,
    fingerprint: createFingerprint(fingerprintBits),
    log,
    writer,
    reader,
    slicedReads,
    checkOpen,
  })
  const { activity, putActivity } = createActivityStore({
    activity: activityTable,
    writer,
    slicedReads,
    checkOpen,
  })
  let closing: Promise<void> | undefined

  const tracked: Omit<Store, 'activity' | 'close' | 'hashKey' | 'watchCommits'> = operations.trackAll({
    ...events,
    findClockDoubt: (since, now) => findClockDoubt(log, slicedReads(''), { since, now, upMs: performance.now() }),
    ...createMapStore({ maps, blobs, writer, reader, table: environment.table, slicedReads }),
    ...createEntryStore({ entries, writer, reader }),
    putActivity,
    sweep: createSweep({ maps, blobs, writer, reader, activity: activityTable, slicedReads, checkOpen }),
    measure: createMeasure({ directory, environments: { events: environment, chunks: chunkEnvironment }, writer }),

    async check() {
      readSnapshot(() => projects.numberOf('-'))
      const refusal = writer.unavailable()
      if (refusal) throw refusal
      const holder = environment.lockHolder()
      if (holder?.isStopped) throw lockedError(holder)
      checkFreeSpace(join(directory, 'events'))
    },
  })

  return {
    ...tracked,
    hashKey: identity.hashKey,
    read: events.read,
    activity,

    watchCommits(onCommit) {
      commitWatchers.add(onCommit)
      return () => commitWatchers.delete(onCommit)
    },

    close() {
      closing ??= operations.drain().then(() => closeAll(environments, writer, blobs, release))
      return closing
    },
  }
}

async function closeAll(environments: Environments, writer: Writer, blobs: ChunkBlobs, release: () => void) {
  await Promise.all([blobs.close(), writer.close()])
  await closeEnvironments(environments)
  release()
}

async function closeEnvironments({ environment, chunkEnvironment }: Environments): Promise<void> {
  await chunkEnvironment.close()
  await environment.close()
}
