import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { IngestError, type MapContent } from '@ingest/core'
import type { Write } from '@ingest/core/internal'

/**
 * Reads a map, writes its bytes, and checks their digest and size. If `write` resolves to false, it stops without a
 * check.
 *
 * @throws {IngestError} `digest-mismatch` and the codes of reading; also the reason of the signal
 */
export function checkContent(content: MapContent, signal: AbortSignal, write?: Write): Promise<void> {
  return check(content, 'The content', content.bytes(), signal, write)
}

/**
 * Compares a file with the digest and size of a map.
 *
 * @throws {IngestError} `digest-mismatch`, `invalid-argument` for an unreadable file; or the reason of the signal.
 */
export async function checkFile(content: MapContent, path: string, signal: AbortSignal): Promise<void> {
  async function* read() {
    try {
      yield* createReadStream(path)
    } catch (error) {
      throw new IngestError('invalid-argument', `The file cannot be read: ${(error as Error).message}`, {
        cause: error,
      })
    }
  }
  await check(content, path, read(), signal)
}

async function check(
  { digest, size }: MapContent,
  name: string,
  bytes: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
  write?: Write,
): Promise<void> {
  const hash = createHash('sha256')
  let actualSize = 0
  for await (const chunk of bytes) {
    signal.throwIfAborted()
    hash.update(chunk)
    actualSize += chunk.length
    if (write && !(await write(chunk))) return
  }
  const actual = `sha256:${hash.digest('hex')}`
  if (actual === digest && actualSize === size) return
  throw new IngestError(
    'digest-mismatch',
    `${name} does not match the map: expected ${digest}, ${size} bytes, but found ${actual}, ${actualSize} bytes.`,
  )
}
