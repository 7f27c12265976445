import { type Slice, sliceEvents } from '../slice-events.ts'
import type { AppendBatch, AppendEvent, AppendResult, Totals } from '../store.ts'
import type { Table } from './environment.ts'
import type { Fingerprint } from './fingerprint.ts'
import type { Candidate, Position } from './ids/entry.ts'
import type { IdIndex } from './ids/id-index.ts'
import { decodeRecord, encodePayload, encodeRecord, eventIdOf, eventsOf, type LogRecord, viewRecord } from './record.ts'
import { projectKey, sequenceKey, sequenceOf } from './table-keys.ts'

export interface EventLogTables {
  /** sequence → record */
  log: Table
  /** project, sequence → nothing: what a project reads */
  projectLog: Table
  /** project, buildId → when the build froze */
  freezes: Table
  /** project → its totals */
  totals: Table
}

/** An event as it stands in the log. */
export interface LoggedEvent {
  position: Position
  receivedAt: number
  bytes: Buffer
}

/** The log of batches, and what is frozen and counted by it. Projects go by number here. */
export interface EventLog {
  /** Finds the end of the log, which other processes move too: first in each write transaction. */
  begin(): void
  /** Only inside a write transaction. */
  append(project: number, batch: AppendBatch): AppendResult
  find(project: number, eventId: string): LoggedEvent | undefined
  /** The sequence numbers of up to `limit` of the project's records, from `sequence` on. */
  sequences(project: number, sequence: number, limit: number): number[]
  /**
   * The events of one record.
   *
   * @throws {IngestError} `store-damaged`
   */
  events(sequence: number): LoggedEvent[]
  frozenAt(project: number, buildId: string): number | undefined
  totals(project: number): Totals
}

/** `onFreeze` is called in the transaction that freezes a build. */
export function createEventLog(
  tables: EventLogTables,
  ids: IdIndex,
  fingerprint: Fingerprint,
  onFreeze: (project: number, buildId: string) => void,
): EventLog {
  const { log, projectLog, freezes, totals } = tables
  let nextSequence = 0

  function append(project: number, batch: AppendBatch): AppendResult {
    const { body, count, events, receivedAt } = batch
    const slices = once(() => sliceEvents(body))
    const earlier = readerOf(log)
    const fingerprints = new Uint32Array(events.length * 2)
    for (const [i, { eventId }] of events.entries()) fingerprint(project, eventId, fingerprints, i * 2)
    if (isSentAgain(project, batch, ids.search(fingerprints, Math.min(1, events.length)), earlier)) {
      return { stored: events.map(() => false), conflicts: 0 }
    }
    const found = matches(project, batch, ids.search(fingerprints, events.length), earlier, slices)
    const stored = events.map((_, i) => found[i] === undefined)
    const fresh = events.filter((_, i) => stored[i])
    if (fresh.length > 0) {
      const payload =
        fresh.length === count
          ? Buffer.from(body.buffer, body.byteOffset, body.byteLength)
          : encodePayload(
              body,
              fresh.map(({ index }) => slices()[index] as Slice),
            )
      const own = fresh.length === events.length ? fingerprints : pick(fingerprints, stored)
      write({ project, receivedAt, count: fresh.length, payload }, own, fresh)
    }
    return { stored, conflicts: found.filter((match) => match === 'conflict').length }
  }

  function write(record: LogRecord, fingerprints: Uint32Array, events: readonly AppendEvent[]): void {
    const { project, receivedAt, count, payload } = record
    const sequence = nextSequence++
    const key = sequenceKey(sequence)
    log.put(key, encodeRecord(record, fingerprints))
    projectLog.put(projectKey(project, key), nothing)
    ids.add(sequence, fingerprints, count)
    for (const buildId of buildsOf(events)) freeze(project, buildId, receivedAt)
    const before = readTotals(project)
    totals.put(
      projectKey(project),
      encodeTotals({
        events: before.events + count,
        batches: before.batches + 1,
        bytes: before.bytes + payload.length,
      }),
    )
  }

  function freeze(project: number, buildId: string, at: number): void {
    const key = projectKey(project, Buffer.from(buildId))
    if (freezes.doesExist(key)) return
    const value = Buffer.allocUnsafe(8)
    value.writeDoubleLE(at)
    freezes.put(key, value)
    onFreeze(project, buildId)
  }

  function lastSequence(): number {
    const [last] = [...log.getKeys({ reverse: true, limit: 1 })]
    return last ? sequenceOf(last) : 0
  }

  function readTotals(project: number): Totals {
    const bytes = totals.getBinary(projectKey(project))
    return bytes ? decodeTotals(bytes) : { events: 0, batches: 0, bytes: 0 }
  }

  return {
    begin() {
      const last = lastSequence()
      ids.catchUp(last)
      nextSequence = last + 1
    },

    append,

    find(project, eventId) {
      ids.catchUp(lastSequence())
      const one = new Uint32Array(2)
      fingerprint(project, eventId, one, 0)
      const earlier = readerOf(log)
      for (const { position } of ids.search(one, 1)) {
        const record = earlier(position.sequence)
        const bytes = record?.project === project ? record.events()[position.index] : undefined
        if (record && bytes && eventIdOf(bytes) === eventId) return { position, receivedAt: record.receivedAt, bytes }
      }
      return undefined
    },

    sequences(project, sequence, limit) {
      const range = { start: projectKey(project, sequenceKey(sequence)), end: projectKey(project + 1), limit }
      return Array.from(projectLog.getKeys(range), sequenceOf)
    },

    events(sequence) {
      const { receivedAt, payload } = decodeRecord(log.getBinary(sequenceKey(sequence)), sequence)
      return eventsOf(payload).map((bytes, index) => ({ position: { sequence, index }, receivedAt, bytes }))
    },

    frozenAt: (project, buildId) => freezes.getBinary(projectKey(project, Buffer.from(buildId)))?.readDoubleLE(),
    totals: readTotals,
  }
}

