import { createApi } from '../api/api.ts'
import { RequestError } from '../api/request-error.ts'
import type { CallContext } from './call-context.ts'
import { type PageMessage, toFailure, type WorkerMessage } from './messages.ts'

/** The worker's end of its connection to the page. */
export interface PagePort {
  postMessage(message: WorkerMessage, transfer?: Transferable[]): void
  addEventListener(type: 'message', listener: (event: { data: PageMessage }) => void): void
}

type Call = (argument: unknown, context: CallContext<unknown>) => Promise<unknown>

/** Runs the page's calls, concurrently. */
export function serveCalls(port: PagePort, calls: object): void {
  const table = new Map(Object.entries(calls)) as Map<string, Call>
  const running = new Map<number, AbortController>()

  port.addEventListener('message', ({ data }) => {
    if (data.type === 'cancel') running.get(data.number)?.abort()
    else void run(data)
  })

  async function run({ number, session, name, argument }: PageMessage & { type: 'call' }): Promise<void> {
    const ending = new AbortController()
    running.set(number, ending)
    const api = createApi(session, {
      onResponse: () => port.postMessage({ type: 'response' }),
      onError: (error) => port.postMessage({ type: 'error', failure: toFailure(error) }),
    })
    const onProgress = (progress: unknown) => port.postMessage({ type: 'progress', number, progress })
    try {
      const call = table.get(name)
      if (!call) throw new Error(`The worker has no call ${name}.`)
      const result = await call(argument, { api, signal: ending.signal, onProgress })
      port.postMessage({ type: 'result', number, result }, isImage(result) ? [result] : [])
    } catch (error) {
      // the page no longer knows a call that it cancelled
      if (!ending.signal.aborted)
        port.postMessage({ type: 'failure', number, failure: toFailure(requestErrorOf(error)) })
    } finally {
      running.delete(number)
    }
  }
}

/** Images are transferred, not copied. */
function isImage(result: unknown): result is ImageBitmap {
  return typeof ImageBitmap === 'function' && result instanceof ImageBitmap
}

function requestErrorOf(error: unknown): RequestError {
  if (error instanceof RequestError) return error
  console.error(error)
  return new RequestError('refused', `The console failed: ${error instanceof Error ? error.message : error}`)
}
