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
 * | 16–19 | the checksum before events were erased, which cursors hold; otherwise 0 |
 * | 20–23 | its number among the records of its project, from 1, modulo 2^32 |
 * | 24–27 | CRC32 of the head: the sequence number of the record, the bytes above, and those up to the payload |
 * | 28–31 | CRC32 of the head and the payload |
 * | 32– | a fingerprint of 8 bytes for each event |
 * | then | where each event ends in the payload, 4 bytes |
 * | then | the payload: the exact bytes of each event, or the JSON string of the id of an erased one, with a comma between two |
 *
 * Numbers are little-endian. The sequence number is not in the record, but in its checksums: a record stored under
 * another number counts as damaged.
 */
export interface LogRecord extends Omit<RecordHeader, 'count'> {
  /** The exact bytes of each event, or the JSON string of the id of an erased one. */
  events: Buffer[]
}

/** The position of an event in the log: the sequence number of its record, and its index in the record. */
export interface Position {
  sequence: number
  index: number
}

const version = 1
const originalOffset = 16
const ordinalOffset = 20
const headCrcOffset = 24
const crcOffset = 28
const headerBytes = 32
const fingerprintBytes = 8
const endBytes = 4
const comma = 0x2c
const quote = 0x22

/** The size of the record of these events, in bytes. */
export function recordBytes(rows: Uint32Array): number {
  let payloadBytes = -1
  for (let at = 0; at < rows.length; at += wordsPerEvent) {
    payloadBytes += 1 + (rows[at + column.end] as number) - (rows[at + column.start] as number)
  }
  return payloadOffsetFor(rows.length / wordsPerEvent) + payloadBytes
}

/**
 * Encodes events of a body as a record at the start of `memory`, which is aligned to words. `rows` are those of
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
    // one byte between two events, for the comma
    end += 1 + (rows[at + column.end] as number) - (rows[at + column.start] as number)
    ends[i] = end
  }
  memory.fill(0, 0, headerBytes)
  memory.writeUInt32LE((count << 8) | version, 0)
  memory.writeDoubleLE(receivedAt, 8)
  copyEvents(body, rows, memory, payloadOffset)
  return memory.subarray(0, payloadOffset + end)
}

/** Copies events with a comma between two. Events that are one byte apart in the body are copied together. */
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

/** The identity of a record; its checksums cover all of it. */
export interface RecordIdentity {
  sequence: number
  project: number
  /** Its number among the records of its project, from 1. */
  ordinal: number
}

/** Completes a record before it is stored: sets its identity, the time at which it was received, and its checksums. */
export function sealRecord(record: Buffer, { sequence, project, ordinal }: RecordIdentity, receivedAt: number): void {
  record.writeUInt32LE(project, 4)
  record.writeDoubleLE(receivedAt, 8)
  record.writeUInt32LE(storedOrdinal(ordinal), ordinalOffset)
  writeChecksums(record, sequence)
}

/** An ordinal as records store it: modulo 2^32. */
export function storedOrdinal(ordinal: number): number {
  return ordinal >>> 0
}

function writeChecksums(record: Buffer, sequence: number): void {
  const { head, whole } = checksumsOf(record, sequence)
  record.writeUInt32LE(head, headCrcOffset)
  record.writeUInt32LE(whole, crcOffset)
}

/**
 * Decodes a record and verifies its checksums. Returns a view of `bytes`, which must not change.
 *
 * @throws {IngestError} `store-damaged`
 */
export function decodeRecord(bytes: Buffer | undefined, sequence: number): LogRecord {
  const { count, ...header } = verifyRecord(bytes, sequence)
  return { ...header, events: Array.from({ length: count }, (_, i) => eventAt(bytes as Buffer, i)) }
}

/**
 * Verifies the checksums of a record.
 *
 * @throws {IngestError} `store-damaged`
 */
export function verifyRecord(bytes: Buffer | undefined, sequence: number): RecordHeader {
  if (!isRecord(bytes)) throw damagedRecord(sequence)
  const { head, whole } = checksumsOf(bytes, sequence)
  if (head !== bytes.readUInt32LE(headCrcOffset) || whole !== bytes.readUInt32LE(crcOffset)) {
    throw damagedRecord(sequence)
  }
  return readUnverified(bytes)
}

/** Checks the version, and that the record has a payload. */
function isRecord(bytes: Buffer | undefined): bytes is Buffer {
  return (
    bytes !== undefined && bytes.length >= headerBytes && bytes[0] === version && payloadOffsetOf(bytes) < bytes.length
  )
}

function countIn(bytes: Buffer): number {
  return bytes.readUInt32LE(0) >>> 8
}

function payloadOffsetOf(bytes: Buffer): number {
  return payloadOffsetFor(countIn(bytes))
}

function headChecksum(bytes: Buffer, sequence: number): number {
  const header = crc32(bytes.subarray(0, headCrcOffset), sequence % 2 ** 32)
  return crc32(bytes.subarray(headerBytes, payloadOffsetOf(bytes)), header)
}

function checksumsOf(bytes: Buffer, sequence: number): { head: number; whole: number } {
  const head = headChecksum(bytes, sequence)
  return { head, whole: crc32(bytes.subarray(payloadOffsetOf(bytes)), head) }
}

