import type {
  Activity,
  BatchResult,
  BuildPage,
  Cursor,
  MapPage,
  MapStatus,
  ProjectStats,
  PublishedMap,
  PutChunkResult,
  PutChunksResult,
  RecentRejections,
  StoredEvent,
} from '@ingest/core'
import * as wire from '@ingest/core/wire'
import { unexpectedResponse } from './error-from-response.ts'

function parser<T>(schema: wire.WireSchema, name: string): (body: Uint8Array) => T {
  return (body) => {
    const value = parseJson(body)
    if (!wire.isBody(schema, value)) throw unexpectedResponse(`it is not ${name}`)
    return wire.fromWire<T>(schema, value as object)
  }
}

function parseJson(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.length).toString())
  } catch {
    throw unexpectedResponse('it is not JSON')
  }
}

// each takes the body of a response, and throws `unexpected-response` when it is invalid
export const parseBatchResult = parser<BatchResult>(wire.BatchResult, 'the result of a batch')
export const parsePublishedMap = parser<PublishedMap>(wire.PublishedMap, 'the status of a publication')
export const parseMapStatus = parser<MapStatus>(wire.MapStatus, 'the status of a map')
export const parseMapPage = parser<MapPage>(wire.MapPage, 'a list of maps')
export const parsePutChunksResult = parser<PutChunksResult>(wire.PutChunksResult, 'the result of chunks')
export const parseCompleted = parser<Pick<PutChunkResult, 'completed'>>(wire.PutChunkResult, 'the result of a chunk')
export const parseProjectStats = parser<ProjectStats>(wire.Stats, 'the statistics of a project')
export const parseBuildPage = parser<BuildPage>(wire.BuildPage, 'a list of builds')
export const parseActivity = parser<Activity>(wire.Activity, 'the activity of a project')
export const parseRecentRejections = parser<RecentRejections>(wire.RecentRejections, 'a list of rejected events')

const lineFeed = 0x0a
const closingBrace = 0x7d
/** Quotes are escaped inside JSON strings, so the first match is where the event starts. */
const eventMark = Buffer.from(',"event":')
/** No line is longer: an event fits into a batch, and the members before it are short. */
const lineBytesMax = 512 * 1024

/** How far the server has read; it skipped events that do not match. */
export interface ReadMark {
  cursor: Cursor
  bytes?: never
}

/**
 * Parses NDJSON: `{"cursor":"…","receivedAt":1795203225083,"event":{…}}` a line, `{"cursor":"…"}`, or an
 * erased event with its id in `erased`. The bytes of an event are sliced from its line, never serialized again.
 *
 * @throws {IngestError} `unexpected-response`
 */
export async function* parseEventLines(body: AsyncIterable<Uint8Array>): AsyncGenerator<StoredEvent | ReadMark, void> {
  let rest: Uint8Array[] = []
  let restBytes = 0
  for await (const chunk of body) {
    let start = 0
    for (let end = chunk.indexOf(lineFeed); end !== -1; end = chunk.indexOf(lineFeed, start)) {
      const line = Buffer.concat([...rest, chunk.subarray(start, end)])
      rest = []
      restBytes = 0
      start = end + 1
      yield parseLine(line)
    }
    if (start === chunk.length) continue
    rest.push(chunk.subarray(start))
    restBytes += chunk.length - start
    if (restBytes > lineBytesMax) throw unexpectedResponse('a line of events is too long')
  }
  if (rest.length > 0) throw unexpectedResponse('the last line of events is incomplete')
}

function parseLine(line: Buffer): StoredEvent | ReadMark {
  const mark = line.indexOf(eventMark)
  const { cursor, receivedAt, erased } = parseHead(mark === -1 ? line.toString() : `${line.toString('utf8', 0, mark)}}`)
  if (typeof cursor === 'string') {
    if (mark === -1 && receivedAt === undefined) return { cursor }
    if (mark === -1 && Number.isSafeInteger(receivedAt) && typeof erased === 'string') {
      return { cursor, receivedAt: receivedAt as number, bytes: Buffer.alloc(0), erased }
    }
    if (mark !== -1 && Number.isSafeInteger(receivedAt) && line.at(-1) === closingBrace) {
      return { cursor, receivedAt: receivedAt as number, bytes: line.subarray(mark + eventMark.length, -1) }
    }
  }
  throw unexpectedResponse('a line does not hold an event')
}

function parseHead(text: string): { cursor?: unknown; receivedAt?: unknown; erased?: unknown } {
  try {
    return JSON.parse(text) ?? {}
  } catch {
    return {}
  }
}
