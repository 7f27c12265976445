import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import { IngestError } from '../error.ts'
import { type Appended, createAppender } from './appender.ts'
import { type Change, change, openTables } from './change.ts'
import type { Environment } from './environment.ts'
import { createEventLog, openEventLogTables } from './event-log.ts'
import type { Gate, Gates } from './gates.ts'
import type { Position } from './ids/entry.ts'
import { openIdIndex, type RebuildProgress } from './ids/id-index.ts'
import { createLogReader } from './ids/log-reader.ts'
import { openMapTables } from './maps.ts'
import { type Refusal, toRefusal } from './refusal.ts'

/** What the writer needs to know. */
export interface WriterData {
  /** Of the log. */
  directory: string
  idsDirectory: string
  seed: string
  entriesPerFlush: number
  gates: Gates
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

/** What the writer is told. */
export type ToWriter = AppendRequest | LocateRequest | ChangeRequest | { type: 'close' }

/** What became of a request: its value, or why it was refused. */
export type Outcome = { id: number } & ({ value: Appended | (Position | undefined)[] | boolean } | { refusal: Refusal })

/** What it says. */
export type FromWriter =
  | { type: 'progress'; progress: RebuildProgress }
  | { type: 'ready' }
  | { type: 'refused'; refusal: Refusal }
  | { type: 'settled'; outcomes: Outcome[] }
  /** Freezing a build has left bytes that nothing needs any more. */
  | { type: 'waste' }
  /** It is not writing: the id index has to be done with something first. */
  | { type: 'waits' }

/** One transaction's worth of batches is at most so many bytes, so that no commit takes long. */
const groupBytesMax = 16 * 2 ** 20
/** How often it says that it waits. */
const waitingMs = 100

/**
 * Serves requests that come by `port`: the one in a process who writes to the log. Many requests, one transaction, one
 * sync: while one group is being written, the next one gathers in the port. Each is answered once it is durable; when
 * anything fails the whole transaction is undone, and everybody in it is refused.
 *
 * It blocks its thread while it writes, which is why it has one of its own. Resolves when it was told to close.
 */
export async function runWriter(
  port: MessagePort,
  environment: Environment,
  data: WriterData,
  gate: Gate,
): Promise<void> {
  const say = (message: FromWriter) => port.postMessage(message)
  try {
    const serve = await openWriter(environment, data, say)
    say({ type: 'ready' })
    await listen(port, serve, gate, say)
  } catch (error) {
    say({ type: 'refused', refusal: toRefusal(error) })
  }
}

/** What is answered in one go; all but the order to close. */
type Request = Exclude<ToWriter, { type: 'close' }>

interface Serving {
  answer(requests: readonly Request[]): Promise<Outcome[]>
  close(): Promise<void>
}

function listen(
  port: MessagePort,
  { answer, close }: Serving,
  gate: Gate,
  say: (message: FromWriter) => void,
): Promise<void> {
  const queue: ToWriter[] = []
  let isRunning = false

  async function run(): Promise<boolean> {
    for (;;) {
      // what came while this thread was busy
      for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) queue.push(next.message)
      if (queue.length === 0) return false
      const group = takeGroup(queue)
      if (group.length === 0) return true
      say({ type: 'settled', outcomes: await answer(group) })
    }
  }

  gate.leave()
  return new Promise((resolve, reject) => {
    port.on('message', async (message: ToWriter) => {
      queue.push(message)
      if (isRunning) return
      isRunning = true
      gate.enter()
      try {
        if (await run()) return resolve(close())
      } catch (error) {
        return reject(error)
      }
      gate.leave()
      isRunning = false
    })
  })
}

/** Takes what is to be done next from the queue; nothing if that is to close. */
function takeGroup(queue: ToWriter[]): Request[] {
  const group: Request[] = []
  for (let bytes = 0; bytes < groupBytesMax; ) {
    const next = queue[0]
    if (next === undefined || next.type === 'close') break
    if (next.type === 'append') bytes += next.record.length
    group.push(next)
    queue.shift()
  }
  return group
}

async function openWriter(
  environment: Environment,
  { directory, idsDirectory, seed, entriesPerFlush, gates }: WriterData,
  say: (message: FromWriter) => void,
): Promise<Serving> {
  const { root, table } = environment
  const tables = openEventLogTables(table)
  const eventLog = createEventLog(tables)
  const log = createLogReader(environment, tables.log)
  const ids = await openIdIndex({
    directory: idsDirectory,
    log,
    logDirectory: directory,
    seed,
    entriesPerFlush,
    gates,
    onProgress: (progress) => say({ type: 'progress', progress }),
  })
  let hasWaste = false
  const maps = openMapTables(table, () => {
    hasWaste = true
  })
  const appender = createAppender(tables, eventLog, ids, maps.freeze)
  let failure: Refusal | undefined

  function locate({ project, eventIds, fingerprints }: LocateRequest): (Position | undefined)[] {
    root.resetReadTxn()
    return appender.locate(project, eventIds, fingerprints)
  }

  function write(request: AppendRequest | ChangeRequest): Appended | boolean {
    if (request.type === 'change') return change(table, request)
    const { project, record, builds } = request
    return appender.append(project, Buffer.from(record.buffer, record.byteOffset, record.length), builds)
  }

  /** Before anything is acknowledged: what went into a file that is no longer there went nowhere. */
  function checkFile(): void {
    const lost = environment.lost()
    if (lost !== undefined) throw new IngestError('store-failed', `${lost}.`)
  }

  async function room(): Promise<void> {
    const timer = setInterval(() => say({ type: 'waits' }), waitingMs)
    try {
      await ids.room()
    } finally {
      clearInterval(timer)
    }
  }

  async function writeAll(requests: readonly (AppendRequest | ChangeRequest)[]): Promise<Outcome[]> {
    // after a failed disk, LMDB's next transaction may be none, or never end
    if (failure) return refuseAll(requests, failure)
    let hasBegun = false
    try {
      await room()
      for (const request of requests) if (request.type === 'change') openTables(table, request)
      hasBegun = true
      const values = root.transactionSync(() => {
        appender.begin()
        return requests.map(write)
      })
      checkFile()
      if (hasWaste) say({ type: 'waste' })
      hasWaste = false
      return requests.map(({ id }, i) => ({ id, value: values[i] as Appended | boolean }))
    } catch (error) {
      if (hasBegun) ids.undone()
      const refusal = toRefusal(error, environment.isFull)
      if (refusal.code === 'store-failed') failure = refusal
      return refuseAll(requests, refusal)
    }
  }

  function look(request: LocateRequest): Outcome {
    try {
      return { id: request.id, value: locate(request) }
    } catch (error) {
      return { id: request.id, refusal: toRefusal(error) }
    }
  }

  return {
    async answer(requests) {
      const outcomes = requests.filter((request) => request.type === 'locate').map(look)
      const writes = requests.filter((request) => request.type !== 'locate')
      return writes.length === 0 ? outcomes : [...outcomes, ...(await writeAll(writes))]
    },
    close: () => ids.close(),
  }
}

function refuseAll(requests: readonly Request[], refusal: Refusal): Outcome[] {
  return requests.map(({ id }) => ({ id, refusal }))
}
