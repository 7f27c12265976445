import type { ExpiryStep } from '@ingest/core'
import { sequenceKey } from '../environment/row-keys.ts'
import { checkListed, type EventLog, type EventLogTables } from '../log/event-log.ts'
import { eraseFromRecord, type Position, readHeader } from '../log/record.ts'
import type { Appender } from './append-batch.ts'

/** The steps of erasing, and their results. */
export interface ErasureResults {
  /** The number of erased events. */
  erase: {
    step: { type: 'erase'; project: number; eventIds: string[]; fingerprints: Uint32Array }
    result: number
  }
  expire: { step: { type: 'expire'; project: number; before: number }; result: ExpiryStep }
}

export type ErasureType = keyof ErasureResults
export type ErasureStep = ErasureResults[ErasureType]['step']
export type ErasureResult = ErasureResults[ErasureType]['result']

/** Limits of one expiry, which takes a few milliseconds. */
const expiryRecordsMax = 256
const expiryBytesMax = 2 ** 20

/** Runs the steps of erasing; only inside a write transaction. */
export function createErasures(
  { log }: EventLogTables,
  eventLog: EventLog,
  appender: Appender,
): (step: ErasureStep) => ErasureResult {
  /** Erases events of a record that is in the list of a project, or that was found by an id. */
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
    const [left] = eventLog.records(project, next, 1)
    return { ...step, isDone: left === undefined || !isOld(left.sequence) }
  }

  return (step) => (step.type === 'erase' ? erase(step) : expire(step))
}

/** The indexes of the events that were found, by record. */
function indexesByRecord(positions: Iterable<Position | undefined>): Map<number, Set<number>> {
  const indexes = new Map<number, Set<number>>()
  for (const position of positions) {
    if (!position) continue
    const inRecord = indexes.get(position.sequence) ?? new Set()
    indexes.set(position.sequence, inRecord.add(position.index))
  }
  return indexes
}
