import { randomBytes } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { IngestError } from '../error.ts'
import type { Project } from '../key.ts'
import type { Cursor, ProjectDecision, ReadOptions, Store, StoredEvent } from '../store.ts'
import { checkDataFile } from './check-data-file.ts'
import { openChunkBytes } from './chunks.ts'
import { checkFreeSpace, type Environment, openEnvironment } from './environment.ts'
import { createEventLog, type LoggedEvent } from './event-log.ts'
import { createFingerprint, type Fingerprint } from './fingerprint.ts'
import { createGroupCommit, toRefusal } from './group-commit.ts'
import type { Position } from './ids/entry.ts'
import { openIdIndex, type RebuildProgress } from './ids/id-index.ts'
import { createLogReader } from './ids/log-reader.ts'
import { entriesPerFlush as entriesPerFlushDefault } from './ids/run.ts'
import { makeDirectory } from './make-directory.ts'
import { createMapStore } from './map-store.ts'
import { openMapTables } from './maps.ts'
import { openProjects } from './projects.ts'

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
  const release = claim(directory)
  try {
    const environment = openEnvironment(eventsDirectory)
    return await openStore(environment, directory, options, release)
  } catch (error) {
    release()
    throw await toRefusal(error, () => false)
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
    onRebuild,
    internals = {},
  }: LmdbStoreOptions,
  release: () => void,
): Promise<Store> {
  const eventsDirectory = join(directory, 'events')
  const seed = openFormat(environment, eventsDirectory)
  const projects = openProjects(environment)
  const logTable = environment.table('log')
  const ids = await openIdIndex({
    directory: join(directory, 'ids'),
    log: createLogReader(environment, logTable),
    logDirectory: eventsDirectory,
    seed: seed.toString('hex'),
    entriesPerFlush: internals.entriesPerFlush ?? entriesPerFlushDefault,
    ...(onRebuild && { onProgress: onRebuild }),
  })
  const log = createEventLog(
    {
      log: logTable,
      projectLog: environment.table('project-log'),
      freezes: environment.table('freezes'),
      totals: environment.table('totals'),
    },
    ids,
    internals.fingerprint ?? createFingerprint(seed),
    (project, buildId) => maps.freeze(project, buildId),
  )
  const maps = openMapTables({ environment, frozenAt: log.frozenAt, onWaste: () => void chunks.clean() })
  const { room, undone } = ids
  const writer = createGroupCommit({ environment, onFatal, timeoutMs, room, begin: log.begin, undone })
  const chunks = openChunkBytes({
    directory: join(directory, 'chunks'),
    maps,
    writer,
    look,
    onFatal: writer.fail,
    timeoutMs,
  })
  let closing: Promise<void> | undefined

  /** Reads at one moment, and sees at least what was committed when it began, by any process. */
  function look<T>(read: () => T): T {
    if (closing) throw new IngestError('store-closed', 'The store is closed.')
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
    return look(() => {
      const project = projects.numberOf(projectId)
      return project === undefined ? none : read(project)
    })
  }

  async function* read(projectId: string, { after, limit = Number.POSITIVE_INFINITY }: ReadOptions = {}) {
    const start = after === undefined ? { sequence: 0, index: -1 } : parseCursor(after)
    let left = limit
    let from = start.sequence
    while (left > 0) {
      const sequences = lookAt(projectId, [], (project) => log.sequences(project, from, readAhead))
      for (const sequence of sequences) {
        for (const event of look(() => log.events(sequence))) {
          if (sequence === start.sequence && event.position.index <= start.index) continue
          if (left-- <= 0) return
          yield toStoredEvent(event)
        }
        from = sequence + 1
        // a long read must leave room for others
        await nextTurn()
      }
      if (sequences.length === 0) return
    }
  }

  // what a crash has left is in nobody's way: it goes while the store is used
  void chunks.sweep().catch(() => {})

  return {
    append(projectId, batch) {
      return writer.commit(batch.body.length, () => log.append(projects.numberFor(projectId), batch))
    },

    async known(projectId, eventIds) {
      const none = eventIds.map(() => false)
      return lookAt(projectId, none, (project) => eventIds.map((eventId) => log.find(project, eventId) !== undefined))
    },

    async find(projectId, eventId) {
      const event = lookAt(projectId, undefined, (project) => log.find(project, eventId))
      return event && toStoredEvent(event)
    },

    read,

    ...createMapStore({ projects, maps, chunks, writer, look, frozenAt: log.frozenAt }),

    async totals(projectId) {
      return lookAt(projectId, { events: 0, batches: 0, bytes: 0 }, (project) => log.totals(project))
    },

    async project(projectId) {
      return look(() => projects.get(projectId))
    },

    async updateProject<T>(projectId: string, decide: (project: Project | undefined) => ProjectDecision<T>) {
      const outcome = await writer.commit(projectBytes, () => {
        let decision: ProjectDecision<T>
        try {
          decision = decide(projects.get(projectId))
        } catch (thrown) {
          return { thrown }
        }
        if (decision.project) projects.put(decision.project)
        return { result: decision.result }
      })
      if ('thrown' in outcome) throw outcome.thrown
      return outcome.result
    },

    async check() {
      look(() => projects.numberOf('-'))
      checkFreeSpace(eventsDirectory)
    },

    close() {
      closing ??= (async () => {
        await Promise.all([chunks.close(), writer.close()])
        // after a failed disk, LMDB's own close may never return
        const closed = ids.close().then(() => Promise.all([chunks.closeEnvironment(), environment.root.close()]))
        await (writer.failure()
          ? Promise.race([closed.catch(() => {}), sleep(failedCloseMs, undefined, { ref: false })])
          : closed)
        release()
      })()
      return closing
    },
  }
}

/** What a project weighs in the queue of the writer. */
const projectBytes = 1024

/** The seed of the store; a new store gets its own. */
function openFormat(environment: Environment, directory: string): Buffer {
  const meta = environment.table('meta')
  const key = Buffer.from('format')
  const format = environment.root.transactionSync(() => {
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
  return { cursor: `${position.sequence}-${position.index}`, receivedAt, bytes }
}

const cursorPattern = /^(\d{1,15})-(\d{1,5})$/

function parseCursor(cursor: Cursor): Position {
  const [, sequence, index] = cursorPattern.exec(cursor) ?? []
  if (sequence === undefined || index === undefined) {
    throw new IngestError('invalid-cursor', 'The cursor is not one that this store has given out.')
  }
  return { sequence: Number(sequence), index: Number(index) }
}
