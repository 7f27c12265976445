import { setMaxListeners } from 'node:events'
import {
  type Digest,
  IngestError,
  type Issue,
  type Manifest,
  type Publication,
  type PublishedMap,
  type PublishOptions,
  type PutChunkResult,
} from '@ingest/core'
import { describeSource, type Place, readPlace, sourceChanged } from './describe-source.ts'
import { type MapSource, openSource } from './map-source.ts'

/**
 * Does `work` on each item, in their order, at most `concurrency` at once. What the first failure throws is thrown once
 * everything that had begun is over; `work` is told by the signal to hurry.
 */
export async function runParallel<T>(
  items: Iterable<T>,
  concurrency: number,
  work: (item: T, signal: AbortSignal) => Promise<void>,
  signal?: AbortSignal,
): Promise<void> {
  const queue = items[Symbol.iterator]()
  const failing = new AbortController()
  const either = signal ? AbortSignal.any([signal, failing.signal]) : failing.signal
  // each piece of work listens to it, and Node would take that for a leak
  setMaxListeners(0, either)
  const failures: unknown[] = []

  async function takeTurns(): Promise<void> {
    try {
      for (let next = queue.next(); !next.done; next = queue.next()) {
        either.throwIfAborted()
        await work(next.value, either)
      }
    } catch (error) {
      failures.push(error)
      failing.abort(error)
    }
  }

  await Promise.all(Array.from({ length: concurrency }, takeTurns))
  if (failures.length > 0) throw failures[0]
}

/** A map of any size, and what it is published for. */
export interface SourcePublication {
  placeId: string | number
  buildId: string
  source: MapSource
  /** `application/json` without. */
  contentType?: string
}

/** How far an upload is. */
export interface UploadProgress {
  /** A stream is put aside first, and what was read last is hashed before any of it is sent. */
  phase: 'spool' | 'hash' | 'upload'
  bytesDone: number
  /** Null for a stream. Of an upload, what is sent: chunks that are there already are not. */
  bytesTotal: number | null
  chunksDone: number
  /** Null until all of the map is hashed. */
  chunksTotal: number | null
}

export interface UploadOptions extends PublishOptions {
  /** Whether a map without any bytes, which is most often a build that failed, is published as well. */
  allowEmpty?: boolean
  /** How many chunks are sent at once; 8 without. A server takes 16 of a project: with more, some are sent again later. */
  concurrency?: number
  /** Called often; what it throws ends the upload. */
  onProgress?: (progress: UploadProgress) => void
  /** Ends the upload, which rejects with its reason. Doing it again goes on where this one was. */
  signal?: AbortSignal
}

/** Where the map stands, and what it took: of the distinct chunks, how many were sent and how many were there. */
export interface UploadedMap extends PublishedMap {
  uploadedChunks: number
  uploadedBytes: number
  reusedChunks: number
  /** What `missing` comes to. */
  missingBytes: number
}

/** What of an Ingest an upload needs; a client is told of the signal as well. */
export interface MapUploader {
  publishMap(publication: Publication, options?: PublishOptions & { signal?: AbortSignal }): Promise<PublishedMap>
  putChunk(digest: Digest, bytes: Uint8Array, options?: { signal?: AbortSignal }): Promise<PutChunkResult>
}

const concurrencyDefault = 8
/** How often chunks may turn out to be missing that were sent, as when another upload interferes. */
const roundsMax = 5

/**
 * Publishes a map of any size: cuts it by content, publishes the manifest, sends the chunks that are missing, and
 * resolves once the map is complete. A source is read twice, and never held in memory; a stream goes to a temporary
 * file first. Whatever ends it, doing it again sends only what is still missing.
 *
 * With `dryRun` nothing is written, and the result says what would be, `missing` what would be sent.
 *
 * @throws {IngestError} `source-changed` when the second reading does not give what the first one gave,
 *   `invalid-argument` for a file that cannot be read, `invalid-publication` for an empty one, and what `publishMap` and `putChunk` refuse with.
 */
