import type { Static, TSchema } from 'typebox'
import { issueCodes } from './error.ts'
import { batchEventsMax } from './events/batch.ts'
import { EventSchema } from './events/event.ts'
import { issuesMax } from './validation.ts'

// The JSON bodies of the HTTP API as JSON Schema, for the server, its OpenAPI document, clients and commands. Times are
// RFC 3339 in these bodies and milliseconds since 1970 in embedded APIs: `toWire` and `fromWire` convert by schema.

/** Maximum number of chunks in one JSON body. */
export const chunksMax = 64

export const Digest = {
  type: 'string',
  pattern: '^sha256:[0-9a-f]{64}$',
  description: 'SHA-256 of the bytes.',
} as const

const time = { type: 'string', format: 'date-time' } as const
const timeOrNull = { anyOf: [time, { type: 'null' }] } as const
const count = { type: 'integer', minimum: 0 } as const

/** An object schema whose members are required, except the optional ones. */
function object<const Members extends Record<string, unknown>, Optional extends keyof Members & string = never>(
  properties: Members,
  ...optional: Optional[]
) {
  const required = Object.keys(properties).filter((name) => !optional.includes(name as Optional))
  // `Static` reads the names from a tuple
  return { type: 'object', required: required as [Exclude<keyof Members & string, Optional>], properties } as const
}

export const Issue = object({
  code: {
    enum: issueCodes,
    description: 'A closed set.',
  },
  path: { type: 'string', description: 'A JSON Pointer (RFC 6901); the empty string is the whole.' },
  message: { type: 'string', description: 'For people; may change. Never contains the value.' },
})

const issues = { type: 'array', items: Issue, maxItems: issuesMax } as const

export const Batch = object({
  events: {
    type: 'array',
    maxItems: batchEventsMax,
    items: EventSchema,
    description: 'An event that is not of this schema is rejected, and does not fail the batch.',
  },
})

const eventLine = {
  cursor: { type: 'string', maxLength: 40, description: 'Pass it as `after` to continue after this line.' },
  receivedAt: { type: 'integer', minimum: 0, description: "Milliseconds since 1970, by the server's clock." },
  event: { type: 'object', description: 'The exact bytes sent, except that line breaks between tokens are spaces.' },
} as const

export const EventLine = {
  ...object(eventLine, 'receivedAt', 'event'),
  description: 'A line of NDJSON. A line without an event says that events up to its cursor were scanned.',
} as const

export const RejectedEvent = object({
  index: { ...count, description: 'The position in the request.' },
  eventId: { type: ['string', 'null'], description: 'Null if invalid.' },
  issues,
})

export const BatchResult = {
  ...object({
    accepted: { ...count, description: 'Stored by this request, durably.' },
    duplicates: { ...count, description: 'Stored before, or earlier in the batch.' },
    rejected: { type: 'array', items: RejectedEvent, description: 'Invalid events: do not resend them unchanged.' },
  }),
  description: '`accepted + duplicates + rejected.length` is the number of events sent.',
} as const

const missing = {
  type: 'array',
  items: Digest,
  description: 'Chunks to upload, each once, in manifest order.',
} as const

const contents = {
  digest: Digest,
  size: { ...count, description: 'In bytes.' },
  contentType: { type: 'string' },
  chunks: { ...count, description: 'The number of chunks.' },
  missing,
} as const

const map = {
  placeId: { type: 'string' },
  buildId: { type: 'string' },
  state: { enum: ['complete', 'incomplete'] },
  ...contents,
  frozen: { type: 'boolean', description: 'Whether an event of the build is stored.' },
  publishedAt: { ...timeOrNull, description: 'When this map became complete; null while it is not.' },
} as const

const publishedMap = {
  ...map,
  outcome: { enum: ['created', 'replaced', 'unchanged', 'incomplete'] },
  issues: { ...issues, description: 'Why the manifest was dropped: the chunks do not match it.' },
} as const

export const PublishedMap = object(publishedMap, 'issues')

export const MapStatus = object({
  ...map,
  frozenAt: { ...timeOrNull, description: 'Null while the build is open.' },
  pending: {
    anyOf: [object(contents), { type: 'null' }],
    description: 'The incomplete manifest that would replace the complete map.',
  },
})

const next = {
  type: ['string', 'null'],
  description: 'Pass it as `cursor` for the next page; null ends the list.',
} as const

export const MapPage = object({ maps: { type: 'array', items: MapStatus }, next })

const completed = {
  type: 'array',
  items: PublishedMap,
  description: 'Maps that became complete, and those dropped because their chunks do not match, with `issues`.',
} as const

export const PutChunkResult = object({ outcome: { enum: ['stored', 'existing'] }, completed })

