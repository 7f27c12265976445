import type { ExpiryStep } from '@ingest/core'
import type { Rows } from '../environment/environment.ts'
import { sequenceKey } from '../environment/row-keys.ts'
import { checkListed, type EventLog, type EventLogTables } from '../log/event-log.ts'
import { eraseFromRecord, type Position, readHeader } from '../log/record.ts'
import type { Overwritten } from '../pages/free-pages.ts'
import type { Appender } from './append-batch.ts'

/** The steps of erasing, and what each returns. */
export interface ErasureResults {
  /** How many events it erased. */
  erase: {
    step: { type: 'erase'; project: number; eventIds: string[]; fingerprints: Uint32Array }
    result: number
  }
  expire: { step: { type: 'expire'; project: number; before: number }; result: ExpiryStep }
  /** Commits, so that the pages which the last erasure freed are not those of the last snapshot. */
  beginPurge: { step: { type: 'beginPurge' }; result: true }
  overwriteFreePages: { step: { type: 'overwriteFreePages'; before: number; from: number }; result: Overwritten }
  /** Records that a purge is complete of what was counted when it began, if nothing was erased since. */
  endPurge: { step: { type: 'endPurge'; unpurged: Unpurged }; result: true }
}

export type ErasureType = keyof ErasureResults
export type ErasureStep = ErasureResults[ErasureType]['step']
export type ErasureResult = ErasureResults[ErasureType]['result']

/** Limits of one expiry, which takes a few milliseconds. */
const expiryRecordsMax = 256
const expiryBytesMax = 2 ** 20

/**
 * Runs the steps of erasing; only inside a write transaction, alone or with other expiries: what is rewritten twice in a
 * transaction leaves old bytes behind in its pages.
 */
export function createErasures(
  { log, unpurged }: EventLogTables,
  eventLog: EventLog,
  appender: Appender,
  overwrite: (before: number, from: number) => Overwritten,
): (step: ErasureStep) => ErasureResult {
  /** `record` of a project's list, or found by an id in it. */
  function eraseIn(
    project: number,
    record: { sequence: number; ordinal?: number },
    isErased: (index: number) => boolean,
  ) {
    const { sequence, ordinal } = record
    const key = sequenceKey(sequence)
    const before = log.getBinary(key)
    if (ordinal !== undefined) checkListed(readHeader(before, sequence), project, { sequence, ordinal })
    const erased = eraseFromRecord(before, sequence, isErased)
    if (!erased) return { events: 0, bytes: 0, recordBytes: before?.length ?? 0 }
    log.put(key, erased.record)
    appender.reduceBytes(project, erased.bytes)
    return { events: erased.events, bytes: erased.bytes, recordBytes: before?.length ?? 0 }
  }

  function erase({ project, eventIds, fingerprints }: ErasureResults['erase']['step']): number {
    let events = 0
    for (const [sequence, inRecord] of indexesByRecord(appender.locate(project, eventIds, fingerprints))) {
      events += eraseIn(project, { sequence }, (index) => inRecord.has(index)).events
    }
    if (events > 0) countErasure(unpurged, 'events')
    return events
  }

  function expire({ project, before }: ErasureResults['expire']['step']): ExpiryStep {
    const isOld = (sequence: number) => eventLog.header(sequence).receivedAt < before
    const step = { events: 0, bytes: 0 }
    const first = eventLog.expiredBefore(project)
    let next = first
    let bytesLeft = expiryBytesMax
    for (const record of eventLog.records(project, first, expiryRecordsMax)) {
      if (bytesLeft <= 0 || !isOld(record.sequence)) break
      const { events, bytes, recordBytes } = eraseIn(project, record, () => true)
      step.events += events
      step.bytes += bytes
      bytesLeft -= recordBytes
      next = record.sequence + 1
    }
    if (next > first) eventLog.putExpiredBefore(project, next)
    if (step.events > 0) countErasure(unpurged, 'events')
    const [left] = eventLog.records(project, next, 1)
    return { ...step, isDone: left === undefined || !isOld(left.sequence) }
  }

  return (step) => {
    switch (step.type) {
      case 'erase':
        return erase(step)
      case 'expire':
        return expire(step)
      case 'beginPurge':
        for (const of of kinds) unpurged.put(countKeys[of], double(readUnpurged(unpurged)[of]))
        return true
      case 'overwriteFreePages':
        return overwrite(step.before, step.from)
      case 'endPurge':
        for (const of of kinds) {
          if (readUnpurged(unpurged)[of] === step.unpurged[of]) unpurged.remove(countKeys[of])
        }
        return true
    }
  }
}

/** Of the events that were found. */
function indexesByRecord(positions: Iterable<Position | undefined>): Map<number, Set<number>> {
  const indexes = new Map<number, Set<number>>()
  for (const position of positions) {
    if (!position) continue
    const inRecord = indexes.get(position.sequence) ?? new Set()
    indexes.set(position.sequence, inRecord.add(position.index))
  }
  return indexes
}

/** How often events and activity were erased since the last complete purge; 0 if there is nothing to purge. */
export interface Unpurged {
  events: number
  activity: number
}

const kinds = ['events', 'activity'] as const
const countKeys = { events: Buffer.from('erasures'), activity: Buffer.from('activity') }

export function readUnpurged(unpurged: Rows): Unpurged {
  const count = (of: keyof Unpurged) => unpurged.getBinary(countKeys[of])?.readDoubleLE() ?? 0
  return { events: count('events'), activity: count('activity') }
}

/** Only inside a write transaction. */
export function countErasure(unpurged: Rows, of: keyof Unpurged): void {
  // continues from the clock, as a count that starts at 0 again could equal an earlier one
  unpurged.put(countKeys[of], double(Math.max(Date.now(), readUnpurged(unpurged)[of] + 1)))
}

function double(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeDoubleLE(value)
  return bytes
}
