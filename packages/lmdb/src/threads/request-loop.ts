import { type MessagePort, parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import type { StoreCommit } from '@ingest/core'
import { type Environment, openEnvironment } from '../environment/environment.ts'
import type { CommitState } from './commit-state.ts'
import { type SerializedError, serializeError, toRequestError } from './error-transfer.ts'
import { type ExitGuard, type ExitGuards, exitGuardAt } from './exit-guard.ts'
import type { CloseMessage } from './worker-thread.ts'

/** The result of one request. */
export type Outcome<Value = unknown> = { id: number } & ({ value: Value } | { error: SerializedError })

/** The outcomes of some requests. */
export interface Handled<Value = unknown> {
  outcomes: Outcome<Value>[]
  /** The commit of a transaction, if there was one. */
  commit?: StoreCommit
}

/** The messages of a thread that serves requests, besides its own. */
export type ThreadMessage<Value = unknown> =
  | { type: 'ready' }
  /** It cannot continue. */
  | { type: 'failed'; error: SerializedError }
  | ({ type: 'settled' } & Handled<Value>)
  /** It waits for something other than a commit. */
  | { type: 'alive' }

/** Handles the requests of a thread. */
export interface RequestHandler<Request> {
  /** How many bytes a request counts towards the size of a batch. */
  requestBytes(request: Request): number
  /** Whether a request writes nothing: behind writes of several batches, it would wait for several commits. */
  isRead(request: Request): boolean
  /** Which requests must wait, while later ones are handled. Called once for each batch. */
  mustWait?(): (request: Request) => boolean
  /** Does some of what requests wait for, in milliseconds. Called again and again while one must wait. */
  wait?(): Promise<void>
  /** Handles a batch of requests, and settles each once, all at once or in parts. */
  handle(requests: readonly Request[], settle: (handled: Handled) => void): Promise<void>
  close(): Promise<void>
}

/** The `workerData` of a thread that writes. */
export interface WriteThreadData {
  /** The directory of its environment. */
  directory: string
  /** {@link Environment.fileIds} */
  fileIds: string
  guards: ExitGuards
  commitState: CommitState
}

/** All that the module of a thread that writes does: `run` gets an environment of its own. */
export async function runWriteThread<Data extends WriteThreadData>(
  slot: number,
  run: (port: MessagePort, environment: Environment, data: Data, guard: ExitGuard) => Promise<void>,
): Promise<void> {
  const data = workerData as Data
  const guard = exitGuardAt(data.guards, slot)
  const port = parentPort as MessagePort
  try {
    const environment = await openEnvironment(data.directory, data)
    try {
      await run(port, environment, data, guard)
    } finally {
      await environment.close()
    }
  } catch (error) {
    port.postMessage({ type: 'failed', error: serializeError(toRequestError(error)) } satisfies ThreadMessage)
  }
  guard.leaveNative()
  port.close()
}

/** Limits how long the commit of one batch takes. */
export const batchBytesMax = 16 * 2 ** 20

/**
 * Handles the requests that arrive at `port`, one or more in each message, in batches: while one is handled, the next
 * one queues up in the port. The handler may block its thread. Resolves after a close message, or after a failure of
 * the handler, which it posts.
 */
export async function runRequestLoop<Request extends { type: string }>(
  port: MessagePort,
  guard: ExitGuard,
  open: () => Promise<RequestHandler<Request>>,
): Promise<void> {
  const post = (message: ThreadMessage) => port.postMessage(message)
  const fail = (error: unknown) => post({ type: 'failed', error: serializeError(error) })
  const handler = await open().catch((error) => void fail(toRequestError(error)))
  if (!handler) return
  post({ type: 'ready' })
  await listen(port, handler, guard, post).catch(fail)
}

function listen<Request extends { type: string }>(
  port: MessagePort,
  handler: RequestHandler<Request>,
  guard: ExitGuard,
  post: (message: ThreadMessage) => void,
): Promise<void> {
  const queue: (Request | CloseMessage)[] = []
  let reads: Request[] = []
  let isRunning = false

  function enqueue(message: readonly Request[] | CloseMessage): void {
    if (!Array.isArray(message)) queue.push(message as CloseMessage)
    else for (const request of message) (handler.isRead(request) ? reads : queue).push(request)
  }

  /** Handles all requests that have arrived; resolves with true at a close message. */
  async function run(): Promise<boolean> {
    for (;;) {
      // requests that arrived while this thread was busy
      for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) enqueue(next.message)
      if (queue.length + reads.length === 0) return false
      const { writes, isWaiting } = takeBatch(queue, handler.requestBytes, handler.mustWait?.())
      const batch = [...reads, ...writes]
      reads = []
      if (batch.length === 0 && !isWaiting) return true
      if (batch.length > 0) await handler.handle(batch, (handled) => post({ type: 'settled', ...handled }))
      if (isWaiting) await handler.wait?.()
    }
  }

  guard.leaveNative()
  return new Promise((resolve, reject) => {
    port.on('message', async (message: readonly Request[] | CloseMessage) => {
      enqueue(message)
      if (isRunning) return
      isRunning = true
      guard.enterNative()
      try {
        if (await run()) return resolve(handler.close())
      } catch (error) {
        return reject(error)
      }
      guard.leaveNative()
      isRunning = false
    })
  })
}

/**
 * Takes the next batch from the queue, without requests that must wait; an empty one at a close message, and when all
 * wait. A request of the size of a batch comes alone.
 */
function takeBatch<Request extends { type: string }>(
  queue: (Request | CloseMessage)[],
  requestBytes: (request: Request) => number,
  mustWait: (request: Request) => boolean = () => false,
): { writes: Request[]; isWaiting: boolean } {
  const writes: Request[] = []
  let [at, waiting] = [0, 0]
  for (let bytes = 0; bytes < batchBytesMax; at++) {
    const next = queue[at]
    if (next === undefined || isClose(next)) break
    if (mustWait(next)) {
      queue[waiting++] = next
      continue
    }
    const cost = requestBytes(next)
    if (cost >= batchBytesMax && writes.length > 0) break
    bytes += cost
    writes.push(next)
  }
  queue.splice(waiting, at - waiting)
  return { writes, isWaiting: waiting > 0 }
}

function isClose<Request extends { type: string }>(message: Request | CloseMessage): message is CloseMessage {
  return message.type === 'close'
}
