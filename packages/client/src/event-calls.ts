import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import {
  type BatchInput,
  type BatchResult,
  batchBody,
  batchBytesMax,
  batchTooLarge,
  eventIdIssue,
  IngestError,
  parseEvents,
  type ReadOptions,
  type StoredEvent,
  type SubmitOptions,
} from '@ingest/core'
import type { Api, CallOptions } from './create-api.ts'
import type { Reply } from './create-connection.ts'
import { parseBatchResult } from './parse-answer.ts'
import { parseEventLines } from './parse-event-lines.ts'

/** What a client does with events; the project is known. */
export interface EventCalls {
  submitBatch(body: Uint8Array | BatchInput, options?: SubmitOptions & CallOptions): Promise<BatchResult>
  readEvents(options?: ReadOptions & CallOptions): AsyncIterable<StoredEvent>
  findEvent(eventId: string, options?: CallOptions): Promise<StoredEvent | undefined>
}

/** From this size on, bodies of batches are compressed: below it, it saves no packet. */
export const gzipBytesMin = 1024
/** How many events one answer is asked for. */
export const pageEventsMax = 1000

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

    async *readEvents({ after, limit = Number.POSITIVE_INFINITY, ...options } = {}) {
      if (limit !== Number.POSITIVE_INFINITY && !(Number.isSafeInteger(limit) && limit >= 0)) {
        throw new IngestError('invalid-argument', 'limit is a whole number of events.')
      }
      let left = limit
      // a server may give less than it is asked for, so only an empty page is the end
      for (let count = -1; count !== 0 && left > 0; ) {
        count = 0
        for await (const event of api.stream(page, read, options)) {
          after = event.cursor
          left--
          count++
          yield event
        }
      }

      function page() {
        const query = { after, limit: Math.min(left, pageEventsMax) }
        return { method: 'GET', path: '/v1/events', query, expect: [200] } as const
      }
    },

    async findEvent(eventId, options) {
      const issue = eventIdIssue(eventId)
      if (issue) throw new IngestError('invalid-argument', issue.message, { issues: [issue] })
      const { body } = await api.call({ method: 'GET', path: '/v1/events', query: { eventId }, expect: [200] }, options)
      for await (const event of parseEventLines(once(body))) return event
      return undefined
    },
  }
}

function read({ body }: Reply): AsyncIterable<StoredEvent> {
  return parseEventLines(body)
}

async function* once<T>(item: T): AsyncGenerator<T, void> {
  yield item
}

/** Bytes go as they are: whoever receives them looks into them. */
function bytesOf(input: Uint8Array | BatchInput, admit: SubmitOptions['admit']): Uint8Array {
  if (input instanceof Uint8Array && !admit) {
    if (input.length > batchBytesMax) throw batchTooLarge(input.length)
    return input
  }
  const body = batchBody(input)
  const events = parseEvents(body)
  admit?.(events.length)
  return body
}
