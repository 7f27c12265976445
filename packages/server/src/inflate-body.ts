import { gunzip } from 'node:zlib'
import { IngestError } from '@ingest/core'
import type { BodyLimit } from './edge-request.ts'

/**
 * The bytes inside a gzip body, never more than the limit: it is counted while inflating.
 *
 * @throws {IngestError} what the limit refuses with; `malformed-body` for what is not gzip or ends early.
 */
export function inflateBody(body: Uint8Array, { bytesMax, tooLarge }: BodyLimit): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    gunzip(body, { maxOutputLength: bytesMax }, (error, inflated) => {
      if (!error) resolve(inflated)
      else if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') reject(tooLarge(bytesMax + 1))
      else
        reject(new IngestError('malformed-body', 'The body is not gzip, or not all of it, as Content-Encoding says.'))
    })
  })
}

/** Whether the bytes begin as gzip does (RFC 1952 section 2.3.1), which no JSON does. */
export function isGzip(body: Uint8Array): boolean {
  return body[0] === 0x1f && body[1] === 0x8b
}
