import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import { type SerializedError, serializeError } from './error-transfer.ts'
import type { ExitGuard } from './exit-guard.ts'

/** What a thread is told: what it is there for, or to close. */
export type LoopRequest<Request> = Request | { type: 'close' }

/** What became of a request: its value, or why it was refused. */
export type Outcome<Value = unknown> = { id: number } & ({ value: Value } | { error: SerializedError })

/** What a thread says, besides what is its own. */
export type ThreadMessage<Value = unknown> =
  | { type: 'ready' }
  | { type: 'failed'; error: SerializedError }
  | { type: 'settled'; outcomes: Outcome<Value>[] }
  /** It has to do something else first, and will come to what it was asked. */
  | { type: 'alive' }

/** What answers requests. */
export interface RequestHandler<Request> {
  /** What a request counts for in the size of a group. */
  requestBytes(request: Request): number
  /** Answers what has gathered, in one go. */
  handle(requests: readonly Request[]): Promise<Outcome[]>
  /** Memory in the answers that changes hands with them. */
  transferList?(outcomes: readonly Outcome[]): ArrayBuffer[]
  close(): Promise<void>
}

/** What is answered in one go is at most so many bytes, so that no commit takes long. */
const batchBytesMax = 16 * 2 ** 20

/**
 * Serves requests that come by `port`: while one group of them is being answered, the next one gathers in the port. It
 * may block its thread, which is why it has one of its own. Resolves when it was told to close.
 */
export async function runRequestLoop<Request extends { type: string }>(
  port: MessagePort,
  guard: ExitGuard,
  open: () => Promise<RequestHandler<Request>>,
): Promise<void> {
  const say = (message: ThreadMessage, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer)
  try {
    const serving = await open()
    say({ type: 'ready' })
    await listen(port, serving, guard, say)
  } catch (error) {
    say({ type: 'failed', error: serializeError(error) })
  }
}

function listen<Request extends { type: string }>(
  port: MessagePort,
  serving: RequestHandler<Request>,
  guard: ExitGuard,
  say: (message: ThreadMessage, transfer?: ArrayBuffer[]) => void,
): Promise<void> {
  const queue: LoopRequest<Request>[] = []
  let isRunning = false

  /** Whether it was told to close. */
  async function run(): Promise<boolean> {
    for (;;) {
      // what came while this thread was busy
      for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) queue.push(next.message)
      if (queue.length === 0) return false
      const group = takeBatch(queue, serving.requestBytes)
      if (group.length === 0) return true
      const outcomes = await serving.handle(group)
      say({ type: 'settled', outcomes }, serving.transferList?.(outcomes))
    }
  }

  guard.leaveNative()
  return new Promise((resolve, reject) => {
    port.on('message', async (message: LoopRequest<Request>) => {
      queue.push(message)
      if (isRunning) return
      isRunning = true
      guard.enterNative()
      try {
        if (await run()) return resolve(serving.close())
      } catch (error) {
        return reject(error)
      }
      guard.leaveNative()
      isRunning = false
    })
  })
}

/** Takes what is to be done next from the queue; nothing if that is to close. */
function takeBatch<Request extends { type: string }>(
  queue: LoopRequest<Request>[],
  bytesOf: (request: Request) => number,
): Request[] {
  const group: Request[] = []
  for (let bytes = 0; bytes < batchBytesMax; ) {
    const next = queue[0]
    if (next === undefined || isClose(next)) break
    bytes += bytesOf(next)
    group.push(next)
    queue.shift()
  }
  return group
}

function isClose<Request extends { type: string }>(message: LoopRequest<Request>): message is { type: 'close' } {
  return message.type === 'close'
}