function damagedRecord(sequence: number): IngestError {
  return new IngestError(
    'store-damaged',
    `Record ${sequence} of the log is damaged: save the rest with \`ingest repair\`, or restore a backup.`,
  )
}

/** The header of a record. */
export interface RecordHeader {
  project: number
  /** Its number among the records of its project, from 1, modulo 2^32. */
  ordinal: number
  receivedAt: number
  /** The number of its events. */
  count: number
  /** The checksum with which the record was stored, also after an erasure; never 0. */
  checksum: number
}

/** Decodes the header of a record without verifying its checksum. */
export function readUnverified(bytes: Buffer): RecordHeader {
  return {
    project: bytes.readUInt32LE(4),
    ordinal: bytes.readUInt32LE(ordinalOffset),
    receivedAt: bytes.readDoubleLE(8),
    count: countIn(bytes),
    checksum: readChecksum(bytes),
  }
}

/** The exact bytes of an event of a record that may be damaged; then they may be empty or truncated. */
export function eventAt(bytes: Buffer, index: number): Buffer {
  const count = bytes.length < headerBytes ? 0 : countIn(bytes)
  if (payloadOffsetFor(count) > bytes.length || index >= count) return bytes.subarray(0, 0)
  return bytes.subarray(startOf(bytes, count, index), endOf(bytes, count, index))
}

/** The bytes of all events of a record that may be damaged. */
export function payloadOf(bytes: Buffer): Buffer {
  const count = bytes.length < headerBytes ? 0 : countIn(bytes)
  const offset = payloadOffsetFor(count)
  return count === 0 || offset > bytes.length
    ? bytes.subarray(0, 0)
    : bytes.subarray(offset, endOf(bytes, count, count - 1))
}

/** Whether an event is a tombstone: only the JSON string of its id. */
export function isTombstone(event: Uint8Array): boolean {
  return event[0] === quote
}

/** The bytes that these events count in the totals of their project; tombstones count 0. */
export function countedBytes(events: readonly Uint8Array[]): number {
  let bytes = 0
  for (const event of events) if (!isTombstone(event)) bytes += event.length + 1
  return Math.max(0, bytes - 1)
}

/** A record some of whose events were erased. */
export interface ErasedRecord {
  record: Buffer
  /** The number of erased events. */
  events: number
  /** The number of bytes by which the totals of the project shrink. */
  bytes: number
}

/**
 * A copy of a record without the bytes of some events; undefined if they are already erased.
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
  const record = Buffer.alloc(offset + payloadBytes)
  before.copy(record, 0, 0, headerBytes + events.length * fingerprintBytes)
  let end = -1
  for (const [i, event] of left.entries()) {
    record.set(event, offset + end + 1)
    end += 1 + event.length
    record.writeUInt32LE(end, headerBytes + events.length * fingerprintBytes + i * endBytes)
    if (i + 1 < left.length) record[offset + end] = comma
  }
  record.writeUInt32LE(readChecksum(before), originalOffset)
  writeChecksums(record, sequence)
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
 * Decodes the header of a record and verifies its checksum, which does not cover the payload.
 *
 * @throws {IngestError} `store-damaged`
 */
export function readHeader(bytes: Uint8Array | undefined, sequence: number): RecordHeader {
  return readUnverified(verifiedHead(bytes, sequence))
}

/**
 * The high and the low half of the fingerprint of each event of a record, verified as by {@link readHeader}: a view of
 * the record where it is aligned.
 *
 * @throws {IngestError} `store-damaged`
 */
export function readFingerprints(bytes: Uint8Array | undefined, sequence: number): Uint32Array {
  return fingerprintsIn(verifiedHead(bytes, sequence))
}

function verifiedHead(bytes: Uint8Array | undefined, sequence: number): Buffer {
  // lmdb returns a buffer that is larger than its length
  const record = bytes && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  if (!isRecord(record) || headChecksum(record, sequence) !== record.readUInt32LE(headCrcOffset)) {
    throw damagedRecord(sequence)
  }
  return record
}

/** Like {@link readFingerprints}, for a record that is not sealed yet or already verified. */
export function fingerprintsIn(record: Buffer): Uint32Array {
  const count = countIn(record)
  const at = record.byteOffset + headerBytes
  // a view of words must be aligned
  if (at % 4 === 0) return new Uint32Array(record.buffer, at, count * 2)
  return new Uint32Array(
    Uint8Array.prototype.slice.call(record, headerBytes, headerBytes + count * fingerprintBytes).buffer,
  )
}

/** The checksum of a record as it was stored, which identifies it even after an erasure; 0 for a missing record. */
export function readChecksum(bytes: Uint8Array | undefined): number {
  if (!bytes || bytes.length < headerBytes) return 0
  const header = Buffer.from(bytes.buffer, bytes.byteOffset, headerBytes)
  // 0 means that nothing was erased
  return header.readUInt32LE(originalOffset) || header.readUInt32LE(crcOffset) || 1
}

/**
 * The `eventId` in the bytes of an event, or the id of an erased one.
 *
 * @throws {IngestError} `store-damaged` if the bytes are not JSON
 */
export function parseEventId(event: Buffer): string {
  try {
    const value = JSON.parse(event.toString())
    return typeof value === 'string' ? value : value.eventId
  } catch (cause) {
    throw new IngestError('store-damaged', 'An event of the log is not JSON: restore it from a backup.', { cause })
  }
}
