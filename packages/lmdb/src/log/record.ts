import { crc32 } from 'node:zlib'
import { IngestError } from '@ingest/core'
import { column, sliceMember, wordsPerEvent } from '@ingest/core/internal'

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
 * | 20–23 | the checksum before events were erased, which cursors hold; otherwise 0 |
 * | 24– | a fingerprint of 8 bytes for each event |
 * | then | where each event ends in the payload, 4 bytes |
 * | then | the payload: the exact bytes of each event, or the JSON string of the id of an erased one, with a comma between two |
 * | then | zeros, after an erasure |
 *
 * Numbers are little-endian.
 */
export interface LogRecord {
  project: number
  receivedAt: number
  /** The exact bytes of each event, or the JSON string of the id of an erased one. */
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
const originalOffset = 20
const fingerprintBytes = 8
const endBytes = 4
const comma = 0x2c
const quote = 0x22
/** LMDB keeps a longer value on pages of its own, a shorter one in the leaf page of its key. */
export const inlineBytesMax = 2018

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
  if (crcOf(bytes) !== bytes.readUInt32LE(crcOffset)) throw damagedRecord(sequence)
  const { project, receivedAt, count } = readUnverified(bytes)
  return { project, receivedAt, events: Array.from({ length: count }, (_, i) => eventAt(bytes, i)) }
}

/** Checks the length and the version. */
function isRecord<Bytes extends Uint8Array>(bytes: Bytes | undefined): bytes is Bytes {
  return bytes !== undefined && bytes.length >= headerBytes && bytes[0] === version
}

const zeros = Buffer.alloc(originalOffset - crcOffset)

/** The CRC of all bytes but those of the CRC. */
function crcOf(bytes: Buffer): number {
  return crc32(bytes.subarray(originalOffset), crc32(zeros, crc32(bytes.subarray(0, crcOffset))))
}

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
  const { count } = readUnverified(bytes)
  const offset = payloadOffsetFor(count)
  return count === 0 || offset > bytes.length
    ? bytes.subarray(0, 0)
    : bytes.subarray(offset, endOf(bytes, count, count - 1))
}

/** Whether this is what is left of an erased event: the JSON string of its id. */
export function isTombstone(event: Uint8Array): boolean {
  return event[0] === quote
}

/** What these events of a record count in the totals of their project: tombstones nothing. */
export function countedBytes(events: readonly Uint8Array[]): number {
  let bytes = 0
  for (const event of events) if (!isTombstone(event)) bytes += event.length + 1
  return Math.max(0, bytes - 1)
}

/** A record of which events were erased. */
export interface ErasedRecord {
  record: Buffer
  /** How many events were erased. */
  events: number
  /** By how much their project's bytes shrink. */
  bytes: number
}

/**
 * A copy of a record without the bytes of some events; undefined if these are erased already. A value that was too
 * long for a leaf page stays so: moving it there could move others, and leave copies of them behind.
 *
 * @throws {IngestError} `store-damaged`
 */
export function eraseFromRecord(
  bytes: Buffer | undefined,
  sequence: number,
  isErased: (index: number) => boolean,
): ErasedRecord | undefined {
  const { events } = decodeRecord(bytes, sequence)
  const before = bytes as Buffer
  let erased = 0
  const left = events.map((event, index) => {
    if (isTombstone(event) || !isErased(index)) return event
    erased++
    return idBytes(event) ?? throwDamaged(sequence)
  })
  if (erased === 0) return undefined
  const offset = payloadOffsetFor(events.length)
  const payloadBytes = left.reduce((sum, { length }) => sum + length + 1, -1)
  const bytesMin = before.length > inlineBytesMax ? inlineBytesMax + 1 : 0
  const record = Buffer.alloc(Math.max(bytesMin, offset + payloadBytes))
  before.copy(record, 0, 0, headerBytes + events.length * fingerprintBytes)
  let end = -1
  for (const [i, event] of left.entries()) {
    record.set(event, offset + end + 1)
    end += 1 + event.length
    record.writeUInt32LE(end, headerBytes + events.length * fingerprintBytes + i * endBytes)
    if (i + 1 < left.length) record[offset + end] = comma
  }
  record.writeUInt32LE(readChecksum(before), originalOffset)
  record.writeUInt32LE(crcOf(record), crcOffset)
  return { record, events: erased, bytes: countedBytes(events) - countedBytes(left) }
}

/** The JSON string of the id of an event, as it was written; undefined for a damaged event. */
export function idBytes(event: Buffer): Buffer | undefined {
  if (isTombstone(event)) return event
  const id = sliceMember(event, 'eventId')
  return id && Buffer.from(id.buffer, id.byteOffset, id.length)
}

function throwDamaged(sequence: number): never {
  throw damagedRecord(sequence)
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

/** The checksum of a record as it was stored, which identifies it also after an erasure; 0 for a missing record. */
export function readChecksum(bytes: Buffer | undefined): number {
  if (!bytes || bytes.length < headerBytes) return 0
  // 0 says that nothing was erased
  return bytes.readUInt32LE(originalOffset) || bytes.readUInt32LE(crcOffset) || 1
}

/**
 * The `eventId` in the bytes of an event, or the id of an erased one.
 *
 * @throws {IngestError} `store-damaged` for what is not JSON
 */
export function parseEventId(event: Buffer): string {
  try {
    const value = JSON.parse(event.toString())
    return typeof value === 'string' ? value : value.eventId
  } catch (cause) {
    throw new IngestError('store-damaged', 'An event of the log is not JSON: restore it from a backup.', { cause })
  }
}
