// The well-known fields of an event and their limits in bytes of UTF-8: event.ts checks them, JSON Schema and docs are
// derived from them, and assembly/build.js compiles the scanner from them. This module imports nothing because build.js
// loads it alone.

export const eventIdBytesMax = 256

/** The rule of a well-known member. The member may also be missing or null. */
export interface KnownField {
  name: string
  /** `name`: neither control characters nor lone surrogates. */
  text: 'any' | 'name' | 'timestamp'
  bytesMin: number
  bytesMax: number
  /** The least integer that is valid instead of a string; undefined if no integer is valid. */
  integerMin?: number
}

const integer = { integerMin: Number.MIN_SAFE_INTEGER }

const fields = [
  { name: 'type', text: 'any', bytesMin: 1, bytesMax: 200 },
  { name: 'timestamp', text: 'timestamp', bytesMin: 0, bytesMax: Number.POSITIVE_INFINITY, integerMin: 0 },
  { name: 'buildId', text: 'name', bytesMin: 1, bytesMax: 128 },
  { name: 'placeId', text: 'any', bytesMin: 1, bytesMax: 128, ...integer },
  { name: 'sessionId', text: 'any', bytesMin: 0, bytesMax: 256, ...integer },
  { name: 'serverId', text: 'any', bytesMin: 0, bytesMax: 256, ...integer },
  { name: 'playerId', text: 'any', bytesMin: 0, bytesMax: 256, ...integer },
] as const satisfies readonly KnownField[]

/** The well-known members besides `projectId` and `eventId`. */
export const knownFields: readonly KnownField[] = fields

/** A well-known member by whose value events are selected. */
export type FilterName = Exclude<(typeof fields)[number], { text: 'timestamp' }>['name']

export const filterNames = fields.filter(({ text }) => text !== 'timestamp').map(({ name }) => name) as FilterName[]
