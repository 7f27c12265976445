import type { IngestError } from '@ingest/core'

/** The headers that decide something here. */
export type RequestHeader =
  | 'content-encoding'
  | 'content-length'
  | 'content-type'
  | 'host'
  | 'if-match'
  | 'if-none-match'
  | 'if-range'
  | 'range'
  | 'transfer-encoding'
  | 'x-ingestion-key'
  | 'x-project-id'

/** Whether a header may come more than once: RFC 9110 section 5.3 then joins the values with commas. */
const names = new Map<string, { name: RequestHeader; isList: boolean }>(
  (
    [
      ['content-encoding', false],
      ['content-length', false],
      ['content-type', false],
      ['host', false],
      ['if-match', true],
      ['if-none-match', true],
      ['if-range', true],
      ['range', true],
      ['transfer-encoding', false],
      ['x-ingestion-key', false],
      ['x-project-id', false],
    ] as const
  ).map(([name, isList]) => [name, { name, isList }]),
)

export interface RequestHeaders {
  values: Partial<Record<RequestHeader, string>>
  /** Those that must not come more than once, and did; `values` has the first. */
  repeated: readonly RequestHeader[]
}

/** From name, value, name, value, as Node received them: its `headers` joins some repeats and drops others. */
export function parseRawHeaders(raw: readonly string[]): RequestHeaders {
  const values: RequestHeaders['values'] = {}
  const repeated: RequestHeader[] = []
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const known = names.get((raw[i] ?? '').toLowerCase())
    if (known === undefined) continue
    const { name, isList } = known
    const value = raw[i + 1] ?? ''
    if (values[name] === undefined) values[name] = value
    else if (isList) values[name] += `, ${value}`
    else repeated.push(name)
  }
  return { values, repeated }
}

/** From the fetch API, which joins repeated headers with commas. */
export function parseFetchHeaders(headers: Headers): RequestHeaders {
  const values: RequestHeaders['values'] = {}
  const repeated: RequestHeader[] = []
  for (const { name, isList } of names.values()) {
    const value = headers.get(name)
    if (value === null) continue
    values[name] = value
    if (!isList && isJoined(value)) repeated.push(name)
  }
  return { values, repeated }
}

/**
 * Whether there is a comma outside of quoted strings (RFC 9110 section 5.6.4), or a quoted string that does not end.
 */
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

/** How many bytes a body may have, before and after inflating, and the refusal of one that has more. */
export interface BodyLimit {
  bytesMax: number
  /** `actual` is what is known of its size so far. */
  tooLarge(actual: number): IngestError
}

/** A request, whichever edge it came in by. */
export interface EdgeRequest {
  method: string
  /** Without prefix, query and fragment. */
  path: string
  /** Without its question mark; empty without one. */
  query: string
  headers: RequestHeaders
  /**
   * The body, inflated if `gzip`. Called once at most, when everything that can be decided without it is. It may be put
   * into `memory`, which is the caller's again when this settles.
   *
   * @throws {IngestError} what `limit` refuses with; `malformed-body` for broken gzip; `request-timeout` when the sender
   *   left before the end; `internal-error` when somebody else has read it.
   */
  readBody(gzip: boolean, limit: BodyLimit, memory?: Uint8Array): Promise<Uint8Array>
  /**
   * Calls `action` when nobody may wait for the answer any more: the connection is closed, or at least the half of it
   * that its sender writes, which is all that can be seen of a sender that is gone. Returns what ends that.
   */
  onLeave(action: () => void): () => void
}
