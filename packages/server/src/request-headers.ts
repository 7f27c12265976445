/** The headers that decide something here. None of them may come twice. */
export type RequestHeader =
  | 'content-encoding'
  | 'content-length'
  | 'content-type'
  | 'host'
  | 'transfer-encoding'
  | 'x-ingestion-key'
  | 'x-project-id'

const names = new Map<string, RequestHeader>(
  (
    [
      'content-encoding',
      'content-length',
      'content-type',
      'host',
      'transfer-encoding',
      'x-ingestion-key',
      'x-project-id',
    ] as const
  ).map((name) => [name, name]),
)

export interface RequestHeaders {
  values: Partial<Record<RequestHeader, string>>
  /** Those that came more than once; `values` has the first. */
  repeated: readonly RequestHeader[]
}

/** From name, value, name, value, as Node received them: its `headers` joins some repeats and drops others. */
export function parseRawHeaders(raw: readonly string[]): RequestHeaders {
  const values: RequestHeaders['values'] = {}
  const repeated: RequestHeader[] = []
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = names.get((raw[i] ?? '').toLowerCase())
    if (name === undefined) continue
    if (values[name] === undefined) values[name] = raw[i + 1] ?? ''
    else repeated.push(name)
  }
  return { values, repeated }
}

/** From the fetch API, which has joined repeats with commas: none of these headers has a use for a comma of its own. */
export function parseFetchHeaders(headers: Headers): RequestHeaders {
  const values: RequestHeaders['values'] = {}
  const repeated: RequestHeader[] = []
  for (const name of names.values()) {
    const value = headers.get(name)
    if (value === null) continue
    values[name] = value
    if (value.includes(',')) repeated.push(name)
  }
  return { values, repeated }
}
