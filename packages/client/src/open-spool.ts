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
import { lockDirectory } from './lock-directory.ts'

/** Where a line ends. */
export interface SpoolPosition {
  segment: number
  offset: number
}

export interface SpooledEvent {
  bytes: Buffer
  /** Undefined for what could not be written, and so is in memory alone. */
  spooledTo: SpoolPosition | undefined
}

/** What a sender has not got rid of yet, on disk. */
export interface Spool {
  /** What an earlier process has left, oldest first. */
  readonly left: SpooledEvent[]
  /** Lines of it that could not be read, other than a last one that was cut. */
  readonly damaged: number
  /** Once it returns, the event outlives this process, however that ends; undefined when it could not be written. */
  append(bytes: Uint8Array): SpoolPosition | undefined
  /** Everything up to this position is done with. */
  settle(position: SpoolPosition): void
  close(): void
}

/** From this size on, a segment gets no further line. */
export const segmentBytesMax = 1024 * 1024

const namePattern = /^(\d{16})\.ndjson$/
const lineEnd = Buffer.from('\n')
const noBytes = Buffer.alloc(0)

/**
 * Opens a directory of segments, `0000000000000001.ndjson` and so on: an event a line, in the order in which they came.
 * The file `settled` holds the position up to which they are done with; what is before it is deleted segment by segment.
 *
 * Plain files and no database, because all that is ever done is to write at the end and delete at the start; because a
 * line is one `write`, a thousandth of what a durable transaction costs; because it needs nothing that has to be
 * compiled on a game server; and because anybody can read, count and send them again by hand.
 *
 * A line is handed to the operating system before `append` returns, so it survives the end of the process, also by
 * SIGKILL. It is not synced: a power cut may take the lines of the last seconds. A segment is synced when it is full,
 * and the last one on closing. `settled` is not synced either: what comes back by that is sent twice and stored once.
 *
 * @throws {IngestError} `invalid-argument` while another process has it, and what the file system says.
 */
export function openSpool(directory: string): Spool {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const unlock = lockDirectory(directory)
  try {
    return open(directory, unlock)
  } catch (error) {
    unlock()
    throw error
  }
}

function open(directory: string, unlock: () => void): Spool {
  const pathOf = (segment: number) => join(directory, `${String(segment).padStart(16, '0')}.ndjson`)
  const settledPath = join(directory, 'settled')
  let settled = readSettled(settledPath)
  const { left, damaged, segments } = readSegments(directory, pathOf, settled)
  let last = Math.max(settled.segment, ...segments.map(({ segment }) => segment))
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

    append(bytes) {
      try {
        current ??= begin()
        const { fd, position } = current
        writeLine(fd, Buffer.concat([bytes, lineEnd]), position.offset)
        position.offset += bytes.length + lineEnd.length
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
        writeSync(settledFd, `${position.segment} ${position.offset}\n`.padStart(40), 0)
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
          removeSettled(settled)
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

function readSettled(path: string): SpoolPosition {
  let text = ''
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const [, segment = 0, offset = 0] = /^ *(\d+) (\d+)\n$/.exec(text) ?? []
  return { segment: Number(segment), offset: Number(offset) }
}

function readSegments(directory: string, pathOf: (segment: number) => string, settled: SpoolPosition) {
  const left: SpooledEvent[] = []
  /** Where each one ends. */
  const segments: SpoolPosition[] = []
  let damaged = 0
  for (const segment of segmentsIn(directory)) {
    const start = segment === settled.segment ? settled.offset : 0
    const isNew = segment >= settled.segment
    const { events, unreadable } = readSegment(isNew ? readFileSync(pathOf(segment)) : noBytes, segment, start)
    damaged += unreadable
    const end = events.at(-1)?.spooledTo
    if (!end) {
      rmSync(pathOf(segment))
      continue
    }
    for (const event of events) left.push(event)
    segments.push(end)
  }
  return { left, damaged, segments }
}

function segmentsIn(directory: string): number[] {
  return readdirSync(directory)
    .map((name) => Number(namePattern.exec(name)?.[1] ?? Number.NaN))
    .filter((segment) => !Number.isNaN(segment))
    .sort((a, b) => a - b)
}

function readSegment(text: Buffer, segment: number, start: number) {
  const events: SpooledEvent[] = []
  let unreadable = 0
  let end = start
  for (let next = text.indexOf(lineEnd, end); next !== -1; next = text.indexOf(lineEnd, end)) {
    const bytes = Buffer.from(text.subarray(end, next))
    end = next + lineEnd.length
    if (isObjectText(bytes)) events.push({ bytes, spooledTo: { segment, offset: end } })
    else unreadable++
  }
  return { events, unreadable }
}

function isObjectText(bytes: Buffer): boolean {
  try {
    const value = JSON.parse(bytes.toString())
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}
