import { randomBytes } from 'node:crypto'
import { closeSync, constants, existsSync, linkSync, openSync, rmSync, writeSync } from 'node:fs'
import { IngestError } from '@ingest/core'
import {
  type DirectoryLock,
  isDiskFull,
  isPermissionDenied,
  lockDirectory,
  makeDirectory,
  permissionDenied,
} from '@ingest/core/internal'
import { eventBytesMax } from '../batch/fill-batch.ts'
import { createSegmentWriter, type Segment, segmentBytesMax } from './segment-writer.ts'
import {
  damagedPath,
  encodeHeader,
  encodeSettled,
  foreignFile,
  readHeader,
  readSegment,
  readSettled,
  type SegmentContent,
  type SettledPosition,
  type SpooledEvent,
  type SpoolPosition,
  segmentNumbers,
  segmentPath,
  settledPath,
} from './spool-format.ts'

export type { SpooledEvent, SpoolPosition } from './spool-format.ts'

/** The on-disk events of a sender that are not known to be stored. */
export interface Spool {
  /** The number and bytes of events left by an earlier process. */
  readonly left: { events: number; bytes: number }
  /** The number of damaged events left by it; a truncated last one is not counted. */
  readonly damaged: number
  /** Left events that are larger than a batch. */
  readonly tooLarge: readonly SpooledEvent[]
  /** Whether an event of this size would exceed `bytesMax`. */
  isFull(bytes: number): boolean
  /**
   * Undefined while the spool is intact. If its directory was deleted or moved, or taken over by another process while
   * this one was stopped: a new, empty spool, or one in memory only, with a process warning.
   */
  renew(): Spool | undefined
  /** If this returns a position, the event survives the end of the process; undefined if it could not be written. */
  append(bytes: Uint8Array): SpoolPosition | undefined
  /** The unsettled events after this position in the first segment that has any. */
  readAfter(position: SpoolPosition): SpooledEvent[]
  /** Marks all events up to this position as stored or dropped. */
  settle(position: SpoolPosition): void
  close(): void
}

export interface SpoolOptions {
  /** Undefined to keep events in memory only. */
  directory: string | undefined
  projectId: string
  /** Maximum bytes of all segments, at least {@link spoolBytesMin}. */
  bytesMax: number
}

/** Only full segments are deleted: a smaller spool could fill up with a segment that is never deleted. */
export const spoolBytesMin = 2 * segmentBytesMax
/** Maximum number of damaged segments that are kept, each of about `segmentBytesMax`. */
export const damagedSegmentsMax = 16

/**
 * Opens a directory of segments, `0000000000000001.spool` and so on, with one event a line, in the order of `append`.
 * The first line of a segment names its spool and project. The file `settled` holds the position up to which events are
 * stored or dropped; segments before it are deleted. Each line starts with the CRC-32 of its rest, so that damage is
 * detected and loses only the damaged events. A segment with damaged events is kept as
 * `0000000000000001.spool.damaged`, with a process warning; only the newest {@link damagedSegmentsMax} are kept.
 *
 * Plain files suffice because events are only appended at the end and deleted at the start. A line is one `write`, a
 * thousandth of the cost of a durable transaction; a game server has to compile nothing; and operators can read, count
 * and resend the events by hand.
 *
 * A line is written before `append` returns, so it survives the end of the process, also by SIGKILL. It is not synced:
 * power loss may lose the lines of the last seconds. A segment and its name are synced when it is full and on close.
 * `settled` is not synced, and is only used if its position exists; otherwise events are sent twice and stored once.
 *
 * If the disk is full, nothing is read or written, and a process warning is emitted.
 *
 * @throws {IngestError} `permission-denied`; `invalid-argument` if another process uses the spool, for events of
 *   another project, and for files that cannot be used, such as a directory in place of a segment
 */
export function openSpool(options: SpoolOptions): Spool {
  const { directory } = options
  if (directory === undefined) return noSpool
  try {
    return lockAndOpen({ ...options, directory })
  } catch (error) {
    if (!isDiskFull(error)) throw toSpoolError(error, directory)
    return memoryOnly(directory, error)
  }
}

type LockedOptions = SpoolOptions & { directory: string }

function lockAndOpen(options: LockedOptions, isAnew = false): Spool {
  makeDirectory(options.directory)
  const lock = lockDirectory(options.directory)
  try {
    return openLocked(options, lock, isAnew)
  } catch (error) {
    lock.unlock()
    throw error
  }
}

