import { promisify } from 'node:util'
import { isUint8Array } from 'node:util/types'
import { constants, gzip } from 'node:zlib'
import {
  type BatchInput,
  type BatchResult,
  batchBytesMax,
  type Cursor,
  type EventBatch,
  type EventPage,
  IngestError,
  type ReadBatchesOptions,
  type ReadEventsOptions,
  type ReadPagesOptions,
  type StoredEvent,
  type SubmitOptions,
} from '@ingest/core'
import {
  batchBody,
  batchTooLarge,
  checkReadEventsOptions,
  endableRead,
  eventIdIssue,
  filterOf,
  parseEvents,
  readBatches,
  readEach,
} from '@ingest/core/internal'
import * as wire from '@ingest/core/wire'
import type { Connection } from '../http/connection.ts'
import { redactIssue, unexpectedResponse } from '../http/error-from-response.ts'
import { parseEventLines } from '../http/event-lines.ts'
import type { CallOptions } from '../http/retry.ts'
import type { Api } from './api.ts'

export interface EventCalls<E = unknown> {
  /** Retries send the same bytes, compressed if they are at least 1 KiB and the server is not on a loopback address. */
  submitBatch(body: Uint8Array | BatchInput<E>, options?: SubmitOptions & CallOptions): Promise<BatchResult>
  /**
   * Reads page by page, with backpressure. A line break between the tokens of an event becomes a space. A long poll
   * lasts whole seconds, rounded up. If the server sends no complete event within `tryTimeoutMs`, that is a
   * `request-timeout`, even if it keeps sending bytes.
   */
  readEvents(options?: ReadEventsOptions & CallOptions): AsyncIterable<StoredEvent>
  readPages(options?: ReadPagesOptions & CallOptions): AsyncIterable<EventPage>
  readBatches(options?: ReadBatchesOptions & CallOptions): AsyncIterable<EventBatch>
  lastCursor(options?: CallOptions): Promise<Cursor>
  findEvent(eventId: string, options?: CallOptions): Promise<StoredEvent | undefined>
}

/** Bodies of at least this size are compressed; compressing a smaller one saves no packet. */
export const gzipBytesMin = 1024
/** Maximum number of events of one request. */
export const pageEventsMax = 1000
/** Maximum duration of one long poll, in seconds: proxies close idle requests after a minute. */
export const pageWaitSecondsMax = 30

const compress = promisify(gzip)

export function eventCalls(api: Api, { isLoopback, redact }: Pick<Connection, 'redact' | 'isLoopback'>): EventCalls {
  const calls: EventCalls = {
    async submitBatch(input, { admit, ...options } = {}) {
      const bytes = await encodeBatch(input, admit)
      const isCompressed = !isLoopback && bytes.length >= gzipBytesMin
      // half the time of the default level, for about 10 % more bytes
      const body = isCompressed ? await compress(bytes, { level: constants.Z_BEST_SPEED }) : bytes
      const headers = { 'content-type': 'application/json', ...(isCompressed && { 'content-encoding': 'gzip' }) }
      const request = { method: 'POST', path: '/v1/events/batch', headers, body, expect: [202] } as const
      const result = await api.json<BatchResult>(wire.BatchResult, request, options)
      const rejected = result.rejected.map((each) => {
        return { ...each, issues: each.issues.map((issue) => redactIssue(issue, redact)) }
      })
      return { ...result, rejected }
    },

    readEvents: (options = {}) => readEach([options.signal], options, (own) => readPages(api, own)),

    readPages: (options = {}) => endableRead([options.signal], (signal) => readPages(api, { ...options, signal })),

    readBatches: (options) => readBatches(calls, options),

    async lastCursor(options) {
      const query = { after: 'end', limit: 1 }
      const body = await api.bytes({ path: '/v1/events', query }, options)
      let cursor: Cursor | undefined
      for await (const { scanned } of parseEventLines([body])) cursor = scanned.at(-1)?.cursor
      if (cursor === undefined) throw unexpectedResponse('it has no cursor')
      return cursor
    },

    async findEvent(eventId, options) {
      const issue = eventIdIssue(eventId)
      if (issue) throw new IngestError('invalid-argument', issue.message, { issues: [issue] })
      const body = await api.bytes({ path: '/v1/events', query: { eventId } }, options)
      for await (const { events } of parseEventLines([body])) return events[0]
      return undefined
    },
  }
  return calls
}

async function* readPages(api: Api, options: ReadPagesOptions & CallOptions): AsyncGenerator<EventPage, void> {
  checkReadEventsOptions(options)
  const { from, to, limit = Number.POSITIVE_INFINITY, waitMs = 0 } = options
  const waitUntil = performance.now() + waitMs
  let { after } = options
  let count = 0
  /** When the server is expected to end the long poll of the last request. */
  let pollEndsAt = 0
  while (count < limit) {
    const before = after
    for await (const page of api.stream(nextPage, ({ body }) => parseEventLines(body), options)) {
      count += page.events.length
      after = page.scanned.at(-1)?.cursor ?? after
      yield page
      // errors after the last wanted event are ignored
      if (count >= limit) return
    }
    const now = performance.now()
    // the server ends a long poll early if no event can match any more; it compares `to` with its own clock
    const isRangeOver = to !== undefined && now < pollEndsAt
    // a page may be shorter than its limit, so only a page without progress is the end
    if (after === before && (count > 0 || isRangeOver || now >= waitUntil)) return
  }

  function nextPage() {
    const waitLeftMs = count === 0 ? Math.max(0, waitUntil - performance.now()) : 0
    const wait = Math.min(Math.ceil(waitLeftMs / 1000), pageWaitSecondsMax)
    pollEndsAt = performance.now() + wait * 1000
    const query = {
      ...{ after, limit: Math.min(limit - count, pageEventsMax), ...filterOf(options), from, to },
      ...(wait > 0 && { wait }),
    }
    return { path: '/v1/events', query, waitMs: wait * 1000 }
  }
}

/** Bytes are sent unchanged for the server to check, unless `admit` needs the number of events. */
async function encodeBatch(
  input: Uint8Array | BatchInput<unknown>,
  admit: SubmitOptions['admit'],
): Promise<Uint8Array> {
  if (isUint8Array(input) && !admit) {
    if (input.length > batchBytesMax) throw batchTooLarge(input.length)
    return input
  }
  const body = batchBody(input)
  const events = parseEvents(body)
  await admit?.(events.length)
  return body
}
