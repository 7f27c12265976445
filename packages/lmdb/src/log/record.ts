import { crc32 } from 'node:zlib'
import { IngestError } from '@ingest/core'
import { column, wordsPerEvent } from '@ingest/core/internal'

/**
 * One record of the log: the events that one batch stored.
 *
 * | bytes | content |
 * |---|---|
 * | 0 | version, 1 |
 * | 1–3 | number of events |
 * | 4–7 | project number |
 * | 8–15 | received at, milliseconds since 1970 |
 * | 16–19 | CRC32 of all other bytes |
 * | 20–23 | 0 |
 * | 24– | a fingerprint of 8 bytes for each event |
 * | then | where each event ends in the payload, 4 bytes |
 * | then | the payload: the exact bytes of each event, with a comma between two |
 *
 * Numbers are little-endian.
 */
export interface LogRecord {
  project: number
  receivedAt: number
  /** The exact bytes of each event. */
  events: Buffer[]
}

/** The position of an event in the log: the sequence number of its record, and its index in the record. */
export interface Position {
  sequence: number
  index: number
}

const version = 1
const headerBytes = 24
const crcOffset = 16
const fingerprintBytes = 8
const endBytes = 4
const comma = 0x2c

/** The size of the record of these events, in bytes. */
export function recordBytes(rows: Uint32Array): number {
  let payloadBytes = -1
  for (let at = 0; at < rows.length; at += wordsPerEvent) {
    payloadBytes += 1 + (rows[at + column.end] as number) - (rows[at + column.start] as number)
  }
  return payloadOffsetFor(rows.length / wordsPerEvent) + payloadBytes
}

/**
 * Encodes events of a body as a record at the start of `memory`, which is aligned for words. `rows` are those of
 * `BatchEvents`, with fingerprints in place of hashes. {@link sealRecord} completes the record when it is appended.
 *
 * @throws {IngestError} `internal-error` for an event outside of the body
 */
export function encodeRecord(
  body: Uint8Array,
  rows: Uint32Array,
  receivedAt: number,
  memory: Buffer = Buffer.allocUnsafeSlow(recordBytes(rows)),
): Buffer {
  const count = rows.length / wordsPerEvent
  const payloadOffset = payloadOffsetFor(count)
  const fingerprints = new Uint32Array(memory.buffer, memory.byteOffset + headerBytes, count * 2)
  const ends = new Uint32Array(memory.buffer, fingerprints.byteOffset + fingerprints.byteLength, count)
  let end = -1
  for (let i = 0, at = 0; i < count; i++, at += wordsPerEvent) {
    fingerprints[i * 2] = rows[at + column.hashHigh] as number
    fingerprints[i * 2 + 1] = rows[at + column.hashLow] as number
    // one byte between two events
    end += 1 + (rows[at + column.end] as number) - (rows[at + column.start] as number)
    ends[i] = end
  }
  memory.fill(0, 0, headerBytes)
  memory.writeUInt32LE((count << 8) | version, 0)
  memory.writeDoubleLE(receivedAt, 8)
  copyEvents(body, rows, memory, payloadOffset)
  return memory.subarray(0, payloadOffset + end)
}

/** Copies events, with a comma between two. Events that are one byte apart in the body are copied together. */
function copyEvents(body: Uint8Array, rows: Uint32Array, target: Buffer, from: number): void {
  let to = from
  for (let at = 0; at < rows.length; ) {
    const start = rows[at + column.start] as number
    let end = rows[at + column.end] as number
    for (at += wordsPerEvent; rows[at + column.start] === end + 1; at += wordsPerEvent) {
      end = rows[at + column.end] as number
    }
    if (end > body.length) throw new IngestError('internal-error', 'An event is outside of the body of its batch.')
    target.set(body.subarray(start, end), to)
    to += end - start
    if (at < rows.length) target[to++] = comma
  }
}

function payloadOffsetFor(count: number): number {
  return headerBytes + count * (fingerprintBytes + endBytes)
}

function startOf(record: Buffer, count: number, index: number): number {
  return index === 0 ? payloadOffsetFor(count) : endOf(record, count, index - 1) + 1
}

function endOf(record: Buffer, count: number, index: number): number {
  return payloadOffsetFor(count) + record.readUInt32LE(headerBytes + count * fingerprintBytes + index * endBytes)
}

