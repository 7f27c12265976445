import { Readable } from 'node:stream'
import type { Pool } from 'undici'
import { isSuccess, type ResponseHead, readLimited, readResponse, type WholeResponse } from './read-response.ts'

export interface TransportRequest {
  method: 'GET' | 'POST' | 'PUT'
  /** With the query. */
  path: string
  headers: Readonly<Record<string, string>>
  body: Uint8Array | null
}

export interface CallOptions {
  signal: AbortSignal
  checkHead: (head: ResponseHead) => void
}

/** Sends requests to one server. It rejects with the errors of the network, and with the reason of the signal. */
export interface Transport {
  /** Reads the whole response. An error that `checkHead` throws rejects it; the body is not read then. */
  call(request: TransportRequest, options: CallOptions): Promise<WholeResponse>
  stream(request: TransportRequest, signal: AbortSignal): Promise<ResponseHead & { body: Readable }>
  /** Aborts requests in flight. */
  close(): Promise<void>
}

/** The most open connections; further requests are queued. */
export const connectionsMax = 64

/** Undefined in an ES module that bundles it: the modules of Node that it requires are missing there. */
const undici = await import('undici').catch(() => undefined)

/** A pool of undici, or `fetch` where undici does not run: Bun replaces it by a part of itself. */
export function openTransport(origin: string): Transport {
  if (undici?.Pool === undefined || !('dispatch' in undici.Pool.prototype)) return fetchTransport(origin)
  // `startWatchdog` enforces time-outs, from the DNS look-up on
  return poolTransport(new undici.Pool(origin, { connections: connectionsMax, headersTimeout: 0, bodyTimeout: 0 }))
}

function poolTransport(pool: Pool): Transport {
  return {
    call: (request, options) => readResponse(pool, request, options),
    async stream(request, signal) {
      const { statusCode: status, headers, body } = await pool.request({ ...request, signal })
      return { status, headers, body }
    },
    close: () => pool.destroy(),
  }
}

function fetchTransport(origin: string): Transport {
  const closing = new AbortController()

  async function send({ path, ...request }: TransportRequest, signal: AbortSignal): Promise<Response> {
    const init = { ...request, signal: AbortSignal.any([signal, closing.signal]), redirect: 'manual' as const }
    try {
      return await fetch(`${origin}${path}`, init as RequestInit)
    } catch (error) {
      if (closing.signal.aborted) throw Object.assign(new Error('closed'), { code: 'UND_ERR_CLOSED' })
      // that of Node wraps the error of the network
      throw error instanceof TypeError && error.cause instanceof Error ? error.cause : error
    }
  }

  const headOf = ({ status, headers }: Response) => ({ status, headers: Object.fromEntries(headers) })
  const bodyOf = ({ body }: Response) => (body === null ? Readable.from([]) : Readable.fromWeb(body as never))
  return {
    async call(request, { signal, checkHead }) {
      const response = await send(request, signal)
      const head = headOf(response)
      const body = bodyOf(response)
      try {
        checkHead(head)
        return { ...head, body: await readLimited(body, isSuccess(head.status)) }
      } finally {
        body.destroy()
      }
    },
    async stream(request, signal) {
      const response = await send(request, signal)
      return { ...headOf(response), body: bodyOf(response) }
    },
    async close() {
      closing.abort()
    },
  }
}
