import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import type { MapContent } from '@ingest/core'

/** What bytes go to; answers false when nobody wants any more of them. */
export type Write = (bytes: Uint8Array) => Promise<boolean>

/**
 * Reads a map, passes its bytes on, and checks that they are what they should be.
 *
 * @throws {IngestError} `digest-mismatch`, and what reading refuses with; the reason of the signal.
 */
export function checkContent(content: MapContent, signal: AbortSignal, write?: Write): Promise<void> {
  return check(content, 'What was read', content.bytes(), signal, write)
}

/**
 * Checks that a file holds the bytes of the map.
 *
 * @throws {IngestError} `digest-mismatch`, `invalid-argument` for a file that cannot be read; the reason of the signal.
 */
export async function checkFile(content: MapContent, path: string, signal: AbortSignal): Promise<void> {
  const { IngestError } = await import('@ingest/core')
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
  for await (const piece of bytes) {
    signal.throwIfAborted()
    hash.update(piece)
    actualSize += piece.length
    if (write && !(await write(piece))) return
  }
  const actual = `sha256:${hash.digest('hex')}`
  if (actual === digest && actualSize === size) return
  const { IngestError } = await import('@ingest/core')
  throw new IngestError(
    'digest-mismatch',
    `${name} is not the map: ${actual}, ${actualSize} bytes, and not ${digest}, ${size} bytes.`,
  )
}
