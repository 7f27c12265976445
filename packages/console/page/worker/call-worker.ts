import type { Api } from '../api/api.ts'
import { RequestError } from '../api/request-error.ts'
import type { ArgumentOf, CallName, ProgressOf, ResultOf } from './calls.ts'
import { fromFailure, type PageMessage, type WorkerMessage } from './messages.ts'

interface CallOptions<Progress> {
  signal?: AbortSignal | undefined
  onProgress?(progress: Progress): void
}

/**
 * Calls the worker, see `createCalls`.
 *
 * @throws {RequestError} also for failures of the worker itself: kind `refused`
 * @throws the reason of the signal
 */
export type CallWorker = <Name extends CallName>(
  name: Name,
  argument: ArgumentOf<Name>,
  options?: CallOptions<ProgressOf<Name>>,
) => Promise<ResultOf<Name>>

/** The part of Worker that the page uses. */
export interface WorkerPort {
  postMessage(message: PageMessage): void
  addEventListener(type: 'message' | 'error' | 'messageerror', listener: (event: { data?: unknown }) => void): void
  terminate(): void
}

interface WorkerClient {
  call: CallWorker
  /** Ends the worker, which frees its memory; calls in flight and later ones reject with an AbortError. */
  end(): void
}

interface PendingCall {
  onProgress(progress: unknown): void
  resolve(result: unknown): void
  reject(error: unknown): void
}

/**
 * A client of the worker, which is started by the first call. The worker uses the Api's project, and reports its
 * requests' outcomes to the Api.
 */
export function createWorkerClient(api: Api, startWorker: () => WorkerPort): WorkerClient {
  const pending = new Map<number, PendingCall>()
  let worker: WorkerPort | undefined
  let count = 0
  let hasEnded = false

  function start(): WorkerPort {
    const started = startWorker()
    started.addEventListener('message', ({ data }) => receive(data as WorkerMessage))
    const fail = () => rejectAll(new RequestError('refused', 'The worker of the console failed: reload the page.'))
    started.addEventListener('error', fail)
    started.addEventListener('messageerror', fail)
    return started
  }

  function receive(message: WorkerMessage): void {
    if (message.type === 'response') api.observer.onResponse?.()
    else if (message.type === 'error') api.observer.onError?.(fromFailure(message.failure))
    else if (message.type === 'progress') pending.get(message.number)?.onProgress(message.progress)
    else settle(message)
  }

  function settle(message: WorkerMessage & { type: 'result' | 'failure' }): void {
    const call = pending.get(message.number)
    pending.delete(message.number)
    if (message.type === 'result') call?.resolve(message.result)
    else call?.reject(fromFailure(message.failure))
  }

  function rejectAll(error: unknown): void {
    for (const { reject } of pending.values()) reject(error)
    pending.clear()
  }

  function call(name: string, argument: unknown, { signal, onProgress }: CallOptions<unknown> = {}): Promise<unknown> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      if (hasEnded) throw ended()
      worker ??= start()
      const number = ++count
      const cancel = () => {
        pending.delete(number)
        worker?.postMessage({ type: 'cancel', number })
        reject(signal?.reason)
      }
      const finish = (action: (value: unknown) => void) => (value: unknown) => {
        signal?.removeEventListener('abort', cancel)
        action(value)
      }
      signal?.addEventListener('abort', cancel)
      pending.set(number, {
        onProgress: (progress) => onProgress?.(progress),
        resolve: finish(resolve),
        reject: finish(reject),
      })
      worker.postMessage({ type: 'call', number, session: api.session, name, argument })
    })
  }

  return {
    call: call as CallWorker,
    end() {
      hasEnded = true
      worker?.terminate()
      rejectAll(ended())
    },
  }
}

const ended = () => new DOMException('The worker has ended.', 'AbortError')