export const PutChunksResult = object({
  stored: count,
  existing: count,
  rejected: {
    type: 'array',
    items: object({ index: count, digest: { type: ['string', 'null'], description: 'Null if invalid.' }, issues }),
  },
  completed,
})

export const Stats = object({
  events: count,
  batches: { ...count, description: 'Batches with at least one stored event.' },
  bytes: { ...count, description: 'Their stored size, without maps.' },
  firstAt: { ...timeOrNull, description: 'When the first was received; null if none.' },
  lastAt: { ...timeOrNull, description: 'When the last was received; null if none.' },
  eventsPerSecond: { type: 'number', minimum: 0, description: 'Over the last minute.' },
})

export const BuildPage = object({
  builds: {
    type: 'array',
    items: object({
      buildId: { type: 'string' },
      frozenAt: { ...timeOrNull, description: 'Null while the build is open.' },
      maps: { ...count, description: 'Published maps, complete or not.' },
    }),
  },
  next,
})

const position = {
  name: { type: 'string' },
  cursor: { type: 'string', maxLength: 40, description: 'The last event that was read.' },
  updatedAt: { ...time, description: 'When the consumer was last moved.' },
} as const

export const ConsumerPosition = object(position)

export const Consumer = object({
  ...position,
  lag: {
    anyOf: [
      object({
        events: { ...count, description: 'Events that were not read; at least as many if not `exact`.' },
        exact: {
          type: 'boolean',
          description:
            'False beyond 1,000 unread batches, fewer in a list of over 10 consumers: each further one counts as one event.',
        },
        seconds: { type: 'number', minimum: 0, description: 'Age of the oldest of these.' },
      }),
      { type: 'null' },
    ],
    description: 'Null if the cursor is an `invalid-cursor`.',
  },
})

export const ConsumerList = object({ consumers: { type: 'array', items: Consumer } })

export const PutConsumer = object({
  cursor: { type: 'string', description: 'The last event that was read.' },
  replaces: { type: ['string', 'null'], description: 'The current cursor of the consumer; null to create it.' },
})

export const PutConsumerResult = object({ ...position, outcome: { enum: ['created', 'updated', 'unchanged'] } })

const range = {
  from: { ...time, description: 'The range, widened to whole steps.' },
  to: time,
  stepSeconds: { ...count, description: '60 up to 6 hours, 600 up to a day, 3,600 beyond.' },
} as const

const counts = {
  type: 'array',
  items: count,
  description: 'In each of `steps`.',
} as const

export const Activity = object(
  {
    ...range,
    servers: { ...count, description: 'Servers that counted something, by name.' },
    steps: {
      type: 'array',
      description: 'All of the range, oldest first.',
      items: object({ at: time, accepted: count, duplicates: count, rejected: count }),
    },
    groups: {
      type: 'array',
      description: 'With `by`: at most 100 types or builds, most events first, and the others as null.',
      items: object({
        name: { type: ['string', 'null'] },
        accepted: count,
        rejected: count,
        firstAt: { ...time, description: 'When the minute or hour of the first begins.' },
        lastAt: time,
        counts: { ...counts, description: 'Accepted events in each of `steps`.' },
      }),
    },
  },
  'groups',
)

const textOrNull = { type: ['string', 'null'] } as const

export const Rejections = object({
  ...range,
  total: { ...count, description: 'The sum of the groups and `other`.' },
  steps: {
    type: 'array',
    description: 'All of the range, oldest first.',
    items: object({ at: time, rejected: count }),
  },
  groups: {
    type: 'array',
    description: 'At most 100, most events first.',
    items: object({
      code: Issue.properties.code,
      path: { type: 'string', description: 'Of the first issue of each event, with `*` in place of array indexes.' },
      message: { type: 'string', description: 'That of the last event.' },
      buildId: { ...textOrNull, description: 'Null without a valid one; so is `type`.' },
      type: textOrNull,
      keyId: { ...textOrNull, description: 'The key of the request.' },
      keyName: { ...textOrNull, description: 'The name that the key was given.' },
      count,
      serverIds: {
        type: 'array',
        description: 'At most 8 game servers, most events first. Lower bounds, unless they add up to `count`.',
        items: object({ serverId: { ...textOrNull, description: 'Null without a valid one.' }, count }),
      },
      firstAt: { ...time, description: 'When the first was received.' },
      lastAt: time,
      counts,
      samples: {
        type: 'array',
        description: 'At most 3, newest first.',
        items: object(
          {
            receivedAt: time,
            eventId: RejectedEvent.properties.eventId,
            issues: { ...issues, description: 'Long texts are cut.' },
            event: { type: 'string', description: 'The exact text of the event, if the server keeps rejected events.' },
          },
          'event',
        ),
      },
    }),
  },
  other: { ...count, description: 'Events in none of the groups.' },
})

