import { setMaxListeners } from 'node:events'
import {
  type Digest,
  IngestError,
  type Manifest,
  type Publication,
  type PublishedMap,
  type PublishOptions,
  type PutChunkResult,
} from '@ingest/core'
import {
  type ChunkLocation,
  describeSource,
  type MapSource,
  type OpenedSource,
  openSource,
  readChunk,
  sourceChanged,
} from './map-source.ts'

/** A map of any size, and its placeId and buildId. */
export interface SourcePublication {
  placeId: string | number
  buildId: string
  source: MapSource
  /** Default: `application/json`. */
  contentType?: string
}

/** Progress within the current phase. */
export interface UploadProgress {
  /** The phases, in order: a stream is spooled, the map is hashed, its missing chunks are uploaded. */
  phase: 'spool' | 'hash' | 'upload'
  bytesDone: number
  /** Null for a stream. In the upload phase, the bytes of the missing chunks. */
  bytesTotal: number | null
  chunksDone: number
  /** Null before the map is hashed. */
  chunksTotal: number | null
}

/** Options of `uploadMap`. */
export interface UploadOptions extends PublishOptions {
  /** Whether to publish a map of 0 bytes, which is usually a failed build. Default: false. */
  allowEmpty?: boolean
  /**
   * Maximum number of chunks in flight. Default: 8. A server accepts 16 of a project at once; more only cause retries.
   */
  concurrency?: number
  /** Called often. If it throws, the upload rejects with that error. */
  onProgress?: (progress: UploadProgress) => void
  /** Cancels the upload, which rejects with the reason. The next upload sends only chunks that are still missing. */
  signal?: AbortSignal
}

/** The status of the map, and how many of its distinct chunks were uploaded or already on the server. */
export interface UploadedMap extends PublishedMap {
  uploadedChunks: number
  uploadedBytes: number
  reusedChunks: number
  /** The bytes of the chunks in `missing`. */
  missingBytes: number
}

/** The part of an Ingest that an upload needs; a client also receives the signal. */
export interface MapUploader {
  publishMap(publication: Publication, options?: PublishOptions & { signal?: AbortSignal }): Promise<PublishedMap>
  putChunk(digest: Digest, bytes: Uint8Array, options?: { signal?: AbortSignal }): Promise<PutChunkResult>
}

const concurrencyDefault = 8
/** How often uploaded chunks may turn out missing again, for example after another publication. */
const roundsMax = 5

/**
 * Publishes a map of any size: splits it into content-defined chunks, publishes the manifest, uploads the missing
 * chunks, and resolves once the map is complete. The source is read twice and never held in memory; a stream is spooled
 * to a temporary file. After a failure, another upload sends only chunks that are still missing.
 *
 * With `dryRun`, nothing is written, and `missing` lists the chunks that would be uploaded.
 *
 * @throws {IngestError} `source-changed` if the second reading differs from the first, `invalid-argument` for a file
 *   that cannot be read, `invalid-publication` for an empty map, and the errors of `publishMap` and `putChunk`
 */
export async function uploadMap(
  ingest: MapUploader,
  { placeId, buildId, source, contentType = 'application/json' }: SourcePublication,
  options: UploadOptions = {},
): Promise<UploadedMap> {
  const { allowEmpty = false, concurrency = concurrencyDefault, onProgress = () => {}, ...publishOptions } = options
  const { signal } = options
  if (!Number.isSafeInteger(concurrency) || concurrency < 1) {
    throw new IngestError('invalid-argument', 'concurrency must be an integer of at least 1.')
  }
  const opened = await openSource(source, {
    onSpooled: (bytesDone) =>
      onProgress({ phase: 'spool', bytesDone, bytesTotal: null, chunksDone: 0, chunksTotal: null }),
    signal,
  })
  try {
    const { manifest, locations } = await describeSource(opened, contentType, (bytesDone, chunksDone) => {
      signal?.throwIfAborted()
      onProgress({ phase: 'hash', bytesDone, bytesTotal: opened.size, chunksDone, chunksTotal: null })
    })
    if (manifest.size === 0 && !allowEmpty) {
      const message = 'The map is empty. To publish an empty map, use allowEmpty (--allow-empty).'
      throw new IngestError('invalid-publication', message)
    }
    const upload: Upload = {
      ingest,
      publication: { placeId, buildId, manifest },
      source: opened,
      locations,
      publishOptions,
      concurrency,
      onProgress,
      uploaded: new Set(),
      uploadedBytes: 0,
    }
    let published = await publish(upload)
    for (let round = 1; published.state === 'incomplete' && !options.dryRun; round++) {
      if (round > roundsMax) {
        throw new IngestError('unexpected-response', `Chunks were still missing after ${roundsMax} uploads.`)
      }
      published = (await uploadMissing(upload, published)) ?? (await publish(upload))
    }
    return {
      ...published,
      uploadedChunks: upload.uploaded.size,
      uploadedBytes: upload.uploadedBytes,
      reusedChunks: locations.size - upload.uploaded.size,
      missingBytes: totalBytes(locate(upload, published.missing)),
    }
  } finally {
    await opened.close()
  }
}

