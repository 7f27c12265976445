import { randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  fdatasync,
  fdatasyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { IngestError } from '@ingest/core'
import { eventBytesMax } from '../import/fill-batch.ts'
import { lockDirectory } from './lock-directory.ts'

/** Where an event ends. */
export interface SpoolPosition {
  segment: number
  offset: number
}

export interface SpooledEvent {
  bytes: Buffer
  /** Undefined for what could not be written, and so is in memory alone. */
  spooledTo: SpoolPosition | undefined
}

/** The events of a sender that are not known to be stored, on disk. */
export interface Spool {
  /** What an earlier process has left, oldest first. */
  readonly left: SpooledEvent[]
  /** How many events of it cannot be read, other than a last one that was cut. */
  readonly damaged: number
  /** Events of it that no batch can hold. */
  readonly tooLarge: SpooledEvent[]
  /** Once it returns, the event outlives this process, however that ends; undefined when it could not be written. */
  append(bytes: Uint8Array): SpoolPosition | undefined
  /** Everything up to this position is done with. */
  settle(position: SpoolPosition): void
  close(): void
}

/** From this size on, a segment gets no further event. */
export const segmentBytesMax = 1024 * 1024

const namePattern = /^(\d{16})\.spool$/
const lineFeed = 0x0a
/** An empty line stands between two events, so that a line feed that is damaged costs one of them and not both. */
const recordEnd = Buffer.from('\n\n')
/** Eight hex digits and a space. */
const checksumLength = 9
/** The length of what `settled` holds. */
const settledBytes = 80

/**
 * Opens a directory of segments, `0000000000000001.spool` and so on, which hold an event a line, in the order in which
 * they came. The first line of each says to which spool and project it belongs. The file `settled` holds the position
 * up to which the events are done with; what is before it is deleted segment by segment. Each line begins with the
 * CRC-32 of the rest, so that damage is noticed, and costs the events that it hit.
 *
 * Plain files and no database, because all that is ever done is to write at the end and delete at the start; because a
 * line is one `write`, a thousandth of what a durable transaction costs; because it needs nothing that has to be
 * compiled on a game server; and because anybody can read, count and send them again by hand.
 *
 * A line is handed to the operating system before `append` returns, so it survives the end of the process, also by
 * SIGKILL. It is not synced: a power loss may take the lines of the last seconds. A segment is synced when it is full,
 * and the last one on closing. `settled` is not synced either. It is believed only if it names a position that is
 * there; otherwise events are sent twice, and stored once.
 *
 * If the disk is full, nothing is read or written, and the process is warned.
 *
 * @throws {IngestError} `invalid-argument` while another process has it, or if it holds events of another project; and
 *   what the file system says.
 */
export function openSpool(directory: string, projectId: string): Spool {
  let unlock: () => void
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    unlock = lockDirectory(directory)
  } catch (error) {
    if (!isFull(error)) throw error
    const { message } = error as Error
    process.emitWarning(`${directory} cannot be used, events are in memory alone until a restart: ${message}`)
    return { left: [], damaged: 0, tooLarge: [], append: () => undefined, settle() {}, close() {} }
  }
  try {
    return open(directory, projectId, unlock)
  } catch (error) {
    unlock()
    throw error
  }
}

function isFull(error: unknown): boolean {
  return /^(ENOSPC|EDQUOT)$/.test((error as NodeJS.ErrnoException).code ?? '')
}

function open(directory: string, projectId: string, unlock: () => void): Spool {
  const pathOf = (segment: number) => join(directory, `${String(segment).padStart(16, '0')}.spool`)
  const settledPath = join(directory, 'settled')
  const known = readSettled(settledPath)
  const found = segmentsIn(directory).map((segment) => readSegment(readFileSync(pathOf(segment)), segment))
  for (const { header, segment } of found) {
    if (header !== undefined && header.projectId !== projectId) {
      const message = `${pathOf(segment)} holds events of the project ${header.projectId}: give each project a directory of its own.`
      throw new IngestError('invalid-argument', message)
    }
  }
  // the data says which spool it is; `settled` may be another's
  const id = found.findLast(({ header }) => header)?.header?.id ?? known?.id ?? randomBytes(8).toString('hex')
  const header = lineOf(Buffer.from(`#spool ${id} ${projectId}`))
  const { left, damaged, tooLarge, segments } = takeLeft(found, known, pathOf)
  let settled: SpoolPosition | undefined
  let last = Math.max(known?.id === id ? known.segment : 0, ...found.map(({ segment }) => segment))
  /** The segment that is written to: never one that an earlier process has begun, as its last line may be cut. */
  let current: { fd: number; position: SpoolPosition } | undefined
  let settledFd: number | undefined
  let isWarned = false

  function begin(): { fd: number; position: SpoolPosition } {
    const position = { segment: ++last, offset: 0 }
    const fd = openSync(pathOf(position.segment), 'wx', 0o600)
    segments.push(position)
    return { fd, position }
  }

  function write({ fd, position }: { fd: number; position: SpoolPosition }, line: Buffer): void {
    writeLine(fd, line, position.offset)
    position.offset += line.length
  }

  /** A full segment gets no further line, and is synced in the background. */
  function finish({ fd }: { fd: number }): void {
    current = undefined
    fdatasync(fd, () => closeSync(fd))
  }

  function warn(error: unknown): void {
    if (isWarned) return
    isWarned = true
    process.emitWarning(`${directory} cannot be written, events are in memory alone: ${(error as Error).message}`)
  }

  function removeSettled(position: SpoolPosition): void {
    for (let first = segments[0]; first; first = segments[0]) {
      const isDone =
        first.segment < position.segment ||
        (first.segment === position.segment && first.offset <= position.offset && first !== current?.position)
      if (!isDone) return
      rmSync(pathOf(first.segment), { force: true })
      segments.shift()
    }
  }

  return {
    left,
    damaged,
    tooLarge,

    append(bytes) {
      try {
        current ??= begin()
        const { position } = current
        if (position.offset === 0) write(current, header)
        write(current, lineOf(bytes))
        const end = { ...position }
        if (position.offset >= segmentBytesMax) finish(current)
        isWarned = false
        return end
      } catch (error) {
        warn(error)
        return undefined
      }
    },

    settle(position) {
      try {
        settled = position
        settledFd ??= openSync(settledPath, constants.O_RDWR | constants.O_CREAT, 0o600)
        const line = lineOf(Buffer.from(`${id} ${position.segment} ${position.offset}`.padEnd(settledBytes)))
        writeSync(settledFd, line, 0, line.length, 0)
        removeSettled(position)
      } catch (error) {
        warn(error)
      }
    },

    close() {
      try {
        if (current) {
          fdatasyncSync(current.fd)
          closeSync(current.fd)
          current = undefined
          if (settled) removeSettled(settled)
        }
        if (settledFd !== undefined) closeSync(settledFd)
      } catch (error) {
        warn(error)
      } finally {
        unlock()
      }
    },
  }
}