export const Health = object({ status: { enum: ['alive', 'ready'] } })

export const ChunksUpload = object({
  chunks: {
    type: 'array',
    minItems: 1,
    maxItems: chunksMax,
    items: object({
      digest: Digest,
      data: { type: 'string', contentEncoding: 'base64', description: 'Padded base64 (RFC 4648 section 4).' },
    }),
  },
})

export type WireSchema = TSchema

export type Body<Schema extends TSchema> = Static<Schema>

/** The embedded type of a body: any string may be a time in milliseconds. */
type Embedded<Wire> = Wire extends string
  ? string extends Wire
    ? string | number
    : Wire
  : Wire extends readonly (infer Item)[]
    ? readonly Embedded<Item>[]
    : Wire extends object
      ? { [Name in keyof Wire]: Embedded<Wire[Name]> }
      : Wire

/** Converts embedded values to a body: times become RFC 3339 in UTC. */
export function toWire<Schema extends TSchema>(schema: Schema, value: Embedded<Body<Schema>>): Body<Schema> {
  return convertTimes(schema, value, (time) => new Date(time as number).toISOString()) as Body<Schema>
}

/** Converts a valid body to embedded values. */
export function fromWire<Value>(schema: TSchema, body: object): Value {
  return convertTimes(schema, body, (time) => Date.parse(time as string)) as Value
}

/** The part of a JSON Schema that locates times. */
interface TimesSchema {
  format?: string
  items?: TimesSchema
  properties?: Readonly<Record<string, TimesSchema>>
  anyOf?: readonly TimesSchema[]
}

/** Returns a value without times unchanged: a list may have thousands of digests. */
function convertTimes(schema: TimesSchema, value: unknown, convert: (time: unknown) => unknown): unknown {
  if (value === null || value === undefined || !hasTimes(schema)) return value
  const { format, items, properties, anyOf } = schema
  if (format === 'date-time') return convert(value)
  if (items) return (value as unknown[]).map((each) => convertTimes(items, each, convert))
  const found = anyOf?.find(hasTimes)
  if (found) return convertTimes(found, value, convert)
  const converted: Record<string, unknown> = { ...value }
  for (const [name, member] of Object.entries(properties ?? {})) {
    if (name in converted) converted[name] = convertTimes(member, converted[name], convert)
  }
  return converted
}

/** Searched once for each schema: a page has thousands of values. */
const schemasWithTimes = new WeakMap<TimesSchema, boolean>()

function hasTimes(schema: TimesSchema): boolean {
  const known = schemasWithTimes.get(schema)
  if (known !== undefined) return known
  const { format, items, properties, anyOf } = schema
  const found =
    format === 'date-time' || [items ?? [], anyOf ?? [], Object.values(properties ?? {})].flat().some(hasTimes)
  schemasWithTimes.set(schema, found)
  return found
}

/** The part of JSON Schema that the schemas of this module use, without descriptions and length limits. */
interface CheckedSchema {
  type?: string | readonly string[]
  enum?: readonly unknown[]
  anyOf?: readonly CheckedSchema[]
  minimum?: number
  pattern?: string
  format?: string
  items?: CheckedSchema
  required?: readonly string[]
  properties?: Readonly<Record<string, CheckedSchema>>
}

/**
 * Whether a body has the members that a schema of this module requires, for clients: loading TypeBox's compiler takes
 * longer than loading the client. Further members, longer lists and texts, and other issue codes are accepted: a newer
 * server may send them.
 */
export function isBody(schema: CheckedSchema, value: unknown): boolean {
  if (schema === Issue.properties.code) return typeof value === 'string'
  const { anyOf, type, minimum = Number.NEGATIVE_INFINITY, pattern, format, items, required = [] } = schema
  if (anyOf) return anyOf.some((each) => isBody(each, value))
  if (schema.enum) return schema.enum.includes(value)
  if (![type].flat().some((name) => isOfType(value, name))) return false
  if (typeof value === 'number') return value >= minimum
  if (typeof value === 'string') {
    if (format === 'date-time') return !Number.isNaN(Date.parse(value))
    return pattern === undefined || new RegExp(pattern).test(value)
  }
  if (Array.isArray(value)) return items === undefined || value.every((item) => isBody(items, item))
  const members = new Map(Object.entries(value ?? {}))
  return (
    required.every((name) => members.has(name)) &&
    Object.entries(schema.properties ?? {}).every(
      ([name, each]) => !members.has(name) || isBody(each, members.get(name)),
    )
  )
}

function isOfType(value: unknown, type: string | undefined): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'integer') return Number.isSafeInteger(value)
  if (type === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value)
  return typeof value === type
}