const nothing = Buffer.alloc(0)

interface EarlierRecord {
  project: number
  receivedAt: number
  payload: Buffer
  /** The exact bytes of each event. */
  events(): Buffer[]
}

type Reader = (sequence: number) => EarlierRecord | undefined

/** Reads records each once, for as long as one decision takes. */
function readerOf(log: Table): Reader {
  const records = new Map<number, EarlierRecord | undefined>()
  return (sequence) => {
    if (!records.has(sequence)) records.set(sequence, earlierRecord(log.getBinary(sequenceKey(sequence))))
    return records.get(sequence)
  }
}

function earlierRecord(bytes: Buffer | undefined): EarlierRecord | undefined {
  if (!bytes) return undefined
  const { project, receivedAt, payload } = viewRecord(bytes)
  return {
    project,
    receivedAt,
    payload,
    events: once(() => eventsOf(payload)),
  }
}

/** The builds that the events reference; most batches come from one server, and so from one build. */
function buildsOf(events: readonly AppendEvent[]): string[] {
  const builds: string[] = []
  for (const { buildId } of events) if (buildId !== undefined && !builds.includes(buildId)) builds.push(buildId)
  return builds
}

type Match = 'same' | 'conflict'

/**
 * Whether this very body was stored as a whole, as the candidates for its first event say. A batch that is sent again
 * is the same bytes, by the contract: so the usual duplicates cost one look and one comparison for all of them.
 */
function isSentAgain(
  project: number,
  { body }: AppendBatch,
  candidates: readonly Candidate[],
  earlier: Reader,
): boolean {
  return candidates.some(({ position }) => {
    const record = earlier(position.sequence)
    return record?.project === project && record.payload.equals(body)
  })
}

/** For each event of a batch: it is stored already, its id is but with other content, or neither. */
function matches(
  project: number,
  batch: AppendBatch,
  candidates: readonly Candidate[],
  earlier: Reader,
  slices: () => Slice[],
): (Match | undefined)[] {
  const found: (Match | undefined)[] = []
  for (const { of, position } of candidates) {
    found[of] ??= match(project, batch.events[of] as AppendEvent, batch.body, position, earlier, slices)
  }
  return found
}

function match(
  project: number,
  { eventId, index }: AppendEvent,
  body: Uint8Array,
  position: Position,
  earlier: Reader,
  slices: () => Slice[],
): Match | undefined {
  const record = earlier(position.sequence)
  if (record?.project !== project) return undefined
  const bytes = record.events()[position.index]
  if (!bytes || eventIdOf(bytes) !== eventId) return undefined
  const { start, end } = slices()[index] as Slice
  return bytes.equals(body.subarray(start, end)) ? 'same' : 'conflict'
}

/** The fingerprints of those that are stored, two words each. */
function pick(fingerprints: Uint32Array, stored: readonly boolean[]): Uint32Array {
  return fingerprints.filter((_, word) => stored[word >> 1])
}

function encodeTotals({ events, batches, bytes }: Totals): Buffer {
  const value = Buffer.allocUnsafe(24)
  value.writeDoubleLE(events, 0)
  value.writeDoubleLE(batches, 8)
  value.writeDoubleLE(bytes, 16)
  return value
}

function decodeTotals(value: Buffer): Totals {
  return { events: value.readDoubleLE(0), batches: value.readDoubleLE(8), bytes: value.readDoubleLE(16) }
}

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}
