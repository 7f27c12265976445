import { createWriteStream } from 'node:fs'
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { IngestError } from '@ingest/core'
import type { ReadAt } from './chunk-content.ts'

/** The bytes of a map: the path of a file, the bytes themselves, or a stream. */
export type MapSource = string | Uint8Array | AsyncIterable<Uint8Array>

/** Bytes that can be read more than once. */
export interface OpenedSource {
  /** At the time of opening. */
  size: number
  /** The whole map, if it is in memory. */
  bytes?: Uint8Array
  readAt: ReadAt
  close(): Promise<void>
}

export interface OpenOptions {
  /** Called with the number of bytes spooled so far. */
  onSpooled?: (bytes: number) => void
  signal?: AbortSignal | undefined
}

/**
 * Opens a source. A stream, or a path that is not a regular file, is spooled to a temporary file, which `close` removes.
 *
 * @throws {IngestError} `invalid-argument` for a file that cannot be read. Also the error of the stream, and the reason
 *   of the signal.
 */
export async function openSource(source: MapSource, options: OpenOptions = {}): Promise<OpenedSource> {
  if (source instanceof Uint8Array) return openBytes(source)
  if (typeof source !== 'string') return spool(source, options)
  const file = await open(source).catch((error) => {
    throw notReadable(error)
  })
  const stats = await file.stat()
  if (stats.isFile()) return openFile(file, stats.size, () => file.close())
  if (!stats.isDirectory()) return spool(file.createReadStream(), options)
  await file.close()
  throw new IngestError('invalid-argument', `${source} is a directory, not a file.`)
}

function openBytes(bytes: Uint8Array): OpenedSource {
  return {
    size: bytes.length,
    bytes,
    async readAt(target, position) {
      const part = bytes.subarray(position, position + target.length)
      target.set(part)
      return part.length
    },
    async close() {},
  }
}

function openFile(file: FileHandle, size: number, close: () => Promise<void>): OpenedSource {
  return {
    size,
    async readAt(target, position) {
      return (await file.read(target, 0, target.length, position)).bytesRead
    },
    close,
  }
}

async function spool(stream: AsyncIterable<Uint8Array>, { onSpooled, signal }: OpenOptions): Promise<OpenedSource> {
  const directory = await mkdtemp(join(tmpdir(), 'ingest-'))
  const remove = () => rm(directory, { recursive: true, force: true })
  try {
    const path = join(directory, 'map')
    let size = 0
    async function* counted() {
      for await (const chunk of stream) {
        if (!(chunk instanceof Uint8Array))
          throw new IngestError('invalid-argument', 'The stream of a map must yield bytes.')
        size += chunk.length
        onSpooled?.(size)
        yield chunk
      }
    }
    await pipeline(counted, createWriteStream(path, { mode: 0o600 }), { ...(signal && { signal }) })
    const file = await open(path)
    return openFile(file, size, async () => {
      await file.close()
      await remove()
    })
  } catch (error) {
    await remove()
    signal?.throwIfAborted()
    throw error
  }
}

function notReadable(error: NodeJS.ErrnoException): IngestError {
  return new IngestError('invalid-argument', `The map cannot be read: ${error.message}`, { cause: error })
}
