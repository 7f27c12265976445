import { isAscii, isUtf8 } from 'node:buffer'
import { IngestError } from '../error.ts'

/** RFC 8259 section 8.1 allows a parser to ignore a byte order mark. */
export function stripByteOrderMark(body: Uint8Array): Uint8Array {
  return body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? body.subarray(3) : body
}

/**
 * Parses JSON in UTF-8.
 *
 * @throws {IngestError} `malformed-body`, without a quote of the body
 */
export function parseJson(body: Uint8Array): unknown {
  const text = decode(Buffer.from(body.buffer, body.byteOffset, body.byteLength))
  try {
    return JSON.parse(text)
  } catch {
    // the parser's message quotes the body, which may hold secrets
    throw malformedBody()
  }
}

/** The error for a body that is not JSON. */
export function malformedBody(): IngestError {
  return new IngestError('malformed-body', 'The body is not JSON.')
}

/** ASCII, the common case, needs no decoding. */
function decode(body: Buffer): string {
  if (isAscii(body)) return body.toString('latin1')
  if (isUtf8(body)) return body.toString()
  throw new IngestError('malformed-body', 'The body is not UTF-8.')
}
