import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type AppendBatch,
  type AppendEvent,
  type AppendResult,
  type EventCursors,
  eventCursors,
  IngestError,
  type ReadOptions,
  type Store,
  type StoredEvent,
} from '@ingest/core'
import { openChunkBytes } from './chunks/chunk-blobs.ts'
import { checkDataFile } from './environment/data-file.ts'
import { makeDirectory } from './environment/directory.ts'
import { checkFileDescriptors, checkFreeSpace, type Environment, openEnvironment } from './environment/environment.ts'
import {
  checkEventsPresent,
  findSiblings,
  type LmdbIdentity,
  openChunks,
  openIdentity,
} from './environment/identity.ts'
import { lockedError } from './environment/write-lock.ts'
import type { Position } from './ids/entry.ts'
import { createFingerprint, type Fingerprint } from './ids/fingerprint.ts'
import { entriesPerFlush as entriesPerFlushDefault } from './ids/run.ts'
import { readActivity } from './log/activity.ts'
import { createEventLog, type LoggedEvent, openEventLogTables, type SlicedReads } from './log/event-log.ts'
import { createReadTurns, type ReadStep } from './log/read-turns.ts'
import { encodePayload, encodeRecord } from './log/record.ts'
import { createMapStore } from './map-store.ts'
import { checkRestoreFinished } from './restore-lmdb-store.ts'
import { listBuilds } from './tables/builds.ts'
import { openMapTables } from './tables/maps.ts'
import { openProjects } from './tables/projects.ts'
import { deserializeError, serializeError } from './threads/error-transfer.ts'
import { type ExitGuards, openExitGuards } from './threads/exit-guard.ts'
import { startWriter } from './writer/writer-client.ts'

export interface LmdbStoreOptions {
  /** False to refuse, with `store-missing`, a directory that holds no store yet. True without. */
  create?: boolean
  /**
   * Called once when the store can no longer be trusted: the disk failed, or the data file is gone. Everything is
   * refused with `store-failed` from then on; the process should be ended, with SIGKILL, and started again. Also called,
   * with `store-locked`, when `close` leaves a thread behind that waits for another process: an orderly exit waits too.
   */
  onFatal?: (error: IngestError) => void
  /** A commit that takes longer, in milliseconds, is taken for one that never ends. 30 seconds without. */
  commitTimeoutMs?: number
  /** Called while opening rebuilds a lost or damaged id index from the log; `done` and `total` count log records. */
  onRebuild?: (progress: { done: number; total: number }) => void
  /** @internal For tests: a smaller run of the id index, and a hash that collides. */
  internals?: { entriesPerFlush?: number; fingerprint?: Fingerprint }
}

const commitTimeoutMsDefault = 30_000
/** How many file descriptors three environments, each opened in one or two threads, and the threads take at most. */
const fileDescriptorsMin = 64
/** How long a store that has failed may take to close; then it is left as it is. */
const failedCloseMs = 2000
/** How many records a reader takes note of at once. */
const readAhead = 64
/** How many bytes of events a reader reads in one step. */
const stepBytes = 32_768

/** Directories that are open in this process: two handles on one would wait for each other's write lock for ever. */
const openDirectories = new Set<string>()

/**
 * Opens the store in a directory, and creates it when it is missing. A directory without `events/` or `chunks/` beside
 * the others is refused and not changed, as going on without them would lose data; `ids/` is rebuilt. Any number of
 * processes may have the same directory open, each once; it must be on a local disk.
 *
 * @throws {IngestError} `store-incompatible` for files that are damaged, foreign, of another version, or missing beside
 *   others; `store-missing`; `disk-full`; `store-locked` and `overloaded`, which may pass; `store-damaged` for a log
 *   that cannot be read; `invalid-argument` for a directory that cannot be made, or that this process has open already.
 */
