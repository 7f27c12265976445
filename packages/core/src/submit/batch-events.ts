import type { BatchEvents } from '../store-types.ts'
import { hashId } from './id-hash.ts'

/** The columns of {@link BatchEvents}. */
export const column = {
  /** Where the bytes of the event start. */
  start: 0,
  /** Where they end, exclusive. */
  end: 1,
  /** The hash of its id, 64 bits: {@link hashId}. */
  hashHigh: 2,
  hashLow: 3,
  /** Where the JSON string of its id starts, with its quotes. */
  idStart: 4,
  idEnd: 5,
  /** Index of its build in `builds`; {@link noName} if it has none. */
  build: 6,
  /** Index of its type in `types`; {@link noName} if it has none. */
  type: 7,
} as const

export const wordsPerEvent = 8
export const noName = 0xffff_ffff

/** One event of a batch as an object. */
export interface AppendEvent {
  eventId: string
  /** The build that it references; storing the event freezes this build. */
  buildId?: string
  type?: string
  /** Its exact bytes: `body.subarray(start, end)`. */
  start: number
  end: number
  /** The JSON string of its id, with its quotes: `body.subarray(idStart, idEnd)`. */
  idStart: number
  idEnd: number
}

export function countEvents({ rows }: BatchEvents): number {
  return rows.length / wordsPerEvent
}

/** The bytes of the events for which `isWanted` is true. */
export function bytesOfEvents({ rows }: BatchEvents, isWanted: readonly boolean[]): number {
  return isWanted.reduce((bytes, wanted, i) => {
    const [start, end] = [i * wordsPerEvent + column.start, i * wordsPerEvent + column.end]
    return wanted ? bytes + (rows[end] as number) - (rows[start] as number) : bytes
  }, 0)
}

export function encodeEvents(events: readonly AppendEvent[], hashKey: Uint8Array): BatchEvents {
  const rows = new Uint32Array(events.length * wordsPerEvent)
  const builds: string[] = []
  const types: string[] = []
  let at = 0
  for (const { eventId, buildId, type, start, end, idStart, idEnd } of events) {
    const [high, low] = hashId(hashKey, eventId)
    rows.set([start, end, high, low, idStart, idEnd, indexOf(builds, buildId), indexOf(types, type)], at)
    at += wordsPerEvent
  }
  return { rows, builds, types, hashKey }
}

/** The index of a name in `names`; adds a new name. */
function indexOf(names: string[], name: string | undefined): number {
  if (name === undefined) return noName
  const index = names.indexOf(name)
  return index === -1 ? names.push(name) - 1 : index
}

/** Decodes events to objects, for stores that need ids as strings. */
export function decodeEvents(body: Uint8Array, { rows, builds, types }: BatchEvents): AppendEvent[] {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.length)
  const events: AppendEvent[] = []
  for (let at = 0; at < rows.length; at += wordsPerEvent) {
    const [start, end, , , idStart, idEnd, build, type] = rows.subarray(at, at + wordsPerEvent) as unknown as number[]
    const eventId = JSON.parse(bytes.toString('utf8', idStart, idEnd))
    const event = { eventId, start, end, idStart, idEnd } as AppendEvent
    if (build !== noName) event.buildId = builds[build as number] as string
    if (type !== noName) event.type = types[type as number] as string
    events.push(event)
  }
  return events
}
