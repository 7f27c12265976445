import {
  type Ingest,
  IngestError,
  type IngestEvent,
  type Publication,
  type PublishedMap,
  type PublishOptions,
} from '@ingest/core'
import { isProjectId } from '@ingest/core/internal'
import { createApi } from './calls/api.ts'
import { type ConsumerCalls, consumerCalls } from './calls/consumers.ts'
import { type EventCalls, eventCalls } from './calls/events.ts'
import { type MapCalls, mapCalls } from './calls/maps.ts'
import { type StatsCalls, statsCalls } from './calls/stats.ts'
import { createConnection } from './http/connection.ts'
import { type CallOptions, createRetry, type RetryEffects, type RetryOptions } from './http/retry.ts'
import { type SourcePublication, type UploadedMap, type UploadOptions, uploadMap } from './upload/upload-map.ts'

/**
 * Options of a client. Their types allow undefined so that environment variables can be passed; `url`, `projectId` and
 * `key` are required.
 */
export interface ClientOptions extends RetryOptions {
  /** The address of the server: `https://ingest.example`, or with a path before `/v1`. Required. */
  url: string | undefined
  /** Required. */
  projectId: string | undefined
  /** An ingestion key of the project: `ik_…`. It never appears in error messages. Required. */
  key: string | undefined
}

/**
 * An Ingest over HTTP. In addition to the errors of an embedded Ingest, a call rejects with errors of the server such
 * as `unauthorized`, `rate-limited` and `overloaded`, with `connection-failed` and `request-timeout` after the last
 * retry, with `unexpected-response` for a response that is not from an Ingest server, such as a redirect, and with the
 * reason of its signal.
 */
export interface Client<E = IngestEvent>
  extends Omit<Ingest<E>, keyof ConsumerCalls | keyof EventCalls | keyof MapCalls | keyof StatsCalls>,
    ConsumerCalls,
    EventCalls<E>,
    Omit<MapCalls, 'publishMap'>,
    StatsCalls {
  /** Uploads a map of any size, as {@link uploadMap} does. */
  publishMap(publication: SourcePublication, options?: UploadOptions): Promise<UploadedMap>
  publishMap(publication: Publication, options?: PublishOptions & CallOptions): Promise<PublishedMap>
  /** Waits for the attempts in flight, starts no retries, and ends streams. */
  close(): Promise<void>
}

/**
 * An Ingest over HTTP:
 *
 * ```ts
 * const ingest = createClient({ url: 'https://ingest.example', projectId: 'game-1', key: process.env.INGEST_KEY })
 * await ingest.submitBatch({ events: [{ projectId: 'game-1', eventId: 'e-1' }] })
 * ```
 *
 * @throws {IngestError} `invalid-argument` for a missing or invalid option
 */
export function createClient<E = IngestEvent>(options: ClientOptions): Client<E> {
  return createClientWith(options, {})
}

/** A client with a given clock and randomness. */
export function createClientWith<E = IngestEvent>(options: ClientOptions, effects: RetryEffects): Client<E> {
  const url = required('url', options.url)
  const projectId = required('projectId', options.projectId)
  const key = required('key', options.key)
  if (!isProjectId(projectId)) {
    throw new IngestError('invalid-argument', 'A project id must be 1 to 64 of A-Z a-z 0-9 . _ -')
  }
  const fault = keyFault(key)
  if (fault) throw new IngestError('invalid-argument', `key ${fault}: it must be an ingestion key alone.`)
  const retry = createRetry(options, effects)
  const connection = createConnection({
    url,
    headers: { 'x-project-id': projectId, 'x-ingestion-key': key, 'user-agent': 'ingest-client' },
  })
  const api = createApi(connection, retry)
  const calls = {
    ...eventCalls(api, connection),
    ...mapCalls(api),
    ...consumerCalls(api),
    ...statsCalls(api),
  }
  let closed: Promise<void> | undefined

  const client: Client<E> = {
    projectId,
    ...calls,
    publishMap: ((publication: Publication | SourcePublication, options?: UploadOptions) => {
      if ('source' in publication) return uploadMap(client, publication, options)
      return calls.publishMap(publication, options)
    }) as Client['publishMap'],
    close() {
      closed ??= retry.close().then(() => connection.close())
      return closed
    },
  }
  return client
}

/** The fault of a key; undefined for a valid one. Does not contain the key, because messages are logged. */
function keyFault(key: unknown): string | undefined {
  if (typeof key !== 'string') return 'is not a string'
  if (key.trim() !== key) return 'starts or ends with a space or a line break'
  if (!/^[\x21-\x7e]+$/.test(key)) return 'contains a space, a control character or one outside of ASCII'
  return undefined
}

function required(name: 'key' | 'projectId' | 'url', value: string | undefined): string {
  if (value !== undefined && value !== '') return value
  throw new IngestError('invalid-argument', `${name} is missing: it is ${value === '' ? 'empty' : 'undefined'}.`)
}