export async function openLmdbStore(directory: string, options: LmdbStoreOptions = {}): Promise<Store> {
  const { create = true } = options
  checkFileDescriptors(directory, fileDescriptorsMin)
  const eventsDirectory = join(directory, 'events')
  checkRestoreFinished(directory)
  const neighbours = findSiblings(directory)
  if (!checkDataFile(join(eventsDirectory, 'data.mdb'))) {
    checkEventsPresent(eventsDirectory, neighbours)
    if (!create) {
      throw new IngestError('store-missing', `There is no store in ${directory}: making a key or serving makes one.`)
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
    const environments = await openEnvironments(directory, neighbours)
    return await openStore(environments, directory, options, guards, release)
  } catch (error) {
    release()
    throw deserializeError(serializeError(error))
  }
}

function claim(directory: string): () => void {
  try {
    makeDirectory(directory)
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    throw new IngestError(
      code === 'ENOSPC' ? 'disk-full' : 'invalid-argument',
      `${directory} cannot be a directory: ${message}`,
      {
        cause,
      },
    )
  }
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

async function openEnvironments(directory: string, neighbours: readonly string[]): Promise<Environments> {
  const eventsDirectory = join(directory, 'events')
  const environment = openEnvironment(eventsDirectory)
  try {
    const identity = openIdentity(environment, eventsDirectory, neighbours)
    const chunkEnvironment = await openChunks(environment, directory, identity)
    return { environment, chunkEnvironment, identity }
  } catch (error) {
    await environment.root.close()
    throw error
  }
}

async function openStore(
  { environment, chunkEnvironment, identity }: Environments,
  directory: string,
  {
    onFatal = () => {},
    commitTimeoutMs: timeoutMs = commitTimeoutMsDefault,
    onRebuild = () => {},
    internals = {},
  }: LmdbStoreOptions,
  guards: ExitGuards,
  release: () => void,
): Promise<Store> {
  const eventsDirectory = join(directory, 'events')
  const { seed } = identity
  const fingerprint = internals.fingerprint ?? createFingerprint(seed)
  const projects = openProjects(environment.table)
  const tables = openEventLogTables(environment.table)
  const log = createEventLog(tables)
  const writer = await startWriter({
    environment,
    data: {
      directory: eventsDirectory,
      fileIds: environment.fileIds,
      idsDirectory: join(directory, 'ids'),
      seed: seed.toString('hex'),
      entriesPerFlush: internals.entriesPerFlush ?? entriesPerFlushDefault,
      guards,
    },
    onFatal,
    onProgress: onRebuild,
    // waste that freezing has made
    onWaste: () => void chunks.clean(),
    timeoutMs,
  })
  const numbers = new Map<string, number>()
  const readTurns = createReadTurns()
  const maps = openMapTables(environment.table)
  const chunks = openChunkBytes({
    environment: chunkEnvironment,
    directory: join(directory, 'chunks'),
    maps,
    writer,
    look,
    guards,
    timeoutMs,
  })
  const mapStore = createMapStore({ projects, maps, chunks, writer, look })
  let closing: Promise<void> | undefined
  let running = 0
  let onIdle = () => {}

  function checkOpen(): void {
    if (closing) throw new IngestError('store-closed', 'The store is closed.')
  }

  /** Runs an operation of several steps, which is finished before the store closes. */
  async function run<T>(operation: () => Promise<T>): Promise<T> {
    checkOpen()
    running++
    try {
      return await operation()
    } finally {
      running--
      if (running === 0) onIdle()
    }
  }

  /** Reads at one moment, and sees at least what was committed when it began, by any process. */
  function look<T>(read: () => T): T {
    const failure = writer.failure()
    if (failure) throw failure
    try {
      environment.root.resetReadTxn()
      return read()
    } catch (cause) {
      // what lmdb throws carries the number of its error; anything else is the caller's
      if (typeof (cause as { code?: unknown }).code !== 'number') throw cause
      const failed = new IngestError('store-failed', `A read failed: ${(cause as Error).message}.`, { cause })
      writer.fail(failed)
      throw failed
    }
  }

  /** Looks at what is stored for a project, or answers `none` for one that has stored nothing. */
  function lookAt<T>(projectId: string, none: T, read: (project: number) => T): T {
    checkOpen()
    return look(() => {
      const project = numberOf(projectId)
      return project === undefined ? none : read(project)
    })
  }

  async function locate(projectId: string, eventIds: readonly string[]): Promise<(Position | undefined)[]> {
    const project = look(() => numberOf(projectId))
    if (project === undefined) return eventIds.map(() => undefined)
    return writer.locate(project, [...eventIds], fingerprintsOf(project, eventIds))
  }

  /** The number of a project, which never changes once it is given out. */
  function numberOf(projectId: string): number | undefined {
    const number = numbers.get(projectId) ?? projects.numberOf(projectId)
    if (number !== undefined) numbers.set(projectId, number)
    return number
  }

  function fingerprintsOf(project: number, eventIds: readonly string[]): Uint32Array {
    const fingerprints = new Uint32Array(eventIds.length * 2)
    for (let i = 0; i < eventIds.length; i++) fingerprint(project, eventIds[i] as string, fingerprints, i * 2)
    return fingerprints
  }

  async function append(projectId: string, { body, count, events, receivedAt }: AppendBatch): Promise<AppendResult> {
    if (events.length === 0) return { stored: [], conflicts: 0 }
    const project =
      look(() => numberOf(projectId)) ??
      (await writer.decide((table) => look(() => openProjects(table).numberFor(projectId))))
    const payload =
      events.length === count ? body : encodePayload(events.map(({ start, end }) => body.subarray(start, end)))
    const fingerprints = fingerprintsOf(
      project,
      events.map(({ eventId }) => eventId),
    )
    const appended = await writer.append(project, encodeRecord(receivedAt, fingerprints, payload), buildsOf(events))
    return typeof appended === 'object'
      ? appended
      : { stored: new Array(events.length).fill(appended === 'all'), conflicts: 0 }
  }

  function slicedReads(projectId: string): SlicedReads {
    return { readSnapshot: look, nextStep: () => readTurns.next(projectId) }
  }

  async function* read(projectId: string, { after, limit = Number.POSITIVE_INFINITY, from }: ReadOptions = {}) {
    const cursors = eventCursors(identity, projectId)
    const start = after === undefined ? beginning : positionOf(decodeCursor(cursors, projectId, after))
    let left = limit
    let step: ReadStep = { isOver: true }
    let stepBytesLeft = 0
    const first = from === undefined ? 0 : lookAt(projectId, 0, () => log.firstSince(from))
    let next = Math.max(start.sequence, first)
    while (left > 0) {
      const sequences = lookAt(projectId, [], (project) => log.sequences(project, next, readAhead))
      for (const sequence of sequences) {
        if (isStepOver()) await nextStep()
        for (const event of look(() => log.events(sequence))) {
          if (sequence === start.sequence && event.position.index <= start.index) continue
          // of a time that is still to come: this record has come since it was looked for
          if (from !== undefined && event.receivedAt < from) continue
          if (left-- <= 0) return
          if (isStepOver()) await nextStep()
          stepBytesLeft -= event.bytes.length
          yield toStoredEvent(event, cursors)
        }
        next = sequence + 1
      }
      if (sequences.length === 0) return
    }

    function isStepOver(): boolean {
      return step.isOver || stepBytesLeft <= 0
    }

    async function nextStep(): Promise<void> {
      step = await readTurns.next(projectId)
      stepBytesLeft = stepBytes
      checkOpen()
    }
  }

  function decodeCursor(cursors: EventCursors, projectId: string, cursor: string): number {
    return cursors.decode(cursor, (position) =>
      lookAt(projectId, undefined, (project) => log.checksumAt(project, positionOf(position))),
    )
  }

  // what a crash has left is in nobody's way: it goes while the store is used
  void chunks.sweep().catch(() => {})

  return {
    append: (projectId, batch) => run(() => append(projectId, batch)),

    known(projectId, eventIds) {
      return run(async () => (await locate(projectId, eventIds)).map((position) => position !== undefined))
    },

    find(projectId, eventId) {
      return run(async () => {
        const [position] = await locate(projectId, [eventId])
        if (!position) return undefined
        const event = look(() => log.events(position.sequence)[position.index] as LoggedEvent)
        return toStoredEvent(event, eventCursors(identity, projectId))
      })
    },

    read,

    async lastCursor(projectId) {
      const last = lookAt(projectId, undefined, (project) => log.last(project))
      return toCursor(last ?? { position: beginning, checksum: 0 }, eventCursors(identity, projectId))
    },

    map: (key) => run(() => mapStore.map(key)),
    maps: (projectId, selection) => run(() => mapStore.maps(projectId, selection)),
    updateMap: (key, about, decide) => run(() => mapStore.updateMap(key, about, decide)),
    putChunk: (projectId, chunk) => run(() => mapStore.putChunk(projectId, chunk)),
    chunk: (projectId, digest, use) => run(() => mapStore.chunk(projectId, digest, use)),
    presentChunks: (projectId, digests) => run(() => mapStore.presentChunks(projectId, digests)),
    readyMaps: (projectId, limit) => run(() => mapStore.readyMaps(projectId, limit)),
    pendingBytes: (projectId) => run(() => mapStore.pendingBytes(projectId)),
    dropIdleMaps: (touchedBefore) => run(() => mapStore.dropIdleMaps(touchedBefore)),

    async totals(projectId) {
      return lookAt(projectId, { events: 0, batches: 0, bytes: 0 }, (project) => log.totals(project))
    },

    activity(projectId, recent) {
      return run(async () => {
        const project = look(() => numberOf(projectId))
        return project === undefined ? undefined : readActivity(tables, slicedReads(projectId), project, recent)
      })
    },

    builds(projectId, selection) {
      return run(async () => {
        const project = look(() => numberOf(projectId))
        return project === undefined ? [] : listBuilds(environment.table, slicedReads(projectId), project, selection)
      })
    },

    async projects() {
      checkOpen()
      return look(() => projects.ids())
    },

    async project(projectId) {
      checkOpen()
      return look(() => projects.get(projectId))
    },

    updateProject(projectId, decide) {
      return run(() =>
        writer.decide((table) => {
          const projects = openProjects(table)
          const { project, result } = decide(look(() => projects.get(projectId)))
          if (project) look(() => projects.put(project))
          return result
        }),
      )
    },

    async check() {
      checkOpen()
      look(() => projects.numberOf('-'))
      const unavailable = writer.unavailable()
      if (unavailable) throw unavailable
      const holder = environment.lockHolder()
      if (holder?.isStopped) throw lockedError(holder)
      checkFreeSpace(eventsDirectory)
    },

    close() {
      closing ??= (async () => {
        if (running > 0) {
          await new Promise<void>((resolve) => {
            onIdle = resolve
          })
        }
        await Promise.all([chunks.close(), writer.close()])
        const closed = Promise.all([chunks.closeEnvironment(), environment.root.close()])
        // after a failed disk, LMDB's own close may never return
        await (writer.failure()
          ? Promise.race([closed.catch(() => {}), sleep(failedCloseMs, undefined, { ref: false })])
          : closed)
        release()
      })()
      return closing
    },
  }
}

/** The builds that the events reference; most batches come from one server, and so from one build. */
function buildsOf(events: readonly AppendEvent[]): string[] {
  const builds: string[] = []
  for (const { buildId } of events) if (buildId !== undefined && !builds.includes(buildId)) builds.push(buildId)
  return builds
}

function toStoredEvent(event: LoggedEvent, cursors: EventCursors): StoredEvent {
  return { cursor: toCursor(event, cursors), receivedAt: event.receivedAt, bytes: event.bytes }
}

/** Before the first record. */
const beginning: Position = { sequence: 0, index: 0 }
/** No record holds more events. */
const positionsPerRecord = 256

function toCursor({ position, checksum }: Pick<LoggedEvent, 'position' | 'checksum'>, cursors: EventCursors): string {
  return cursors.encode(position.sequence * positionsPerRecord + position.index, checksum)
}

function positionOf(position: number): Position {
  return { sequence: Math.floor(position / positionsPerRecord), index: position % positionsPerRecord }
}
