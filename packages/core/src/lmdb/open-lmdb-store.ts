import { randomBytes } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { IngestError } from '../error.ts'
import { createReadTurns, type ReadStep } from '../read-turns.ts'
import type { AppendBatch, AppendEvent, AppendResult, Cursor, ReadOptions, Store, StoredEvent } from '../store.ts'
import { readActivity } from './activity.ts'
import { listBuilds } from './builds.ts'
import { checkDataFile } from './check-data-file.ts'
import { openChunkBytes } from './chunks.ts'
import { checkFreeSpace, type Environment, openEnvironment } from './environment.ts'
import { createEventLog, type LoggedEvent, openEventLogTables, type SlicedReads } from './event-log.ts'
import { createFingerprint, type Fingerprint } from './fingerprint.ts'
import { type Gates, openGates } from './gates.ts'
import type { Position } from './ids/entry.ts'
import type { RebuildProgress } from './ids/id-index.ts'
import { entriesPerFlush as entriesPerFlushDefault } from './ids/run.ts'
import { makeDirectory } from './make-directory.ts'
import { createMapStore } from './map-store.ts'
import { openMapTables } from './maps.ts'
import { openProjects } from './projects.ts'
import { encodePayload, encodeRecord } from './record.ts'
import { toError, toRefusal } from './refusal.ts'
import { startWriter } from './writer-handle.ts'

export interface LmdbStoreOptions {
  /** False to refuse, with `store-missing`, a directory that holds no store yet. True without. */
  create?: boolean
  /**
   * Called once when the store can no longer be trusted: the disk failed, or the data file is gone. Everything is
   * refused with `store-failed` from then on; the process should be ended, with SIGKILL, and started again.
   */
  onFatal?: (error: IngestError) => void
  /** A commit that takes longer, in milliseconds, is taken for one that never ends. 30 seconds without. */
  commitTimeoutMs?: number
  /** Told how far it has come while the id index, which was lost or damaged, is made again at opening. */
  onRebuild?: (progress: RebuildProgress) => void
  /** @internal For tests: a smaller run of the id index, and a hash that collides. */
  internals?: { entriesPerFlush?: number; fingerprint?: Fingerprint }
}

const formatVersion = 1
const commitTimeoutMsDefault = 30_000
/** How long a store that has failed may take to close; then it is left as it is. */
const failedCloseMs = 2000
/** How many records a reader takes note of at once. */
const readAhead = 64
/** How many bytes of events a reader reads in one step. */
const stepBytes = 32_768

/** Directories that are open in this process: two handles on one would wait for each other's write lock for ever. */
const openDirectories = new Set<string>()

/**
 * Opens the store in a directory, and makes it when it is missing. Any number of processes may have the same directory
 * open, each once; it must be on a local disk.
 *
 * @throws {IngestError} `store-incompatible` for files that are damaged, foreign or of another version, `store-missing`,
 *   `disk-full`, `invalid-argument` for a directory that cannot be made, or that this process has open already.
 */
export async function openLmdbStore(directory: string, options: LmdbStoreOptions = {}): Promise<Store> {
  const { create = true } = options
  const eventsDirectory = join(directory, 'events')
  if (!create && !checkDataFile(join(eventsDirectory, 'data.mdb'))) {
    throw new IngestError('store-missing', `There is no store in ${directory}: making a key or serving makes one.`)
  }
  const unclaim = claim(directory)
  const { gates, letGo } = openGates()
  const release = () => {
    letGo()
    unclaim()
  }
  try {
    const environment = openEnvironment(eventsDirectory)
    return await openStore(environment, directory, options, gates, release)
  } catch (error) {
    release()
    throw toError(toRefusal(error))
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

async function openStore(
  environment: Environment,
  directory: string,
  {
    onFatal = () => {},
    commitTimeoutMs: timeoutMs = commitTimeoutMsDefault,
    onRebuild = () => {},
    internals = {},
  }: LmdbStoreOptions,
  gates: Gates,
  release: () => void,
): Promise<Store> {
  const eventsDirectory = join(directory, 'events')
  const seed = openFormat(environment, eventsDirectory)
  const fingerprint = internals.fingerprint ?? createFingerprint(seed)
  const projects = openProjects(environment.table)
  const tables = openEventLogTables(environment.table)
  const log = createEventLog(tables)
  const writer = await startWriter({
    environment,
    data: {
      directory: eventsDirectory,
      files: environment.files,
      idsDirectory: join(directory, 'ids'),
      seed: seed.toString('hex'),
      entriesPerFlush: internals.entriesPerFlush ?? entriesPerFlushDefault,
      gates,
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
  const chunks = openChunkBytes({ directory: join(directory, 'chunks'), maps, writer, look, gates, timeoutMs })
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
    return { look, nextStep: () => readTurns.next(projectId) }
  }

  async function* read(projectId: string, { after, limit = Number.POSITIVE_INFINITY, from }: ReadOptions = {}) {
    const start = after === undefined ? beginning : parseCursor(after)
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
          yield toStoredEvent(event)
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
        return look(() => toStoredEvent(log.events(position.sequence)[position.index] as LoggedEvent))
      })
    },

    read,

    async lastCursor(projectId) {
      return toCursor(lookAt(projectId, undefined, (project) => log.lastPosition(project)) ?? beginning)
    },

    map: (key) => run(() => mapStore.map(key)),
    maps: (projectId, selection) => run(() => mapStore.maps(projectId, selection)),
    updateMap: (key, about, decide) => run(() => mapStore.updateMap(key, about, decide)),
    putChunk: (projectId, chunk) => run(() => mapStore.putChunk(projectId, chunk)),
    chunk: (projectId, digest, use) => run(() => mapStore.chunk(projectId, digest, use)),
    presentChunks: (projectId, digests) => run(() => mapStore.presentChunks(projectId, digests)),
    readyMaps: (projectId) => run(() => mapStore.readyMaps(projectId)),
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
      const refusal = writer.refusal()
      if (refusal) throw refusal
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

/** The seed of the store; a new store gets its own. */
function openFormat(environment: Environment, directory: string): Buffer {
  const meta = environment.table('meta')
  const key = Buffer.from('format')
  const format =
    meta.getBinary(key) ??
    environment.write(() => {
      const existing = meta.getBinary(key)
      if (existing) return existing
      const made = Buffer.concat([Buffer.from([formatVersion]), randomBytes(8)])
      meta.put(key, made)
      return made
    })
  if (format[0] !== formatVersion) {
    throw new IngestError(
      'store-incompatible',
      `${directory} is of format ${format[0]}, and this version reads format ${formatVersion}: use the version that made it.`,
    )
  }
  return format.subarray(1)
}

function toStoredEvent({ position, receivedAt, bytes }: LoggedEvent): StoredEvent {
  return { cursor: toCursor(position), receivedAt, bytes }
}

/** Before the first record. */
const beginning: Position = { sequence: 0, index: 0 }

function toCursor({ sequence, index }: Position): Cursor {
  return `${sequence}-${index}`
}

const cursorPattern = /^(\d{1,15})-(\d{1,5})$/

function parseCursor(cursor: Cursor): Position {
  const [, sequence, index] = cursorPattern.exec(cursor) ?? []
  if (sequence === undefined || index === undefined) {
    throw new IngestError('invalid-cursor', 'The cursor is not one that this store has given out.')
  }
  return { sequence: Number(sequence), index: Number(index) }
}