export async function uploadMap(
  ingest: MapUploader,
  { placeId, buildId, source, contentType = 'application/json' }: SourcePublication,
  options: UploadOptions = {},
): Promise<UploadedMap> {
  const {
    allowEmpty = false,
    concurrency = concurrencyDefault,
    onProgress = () => {},
    signal,
    ...preconditions
  } = options
  if (!Number.isSafeInteger(concurrency) || concurrency < 1) {
    throw new IngestError('invalid-argument', 'concurrency is a whole number from 1.')
  }
  const withSignal = signal ? { signal } : {}
  const opened = await openSource(source, {
    onSpooled: (bytesDone) =>
      onProgress({ phase: 'spool', bytesDone, bytesTotal: null, chunksDone: 0, chunksTotal: null }),
    signal,
  })
  try {
    const { manifest, places } = await describeSource(opened, contentType, (bytesDone, chunksDone) => {
      signal?.throwIfAborted()
      onProgress({ phase: 'hash', bytesDone, bytesTotal: opened.size, chunksDone, chunksTotal: null })
    })
    if (manifest.size === 0 && !allowEmpty) throw empty()
    const publication = { placeId, buildId, manifest }
    const sent = new Set<Digest>()
    let uploadedBytes = 0
    let published = await publish()
    for (let round = 1; published.state === 'incomplete' && !options.dryRun; round++) {
      if (round > roundsMax) throw neverComplete()
      published = (await send(published)) ?? (await publish())
    }
    const missingBytes = bytesOf(placesOf(published.missing))
    return {
      ...published,
      uploadedChunks: sent.size,
      uploadedBytes,
      reusedChunks: places.size - sent.size,
      missingBytes,
    }

    function placesOf(digests: readonly Digest[]): Place[] {
      return digests.map((digest) => placeOf(places, digest))
    }

    /** Sends what is missing; resolves to where the map then stands, if any answer told that it is over. */
    async function send({ missing, placeId, buildId }: PublishedMap): Promise<PublishedMap | undefined> {
      const chunks = placesOf(missing)
      const bytesTotal = bytesOf(chunks)
      const done = { bytesDone: 0, chunksDone: 0 }
      let over: PublishedMap | undefined
      const report = () => onProgress({ phase: 'upload', ...done, bytesTotal, chunksTotal: chunks.length })
      report()
      await runParallel(
        chunks,
        concurrency,
        async (chunk, signal) => {
          const bytes = await readPlace(opened, chunk)
          const { completed } = await ingest.putChunk(chunk.digest, bytes, { signal }).catch(translate)
          over = completed.find((map) => isSame(map, { placeId, buildId, manifest })) ?? over
          sent.add(chunk.digest)
          uploadedBytes += chunk.size
          done.chunksDone++
          done.bytesDone += chunk.size
          report()
        },
        signal,
      )
      if (over?.issues) throw dropped(over.issues)
      return over
    }

    /** A condition that fails may do so by this upload, or an earlier one whose answer was lost: this map is there. */
    async function publish(): Promise<PublishedMap> {
      try {
        return await ingest.publishMap(publication, { ...preconditions, ...withSignal })
      } catch (error) {
        if (!(error instanceof IngestError && error.code === 'precondition-failed')) throw error
        const isThere = { ifMatch: manifest.digest, dryRun: true, ...withSignal }
        const there = await ingest.publishMap(publication, isThere).catch(() => undefined)
        signal?.throwIfAborted()
        if (there?.outcome !== 'unchanged') throw error
        return there
      }
    }
  } finally {
    await opened.close()
  }
}

/** What a refused chunk means here, where its manifest was published and its digest computed before. */
function translate(error: unknown): never {
  const code = error instanceof IngestError ? error.code : undefined
  if (code === 'digest-mismatch') throw sourceChanged()
  if (code !== 'chunk-undeclared') throw error
  throw new IngestError(code, 'Another publication has taken the place of this one while it was uploaded.', {
    cause: error,
  })
}

function bytesOf(chunks: readonly Place[]): number {
  return chunks.reduce((sum, { size }) => sum + size, 0)
}

function placeOf(places: Map<Digest, Place>, digest: Digest): Place {
  const place = places.get(digest)
  if (!place) throw new IngestError('unexpected-answer', 'A chunk is said to be missing that is not in the map.')
  return place
}

function isSame(map: PublishedMap, { placeId, buildId, manifest }: PublishedMapId): boolean {
  return (
    map.placeId === placeId &&
    map.buildId === buildId &&
    map.digest === manifest.digest &&
    map.contentType === manifest.contentType
  )
}

interface PublishedMapId {
  placeId: string
  buildId: string
  manifest: Manifest
}

function dropped(issues: readonly Issue[]): IngestError {
  return new IngestError('digest-mismatch', 'The map was dropped: it is not what its manifest says.', { issues })
}

function empty(): IngestError {
  return new IngestError(
    'invalid-publication',
    'The map is empty: allow that if it is meant (allowEmpty, --allow-empty).',
  )
}

function neverComplete(): IngestError {
  return new IngestError('unexpected-answer', `Chunks were still missing after they had been sent ${roundsMax} times.`)
}
