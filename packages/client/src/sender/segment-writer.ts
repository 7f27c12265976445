import { closeSync, fdatasync, fdatasyncSync, ftruncateSync, openSync, rmSync, writeSync } from 'node:fs'
import { hasPath, syncDirectory, syncDirectoryNow } from '@ingest/core/internal'
import { encodeLine, type SpoolPosition, segmentPath } from './spool-format.ts'

/** A segment of this size is full. */
export const segmentBytesMax = 1024 * 1024

/** A segment that is not deleted; its position is the end of its last event. */
export interface Segment extends SpoolPosition {
  /** The offset up to which its events were settled when the spool was opened. */
  settledTo: number
}

/**
 * Appends lines to segments, and deletes settled ones. It never appends to a segment of an earlier process, whose last
 * line may be truncated.
 */
export function createSegmentWriter(directory: string, header: Buffer, lastSegment: number, segments: Segment[]) {
  let last = lastSegment
  /** Full segments that are being synced. */
  const full = new Set<number>()
  let current: { fd: number; position: SpoolPosition } | undefined
  let bytes = segments.reduce((sum, { offset }) => sum + offset, 0)

  function begin(): { fd: number; position: SpoolPosition } {
    const position = { segment: ++last, offset: 0, settledTo: 0 }
    const fd = openSync(segmentPath(directory, position.segment), 'wx', 0o600)
    segments.push(position)
    return { fd, position }
  }

  function write({ fd, position }: { fd: number; position: SpoolPosition }, line: Buffer): void {
    writeLine(fd, line, position.offset)
    position.offset += line.length
    bytes += line.length
  }

  return {
    bytes: () => bytes,

    /** Whether the current segment still has its path. */
    hasPath: () => current === undefined || hasPath(current.fd, segmentPath(directory, current.position.segment)),

    append(bytes: Uint8Array): SpoolPosition {
      current ??= begin()
      const { fd, position } = current
      if (position.offset === 0) write(current, header)
      write(current, encodeLine(bytes))
      const end = { segment: position.segment, offset: position.offset }
      if (position.offset >= segmentBytesMax) {
        current = undefined
        full.add(fd)
        fdatasync(fd, () => {
          full.delete(fd)
          closeSync(fd)
          // `close` reports disk errors
          syncDirectory(directory).catch(() => {})
        })
      }
      return end
    },

    /** Deletes the segments whose events all end at or before this position. */
    removeUntil({ segment, offset }: SpoolPosition): void {
      for (let first = segments[0]; first; first = segments[0]) {
        const isSettled =
          first.segment < segment ||
          // the position may be after one or both line feeds
          (first.segment === segment && first.offset <= offset + 1 && first !== current?.position)
        if (!isSettled) return
        rmSync(segmentPath(directory, first.segment), { force: true })
        segments.shift()
        bytes -= first.offset
      }
    },

    /** Closes the segment without syncing it. */
    abandon(): void {
      if (current) closeSync(current.fd)
      current = undefined
    },

    /** Syncs everything this process has written, and the names of its segments. */
    close(): void {
      if (last === lastSegment) return
      for (const fd of full) fdatasyncSync(fd)
      if (current) {
        fdatasyncSync(current.fd)
        closeSync(current.fd)
      }
      current = undefined
      syncDirectoryNow(directory)
    },
  }
}

/** Writes the whole line or none of it. */
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