/** All of it, or nothing. */
function writeLine(fd: number, line: Buffer, offset: number): void {
  try {
    for (let written = 0; written < line.length; ) {
      written += writeSync(fd, line, written, line.length - written, offset + written)
    }
  } catch (error) {
    ftruncateSync(fd, offset)
    throw error
  }
}

/** A text with its checksum in front. */
function lineOf(text: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(checksumOf(text)), text, recordEnd])
}

function checksumOf(text: Uint8Array): string {
  const digits = crc32(text).toString(16)
  return `${digits.padStart(checksumLength - 1, '0')} `
}

/** The text of a line; undefined if it is not what was written. */
function textOf(line: Buffer): Buffer | undefined {
  const text = line.subarray(checksumLength)
  return line.toString('latin1', 0, checksumLength) === checksumOf(text) ? Buffer.from(text) : undefined
}

/** A position in the spool of this id. */
interface Settled extends SpoolPosition {
  id: string
}

/** Undefined for what is missing, cut or damaged. */
function readSettled(path: string): Settled | undefined {
  let line: Buffer
  try {
    line = readFileSync(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return undefined
  }
  const text = textOf(line.subarray(0, checksumLength + settledBytes))?.toString()
  const [, id, segment, offset] = /^([0-9a-f]{16}) (\d+) (\d+) *$/.exec(text ?? '') ?? []
  return id === undefined ? undefined : { id, segment: Number(segment), offset: Number(offset) }
}

/** What a segment holds; without a header, its first line is damaged or cut. */
interface SegmentContent {
  segment: number
  size: number
  header: { id: string; projectId: string } | undefined
  events: SpooledEvent[]
  /** Where each event ends that cannot be read. */
  damaged: number[]
}

function segmentsIn(directory: string): number[] {
  return readdirSync(directory)
    .map((name) => Number(namePattern.exec(name)?.[1] ?? Number.NaN))
    .filter((segment) => !Number.isNaN(segment))
    .sort((a, b) => a - b)
}

function readSegment(bytes: Buffer, segment: number): SegmentContent {
  const content: SegmentContent = { segment, size: bytes.length, header: undefined, events: [], damaged: [] }
  let start = 0
  let isAfterDamage = false
  for (let end = bytes.indexOf(lineFeed); end !== -1; end = bytes.indexOf(lineFeed, start)) {
    const text = textOf(bytes.subarray(start, end))
    const isEmpty = start === end
    // a line that was damaged into two is one event
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

/** What is not settled, and deletes segments of which nothing is left. */
function takeLeft(found: readonly SegmentContent[], known: Settled | undefined, pathOf: (segment: number) => string) {
  const left: SpooledEvent[] = []
  const tooLarge: SpooledEvent[] = []
  /** Where each one ends. */
  const segments: SpoolPosition[] = []
  let damaged = 0
  // a position ahead of the data, or of another spool, would delete events that were never stored
  const isBelieved = found.some(
    ({ segment, header, size }) => segment === known?.segment && header?.id === known.id && size >= known.offset,
  )
  for (const { segment, header, events, damaged: damagedAt } of found) {
    const settled = isBelieved && header?.id === known?.id ? (known as Settled) : undefined
    const isLeft = (offset: number) =>
      settled === undefined || segment > settled.segment || (segment === settled.segment && offset > settled.offset)
    damaged += damagedAt.filter(isLeft).length
    const here = events.filter(({ spooledTo }) => isLeft(spooledTo?.offset ?? 0))
    const sendable = here.filter(({ bytes }) => bytes.length <= eventBytesMax)
    for (const event of here) (event.bytes.length <= eventBytesMax ? left : tooLarge).push(event)
    const end = sendable.at(-1)?.spooledTo
    if (end) segments.push(end)
    else rmSync(pathOf(segment))
  }
  return { left, damaged, tooLarge, segments }
}
