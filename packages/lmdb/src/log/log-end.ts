import { IngestError } from '@ingest/core'
import type { EventLog } from './event-log.ts'

/** The last record of the log, as a process has seen it: committed by itself, or by another process. */
export interface LogEnd {
  /** The number of the record; 0 for an empty log. */
  sequence: number
  /** The checksum with which the record was stored. */
  checksum: number
}

/** The last record on the current snapshot. */
export function readLogEnd(log: EventLog): LogEnd & { receivedAt: number } {
  const sequence = log.lastSequence()
  if (sequence === 0) return { sequence, checksum: 0, receivedAt: Number.NEGATIVE_INFINITY }
  const { checksum, receivedAt } = log.header(sequence)
  return { sequence, checksum, receivedAt }
}

/**
 * Checks that a log whose last record is `last` still has the record that was last seen: a committed record never
 * disappears.
 *
 * @throws {IngestError} `store-failed`
 */
export function checkSeen(log: EventLog, seen: LogEnd, last: LogEnd): void {
  const loss = lossBetween(seen.sequence, last.sequence)
  if (loss) throw loss
  if (seen.sequence === 0) return
  const { checksum } = seen.sequence === last.sequence ? last : log.header(seen.sequence)
  if (checksum !== seen.checksum) {
    throw lost(
      `Record ${seen.sequence} of the log is not the one that was stored: it is lost, and records before it may be`,
    )
  }
}

/** The `store-failed` of a log that ends before a record that was seen. */
export function lossBetween(seen: number, last: number): IngestError | undefined {
  return last < seen ? lost(`Records ${last + 1} to ${seen} of the log were stored and are lost`) : undefined
}

function lost(what: string): IngestError {
  const remedy =
    'stop every process on the directory, copy it, check it with `ingest verify`, and restore a backup or send the lost events again'
  return new IngestError('store-failed', `${what}: ${remedy}.`)
}
