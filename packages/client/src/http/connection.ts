import type { Readable } from 'node:stream'
import { IngestError } from '@ingest/core'
import { errorFromResponse, toPrintable, unexpectedResponse } from './error-from-response.ts'
import { openTransport, type TransportRequest } from './transport.ts'

export interface ApiRequest {
  /** Default: GET. */
  method?: TransportRequest['method']
  /** `/v1/maps` */
  path: string
  /** Undefined values are omitted. */
  query?: Readonly<Record<string, string | number | boolean | undefined>>
  headers?: Readonly<Record<string, string>>
  body?: Uint8Array
  /** How long the server may hold back the response (long poll), in milliseconds. Added to the timeout. */
  waitMs?: number
  /** The expected statuses. Default: 200. */
  expect?: readonly number[]
}

export interface SendOptions {
  /**
   * How long the whole response may take after the request has a connection, in milliseconds. For a stream: until its
   * first item, and between two items.
   */
  timeoutMs: number
  /** The same including the wait for a connection, in milliseconds. */
  totalMs: number
  signal?: AbortSignal | undefined
}

/** A response with a 2xx status. */
export interface HttpResponse {
  status: number
  /** By lower-case name. */
  headers: Readonly<Record<string, string | undefined>>
  /** Holds a connection until it is read to its end or discarded. */
  body: AsyncIterable<Uint8Array>
  /**
   * Restarts the timeout, because an item of the stream is complete. Bytes alone do not count as progress: a server may
   * send them slowly.
   */
  restartTimeout(): void
  /** Releases the connection without reading the rest of the body. */
  discard(): void
}

/** Keep-alive connections to one server. */
export interface Connection {
  /** Whether the server is on this machine, where compressing bodies only takes time. */
  isLoopback: boolean
  /** Replaces the key, which a response may echo, and control characters: errors and callbacks are logged. */
  redact(text: string): string
  /**
   * Sends a request once. Time that a reader of the body spends between reads does not count towards the timeout.
   *
   * @throws {IngestError} the error of the response, `connection-failed`, `request-timeout`, `unexpected-response`;
   *   also the reason of the signal. Reading the body may throw the same errors.
   */
  send(request: ApiRequest, options: SendOptions): Promise<HttpResponse>
  /** Aborts requests in flight. */
  close(): Promise<void>
}

export interface ConnectionOptions {
  /** `https://ingest.example`, or with a path before `/v1`. */
  url: string
  /** Sent with every request. */
  headers: Readonly<Record<string, string>>
  now?: () => number
}

/**
 * @throws {IngestError} `invalid-argument` for a url that is not http or https, or has credentials, query or fragment
 */
export function createConnection({ url, headers, now = Date.now }: ConnectionOptions): Connection {
  const { origin, hostname, prefix } = parseUrl(url)
  const transport = openTransport(origin)
  const key = headers['x-ingestion-key']
  const redact = (text: string) => toPrintable(key ? text.replaceAll(key, '[key]') : text)

  async function open(request: ApiRequest, watchdog: Watchdog): Promise<HttpResponse> {
    const { method = 'GET', path, query, body = null, expect = [200] } = request
    const target = `${prefix}${path}${queryString(query)}`
    const sent: TransportRequest = { method, path: target, headers: { ...headers, ...request.headers }, body }
    const { status, ...received } = await transport.send(sent, { signal: watchdog.signal, onStart: watchdog.start })
    const response = { status, headers: joinRepeated(received.headers), ...openBody(received.body, watchdog, origin) }
    if (status < 200 || status > 299) {
      const start = await readBody(response.body, errorBodyBytesMax)
      throw errorFromResponse({ status, headers: response.headers, body: start.toString() }, now(), redact)
    }
    const isCompressed = response.headers['content-encoding'] !== undefined
    if (!isCompressed && expect.includes(status)) return response
    response.discard()
    throw unexpectedResponse(isCompressed ? 'it is compressed, without a request for that' : `its status is ${status}`)
  }

  return {
    isLoopback: isLoopback(hostname),
    redact,

    async send(request, { timeoutMs, totalMs, signal }) {
      signal?.throwIfAborted()
      const { waitMs = 0 } = request
      const watchdog = startWatchdog({ timeoutMs: timeoutMs + waitMs, totalMs: totalMs + waitMs, signal })
      try {
        return await open(request, watchdog)
      } catch (error) {
        watchdog.stop()
        throw watchdog.signal.aborted ? watchdog.signal.reason : toConnectionError(error, origin)
      }
    },

    close: transport.close,
  }
}

/** Maximum bytes of an error's body that are read. */
const errorBodyBytesMax = 64 * 1024

/** Reads a body to its end, or its first `bytesMax` bytes. */
export async function readBody(body: AsyncIterable<Uint8Array>, bytesMax: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    size += chunk.length
    if (size >= bytesMax) break
  }
  return Buffer.concat(chunks).subarray(0, bytesMax)
}

function openBody(
  stream: Readable,
  watchdog: Watchdog,
  origin: string,
): Pick<HttpResponse, 'body' | 'discard' | 'restartTimeout'> {
  function discard(): void {
    watchdog.stop()
    stream.destroy()
  }
  async function* read(): AsyncGenerator<Uint8Array, void> {
    const chunks = stream[Symbol.asyncIterator]()
    try {
      for (;;) {
        watchdog.resume()
        const { done, value } = await chunks.next()
        if (done) return
        watchdog.pause()
        yield value
      }
    } catch (error) {
      throw watchdog.signal.aborted ? watchdog.signal.reason : toConnectionError(error, origin)
    } finally {
      discard()
    }
  }
  // without a listener, an error of a body that is not being read would end the process
  stream.on('error', () => {})
  return { body: read(), restartTimeout: watchdog.restart, discard }
}

