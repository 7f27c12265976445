import type { Dispatcher } from 'undici'
import { unexpectedResponse } from './error-from-response.ts'

export interface ResponseHead {
  status: number
  /** By lower-case name. */
  headers: Readonly<Record<string, string | string[] | undefined>>
}

/** A response with its whole body, or the start of it for an error. */
export interface WholeResponse extends ResponseHead {
  body: Buffer
}

/** The longest response that is buffered. */
const bodyBytesMax = 64 * 1024 * 1024
/** How much of the body of an error is read. */
export const errorBodyBytesMax = 64 * 1024

export function isSuccess(status: number): boolean {
  return status >= 200 && status <= 299
}

/**
 * Reads a body to its end, or the start of that of an error.
 *
 * @throws {IngestError} `unexpected-response` for a body of more than 64 MiB
 */
export async function readLimited(body: AsyncIterable<Uint8Array>, isWhole: boolean): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    size += chunk.length
    if (!isWhole && size >= errorBodyBytesMax) break
    if (size > bodyBytesMax) throw tooLong()
  }
  return isWhole ? Buffer.concat(chunks) : Buffer.concat(chunks).subarray(0, errorBodyBytesMax)
}

function tooLong(): Error {
  return unexpectedResponse(`it is longer than ${bodyBytesMax} bytes`)
}

/**
 * Sends a request and reads its response, without the streams of `Dispatcher.request`, which take more processor time
 * than the rest of a short exchange. Rejects with the reason of the signal. An error that `checkHead` throws rejects it
 * too; the body is not read then.
 *
 * @throws {IngestError} `unexpected-response` for a body of more than 64 MiB; also the errors of undici
 */
export function readResponse(
  dispatcher: Dispatcher,
  request: Dispatcher.DispatchOptions,
  { signal, checkHead }: { signal: AbortSignal; checkHead: (head: ResponseHead) => void },
): Promise<WholeResponse> {
  return new Promise((resolve, reject) => {
    let head: ResponseHead = { status: 0, headers: {} }
    const chunks: Buffer[] = []
    let size = 0
    let abort = () => reject(signal.reason)
    signal.addEventListener('abort', () => abort())

    dispatcher.dispatch(request, {
      onRequestStart(controller) {
        abort = () => controller.abort(signal.reason)
        if (signal.aborted) abort()
      },
      onResponseStart(controller, status, headers) {
        head = { status, headers }
        try {
          checkHead(head)
        } catch (error) {
          controller.abort(error as Error)
        }
      },
      onResponseData(controller, chunk) {
        size += chunk.length
        chunks.push(chunk)
        if (!isSuccess(head.status) && size >= errorBodyBytesMax) {
          resolve({ ...head, body: Buffer.concat(chunks).subarray(0, errorBodyBytesMax) })
          controller.abort(new Error('The rest of an error is not read.'))
        } else if (size > bodyBytesMax) {
          controller.abort(tooLong())
        }
      },
      onResponseEnd: () => resolve({ ...head, body: Buffer.concat(chunks) }),
      onResponseError: (_controller, error) => reject(error),
    })
  })
}
