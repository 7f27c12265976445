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
import { isDigest } from '@ingest/core/internal'
import * as wire from '@ingest/core/wire'
import { unexpectedResponse } from './error-from-response.ts'

/** Checks the members that programs rely on. */
type Rule = (value: unknown) => boolean

const isText: Rule = (value) => typeof value === 'string'
const isFlag: Rule = (value) => typeof value === 'boolean'
const isCount: Rule = (value) => Number.isSafeInteger(value) && (value as number) >= 0
const isOptionalText: Rule = (value) => value === undefined || isText(value)
const isTextOrNull: Rule = (value) => value === null || isText(value)
/** RFC 3339. */
const isTime: Rule = (value) => isText(value) && !Number.isNaN(Date.parse(value as string))
const isTimeOrNull: Rule = (value) => value === null || isTime(value)
const oneOf =
  (...values: string[]): Rule =>
  (value) =>
    isText(value) && values.includes(value as string)
const arrayOf =
  (rule: Rule): Rule =>
  (value) =>
    Array.isArray(value) && value.every(rule)
const object =
  (rules: Record<string, Rule>): Rule =>
  (value) =>
    typeof value === 'object' &&
    value !== null &&
    Object.entries(rules).every(([name, rule]) => rule((value as Record<string, unknown>)[name]))

const anyObject = object({})

const batchResult = object({ accepted: isCount, duplicates: isCount, rejected: arrayOf(anyObject) })

const mapMembers = {
  placeId: isText,
  buildId: isText,
  state: oneOf('complete', 'incomplete'),
  digest: isDigest,
  size: isCount,
  contentType: isText,
  chunks: isCount,
  frozen: isFlag,
  missing: arrayOf(isDigest),
  publishedAt: isTimeOrNull,
}
const publishedMap = object({ ...mapMembers, outcome: oneOf('created', 'replaced', 'unchanged', 'incomplete') })
const mapStatus = object({
  ...mapMembers,
  frozenAt: isTimeOrNull,
  pending: (value) => value === null || anyObject(value),
})
const mapPage = object({ maps: arrayOf(mapStatus), next: isTextOrNull })

const completed = object({ completed: arrayOf(publishedMap) })
const putChunksResult: Rule = (value) =>
  completed(value) &&
  object({ stored: isCount, existing: isCount, rejected: arrayOf(object({ index: isCount })) })(value)

const projectStats = object({
  events: isCount,
  batches: isCount,
  bytes: isCount,
  firstAt: isTimeOrNull,
  lastAt: isTimeOrNull,
  eventsPerSecond: (value) => Number.isFinite(value) && (value as number) >= 0,
  builds: isCount,
  frozenBuilds: isCount,
  maps: isCount,
})
const buildPage = object({
  builds: arrayOf(object({ buildId: isText, frozenAt: isTimeOrNull, maps: isCount })),
  next: isTextOrNull,
})

const counts = { accepted: isCount, duplicates: isCount, rejected: isCount }
const activity = object({
  since: isTime,
  servers: isCount,
  minutes: arrayOf(object({ at: isTime, ...counts })),
})

const issueMembers = { code: isText, path: isText, message: isText }
const recentRejections = object({
  since: isTime,
  total: isCount,
  groups: arrayOf(object({ ...issueMembers, count: isCount, lastAt: isTime })),
  rejected: arrayOf(
    object({
      receivedAt: isTime,
      index: isCount,
      eventId: isTextOrNull,
      issues: arrayOf(object(issueMembers)),
      event: isOptionalText,
    }),
  ),
})

function parser<T>(rule: Rule, schema: wire.WireSchema, name: string): (body: Uint8Array) => T {
  return (body) => {
    const value = parseJson(body)
    if (!rule(value)) throw unexpectedResponse(`it is not ${name}`)
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
export const parseBatchResult = parser<BatchResult>(batchResult, wire.BatchResult, 'the result of a batch')
export const parsePublishedMap = parser<PublishedMap>(publishedMap, wire.PublishedMap, 'the status of a publication')
export const parseMapStatus = parser<MapStatus>(mapStatus, wire.MapStatus, 'the status of a map')
export const parseMapPage = parser<MapPage>(mapPage, wire.MapPage, 'a list of maps')
export const parsePutChunksResult = parser<PutChunksResult>(
  putChunksResult,
  wire.PutChunksResult,
  'the result of chunks',
)
export const parseCompleted = parser<Pick<PutChunkResult, 'completed'>>(
  completed,
  wire.PutChunkResult,
  'the result of a chunk',
)
export const parseProjectStats = parser<ProjectStats>(projectStats, wire.Stats, 'the statistics of a project')
export const parseBuildPage = parser<BuildPage>(buildPage, wire.BuildPage, 'a list of builds')
export const parseActivity = parser<Activity>(activity, wire.Activity, 'the activity of a project')
export const parseRecentRejections = parser<RecentRejections>(
  recentRejections,
  wire.RecentRejections,
  'a list of rejected events',
)

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