/** Aborts a request when its timeout expires or its caller's signal aborts. */
interface Watchdog {
  signal: AbortSignal
  /** Starts the timeout when the request has a connection. */
  start(): void
  /** Resumes the timeout of a stream before its next chunk is read. */
  resume(): void
  /** Pauses the timeout of a stream while its reader works. */
  pause(): void
  /** Restarts the paused timeout of a stream. */
  restart(): void
  stop(): void
}

function startWatchdog({ timeoutMs, totalMs, signal }: SendOptions): Watchdog {
  const controller = new AbortController()
  const abort = () => controller.abort(signal?.reason)
  const expire = (what: string, ms: number) => {
    controller.abort(new IngestError('request-timeout', `There was no ${what} within ${Math.ceil(ms)} ms.`))
  }
  let leftMs = timeoutMs
  let startedAt = performance.now()
  let timer = setTimeout(expire, totalMs, 'connection', totalMs)
  signal?.addEventListener('abort', abort)

  function resume(): void {
    clearTimeout(timer)
    startedAt = performance.now()
    timer = setTimeout(expire, leftMs, 'response', timeoutMs)
  }

  return {
    signal: controller.signal,
    start() {
      leftMs = Math.min(timeoutMs, totalMs - (performance.now() - startedAt))
      resume()
    },
    resume,
    pause() {
      clearTimeout(timer)
      leftMs -= performance.now() - startedAt
    },
    restart() {
      leftMs = timeoutMs
    },
    stop() {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    },
  }
}

/** Whether the server does not speak HTTP, or sends too many headers: a retry cannot help. */
function isProtocolError({ name, code = '' }: NodeJS.ErrnoException): boolean {
  if (name === 'HTTPParserError') return code !== 'HPE_INVALID_EOF_STATE'
  return code === 'UND_ERR_HEADERS_OVERFLOW' || code === 'ERR_SSL_WRONG_VERSION_NUMBER'
}

/** The codes of OpenSSL and Node for a certificate that is untrusted, expired or for another name. */
const certificateError = /CERT|^UNABLE_TO_VERIFY_LEAF_SIGNATURE$|^ERR_TLS_CERT_ALTNAME_INVALID$/

/** Converts a network error into an IngestError. Any other error is a bug and is returned unchanged. */
function toConnectionError(error: unknown, origin: string): unknown {
  if (error instanceof IngestError || !(error instanceof Error)) return error
  const { code } = error as NodeJS.ErrnoException
  const detail = `${origin}: ${toPrintable(error.message || String(code))}.`
  if (isProtocolError(error)) {
    // the parser's error contains the response, which may echo the key
    const cause = 'data' in error ? {} : { cause: error }
    return new IngestError('unexpected-response', `The response is not HTTP, from ${detail}`, cause)
  }
  if (typeof code !== 'string' || code === 'UND_ERR_INVALID_ARG') return error
  if (certificateError.test(code)) {
    const remedy =
      'For a certificate authority of your own, set NODE_EXTRA_CA_CERTS to its PEM file before Node starts.'
    const message = `The TLS certificate cannot be verified (${code}), from ${detail} ${remedy}`
    return new IngestError('unexpected-response', message, { cause: error })
  }
  if (/^UND_ERR_(DESTROYED|CLOSED)$/.test(code)) return new IngestError('store-closed', 'This client is closed.')
  const question = code === 'ECONNREFUSED' ? ' Is the server running at this address?' : ''
  return new IngestError('connection-failed', `No response from ${detail}${question}`, { cause: error })
}

function parseUrl(url: string): { origin: string; hostname: string; prefix: string } {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.username || parsed.password) {
    throw new IngestError(
      'invalid-argument',
      `url must be the address of the server, such as https://ingest.example, without credentials, not ${redactUrl(url)}.`,
    )
  }
  if (parsed.search || parsed.hash) {
    throw new IngestError('invalid-argument', `url must not have a query or a fragment: ${redactUrl(url)}.`)
  }
  return { origin: parsed.origin, hostname: parsed.hostname, prefix: parsed.pathname.replace(/\/+$/, '') }
}

/** Expects the form that `URL` normalizes to: IPv4 as four decimal numbers, IPv6 in brackets and shortened. */
function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname)
}

/** A url for logs, without parts that may contain a password, a token or a key. */
function redactUrl(url: string): string {
  const [address = ''] = String(url)
    .replace(/^([a-z]+:\/\/)?.*@/i, '$1…@')
    .replace(/ik_.*/, 'ik_…')
    .split(/[?#]/)
  return JSON.stringify(address.slice(0, 200))
}

function queryString(query: ApiRequest['query'] = {}): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue
    // URLSearchParams would replace the surrogate, and so request another value
    if (!String(value).isWellFormed()) throw new IngestError('invalid-argument', `${name} contains a lone surrogate.`)
    parameters.append(name, String(value))
  }
  return parameters.size === 0 ? '' : `?${parameters}`
}

function joinRepeated(headers: Readonly<Record<string, string | string[] | undefined>>): HttpResponse['headers'] {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value?.toString()]))
}
