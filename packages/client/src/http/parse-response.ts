import type {
  BatchResult,
  BuildPage,
  BuildStatus,
  MapPage,
  MapStatus,
  ProjectStats,
  PublishedMap,
  PutChunksResult,
} from '@ingest/core'
import { isDigest } from '@ingest/core/internal'
import { unexpectedAnswer } from './error-from-response.ts'

/** What a value must be, to be what the contract says as far as programs rely on it. */
type Rule = (value: unknown) => boolean

const isText: Rule = (value) => typeof value === 'string'
const isFlag: Rule = (value) => typeof value === 'boolean'
const isCount: Rule = (value) => Number.isSafeInteger(value) && (value as number) >= 0
const isTextOrNull: Rule = (value) => value === null || isText(value)
/** RFC 3339. */
const isTimeOrNull: Rule = (value) => value === null || (isText(value) && !Number.isNaN(Date.parse(value as string)))
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
  publishedAt: isTextOrNull,
}
const publishedMap = object({ ...mapMembers, outcome: oneOf('created', 'replaced', 'unchanged', 'incomplete') })
const mapStatus = object({
  ...mapMembers,
  frozenAt: isTextOrNull,
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

/** What is known in milliseconds, as answers say it: in RFC 3339. */
type Told<T, Name extends keyof T> = Omit<T, Name> & Record<Name, string | null>

function parser<T>(rule: Rule, what: string): (body: Uint8Array) => T {
  return (body) => {
    const value = parseJson(body)
    if (!rule(value)) throw unexpectedAnswer(`it is not ${what}`)
    return value as T
  }
}

function parseJson(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.length).toString())
  } catch {
    throw unexpectedAnswer('it is not JSON')
  }
}

// each takes the body of an answer, and throws `unexpected-answer` for anything but what it is named after
export const parseBatchResult = parser<BatchResult>(batchResult, 'what became of a batch')
export const parsePublishedMap = parser<PublishedMap>(publishedMap, 'where a publication stands')
export const parseMapStatus = parser<MapStatus>(mapStatus, 'what is known of a map')
export const parseMapPage = parser<MapPage>(mapPage, 'a list of maps')
export const parsePutChunksResult = parser<PutChunksResult>(putChunksResult, 'what became of chunks')
export const parseCompleted = parser<{ completed: PublishedMap[] }>(completed, 'what a chunk completed')
export const parseProjectStats = parser<Told<ProjectStats, 'firstAt' | 'lastAt'>>(
  projectStats,
  'what a project has stored',
)
export const parseBuildPage = parser<Omit<BuildPage, 'builds'> & { builds: Told<BuildStatus, 'frozenAt'>[] }>(
  buildPage,
  'a list of builds',
)