interface Upload {
  ingest: MapUploader
  publication: { placeId: string | number; buildId: string; manifest: Manifest }
  source: OpenedSource
  locations: ReadonlyMap<Digest, ChunkLocation>
  publishOptions: PublishOptions & { signal?: AbortSignal }
  concurrency: number
  onProgress: (progress: UploadProgress) => void
  /** Chunks sent so far. */
  uploaded: Set<Digest>
  uploadedBytes: number
}

/**
 * Publishes the manifest. After `precondition-failed`, checks whether this exact map is already there, for example
 * after an earlier upload or a lost response; the precondition then counts as met.
 */
async function publish({ ingest, publication, publishOptions }: Upload): Promise<PublishedMap> {
  const { signal } = publishOptions
  try {
    return await ingest.publishMap(publication, publishOptions)
  } catch (error) {
    if (!(error instanceof IngestError && error.code === 'precondition-failed')) throw error
    const ifSame = { ifMatch: publication.manifest.digest, dryRun: true, ...(signal && { signal }) }
    const existing = await ingest.publishMap(publication, ifSame).catch(() => undefined)
    signal?.throwIfAborted()
    if (existing?.outcome !== 'unchanged') throw error
    return existing
  }
}

/** Uploads the missing chunks; resolves with the final status of the map if a response contained it. */
async function uploadMissing(
  upload: Upload,
  { missing, placeId, buildId }: PublishedMap,
): Promise<PublishedMap | undefined> {
  const { ingest, source, publication, uploaded, concurrency, onProgress, publishOptions } = upload
  const { manifest } = publication
  const chunks = locate(upload, missing)
  const bytesTotal = totalBytes(chunks)
  const done = { bytesDone: 0, chunksDone: 0 }
  let final: PublishedMap | undefined
  const report = () => onProgress({ phase: 'upload', ...done, bytesTotal, chunksTotal: chunks.length })
  report()
  await runParallel(
    chunks,
    concurrency,
    async (chunk, signal) => {
      const bytes = await readChunk(source, chunk)
      const { completed } = await ingest.putChunk(chunk.digest, bytes, { signal }).catch(rethrowChunkError)
      final = completed.find((map) => isSame(map, { placeId, buildId, manifest })) ?? final
      uploaded.add(chunk.digest)
      upload.uploadedBytes += chunk.size
      done.chunksDone++
      done.bytesDone += chunk.size
      report()
    },
    publishOptions.signal,
  )
  if (!final?.issues) return final
  const message = 'The server dropped the map: its content does not match its manifest.'
  throw new IngestError('digest-mismatch', message, { issues: final.issues })
}

/** The manifest was published and the digests were computed here, so chunk errors have a different meaning. */
function rethrowChunkError(error: unknown): never {
  const code = error instanceof IngestError ? error.code : undefined
  if (code === 'digest-mismatch') throw sourceChanged()
  if (code !== 'chunk-undeclared') throw error
  throw new IngestError(code, 'Another publication replaced this one during the upload.', { cause: error })
}

function locate({ locations }: Upload, digests: readonly Digest[]): ChunkLocation[] {
  return digests.map((digest) => {
    const location = locations.get(digest)
    if (location) return location
    throw new IngestError('unexpected-response', 'The server reports a missing chunk that is not in the map.')
  })
}

function totalBytes(chunks: readonly ChunkLocation[]): number {
  return chunks.reduce((sum, { size }) => sum + size, 0)
}

function isSame(
  map: PublishedMap,
  { placeId, buildId, manifest }: { placeId: string; buildId: string; manifest: Manifest },
): boolean {
  return (
    map.placeId === placeId &&
    map.buildId === buildId &&
    map.digest === manifest.digest &&
    map.contentType === manifest.contentType
  )
}

/**
 * Processes the items in order, at most `concurrency` at once. The first failure aborts the signal of the others, and
 * is thrown once all of them have ended.
 */
export async function runParallel<T>(
  items: Iterable<T>,
  concurrency: number,
  work: (item: T, signal: AbortSignal) => Promise<void>,
  signal?: AbortSignal,
): Promise<void> {
  const queue = items[Symbol.iterator]()
  const failing = new AbortController()
  const ending = signal ? AbortSignal.any([signal, failing.signal]) : failing.signal
  // every running item adds a listener: more than Node's default limit
  setMaxListeners(0, ending)
  const failures: unknown[] = []

  async function runWorker(): Promise<void> {
    try {
      for (let next = queue.next(); !next.done; next = queue.next()) {
        ending.throwIfAborted()
        await work(next.value, ending)
      }
    } catch (error) {
      failures.push(error)
      failing.abort(error)
    }
  }

  await Promise.all(Array.from({ length: concurrency }, runWorker))
  if (failures.length > 0) throw failures[0]
}
