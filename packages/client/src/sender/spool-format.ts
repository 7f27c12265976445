import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'

/** The end of an event in the spool. */
export interface SpoolPosition {
  segment: number
  offset: number
}

export interface SpooledEvent {
  bytes: Buffer
  /** Undefined for an event that could not be written, and is in memory only. */
  spooledTo: SpoolPosition | undefined
}

/** A position in the spool of this id. */
export interface SettledPosition extends SpoolPosition {
  id: string
}

/** The content of a segment. */
export interface SegmentContent {
  segment: number
  size: number
  /** Undefined if the first line is damaged or truncated. */
  header: { id: string; projectId: string } | undefined
  events: SpooledEvent[]
  /** The ends of damaged events. */
  damaged: number[]
}

const namePattern = /^(\d{16})\.spool$/
const lineFeed = 0x0a
/** Events are separated by an empty line, so that a damaged line feed costs one event and not two. */
const lineEnd = Buffer.from('\n\n')
/** Eight hex digits and a space. */
const checksumLength = 9
/** The length of the text in `settled`. */
const settledBytes = 80

export function segmentPath(directory: string, segment: number): string {
  return join(directory, `${String(segment).padStart(16, '0')}.spool`)
}

export function settledPath(directory: string): string {
  return join(directory, 'settled')
}

/** A text with its checksum in front. */
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

/** The text of a line; undefined for a damaged one. */
function decodeLine(line: Buffer): Buffer | undefined {
  const text = line.subarray(checksumLength)
  return line.toString('latin1', 0, checksumLength) === checksum(text) ? Buffer.from(text) : undefined
}

/** Undefined for a file that is missing, truncated or damaged. */
export function readSettled(directory: string): SettledPosition | undefined {
  let line: Buffer
  try {
    line = readFileSync(settledPath(directory))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return undefined
  }
  const text = decodeLine(line.subarray(0, checksumLength + settledBytes))?.toString()
  const [, id, segment, offset] = /^([0-9a-f]{16}) (\d+) (\d+) *$/.exec(text ?? '') ?? []
  return id === undefined ? undefined : { id, segment: Number(segment), offset: Number(offset) }
}

/** All segments of a directory, in their order. */
export function readSegments(directory: string): SegmentContent[] {
  return readdirSync(directory)
    .map((name) => Number(namePattern.exec(name)?.[1] ?? Number.NaN))
    .filter((segment) => !Number.isNaN(segment))
    .sort((a, b) => a - b)
    .map((segment) => parseSegment(readFileSync(segmentPath(directory, segment)), segment))
}

function parseSegment(bytes: Buffer, segment: number): SegmentContent {
  const content: SegmentContent = { segment, size: bytes.length, header: undefined, events: [], damaged: [] }
  let start = 0
  let isAfterDamage = false
  for (let end = bytes.indexOf(lineFeed); end !== -1; end = bytes.indexOf(lineFeed, start)) {
    const text = decodeLine(bytes.subarray(start, end))
    const isEmpty = start === end
    // damage that splits a line into two costs one event
    if (text === undefined && !isEmpty && !isAfterDamage && start > 0) content.damaged.push(end + 1)
    isAfterDamage = text === undefined && (!isEmpty || start === 0)
    if (text && start === 0) content.header = parseHeader(text)
    else if (text) content.events.push({ bytes: text, spooledTo: { segment, offset: end + 1 } })
    start = end + 1
  }
  return content
}

function parseHeader(text: Buffer): SegmentContent['header'] {
  const [, id = '', projectId = ''] = /^#spool ([0-9a-f]{16}) (.*)$/.exec(text.toString()) ?? []
  return id === '' ? undefined : { id, projectId }
}
