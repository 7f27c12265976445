import { crc32 } from 'node:zlib'
import { IngestError } from '@ingest/core'
import { sliceEvents } from '@ingest/core/internal'

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
 * | then | the payload: a JSON object whose array `events` holds these events and no others |
 *
 * Numbers are little-endian.
 */
export interface LogRecord {
  project: number
  receivedAt: number
  count: number
  payload: Buffer
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

/**
 * A record in memory of its own, with the high and the low half of the fingerprint of each event. {@link sealRecord} adds
 * what is known only when it is appended.
 */
export function encodeRecord(receivedAt: number, fingerprints: Uint32Array, payload: Uint8Array): Buffer {
  const payloadOffset = headerBytes + fingerprints.byteLength
  const record = Buffer.allocUnsafeSlow(payloadOffset + payload.length)
  record.fill(0, 0, headerBytes)
  record.writeUInt32LE(((fingerprints.length / 2) << 8) | version, 0)
  record.writeDoubleLE(receivedAt, 8)
  for (let i = 0; i < fingerprints.length; i++) record.writeUInt32LE(fingerprints[i] as number, headerBytes + i * 4)
  record.set(payload, payloadOffset)
  return record
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
  return readUnverified(bytes)
}

/** Checks the length and the version. */
function isRecord<Bytes extends Uint8Array>(bytes: Bytes | undefined): bytes is Bytes {
  return bytes !== undefined && bytes.length >= headerBytes && bytes[0] === version
}

const zeros = Buffer.alloc(headerBytes - crcOffset)

function damagedRecord(sequence: number): IngestError {
  return new IngestError('store-damaged', `Record ${sequence} of the log is damaged: restore it from a backup.`)
}

/** Decodes a record without verifying its checksum. */
export function readUnverified(bytes: Buffer): LogRecord {
  const count = bytes.readUInt32LE(0) >>> 8
  return {
    project: bytes.readUInt32LE(4),
    receivedAt: bytes.readDoubleLE(8),
    count,
    payload: bytes.subarray(headerBytes + count * fingerprintBytes),
  }
}

/** Decodes the header of a record without verifying the checksum. */
export function readHeader(bytes: Uint8Array | undefined, sequence: number): Pick<LogRecord, 'receivedAt' | 'count'> {
  if (!isRecord(bytes)) throw damagedRecord(sequence)
  const { receivedAt, count } = readUnverified(Buffer.from(bytes.buffer, bytes.byteOffset, headerBytes))
  return { receivedAt, count }
}

/**
 * The high and the low half of the fingerprint of each event of a record.
 *
 * @throws {IngestError} `store-damaged`
 */
export function readFingerprints(bytes: Buffer | undefined, sequence: number): Uint32Array {
  const count = isRecord(bytes) ? bytes.readUInt32LE(0) >>> 8 : 0
  // no record is empty: a page of zeros would hide the ids of its events
  if (!bytes || count === 0 || headerBytes + count * fingerprintBytes > bytes.length) throw damagedRecord(sequence)
  const fingerprints = new Uint32Array(count * 2)
  for (let i = 0; i < count * 2; i++) fingerprints[i] = bytes.readUInt32LE(headerBytes + i * 4)
  return fingerprints
}

/** The checksum in a record, which identifies it; 0 for a missing record. */
export function readChecksum(bytes: Buffer | undefined): number {
  return bytes && bytes.length >= headerBytes ? bytes.readUInt32LE(crcOffset) : 0
}

const payloadStart = Buffer.from('{"events":[')
const payloadComma = Buffer.from(',')
const payloadEnd = Buffer.from(']}')

/** The payload with some of the events of a body: their exact bytes in a new envelope. */
export function encodePayload(events: readonly Uint8Array[]): Buffer {
  const parts: Uint8Array[] = [payloadStart]
  for (const event of events) parts.push(event, payloadComma)
  parts[parts.length - 1] = payloadEnd
  return Buffer.concat(parts)
}

/** The exact bytes of each event in a payload. */
export function splitEvents(payload: Buffer): Buffer[] {
  return sliceEvents(payload).map(({ start, end }) => payload.subarray(start, end))
}

/** The `eventId` in the bytes of an event. */
export function parseEventId(event: Buffer): string {
  return JSON.parse(event.toString()).eventId
}
