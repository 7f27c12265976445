import { randomUUID } from 'node:crypto'

/** A whole response, for any edge to send. */
export interface Answer {
  status: number
  headers: Record<string, string>
  /** Not sent for HEAD, whose headers tell of it all the same. */
  body: string
}

/** An id for one request, by which its sender and the operator can speak of it. */
export const newRequestId: () => string = randomUUID

/** An answer in JSON that nobody may keep. */
export function jsonAnswer(status: number, value: object, requestId: string, type = 'application/json'): Answer {
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
