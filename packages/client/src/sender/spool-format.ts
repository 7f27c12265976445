import { closeSync, existsSync, openSync, readdirSync, readFileSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { IngestError } from '@ingest/core'

/** The end of an event in the spool. */
export interface SpoolPosition {
  segment: number
  offset: number
}

export interface SpooledEvent {
  bytes: Buffer
  spooledTo: SpoolPosition
}

/** A position, and the id of the spool that it is in. */
export interface SettledPosition extends SpoolPosition {
  id: string
}

/** The content of a segment. */
export interface SegmentContent {
  segment: number
  /** Undefined if the first line is damaged or truncated. */
  header: { id: string; projectId: string } | undefined
  /**
   * Whether an empty line follows the header, as this package writes. Without empty lines, another program has changed
   * the line ends, and offsets are too small.
   */
  hasEmptyLines: boolean
  events: SpooledEvent[]
  /** The ends of damaged events. */
  damaged: number[]
}

const lineFeed = 0x0a
const carriageReturn = 0x0d
/** Events are separated by an empty line, so that a damaged line feed costs one event and not two. */
const lineEnd = Buffer.from('\n\n')
/** Checksum: eight hex digits and a space. */
const checksumLength = 9
/** The length of the text in `settled`. */
const settledBytes = 80
/** Longer than any first line of a segment. */
const headerBytesMax = 256

export function segmentPath(directory: string, segment: number): string {
  return join(directory, `${String(segment).padStart(16, '0')}.spool`)
}

/** Path under which a damaged segment is kept. */
export function damagedPath(directory: string, segment: number): string {
  return `${segmentPath(directory, segment)}.damaged`
}

export function settledPath(directory: string): string {
  return join(directory, 'settled')
}

/** Prepends the checksum to a text. */
export function encodeLine(text: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(checksum(text)), text, lineEnd])
}

/** The first line of a segment. */
export function encodeHeader(id: string, projectId: string): Buffer {
  return encodeLine(Buffer.from(`#spool ${id} ${projectId}`))
}

export function encodeSettled({ id, segment, offset }: SettledPosition): Buffer {
  return encodeLine(Buffer.from(`${id} ${segment} ${offset}`.padEnd(settledBytes)))
}

function checksum(text: Uint8Array): string {
  const digits = crc32(text).toString(16)
  return `${digits.padStart(checksumLength - 1, '0')} `
}

/** The text of a line; undefined if it is damaged. */
function decodeLine(line: Buffer): Buffer | undefined {
  if (line.length < checksumLength) return undefined
  const text = line.subarray(checksumLength)
  return line.toString('latin1', 0, checksumLength) === checksum(text) ? text : undefined
}

/** Reads the settled position; returns undefined if the file is missing, truncated or damaged. */
export function readSettled(directory: string): SettledPosition | undefined {
  const path = settledPath(directory)
  if (!existsSync(path)) return undefined
  const line = readRegularFile(path)
  const text = decodeLine(line.subarray(0, checksumLength + settledBytes))?.toString()
  const [, id, segment, offset] = /^([0-9a-f]{16}) (\d+) (\d+) *$/.exec(text ?? '') ?? []
  return id === undefined ? undefined : { id, segment: Number(segment), offset: Number(offset) }
}

export function readSegment(directory: string, segment: number): SegmentContent {
  return parseSegment(readRegularFile(segmentPath(directory, segment)), segment)
}

/** Reads the header of a segment; returns undefined if the first line is damaged or truncated. */
export function readHeader(directory: string, segment: number): SegmentContent['header'] {
  const path = segmentPath(directory, segment)
  checkRegularFile(path)
  const fd = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(headerBytesMax)
    return parseSegment(bytes.subarray(0, readSync(fd, bytes)), segment).header
  } finally {
    closeSync(fd)
  }
}

/** The numbers of the files with this extension, ascending. */
export function segmentNumbers(directory: string, extension: '.spool' | '.spool.damaged'): number[] {
  return readdirSync(directory)
    .filter((name) => /^\d{16}$/.test(name.slice(0, 16)) && name.slice(16) === extension)
    .map((name) => Number(name.slice(0, 16)))
    .sort((a, b) => a - b)
}

function readRegularFile(path: string): Buffer {
  checkRegularFile(path)
  return readFileSync(path)
}

/**
 * Refuses anything but regular files: reading a directory would fail without a name, and reading a pipe would block.
 */
function checkRegularFile(path: string): void {
  if (!statSync(path).isFile()) throw foreignFile(path, 'it is not a regular file')
}

export function foreignFile(path: string, reason: string, cause?: unknown): IngestError {
  const message = `The spool cannot use ${path}: ${reason}. Move it away, or name another directory.`
  return new IngestError('invalid-argument', message, { cause })
}

/** The start of a line with an event. */
const eventPattern = /^[0-9a-f]{8} +\{/
/** A line whose end is missing, from its checksum on. */
const truncatedPattern = /^([^\0]{0,8}|[0-9a-f]{8} [^\0]*)$/

function parseSegment(bytes: Buffer, segment: number): SegmentContent {
  const content: SegmentContent = { segment, header: undefined, hasEmptyLines: false, events: [], damaged: [] }
  let isAfterDamage = false
  let isDamaged = false
  for (const { start, end, isTerminated } of splitLines(bytes)) {
    const line = bytes.subarray(start, end)
    const text = decodeLine(line)
    const isFirst = start === 0
    if (text) {
      const header = isFirst ? parseHeader(text) : undefined
      if (header) {
        content.header = header
        content.hasEmptyLines = isLineEnd(bytes[end + 1])
      } else content.events.push({ bytes: text, spooledTo: { segment, offset: end + 1 } })
      isAfterDamage = false
    } else if (line.length === 0) isAfterDamage = isFirst
    else if (isTerminated || !truncatedPattern.test(line.toString('latin1'))) {
      isDamaged = true
      // if damage splits a line into two, only the first counts as an event; a damaged first line is the header
      const isEvent = eventPattern.test(line.toString('latin1', 0, 64))
      if (isEvent || !(isFirst || isAfterDamage)) content.damaged.push(end + 1)
      isAfterDamage = true
    }
  }
  // for example a file of zeros, in which events cannot be counted
  if (isDamaged && content.events.length === 0 && content.damaged.length === 0) content.damaged.push(bytes.length)
  return content
}

interface Line {
  start: number
  end: number
  /** Whether a line end follows. */
  isTerminated: boolean
}

/**
 * Splits at LF, and at the CR or CRLF of a file that another program has converted: neither occurs inside of a line.
 */
function* splitLines(bytes: Buffer): Generator<Line> {
  let start = 0
  const nextEnd = bytes.includes(carriageReturn)
    ? (from: number) => bytes.subarray(from).findIndex(isLineEnd)
    : (from: number) => bytes.subarray(from).indexOf(lineFeed)
  for (let length = nextEnd(0); length !== -1; length = nextEnd(start)) {
    yield { start, end: start + length, isTerminated: true }
    start += length + 1
  }
  if (start < bytes.length) yield { start, end: bytes.length, isTerminated: false }
}

function isLineEnd(byte: number | undefined): boolean {
  return byte === lineFeed || byte === carriageReturn
}

function parseHeader(text: Buffer): SegmentContent['header'] {
  const [, id = '', projectId = ''] = /^#spool ([0-9a-f]{16}) (.*)$/.exec(text.toString()) ?? []
  return id === '' ? undefined : { id, projectId }
}
