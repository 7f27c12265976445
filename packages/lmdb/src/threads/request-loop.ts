import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import { type Refusal, toRefusal } from './error-transfer.ts'
import type { Gate } from './exit-guard.ts'

/** What a thread is told: what it is there for, or to close. */
export type ToThread<Request> = Request | { type: 'close' }

/** What became of a request: its value, or why it was refused. */
export type Outcome<Value = unknown> = { id: number } & ({ value: Value } | { refusal: Refusal })

/** What a thread says, besides what is its own. */
export type FromThread<Value = unknown> =
  | { type: 'ready' }
  | { type: 'refused'; refusal: Refusal }
  | { type: 'settled'; outcomes: Outcome<Value>[] }
  /** It has to do something else first, and will come to what it was asked. */
  | { type: 'waits' }

/** What answers requests. */
export interface Serving<Request> {
  /** What a request counts for in the size of a group. */
  bytesOf(request: Request): number
  /** Answers what has gathered, in one go. */
  answer(requests: readonly Request[]): Promise<Outcome[]>
  /** Memory in the answers that changes hands with them. */
  transferOf?(outcomes: readonly Outcome[]): ArrayBuffer[]
  close(): Promise<void>
}

/** What is answered in one go is at most so many bytes, so that no commit takes long. */
const groupBytesMax = 16 * 2 ** 20

/**
 * Serves requests that come by `port`: while one group of them is being answered, the next one gathers in the port. It
 * may block its thread, which is why it has one of its own. Resolves when it was told to close.
 */
export async function serveRequests<Request extends { type: string }>(
  port: MessagePort,
  gate: Gate,
  open: () => Promise<Serving<Request>>,
): Promise<void> {
  const say = (message: FromThread, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer)
  try {
    const serving = await open()
    say({ type: 'ready' })
    await listen(port, serving, gate, say)
  } catch (error) {
    say({ type: 'refused', refusal: toRefusal(error) })
  }
}

function listen<Request extends { type: string }>(
  port: MessagePort,
  serving: Serving<Request>,
  gate: Gate,
  say: (message: FromThread, transfer?: ArrayBuffer[]) => void,
): Promise<void> {
  const queue: ToThread<Request>[] = []
  let isRunning = false

  /** Whether it was told to close. */
  async function run(): Promise<boolean> {
    for (;;) {
      // what came while this thread was busy
      for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) queue.push(next.message)
      if (queue.length === 0) return false
      const group = takeGroup(queue, serving.bytesOf)
      if (group.length === 0) return true
      const outcomes = await serving.answer(group)
      say({ type: 'settled', outcomes }, serving.transferOf?.(outcomes))
    }
  }

  gate.leave()
  return new Promise((resolve, reject) => {
    port.on('message', async (message: ToThread<Request>) => {
      queue.push(message)
      if (isRunning) return
      isRunning = true
      gate.enter()
      try {
        if (await run()) return resolve(serving.close())
      } catch (error) {
        return reject(error)
      }
      gate.leave()
      isRunning = false
    })
  })
}

/** Takes what is to be done next from the queue; nothing if that is to close. */
function takeGroup<Request extends { type: string }>(
  queue: ToThread<Request>[],
  bytesOf: (request: Request) => number,
): Request[] {
  const group: Request[] = []
  for (let bytes = 0; bytes < groupBytesMax; ) {
    const next = queue[0]
    if (next === undefined || isClose(next)) break
    bytes += bytesOf(next)
    group.push(next)
    queue.shift()
  }
  return group
}

function isClose<Request extends { type: string }>(message: ToThread<Request>): message is { type: 'close' } {
  return message.type === 'close'
}
