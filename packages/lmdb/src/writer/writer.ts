import type { MessagePort } from 'node:worker_threads'
import type { Environment } from '../environment/environment.ts'
import type { Position } from '../ids/entry.ts'
import { openIdIndex } from '../ids/id-index.ts'
import type { RebuildProgress } from '../ids/log-reader.ts'
import { createLogReader } from '../ids/log-reader.ts'
import { createEventLog, openEventLogTables } from '../log/event-log.ts'
import { openMapTables } from '../tables/maps.ts'
import { serializeError } from '../threads/error-transfer.ts'
import type { ExitGuard, ExitGuards } from '../threads/exit-guard.ts'
import { type Outcome, type RequestHandler, runRequestLoop, type ThreadMessage } from '../threads/request-loop.ts'
import { type Appended, createAppender } from './append-batch.ts'
import { type Change, change, openTables } from './change.ts'
import { createCommit } from './commit.ts'

/** What the writer needs to know. */
export interface WriterData {
  /** Of the log. */
  directory: string
  /** Of the log, as {@link Environment} names them. */
  fileIds: string
  idsDirectory: string
  seed: string
  entriesPerFlush: number
  guards: ExitGuards
}

export interface AppendRequest {
  type: 'append'
  id: number
  project: number
  /** The record that it will be if all of it is new. */
  record: Uint8Array
  /** Those that its events reference. */
  builds: string[]
}

export interface LocateRequest {
  type: 'locate'
  id: number
  project: number
  eventIds: string[]
  fingerprints: Uint32Array
}

export type ChangeRequest = { type: 'change'; id: number } & Change

/** What the writer is asked. */
export type WriterRequest = AppendRequest | LocateRequest | ChangeRequest

/** What it answers with. */
export type WriterValue = Appended | (Position | undefined)[] | boolean

/** What it says. */
export type FromWriter =
  | ThreadMessage<WriterValue>
  | { type: 'progress'; progress: RebuildProgress }
  /** Freezing a build has left bytes that nothing needs any more. */
  | { type: 'waste' }

/** How often it says that it waits. */
const waitingMs = 100

/**
 * The one in a process who writes to the log: many requests, one transaction, one sync. Each is answered once it is
 * durable; when anything fails the whole transaction is undone, and everybody in it is refused.
 */
export function runWriter(
  port: MessagePort,
  environment: Environment,
  data: WriterData,
  guard: ExitGuard,
): Promise<void> {
  const say = (message: FromWriter) => port.postMessage(message)
  return runRequestLoop(port, guard, () => openWriter(environment, data, say))
}

async function openWriter(
  environment: Environment,
  { directory, idsDirectory, seed, entriesPerFlush, guards }: WriterData,
  say: (message: FromWriter) => void,
): Promise<RequestHandler<WriterRequest>> {
  const { root, table } = environment
  const tables = openEventLogTables(table)
  const eventLog = createEventLog(tables)
  const log = createLogReader(environment, tables.log)
  const ids = await openIdIndex({
    directory: idsDirectory,
    log,
    logDirectory: directory,
    logFileIds: environment.fileIds,
    seed,
    entriesPerFlush,
    guards,
    onProgress: (progress) => say({ type: 'progress', progress }),
  })
  let hasWaste = false
  const maps = openMapTables(table, () => {
    hasWaste = true
  })
  const appender = createAppender(tables, eventLog, ids, maps.freeze)
  const { commit, refuse, failure, ready } = createCommit(environment)

  function locate({ project, eventIds, fingerprints }: LocateRequest): (Position | undefined)[] {
    root.resetReadTxn()
    return appender.locate(project, eventIds, fingerprints)
  }

  function write(request: AppendRequest | ChangeRequest): Appended | boolean {
    if (request.type === 'change') return change(table, request)
    const { project, record, builds } = request
    return appender.append(project, Buffer.from(record.buffer, record.byteOffset, record.length), builds)
  }

  async function room(): Promise<void> {
    const timer = setInterval(() => say({ type: 'alive' }), waitingMs)
    try {
      await ready()
      await ids.waitForCapacity()
    } finally {
      clearInterval(timer)
    }
  }

  async function writeAll(requests: readonly (AppendRequest | ChangeRequest)[]): Promise<Outcome<WriterValue>[]> {
    try {
      if (!failure()) await room()
      for (const request of requests) if (request.type === 'change') openTables(table, request)
    } catch (error) {
      return refuse(requests, error)
    }
    const outcomes = commit(
      requests,
      () => {
        appender.begin()
        return requests.map(write)
      },
      ids.rollback,
    )
    if (hasWaste) say({ type: 'waste' })
    hasWaste = false
    return outcomes
  }

  function look(request: LocateRequest): Outcome<WriterValue> {
    try {
      return { id: request.id, value: locate(request) }
    } catch (error) {
      return { id: request.id, error: serializeError(error) }
    }
  }

  return {
    requestBytes: (request) => (request.type === 'append' ? request.record.length : 0),
    async handle(requests) {
      const outcomes = requests.filter((request) => request.type === 'locate').map(look)
      const writes = requests.filter((request) => request.type !== 'locate')
      return writes.length === 0 ? outcomes : [...outcomes, ...(await writeAll(writes))]
    },
    close: () => ids.close(),
  }
}
