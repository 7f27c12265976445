import type { MessagePort } from 'node:worker_threads'
import type { Environment } from '../environment/environment.ts'
import { createFingerprint, withFingerprints } from '../ids/fingerprint.ts'
import { openIdIndex, type RebuildProgress } from '../ids/id-index.ts'
import type { IndexSize } from '../ids/id-lookup.ts'
import { createLogReader } from '../ids/log-reader.ts'
import { createEventLog, openEventLogTables } from '../log/event-log.ts'
import type { Position } from '../log/record.ts'
import { createCommit } from '../threads/commit.ts'
import { serializeError, toRequestError } from '../threads/error-transfer.ts'
import type { ExitGuard } from '../threads/exit-guard.ts'
import {
  batchBytesMax,
  type Handled,
  type Outcome,
  type RequestHandler,
  runRequestLoop,
  type ThreadMessage,
  type WriteThreadData,
} from '../threads/request-loop.ts'
import { type Appended, type BatchToAppend, createAppender, type FirstBatch } from './append-batch.ts'
import { type Command, type CommandResult, openCommandTables, rowCount, runCommand } from './commands.ts'
import { createErasures, type ErasureResult, type ErasureStep } from './erasures.ts'

/*
 * The writer thread: the only one in its process that writes to `events`, and the owner of the id index.
 *
 * - append: a batch of events (`append-batch.ts`); its ids are looked up (`find-duplicates.ts`), new events become a
 *   record
 * - command: any other write, such as an entry or a map; each subject declares its own (`commands.ts`)
 * - erasure: replaces events by tombstones (`erasures.ts`)
 * - first batch: the batch of a project that has no number yet; the transaction assigns one
 * - seen: the last record that this process knows, in memory that it shares with the thread of readers
 *
 * `writer-client.ts` is the side that sends. `threads/` explains how requests share a commit, and why one that fails
 * does not undo others. Start with `openWriter` below, then read `append-batch.ts`.
 */

export interface WriterData extends WriteThreadData {
  idsDirectory: string
  seed: string
  entriesPerFlush: number
  fingerprintBits: number
  /** Shared by both threads: the number of the last log record that the writer has seen. */
  seen: BigInt64Array
}

type AppendRequest = { type: 'append'; id: number } & (BatchToAppend | FirstBatch)
type LocateRequest = { type: 'locate'; id: number; project: number; eventIds: string[]; fingerprints: Uint32Array }
type CommandRequest = { type: 'command'; id: number; command: Command }
type ErasureRequest = { type: 'erasure'; id: number; step: ErasureStep }
/** Requests the {@link WriterSize}. */
type MeasureRequest = { type: 'measure'; id: number }
type WriteRequest = AppendRequest | CommandRequest | ErasureRequest

/** A request to the writer. */
export type WriterRequest = WriteRequest | LocateRequest | MeasureRequest

/** The size of the log and its index. */
export interface WriterSize {
  records: number
  ids: IndexSize
}

/** The value of a settled request. */
export type WriterValue = ErasureResult | Appended | (Position | undefined)[] | CommandResult | WriterSize

type Settle = (handled: Handled<WriterValue>) => void

/** A message from the writer. */
export type FromWriter =
  | ThreadMessage<WriterValue>
  | { type: 'progress'; progress: RebuildProgress }
  /** Blobs were marked as garbage. */
  | { type: 'garbage' }

/**
 * The only writer of the log in a process: many requests, one transaction, one sync. Requests are settled once they are
 * durable. If a request fails, only that request is undone.
 */
export function runWriter(
  port: MessagePort,
  environment: Environment,
  data: WriterData,
  guard: ExitGuard,
): Promise<void> {
  const post = (message: FromWriter) => port.postMessage(message)
  return runRequestLoop(port, guard, () => openWriter(environment, data, guard, post))
}

