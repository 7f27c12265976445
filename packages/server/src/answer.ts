import { randomUUID } from 'node:crypto'

/** A response, for any edge to send. */
export interface Answer {
  status: number
  headers: Record<string, string>
  /** Not sent for HEAD, whose headers tell of it all the same. */
  body: string | Uint8Array | Pieces
}

/** What is to be answered, before any of its body is read. */
export interface Reply {
  status: number
  headers: Record<string, string>
  body: string | Uint8Array | AsyncIterable<Uint8Array>
}

/** An answer in JSON. */
export interface JsonAnswer extends Answer {
  body: string
}

/** A body that is made while it is sent. Who does not read it to its end or its error calls `return`. */
export interface Pieces extends AsyncIterableIterator<Uint8Array> {
  return(): Promise<IteratorResult<Uint8Array>>
}

/** Whether a body is made while it is sent. */
export function isPieces(body: Answer['body']): body is Pieces {
  return typeof body !== 'string' && !(body instanceof Uint8Array)
}

/** An id for one request, by which its sender and the operator can speak of it. */
export const newRequestId: () => string = randomUUID

/** An answer in JSON that nobody may keep. */
export function jsonAnswer(status: number, value: object, requestId: string, type = 'application/json'): JsonAnswer {
  const body = JSON.stringify(value)
  return {
    status,
    headers: {
      'Content-Type': type,
      'Content-Length': String(Buffer.byteLength(body)),
      'Cache-Control': 'no-store',
      'X-Request-Id': requestId,
    },
    body,
  }
}