/** Opens a new spool to replace a lost one. Events in the directory are left to the next process. */
function openAnew(options: LockedOptions): Spool {
  const { directory } = options
  const reason = 'was deleted or moved, or taken over by another process while this one was stopped'
  process.emitWarning(`${directory} ${reason}: events that are in memory are written to it again.`)
  try {
    return lockAndOpen(options, true)
  } catch (error) {
    return memoryOnly(directory, error)
  }
}

function memoryOnly(directory: string, error: unknown): Spool {
  const { message } = error as Error
  process.emitWarning(`${directory} cannot be used, events are in memory only until a restart: ${message}`)
  return noSpool
}

/** Keeps events in memory only. */
const noSpool: Spool = {
  left: { events: 0, bytes: 0 },
  damaged: 0,
  tooLarge: [],
  isFull: () => false,
  renew: () => undefined,
  append: () => undefined,
  readAfter: () => [],
  settle() {},
  close() {},
}

/** Adds the file to an error of the file system. */
function toSpoolError(error: unknown, directory: string): unknown {
  const { path = directory, code, message } = error as NodeJS.ErrnoException
  if (error instanceof IngestError || code === undefined) return error
  return isPermissionDenied(error) ? permissionDenied(path, error) : foreignFile(path, message, error)
}

function openLocked(options: LockedOptions, lock: DirectoryLock, isAnew: boolean): Spool {
  const { directory, projectId, bytesMax } = options
  const known = readSettled(directory)
  const found = segmentNumbers(directory, '.spool')
  const headers = found.map((segment) => ({ segment, header: readHeader(directory, segment) }))
  checkProject(directory, headers, projectId)
  // the segments name the spool; `settled` may belong to another one. A new id keeps `settled` from applying to earlier
  // segments
  const foundId = isAnew ? undefined : (headers.findLast(({ header }) => header)?.header?.id ?? known?.id)
  const id = foundId ?? randomBytes(8).toString('hex')
  const { left, damaged, tooLarge, segments } = scanUnsettled(directory, isAnew ? [] : found, known)
  // numbers of kept segments are not reused
  const numbers = [...found, ...segmentNumbers(directory, '.spool.damaged')]
  const last = Math.max(known?.id === id ? known.segment : 0, ...numbers)
  const writer = createSegmentWriter(directory, encodeHeader(id, projectId), last, segments)
  let settledFd: number | undefined
  let settled: SpoolPosition | undefined
  let isWarned = false

  function warn(error: unknown): void {
    if (isWarned) return
    isWarned = true
    process.emitWarning(`${directory} cannot be written, events are in memory only: ${(error as Error).message}`)
  }

  function abandon(): void {
    try {
      writer.abandon()
      if (settledFd !== undefined) closeSync(settledFd)
    } finally {
      lock.unlock()
    }
  }

  return {
    left,
    damaged,
    tooLarge,
    isFull: (bytes) => writer.bytes() + bytes > bytesMax,

    renew() {
      if (lock.isHeld() && writer.hasPath()) return undefined
      abandon()
      return openAnew(options)
    },

    append(bytes) {
      try {
        const position = writer.append(bytes)
        isWarned = false
        return position
      } catch (error) {
        warn(error)
        return undefined
      }
    },

    readAfter({ segment, offset }) {
      for (const each of segments) {
        if (each.segment < segment || (each.segment === segment && each.offset <= offset)) continue
        const after = Math.max(each.settledTo, each.segment === segment ? offset : 0)
        const events = readUnsettled(directory, each.segment, after)
        if (events.length > 0) return events
      }
      return []
    },

    settle(position) {
      settled = position
      try {
        settledFd ??= openSync(settledPath(directory), constants.O_RDWR | constants.O_CREAT, 0o600)
        const line = encodeSettled({ id, ...position })
        writeSync(settledFd, line, 0, line.length, 0)
      } catch (error) {
        warn(error)
      }
      try {
        // even if the position was not written, because this frees a full disk
        writer.removeUntil(position)
      } catch (error) {
        warn(error)
      }
    },

    close() {
      try {
        writer.close()
        if (settled) writer.removeUntil(settled)
        if (settledFd !== undefined) closeSync(settledFd)
      } catch (error) {
        warn(error)
      } finally {
        lock.unlock()
      }
    },
  }
}