async function openWriter(
  environment: Environment,
  { directory, idsDirectory, seed, entriesPerFlush, fingerprintBits, guards, commitState, seen }: WriterData,
  guard: ExitGuard,
  post: (message: FromWriter) => void,
): Promise<RequestHandler<WriterRequest>> {
  const { table } = environment
  const tables = openEventLogTables(table)
  const eventLog = createEventLog(tables)
  const fingerprint = createFingerprint(fingerprintBits)
  const log = createLogReader(environment, tables.log)
  let hasGarbage = false
  const commandTables = openCommandTables(table, () => {
    hasGarbage = true
  })
  // opened last, as nothing would close it if a later step failed
  const ids = await openIdIndex({
    directory: idsDirectory,
    log,
    logDirectory: directory,
    logFileIds: environment.fileIds,
    seed,
    entriesPerFlush,
    guards,
    onProgress: (progress) => post({ type: 'progress', progress }),
  })
  const appender = createAppender(tables, eventLog, ids, (sequence) => Atomics.store(seen, 0, BigInt(sequence)))
  const runErasure = createErasures(tables, eventLog, appender)
  const { commit, refuse, failure, ready, turn } = createCommit<WriteRequest, WriterValue>(environment, commitState, {
    begin: appender.begin,
    write,
    end: appender.end,
    onUndone: ids.rollback,
  })

  function measure(): WriterSize {
    log.refresh()
    return { records: log.lastSequence(), ids: ids.size() }
  }

  function write(request: WriteRequest): Appended | CommandResult | ErasureResult {
    if (request.type === 'erasure') return runErasure(request.step)
    if (request.type === 'command') return runCommand(commandTables, request.command)
    return appender.append('projectId' in request ? numbered(request) : request)
  }

  /**
   * Gives a batch the number of its project. A new number is assigned in the transaction of the append, so a failed
   * append leaves none.
   */
  function numbered(batch: FirstBatch): BatchToAppend {
    const project = commandTables.projects.numberFor(batch.projectId)
    // a copy, as an undone transaction is repeated and may then assign another number
    return { ...batch, project, rows: withFingerprints(batch.rows, project, fingerprint) }
  }

  /** The error of writes that need the index. */
  let indexError: unknown

  /** Whether writes that need the index must wait. */
  function mustWaitForIndex(): boolean {
    indexError = undefined
    if (failure()) return false
    try {
      return !ids.prepareAppends()
    } catch (error) {
      indexError = error
      return false
    }
  }

  async function writeAll(requests: readonly WriteRequest[], settle: Settle): Promise<void> {
    try {
      if (!failure()) {
        await ready(guard, () => post({ type: 'alive' }))
        await turn(guard)
      }
    } catch (error) {
      settle({ outcomes: refuse(requests, error) })
      return
    }
    commit(requests, (handled) => {
      if (handled.commit) appender.committed()
      if (hasGarbage) post({ type: 'garbage' })
      hasGarbage = false
      settle(handled)
    })
  }

  function read(request: LocateRequest | MeasureRequest): (Position | undefined)[] | WriterSize {
    if (request.type === 'measure') return measure()
    return appender.locate(request.project, request.eventIds, request.fingerprints)
  }

  function readNow(request: LocateRequest | MeasureRequest): Outcome<WriterValue> {
    try {
      return { id: request.id, value: read(request) }
    } catch (error) {
      return { id: request.id, error: serializeError(toRequestError(error)) }
    }
  }

  return {
    requestBytes: costOf,
    isRead,
    async handle(requests, settle) {
      const reads = requests.filter(isRead)
      if (reads.length > 0) settle({ outcomes: reads.map(readNow) })
      const writes = requests.filter((request) => !isRead(request)) as WriteRequest[]
      const refused = indexError === undefined ? [] : writes.filter(needsIndex)
      if (refused.length > 0) settle({ outcomes: refuse(refused, indexError) })
      const others = writes.filter((request) => !refused.includes(request))
      if (others.length > 0) await writeAll(others, settle)
    },
    mustWait() {
      // checked once per batch, and only if a request needs the index
      let mustWait: boolean | undefined
      return (request) => {
        if (!needsIndex(request)) return false
        mustWait ??= mustWaitForIndex()
        return mustWait
      }
    },
    async wait() {
      await ids.wait()
      post({ type: 'alive' })
    },
    close: () => ids.close(),
  }
}

function isRead(request: WriterRequest): request is LocateRequest | MeasureRequest {
  return request.type === 'locate' || request.type === 'measure'
}

function isExpiry(request: WriterRequest): boolean {
  return request.type === 'erasure' && request.step.type === 'expire'
}

/** Whether a request searches the index and so waits until searches are fast. */
function needsIndex(request: WriterRequest): boolean {
  return request.type === 'append' || (request.type === 'erasure' && request.step.type === 'erase')
}

/** The cost of an expiry in a group. Several share a commit, as each erases different records. */
const expiryCost = batchBytesMax / 8
/**
 * The cost of a row of a command in a group: a transaction that writes 4,096 chunks of manifests takes about as long as
 * one of 16 MiB.
 */
const rowCost = 4096

function costOf(request: WriterRequest): number {
  if (request.type === 'append') return request.body.length
  if (isExpiry(request)) return expiryCost
  // in a group by itself: if it fails, no append is refused
  if (request.type === 'erasure') return batchBytesMax
  return isRead(request) ? 0 : rowCost * rowCount(request.command)
}
