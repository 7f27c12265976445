import { column, wordsPerEvent } from '@ingest/core/internal'
import type { Table } from '../environment/environment.ts'
import { sequenceKey } from '../environment/row-keys.ts'
import type { IdIndex } from '../ids/id-index.ts'
import type { Position } from '../log/record.ts'
import {
  decodeRecord,
  eventAt,
  fingerprintsIn,
  idBytes,
  isTombstone,
  type LogRecord,
  parseEventId,
  payloadOf,
  verifyRecord,
} from '../log/record.ts'

/** The result of comparing an event with the stored one of the same id. */
export type Match = 'same' | 'conflict'

/** A batch with the rows of `BatchEvents`, and fingerprints in place of hashes. */
export interface SearchedBatch {
  project: number
  body: Uint8Array
  rows: Uint32Array
}

/**
 * Finds the events of a batch that are already stored: the index supplies candidates, and the log decides by their
 * bytes.
 */
export interface DuplicateFinder {
  /** Whether the whole batch is stored as one record: a retry has the same bytes. */
  isRetry(project: number, record: Buffer): boolean
  /**
   * The stored events of a batch, by index; `record` is the record of the batch.
   *
   * @throws {IngestError} `store-damaged`: as the events of a damaged record must not count as new
   */
  findMatches(batch: SearchedBatch, record: Buffer): Map<number, Match>
  /** The positions of the events with these ids. */
  locate(project: number, eventIds: readonly string[], fingerprints: Uint32Array): (Position | undefined)[]
}

export function createDuplicateFinder(log: Table, ids: Pick<IdIndex, 'search'>): DuplicateFinder {
  /** Looks the record up by its first event. */
  function isRetry(project: number, record: Buffer): boolean {
    const earlier = createReader(log)
    return ids.search(fingerprintsIn(record), 1).some(({ position }) => {
      const { bytes } = earlier(position.sequence)
      return payloadOf(bytes).equals(payloadOf(record)) && verifyRecord(bytes, position.sequence).project === project
    })
  }

  function findMatches(batch: SearchedBatch, record: Buffer): Map<number, Match> {
    const earlier = createReader(log)
    const matches = new Map<number, Match>()
    const fingerprints = fingerprintsIn(record)
    const candidates = ids.search(fingerprints, fingerprints.length / 2)
    // sorted, so that each earlier record is read once
    const ordered = candidates.toSorted((a, b) => a.position.sequence - b.position.sequence)
    for (const { queryIndex, position } of ordered) {
      if (matches.has(queryIndex)) continue
      const { sequence, index } = position
      const match = compare(
        batch.project,
        eventAt(record, queryIndex),
        idAt(batch, queryIndex),
        earlier(sequence).verified(),
        index,
      )
      if (match) matches.set(queryIndex, match)
    }
    return matches
  }

  function locate(project: number, eventIds: readonly string[], fingerprints: Uint32Array): (Position | undefined)[] {
    const earlier = createReader(log)
    const positions: (Position | undefined)[] = eventIds.map(() => undefined)
    for (const { queryIndex: of, position } of ids.search(fingerprints, eventIds.length)) {
      const record = earlier(position.sequence).verified()
      const event = record.project === project ? record.events[position.index] : undefined
      if (event && parseEventId(event) === eventIds[of]) positions[of] = position
    }
    return positions
  }

  return { isRetry, findMatches, locate }
}

const nothing = Buffer.alloc(0)

interface EarlierRecord {
  /** The bytes of the record, not verified; empty if it is missing. */
  bytes: Buffer
  /** @throws {IngestError} `store-damaged` */
  verified(): LogRecord
}

/** Reads a record. The result is valid until the next read of any table. */
type Reader = (sequence: number) => EarlierRecord

/** Caches the last record, as the next event is often in the same one. */
function createReader(log: Table): Reader {
  let last: EarlierRecord | undefined
  let lastSequence = 0
  return (sequence) => {
    if (last && sequence === lastSequence) return last
    const bytes = log.getBinaryFast(sequenceKey(sequence))
    // lmdb returns a buffer that is larger than its length
    last = earlierRecord(bytes && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), sequence)
    lastSequence = sequence
    return last
  }
}

function earlierRecord(bytes: Buffer | undefined, sequence: number): EarlierRecord {
  let verified: LogRecord | undefined
  return {
    bytes: bytes ?? nothing,
    verified() {
      verified ??= decodeRecord(bytes, sequence)
      return verified
    },
  }
}

/** The JSON string of the id of an event. */
function idAt({ body, rows }: SearchedBatch, index: number): Buffer {
  const row = index * wordsPerEvent
  const [start, end] = [rows[row + column.idStart] as number, rows[row + column.idEnd] as number]
  return Buffer.from(body.buffer, body.byteOffset + start, end - start)
}

/**
 * Compares an event, whose id is given as JSON string, with the one at an index of an earlier record. Undefined if that
 * has another id or project.
 */
function compare(
  project: number,
  event: Buffer,
  eventId: Buffer,
  earlier: LogRecord,
  index: number,
): Match | undefined {
  const stored = earlier.project === project ? earlier.events[index] : undefined
  if (!stored) return undefined
  if (stored.equals(event)) return 'same'
  return hasEventId(stored, eventId) ? differ(stored, event) : undefined
}

/** The result for two events of one id whose bytes differ. */
function differ(stored: Buffer, event: Buffer): Match {
  return isTombstone(stored) || isTombstone(event) ? 'same' : 'conflict'
}

function hasEventId(event: Buffer, eventId: Buffer): boolean {
  try {
    const stored = idBytes(event) ?? nothing
    // one of the two may have escapes where the other has none
    return stored.equals(eventId) || JSON.parse(stored.toString()) === JSON.parse(eventId.toString())
  } catch {
    // the stored event is damaged
    return false
  }
}
