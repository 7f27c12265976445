import {
  type BatchInput,
  type BatchResult,
  type BuildPage,
  type BuildPageOptions,
  type ChunkUpload,
  type Cursor,
  type Digest,
  type Ingest,
  IngestError,
  type IngestEvent,
  type MapContent,
  type MapId,
  type MapPage,
  type MapPageOptions,
  type MapStatus,
  type ProjectStats,
  type Publication,
  type PublishedMap,
  type PublishOptions,
  type PutChunkResult,
  type PutChunksResult,
  type ReadEventsOptions,
  type StoredEvent,
  type SubmitOptions,
} from '@ingest/core'
import { isProjectId } from '@ingest/core/internal'
import { type CallOptions, createApi } from './calls/api.ts'
import { eventCalls } from './calls/events.ts'
import { mapCalls } from './calls/maps.ts'
import { statisticsCalls } from './calls/stats.ts'
import { createConnection } from './http/connection.ts'
import { createRetrier, type RetryEffects } from './http/retry.ts'
import { type SourcePublication, type UploadedMap, type UploadOptions, uploadMap } from './upload/upload-map.ts'

/** An option that is undefined has its default. A missing `url`, `projectId` or `key` is an `invalid-argument`. */
export interface ClientOptions {
  /** Where the server is: `https://ingest.example`, or with a path in front of `/v1`. Required. */
  url: string | undefined
  /** Required. */
  projectId: string | undefined
  /** An ingestion key of the project: `ik_…`. Never part of a message. Required. */
  key: string | undefined
  /** How often what may be retried is: 408, 429, 5xx, a connection that fails, a time-out. Default 4; 0 for never. */
  retries?: number | undefined
  /** How long one try may take until its whole response is here, or the next part of a long one. Default 30,000 ms. */
  tryTimeoutMs?: number | undefined
  /** How long a call may take with all its tries and pauses; for a stream, from each part on. Default 120,000 ms. */
  timeoutMs?: number | undefined
  /** Called when a try has failed and there will be another one in `pauseMs`. */
  onRetry?: ((error: IngestError, pauseMs: number) => void) | undefined
}

/**
 * An Ingest over HTTP. Besides the errors of an embedded Ingest, a call rejects with `unauthorized`, `rate-limited`,
 * `overloaded` and the like as the server says, with `connection-failed` and `request-timeout` when all tries have
 * failed, with `unexpected-answer` for a response that Ingest does not send, such as a redirect, and with the reason of
 * its signal.
 */
export interface Client<E = IngestEvent> extends Ingest<E> {
  /** Retried until the outcome is known, always with the same bytes; compressed from 1 KiB on. */
  submitBatch(body: Uint8Array | BatchInput<E>, options?: SubmitOptions & CallOptions): Promise<BatchResult>
  /**
   * Reads page by page, as fast as the reader consumes. A line break between the tokens of an event becomes a space. A
   * long poll lasts whole seconds, rounded up.
   */
  readEvents(options?: ReadEventsOptions & CallOptions): AsyncIterable<StoredEvent>
  lastCursor(options?: CallOptions): Promise<Cursor>
  findEvent(eventId: string, options?: CallOptions): Promise<StoredEvent | undefined>
  /** Uploads a map of any size, as {@link uploadMap} does. */
  publishMap(publication: SourcePublication, options?: UploadOptions): Promise<UploadedMap>
  publishMap(publication: Publication, options?: PublishOptions & CallOptions): Promise<PublishedMap>
  putChunks(chunks: readonly ChunkUpload[], options?: CallOptions): Promise<PutChunksResult>
  putChunk(digest: Digest, bytes: Uint8Array, options?: CallOptions): Promise<PutChunkResult>
  getMap(id: MapId, options?: CallOptions): Promise<MapStatus | undefined>
  listMaps(options?: MapPageOptions & CallOptions): Promise<MapPage>
  /** The signal ends reading the bytes as well. */
  getMapContent(id: MapId, options?: CallOptions): Promise<MapContent | undefined>
  getChunk(digest: Digest, options?: CallOptions): Promise<Uint8Array | undefined>
  getStats(options?: CallOptions): Promise<ProjectStats>
  listBuilds(options?: BuildPageOptions & CallOptions): Promise<BuildPage>
  /** Lets the tries that have begun end, without any further ones, and ends streams. */
  close(): Promise<void>
}

/**
 * An Ingest over HTTP, in place of an embedded one:
 *
 * ```ts
 * const ingest = createClient({ url: 'https://ingest.example', projectId: 'game-1', key: process.env.INGEST_KEY })
 * await ingest.submitBatch({ events: [{ projectId: 'game-1', eventId: 'e-1' }] })
 * ```
 *
 * @throws {IngestError} `invalid-argument`
 */
export function createClient<E = IngestEvent>(options: ClientOptions): Client<E> {
  return createClientWith(options, {})
}

/** A client whose time and chance are given. */
export function createClientWith<E = IngestEvent>(options: ClientOptions, effects: RetryEffects): Client<E> {
  const { retries = 4, tryTimeoutMs = 30_000, timeoutMs = 120_000, onRetry } = options
  const url = given('url', options.url)
  const projectId = given('projectId', options.projectId)
  const key = given('key', options.key)
  checkOptions({ projectId, key, retries, tryTimeoutMs, timeoutMs })
  const connection = createConnection({
    url,
    headers: { 'x-project-id': projectId, 'x-ingestion-key': key, 'user-agent': 'ingest-client' },
  })
  const retrier = createRetrier({ retries, tryTimeoutMs, timeoutMs, onRetry }, effects)
  const api = createApi(connection, retrier)
  const calls = { ...eventCalls(api), ...mapCalls(api), ...statisticsCalls(api) }
  let closed: Promise<void> | undefined

  const client: Client<E> = {
    projectId,
    ...calls,
    publishMap: ((publication: Publication | SourcePublication, options?: UploadOptions) => {
      if ('source' in publication) return uploadMap(client, publication, options)
      return calls.publishMap(publication, options)
    }) as Client['publishMap'],
    close() {
      closed ??= retrier.close().then(() => connection.close())
      return closed
    },
  }
  return client
}

/** A required option, which may come from a variable that is not set. */
function given(name: 'key' | 'projectId' | 'url', value: string | undefined): string {
  if (value !== undefined && value !== '') return value
  throw new IngestError('invalid-argument', `${name} is missing: it is ${value === '' ? 'empty' : 'undefined'}.`)
}

interface CheckedOptions {
  projectId: string
  key: string
  retries: number
  tryTimeoutMs: number
  timeoutMs: number
}

function checkOptions({ projectId, key, retries, ...timeouts }: CheckedOptions): void {
  if (!isProjectId(projectId)) throw new IngestError('invalid-argument', 'A project id is 1 to 64 of A-Z a-z 0-9 . _ -')
  // what it is, is not said: it may be in a log a moment later
  if (typeof key !== 'string' || !/^[\x21-\x7e]+$/.test(key)) {
    throw new IngestError('invalid-argument', 'key is an ingestion key, in one line and without spaces.')
  }
  if (!Number.isSafeInteger(retries) || retries < 0) {
    throw new IngestError('invalid-argument', 'retries is a whole number from 0.')
  }
  for (const [name, ms] of Object.entries(timeouts)) {
    if (!(Number.isSafeInteger(ms) && ms > 0 && ms < timerMsMax)) {
      throw new IngestError('invalid-argument', `${name} is a whole number of milliseconds, from 1 to ${timerMsMax}.`)
    }
  }
}

/** The longest that a timer of Node can wait for. */
const timerMsMax = 2 ** 31 - 1
