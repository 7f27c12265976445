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

/** How an event compares with the stored one of the same id. */
export type Match = 'same' | 'conflict'

/** A batch with the rows of `BatchEvents`, and fingerprints in place of hashes. */
export interface SearchedBatch {
  project: number
  body: Uint8Array
  rows: Uint32Array
}

/** Finds which events of a batch are stored: the index has candidates, the log decides by their bytes. */
export interface DuplicateFinder {
  /** Whether the whole batch, as a record, is stored: a retry has the same bytes. */
  isRetry(project: number, record: Buffer): boolean
  /**
   * The events of a batch and its record that are stored, by index.
   *
   * @throws {IngestError} `store-damaged`: a damaged record must not make its events unknown
   */
  findMatches(batch: SearchedBatch, record: Buffer): Map<number, Match>
  /** The positions of the events with these ids. */
  locate(project: number, eventIds: readonly string[], fingerprints: Uint32Array): (Position | undefined)[]
}

export function createDuplicateFinder(log: Table, ids: Pick<IdIndex, 'search'>): DuplicateFinder {
  /** Found by its first event. */
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
    // so that each earlier record is read once
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
  /** Not verified; empty if the record is missing. */
  bytes: Buffer
  /** @throws {IngestError} `store-damaged` */
  verified(): LogRecord
}

/** Reads a record, which is valid until the next read of any table. */
type Reader = (sequence: number) => EarlierRecord

/** Keeps the last record, as the next event is often in the same one. */
function createReader(log: Table): Reader {
  let last: EarlierRecord | undefined
  let lastSequence = 0
  return (sequence) => {
    if (last && sequence === lastSequence) return last
    const bytes = log.getBinaryFast(sequenceKey(sequence))
    // lmdb returns a buffer that is larger than it says
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
 * Compares an event, with the JSON string of its id, with the one at an index of an earlier record; undefined if that has
 * another id or project.
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

/** What two events of one id with other bytes are. */
function differ(stored: Buffer, event: Buffer): Match {
  return isTombstone(stored) || isTombstone(event) ? 'same' : 'conflict'
}

function hasEventId(event: Buffer, eventId: Buffer): boolean {
  try {
    const stored = idBytes(event) ?? nothing
    // one may have escapes where the other has none
    return stored.equals(eventId) || JSON.parse(stored.toString()) === JSON.parse(eventId.toString())
  } catch {
    // damaged
    return false
  }
}