/**
 * Completes a record before it is stored: sets its project, the time at which it was received, and its checksum, which
 * must still be 0.
 */
export function sealRecord(record: Buffer, project: number, receivedAt: number): void {
  record.writeUInt32LE(project, 4)
  record.writeDoubleLE(receivedAt, 8)
  record.writeUInt32LE(crc32(record), crcOffset)
}

/**
 * Decodes a record and verifies its checksum. Returns a view of `bytes`, which must not change.
 *
 * @throws {IngestError} `store-damaged`
 */
export function decodeRecord(bytes: Buffer | undefined, sequence: number): LogRecord {
  if (!isRecord(bytes)) throw damagedRecord(sequence)
  const sum = crc32(bytes.subarray(headerBytes), crc32(zeros, crc32(bytes.subarray(0, crcOffset))))
  if (sum !== bytes.readUInt32LE(crcOffset)) throw damagedRecord(sequence)
  const { project, receivedAt, count } = readUnverified(bytes)
  return { project, receivedAt, events: Array.from({ length: count }, (_, i) => eventAt(bytes, i)) }
}

/** Checks the length and the version. */
function isRecord<Bytes extends Uint8Array>(bytes: Bytes | undefined): bytes is Bytes {
  return bytes !== undefined && bytes.length >= headerBytes && bytes[0] === version
}

const zeros = Buffer.alloc(headerBytes - crcOffset)

function damagedRecord(sequence: number): IngestError {
  return new IngestError('store-damaged', `Record ${sequence} of the log is damaged: restore it from a backup.`)
}

/** The header of a record. */
export interface RecordHeader {
  project: number
  receivedAt: number
  count: number
}

/** Decodes the header of a record without verifying the checksum. */
export function readUnverified(bytes: Buffer): RecordHeader {
  return { project: bytes.readUInt32LE(4), receivedAt: bytes.readDoubleLE(8), count: bytes.readUInt32LE(0) >>> 8 }
}

/** The exact bytes of an event, from a record that may be damaged: empty or truncated then. */
export function eventAt(bytes: Buffer, index: number): Buffer {
  const { count } = readUnverified(bytes)
  if (payloadOffsetFor(count) > bytes.length || index >= count) return bytes.subarray(0, 0)
  return bytes.subarray(startOf(bytes, count, index), endOf(bytes, count, index))
}

/** The bytes of all events, from a record that may be damaged. */
export function payloadOf(bytes: Buffer): Buffer {
  return bytes.subarray(payloadOffsetFor(readUnverified(bytes).count))
}

/**
 * Decodes the header of a record without verifying the checksum.
 *
 * @throws {IngestError} `store-damaged` for a record that is missing or no record
 */
export function readHeader(bytes: Uint8Array | undefined, sequence: number): RecordHeader {
  if (!isRecord(bytes)) throw damagedRecord(sequence)
  return readUnverified(Buffer.from(bytes.buffer, bytes.byteOffset, headerBytes))
}

/**
 * The high and the low half of the fingerprint of each event of a record: a view of it, where it is aligned.
 *
 * @throws {IngestError} `store-damaged`
 */
export function readFingerprints(bytes: Buffer | undefined, sequence: number): Uint32Array {
  const count = isRecord(bytes) ? bytes.readUInt32LE(0) >>> 8 : 0
  // no record is empty: a page of zeros would hide the ids of its events
  if (!bytes || count === 0 || headerBytes + count * fingerprintBytes > bytes.length) throw damagedRecord(sequence)
  const at = bytes.byteOffset + headerBytes
  // words of a view must be aligned
  if (at % 4 === 0) return new Uint32Array(bytes.buffer, at, count * 2)
  return new Uint32Array(
    Uint8Array.prototype.slice.call(bytes, headerBytes, headerBytes + count * fingerprintBytes).buffer,
  )
}

/** The checksum in a record, which identifies it; 0 for a missing record. */
export function readChecksum(bytes: Buffer | undefined): number {
  return bytes && bytes.length >= headerBytes ? bytes.readUInt32LE(crcOffset) : 0
}

/**
 * The `eventId` in the bytes of an event.
 *
 * @throws {IngestError} `store-damaged` for what is not JSON
 */
export function parseEventId(event: Buffer): string {
  try {
    return JSON.parse(event.toString()).eventId
  } catch (cause) {
    throw new IngestError('store-damaged', 'An event of the log is not JSON: restore it from a backup.', { cause })
  }
}
