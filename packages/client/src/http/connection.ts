import type { Readable } from 'node:stream'
import { IngestError } from '@ingest/core'
import { Pool } from 'undici'
import { refusalOf, unexpectedAnswer } from './error-from-response.ts'

export interface ApiRequest {
  method: 'GET' | 'POST' | 'PUT'
  /** `/v1/maps` */
  path: string
  /** What is undefined is left out. */
  query?: Readonly<Record<string, string | number | boolean | undefined>>
  headers?: Readonly<Record<string, string>>
  body?: Uint8Array
  /** How long the server may hold its answer back, in milliseconds, besides what a try may take. */
  waitMs?: number
}

export interface Patience {
  /** How long it may take until the whole answer is here; with `isStream`, until the next part of it is. */
  timeoutMs: number
  isStream: boolean
  signal?: AbortSignal | undefined
}

/** An answer with a status of 2xx. */
export interface Reply {
  status: number
  /** By lower-case name. */
  headers: Readonly<Record<string, string | undefined>>
  /** Holds a connection until it is read to its end, or left. */
  body: AsyncIterable<Uint8Array>
  /** Lets go of what is not read. */
  leave(): void
}

/** Connections to one server, kept alive. */
export interface Connection {
  /**
   * Sends a request, once.
   *
   * @throws {IngestError} what the server answers, `connection-failed`, `request-timeout`, `unexpected-answer`; and the
   *   reason of the signal. Reading the body may throw the same.
   */
  send(request: ApiRequest, patience: Patience): Promise<Reply>
  /** Cuts what is still in flight. */
  close(): Promise<void>
}

export interface ConnectionOptions {
  /** `https://ingest.example`, or with a path in front of `/v1`. */
  url: string
  /** Of every request. */
  headers: Readonly<Record<string, string>>
  now?: () => number
}

/** The most connections that are open at once; further requests wait for one. */
export const connectionsMax = 64
/** The longest refusal that is read. */
const refusalBytesMax = 64 * 1024

/** @throws {IngestError} `invalid-argument` for a url that is none of http or https, or says more than where. */
export function createConnection({ url, headers, now = Date.now }: ConnectionOptions): Connection {
  const { origin, prefix } = parseUrl(url)
  // time is kept here, over everything from the look-up of the name on
  const pool = new Pool(origin, { connections: connectionsMax, headersTimeout: 0, bodyTimeout: 0 })

  async function request(request: ApiRequest, watch: Watch): Promise<Reply> {
    const { statusCode: status, ...answer } = await pool.request({
      method: request.method,
      path: `${prefix}${request.path}${queryOf(request.query)}`,
      headers: { ...headers, ...request.headers },
      body: request.body ?? null,
      signal: watch.signal,
    })
    const reply = { status, headers: flat(answer.headers), ...openBody(answer.body, watch) }
    if (status < 200 || status > 299) throw refusalOf({ ...reply, body: await textOf(reply.body) }, now())
    if (reply.headers['content-encoding'] === undefined) return reply
    reply.leave()
    throw unexpectedAnswer('it is compressed, and that was not asked for')
  }

  return {
    async send(asked, patience) {
      patience.signal?.throwIfAborted()
      const watch = startWatch({ ...patience, timeoutMs: patience.timeoutMs + (asked.waitMs ?? 0) })
      try {
        return await request(asked, watch)
      } catch (error) {
        watch.end()
        throw watch.signal.aborted ? watch.signal.reason : failureOf(error, origin)
      }
    },
    close: () => pool.destroy(),
  }

  function openBody(stream: Readable, watch: Watch): Pick<Reply, 'body' | 'leave'> {
    function leave(): void {
      watch.end()
      stream.destroy()
    }
    async function* read(): AsyncGenerator<Uint8Array, void> {
      const pieces = stream[Symbol.asyncIterator]()
      try {
        for (;;) {
          watch.wait()
          const { done, value } = await pieces.next()
          if (done) return
          watch.rest()
          yield value
        }
      } catch (error) {
        throw watch.signal.aborted ? watch.signal.reason : failureOf(error, origin)
      } finally {
        leave()
      }
    }
    // what destroys it is told to whoever reads, and there may be nobody
    stream.on('error', () => {})
    return { body: read(), leave }
  }
}