type Header = Pick<SegmentContent, 'segment' | 'header'>

function checkProject(directory: string, found: readonly Header[], projectId: string): void {
  for (const { header, segment } of found) {
    if (header === undefined || header.projectId === projectId) continue
    throw new IngestError(
      'invalid-argument',
      `${segmentPath(directory, segment)} has events of the project ${header.projectId}: each project needs its own directory.`,
    )
  }
}

/**
 * Counts the events after the settled position, and deletes segments without any. Only one segment at a time is in
 * memory, because a spool may be larger than memory.
 */
function scanUnsettled(directory: string, found: readonly number[], known: SettledPosition | undefined) {
  const left = { events: 0, bytes: 0 }
  const tooLarge: SpooledEvent[] = []
  const segments: Segment[] = []
  let damaged = 0
  const isUsable =
    known !== undefined && found.includes(known.segment) && isEventEnd(readSegment(directory, known.segment), known)
  for (const segment of found) {
    const content = readSegment(directory, segment)
    const settled = isUsable && content.header?.id === known.id ? known : undefined
    const settledTo = settledIn(segment, settled)
    const lost = content.damaged.filter((offset) => offset > settledTo).length
    if (lost > 0) keepDamaged(directory, segment, lost)
    damaged += lost
    const unsettled = content.events.filter(({ spooledTo }) => spooledTo.offset > settledTo)
    const sendable = unsettled.filter(isSendable)
    left.events += sendable.length
    for (const { bytes } of sendable) left.bytes += bytes.length
    tooLarge.push(...unsettled.filter((event) => !isSendable(event)))
    const end = sendable.at(-1)?.spooledTo
    if (end) segments.push({ ...end, settledTo })
    else rmSync(segmentPath(directory, segment))
  }
  if (damaged > 0) removeOldDamaged(directory)
  return { left, damaged, tooLarge, segments }
}

function isSendable({ bytes }: SpooledEvent): boolean {
  return bytes.length <= eventBytesMax
}

/** The offset up to which the events of a segment are settled. */
function settledIn(segment: number, settled: SettledPosition | undefined): number {
  if (settled === undefined || segment > settled.segment) return 0
  return segment === settled.segment ? settled.offset : Number.POSITIVE_INFINITY
}

/**
 * The events after this offset; some are missing if the segment was deleted or damaged since it was scanned. Throws if
 * it cannot be read now, for example for lack of file descriptors.
 */
function readUnsettled(directory: string, segment: number, after: number): SpooledEvent[] {
  try {
    const { events, damaged } = readSegment(directory, segment)
    const lost = damaged.filter((offset) => offset > after).length
    if (lost > 0 && !existsSync(damagedPath(directory, segment))) keepDamaged(directory, segment, lost)
    return events.filter((event) => event.spooledTo.offset > after && isSendable(event))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    process.emitWarning(`${segmentPath(directory, segment)} cannot be read: ${(error as Error).message}`)
    return []
  }
}

/**
 * Whether a position is the end of an event of this segment. If it belongs to another spool, is ahead of the data, or
 * precedes a conversion of the line ends by another program, using it would delete events that were never stored.
 */
function isEventEnd({ segment, header, hasEmptyLines, events }: SegmentContent, known: SettledPosition): boolean {
  if (segment !== known.segment || header?.id !== known.id || !hasEmptyLines) return false
  // the position may be after one or both line feeds
  return events.some(({ spooledTo }) => spooledTo?.offset === known.offset || spooledTo?.offset === known.offset - 1)
}

/** Keeps a segment under another name; the original is deleted when its intact events are settled. */
function keepDamaged(directory: string, segment: number, lost: number): void {
  const path = segmentPath(directory, segment)
  const kept = damagedPath(directory, segment)
  try {
    linkSync(path, kept)
  } catch (error) {
    // kept by an earlier process that did not settle its intact events
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  const events = `${lost} event${lost === 1 ? '' : 's'}`
  process.emitWarning(`${path} is damaged: ${events} dropped, intact events are sent, the file is kept as ${kept}`)
}

function removeOldDamaged(directory: string): void {
  for (const segment of segmentNumbers(directory, '.spool.damaged').slice(0, -damagedSegmentsMax)) {
    const path = damagedPath(directory, segment)
    rmSync(path)
    process.emitWarning(`${path} is deleted: at most ${damagedSegmentsMax} damaged files are kept`)
  }
}
