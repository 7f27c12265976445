import { IngestError } from '@ingest/core'

/**
 * The request headers that are read, and whether each is a list. A list header may be repeated: its values are joined
 * with commas (RFC 9110 section 5.3).
 */
const lists = {
  'accept-encoding': true,
  'access-control-request-method': true,
  // not a list, but fetch joins repeats: bearerToken refuses them
  authorization: true,
  'content-encoding': false,
  'content-length': false,
  'content-type': false,
  host: false,
  'if-match': true,
  'if-none-match': true,
  'if-range': true,
  origin: true,
  range: true,
  // a repeated header becomes an invalid value and is ignored, as is X-Request-Id
  traceparent: true,
  tracestate: true,
  'transfer-encoding': false,
  'x-ingestion-key': false,
  'x-project-id': false,
  'x-request-id': true,
}

export type RequestHeader = keyof typeof lists

const known = new Map(Object.entries(lists) as [RequestHeader, boolean][])

export interface RequestHeaders {
  values: Partial<Record<RequestHeader, string>>
  /** Repeated headers that are not lists; `values` has the first value. */
  repeated: readonly RequestHeader[]
}

/** Parses Node's `rawHeaders`: name, value, name, value. Node's own `headers` joins some repeats and drops others. */
export function parseRawHeaders(raw: readonly string[]): RequestHeaders {
  const values: RequestHeaders['values'] = {}
  const repeated: RequestHeader[] = []
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = (raw[i] ?? '').toLowerCase() as RequestHeader
    const isList = known.get(name)
    if (isList === undefined) continue
    const value = raw[i + 1] ?? ''
    if (values[name] === undefined) values[name] = value
    else if (isList) values[name] += `, ${value}`
    else repeated.push(name)
  }
  return { values, repeated }
}

/** Parses headers of the fetch API, which joins repeated headers with commas. */
export function parseFetchHeaders(headers: Headers): RequestHeaders {
  const values: RequestHeaders['values'] = {}
  const repeated: RequestHeader[] = []
  for (const [name, isList] of known) {
    const value = headers.get(name)
    if (value === null) continue
    values[name] = value
    if (!isList && isJoined(value)) repeated.push(name)
  }
  return { values, repeated }
}

/** Whether a comma is outside of quoted strings (RFC 9110 section 5.6.4), or a quoted string is unterminated. */
function isJoined(value: string): boolean {
  if (!value.includes(',')) return false
  let isQuoted = false
  for (let i = 0; i < value.length; i++) {
    const character = value[i]
    if (character === '"') isQuoted = !isQuoted
    else if (isQuoted && character === '\\') i++
    else if (!isQuoted && character === ',') return true
  }
  return isQuoted
}

/** @throws {IngestError} `repeated-header` */
export function checkRepeated({ repeated }: RequestHeaders): void {
  if (repeated.length === 0) return
  throw new IngestError('repeated-header', `The header ${repeated[0]} must not be repeated.`)
}

/** Maximum size of a body, compressed and inflated, and the error for a larger one. */
export interface BodyLimit {
  bytesMax: number
  /** `actual` is the number of bytes known so far. */
  tooLarge(actual: number): IngestError
  /** Called with the size of each received part. Throws to refuse the body; resolves when more may be received. */
  receive?(bytes: number): Promise<void> | undefined
  /** Called when the whole body is received, before it is inflated. Throws to refuse it. */
  complete?(): void
}

/** A request without its body. */
export interface RequestHead {
  method: string
  /** Without prefix, query and fragment. */
  path: string
  /** Without its question mark; empty if there is none. */
  query: string
  headers: RequestHeaders
  /** The connection; undefined if unknown, as in the fetch API. Its addresses are undefined for a Unix socket. */
  socket?: { readonly localAddress?: string | undefined; readonly remoteAddress?: string | undefined }
}

/** A request from node:http or the fetch API. */
export interface HttpRequest extends RequestHead {
  /**
   * The body, inflated if `gzip`. Called at most once, after every check that does not need the body.
   *
   * @throws {IngestError} `limit.tooLarge`; the errors of `limit.receive` and `limit.complete`; `malformed-body` for
   *   invalid gzip; `malformed-request` for tiny chunks; `request-timeout` if the client disconnects before the end;
   *   `body-consumed` if it was read before
   */
  readBody(gzip: boolean, limit: BodyLimit): Promise<Uint8Array>
  /**
   * The signal that aborts with the error of the response when the client disconnects: a half-closed connection still
   * receives it. Most batches end without it.
   */
  signal(): AbortSignal
}
