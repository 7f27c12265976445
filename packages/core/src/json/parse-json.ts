import { isAscii, isUtf8 } from 'node:buffer'
import { IngestError } from '../error.ts'

/** RFC 8259 section 8.1 lets a parser ignore a byte order mark, and the sender would drop the batch if we did not. */
export function withoutMark(body: Uint8Array): Uint8Array {
  return body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? body.subarray(3) : body
}

/**
 * What a document in JSON says.
 *
 * @throws {IngestError} `malformed-body` for what is not JSON in UTF-8.
 */
export function parseJson(body: Uint8Array): unknown {
  const text = decode(Buffer.from(body.buffer, body.byteOffset, body.byteLength))
  try {
    return JSON.parse(text)
  } catch {
    // what the parser says quotes the body, which may hold what should not be in a log
    throw malformedBody()
  }
}

/** The refusal of a body that is not JSON. */
export function malformedBody(): IngestError {
  return new IngestError('malformed-body', 'The body is not JSON.')
}

/** Most batches are plain ASCII, which need not be decoded. */
function decode(body: Buffer): string {
  if (isAscii(body)) return body.toString('latin1')
  if (isUtf8(body)) return body.toString()
  throw new IngestError('malformed-body', 'The body is not UTF-8.')
}