/** Ends a request that takes too long, or that its caller no longer wants. */
interface Watch {
  signal: AbortSignal
  /** The next part of the answer is waited for. */
  wait(): void
  /** Now it is the reader who takes time. */
  rest(): void
  end(): void
}

function startWatch({ timeoutMs, isStream, signal }: Patience): Watch {
  const controller = new AbortController()
  const leave = () => controller.abort(signal?.reason)
  const giveUp = () => {
    controller.abort(new IngestError('request-timeout', `There was no answer within ${Math.ceil(timeoutMs)} ms.`))
  }
  let timer = setTimeout(giveUp, timeoutMs)
  signal?.addEventListener('abort', leave)
  return {
    signal: controller.signal,
    wait() {
      if (!isStream) return
      clearTimeout(timer)
      timer = setTimeout(giveUp, timeoutMs)
    },
    rest() {
      if (isStream) clearTimeout(timer)
    },
    end() {
      clearTimeout(timer)
      signal?.removeEventListener('abort', leave)
    },
  }
}

/** An answer that is no HTTP at all, or too much of it: nothing that goes away. */
function isStrange({ name, code = '' }: NodeJS.ErrnoException): boolean {
  if (name === 'HTTPParserError') return code !== 'HPE_INVALID_EOF_STATE'
  return code === 'UND_ERR_HEADERS_OVERFLOW' || code === 'ERR_SSL_WRONG_VERSION_NUMBER'
}

/** What a request failed with, as a refusal. Anything but an error of the network is a bug, and stays what it is. */
function failureOf(error: unknown, origin: string): unknown {
  if (error instanceof IngestError || !(error instanceof Error)) return error
  const { code } = error as NodeJS.ErrnoException
  const what = `${origin}: ${error.message || code}.`
  if (isStrange(error)) return new IngestError('unexpected-answer', `No HTTP from ${what}`, { cause: error })
  if (typeof code !== 'string' || code === 'UND_ERR_INVALID_ARG') return error
  if (/^UND_ERR_(DESTROYED|CLOSED)$/.test(code)) return new IngestError('store-closed', 'This client is closed.')
  return new IngestError('connection-failed', `No answer from ${what}`, { cause: error })
}

function parseUrl(url: string): { origin: string; prefix: string } {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  if (!parsed || !/^https?:$/.test(parsed.protocol) || parsed.username || parsed.password) {
    throw new IngestError(
      'invalid-argument',
      `url is where the server is, such as https://ingest.example, without credentials: ${shown(url)} is not.`,
    )
  }
  if (parsed.search || parsed.hash) {
    throw new IngestError('invalid-argument', `url has no query and no fragment: ${shown(url)} has.`)
  }
  return { origin: parsed.origin, prefix: parsed.pathname.replace(/\/+$/, '') }
}

/** A url as it may stand in a log: without what may be a password or a token. */
function shown(url: string): string {
  const [where = ''] = String(url)
    .replace(/^([a-z]+:\/\/)?.*@/i, '$1…@')
    .split(/[?#]/)
  return JSON.stringify(where.slice(0, 200))
}

function queryOf(query: ApiRequest['query'] = {}): string {
  const given = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue
    // it would become the name of something else
    if (!String(value).isWellFormed()) throw new IngestError('invalid-argument', `${name} holds a lone surrogate.`)
    given.append(name, String(value))
  }
  return given.size === 0 ? '' : `?${given}`
}

function flat(headers: Readonly<Record<string, string | string[] | undefined>>): Reply['headers'] {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value?.toString()]))
}

/** The start of a body, as text. */
async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of body) {
    pieces.push(piece)
    size += piece.length
    if (size >= refusalBytesMax) break
  }
  return Buffer.concat(pieces).toString('utf8', 0, refusalBytesMax)
}
