import { createHash, webcrypto } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { isUint8Array } from 'node:util/types'
import { type ChunkRef, type Digest, IngestError, type Manifest } from '@ingest/core'
import { chunkContent, type ReadAt } from './chunk-content.ts'

/** The bytes of a map: a file path, the bytes themselves, or a stream. */
export type MapSource = string | Uint8Array | AsyncIterable<Uint8Array>

/** A source that can be read more than once. */
export interface OpenedSource {
  /** Size in bytes at the time of opening. */
  size: number
  readAt: ReadAt
  close(): Promise<void>
}

export interface OpenOptions {
  /** Called with the number of bytes spooled so far. */
  onSpooled?: (bytes: number) => void
  signal?: AbortSignal | undefined
}

/**
 * Opens a source. A stream, or a path that is not a regular file, is spooled to a temporary file, which `close`
 * removes.
 *
 * @throws {IngestError} `invalid-argument` for an unreadable file; also the error of the stream, and the reason of the
 *   signal
 */
export async function openSource(source: MapSource, options: OpenOptions = {}): Promise<OpenedSource> {
  if (isUint8Array(source)) return openBytes(source)
  if (typeof source !== 'string') return spool(source, options)
  const file = await open(source).catch((cause) => {
    throw new IngestError('invalid-argument', `The map cannot be read: ${cause.message}`, { cause })
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
        if (!isUint8Array(chunk)) throw new IngestError('invalid-argument', 'The stream of a map must yield bytes.')
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

/** A chunk, and the offset of its first occurrence. */
export interface ChunkLocation extends ChunkRef {
  start: number
}

/** Maximum number of chunks hashed at once on Node's thread pool; each is a copy. */
const hashConcurrency = 8

/** Reads a source once; returns its manifest and distinct chunks. */
export async function describeSource(
  { readAt }: OpenedSource,
  contentType: string,
  onChunk: (bytesDone: number, chunksDone: number) => void,
): Promise<{ manifest: Manifest; locations: Map<Digest, ChunkLocation> }> {
  const whole = createHash('sha256')
  const hashing: Promise<ChunkLocation>[] = []
  const chunks: ChunkRef[] = []
  const locations = new Map<Digest, ChunkLocation>()
  let size = 0

  async function takeFirst(): Promise<void> {
    const { digest, size, start } = (await hashing.shift()) as ChunkLocation
    const chunk = { digest, size }
    chunks.push(chunk)
    if (!locations.has(digest)) locations.set(digest, { ...chunk, start })
    onChunk(start + size, chunks.length)
  }

  for await (const bytes of chunkContent(readAt)) {
    hashing.push(hashChunk(bytes, size))
    whole.update(bytes)
    size += bytes.length
    if (hashing.length === hashConcurrency) await takeFirst()
  }
  while (hashing.length > 0) await takeFirst()
  return { manifest: { contentType, size, digest: `sha256:${whole.digest('hex')}`, chunks }, locations }
}

async function hashChunk(bytes: Uint8Array, start: number): Promise<ChunkLocation> {
  const hash = await webcrypto.subtle.digest('SHA-256', bytes)
  return { digest: `sha256:${Buffer.from(hash).toString('hex')}`, size: bytes.length, start }
}

/**
 * Rereads the bytes of a chunk. The server checks their digest.
 *
 * @throws {IngestError} `source-changed`
 */
export async function readChunk({ readAt }: OpenedSource, { size, start }: ChunkLocation): Promise<Uint8Array> {
  const bytes = Buffer.allocUnsafeSlow(size)
  for (let filled = 0; filled < size; ) {
    const count = await readAt(bytes.subarray(filled), start + filled)
    if (count === 0) throw sourceChanged()
    filled += count
  }
  return bytes
}

export function sourceChanged(): IngestError {
  return new IngestError('source-changed', 'The map changed during the upload: upload it again.')
}
