import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import {
  type BatchInput,
  type BatchResult,
  batchBytesMax,
  type Cursor,
  IngestError,
  type ReadEventsOptions,
  type StoredEvent,
  type SubmitOptions,
} from '@ingest/core'
import { batchBody, batchTooLarge, checkReadEventsOptions, eventIdIssue, parseEvents } from '@ingest/core/internal'
import type { Reply } from '../http/connection.ts'
import { unexpectedAnswer } from '../http/error-from-response.ts'
import { parseBatchResult } from '../http/parse-response.ts'
import type { Api, CallOptions } from './api.ts'
import { parseEventLines, type ReadMark } from './parse-event-lines.ts'

/** What a client does with events; the project is known. */
export interface EventCalls {
  submitBatch(body: Uint8Array | BatchInput<unknown>, options?: SubmitOptions & CallOptions): Promise<BatchResult>
  readEvents(options?: ReadEventsOptions & CallOptions): AsyncIterable<StoredEvent>
  lastCursor(options?: CallOptions): Promise<Cursor>
  findEvent(eventId: string, options?: CallOptions): Promise<StoredEvent | undefined>
}

/** From this size on, bodies of batches are compressed: below it, it saves no packet. */
export const gzipBytesMin = 1024
/** How many events one answer is asked for. */
export const pageEventsMax = 1000
/** How long one answer is waited for, in seconds: proxies give up on what takes a minute. */
export const pageWaitSecondsMax = 30

const compress = promisify(gzip)

export function eventCalls(api: Api): EventCalls {
  return {
    async submitBatch(input, { admit, ...options } = {}) {
      const bytes = bytesOf(input, admit)
      const isLong = bytes.length >= gzipBytesMin
      const { body } = await api.call(
        {
          method: 'POST',
          path: '/v1/events/batch',
          headers: { 'content-type': 'application/json', ...(isLong && { 'content-encoding': 'gzip' }) },
          body: isLong ? await compress(bytes) : bytes,
          expect: [202],
        },
        options,
      )
      return parseBatchResult(body)
    },

    async *readEvents(options = {}) {
      checkReadEventsOptions(options)
      const { type, buildId, from, to, limit = Number.POSITIVE_INFINITY, waitMs = 0, onProgress = () => {} } = options
      const waitUntil = performance.now() + waitMs
      let { after } = options
      let given = 0
      /** When an answer is due that has nothing to give. */
      let dueAt = 0
      while (given < limit) {
        const begin = after
        for await (const line of api.stream(page, read, options)) {
          if (line.bytes) {
            given++
            yield line
          }
          after = line.cursor
          onProgress(after)
          // what breaks behind that is nobody's affair
          if (given === limit) return
        }
        const now = performance.now()
        // what is over does not grow, and by whose clock it is, only the server knows
        const isOver = to !== undefined && now < dueAt
        // a server may give less than it is asked for: where it has read nothing is the end
        if (after === begin && (given > 0 || isOver || now >= waitUntil)) return
      }

      function page() {
        const waitLeftMs = given === 0 ? Math.max(0, waitUntil - performance.now()) : 0
        const wait = Math.min(Math.ceil(waitLeftMs / 1000), pageWaitSecondsMax)
        dueAt = performance.now() + wait * 1000
        const query = {
          ...{ after, limit: Math.min(limit - given, pageEventsMax), type, buildId, from, to },
          ...(wait > 0 && { wait }),
        }
        return { method: 'GET', path: '/v1/events', query, waitMs: wait * 1000, expect: [200] } as const
      }
    },

    async lastCursor(options) {
      const query = { after: 'end', limit: 1 }
      const { body } = await api.call({ method: 'GET', path: '/v1/events', query, expect: [200] }, options)
      let cursor: Cursor | undefined
      for await (const line of parseEventLines(once(body))) cursor = line.cursor
      if (cursor === undefined) throw unexpectedAnswer('it does not say where the events end')
      return cursor
    },

    async findEvent(eventId, options) {
      const issue = eventIdIssue(eventId)
      if (issue) throw new IngestError('invalid-argument', issue.message, { issues: [issue] })
      const { body } = await api.call({ method: 'GET', path: '/v1/events', query: { eventId }, expect: [200] }, options)
      for await (const line of parseEventLines(once(body))) if (line.bytes) return line
      return undefined
    },
  }
}

function read({ body }: Reply): AsyncIterable<StoredEvent | ReadMark> {
  return parseEventLines(body)
}

async function* once<T>(item: T): AsyncGenerator<T, void> {
  yield item
}

/** Bytes go as they are: whoever receives them looks into them. */
function bytesOf(input: Uint8Array | BatchInput<unknown>, admit: SubmitOptions['admit']): Uint8Array {
  if (input instanceof Uint8Array && !admit) {
    if (input.length > batchBytesMax) throw batchTooLarge(input.length)
    return input
  }
  const body = batchBody(input)
  const events = parseEvents(body)
  admit?.(events.length)
  return body
}
