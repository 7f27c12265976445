import type { ExpiryStep } from '@ingest/core'
import type { Table } from '../environment/environment.ts'
import { sequenceKey } from '../environment/row-keys.ts'
import { checkListed, type EventLog, type EventLogTables } from '../log/event-log.ts'
import { eraseFromRecord, inlineBytesMax, readHeader } from '../log/record.ts'
import type { Appender } from './append-batch.ts'

/** The steps of erasing, and what each returns. */
export interface ErasureResults {
  /** How many events it erased. */
  erase: {
    step: { type: 'erase'; project: number; eventIds: string[]; fingerprints: Uint32Array }
    result: number
  }
  expire: { step: { type: 'expire'; project: number; before: number }; result: ExpiryStep }
  /** Cleans leaf pages that an erasure has rewritten; returns whether some are left. */
  cleanLeaves: { step: { type: 'cleanLeaves' }; result: boolean }
  /** Takes free pages, and fills them with zeros. The writer returns by how many pages this made the file grow. */
  fillPages: { step: { type: 'fillPages'; prefix: Uint8Array; from: number; count: number }; result: number }
  /** Frees some pages that were filled; returns whether some are left. */
  freePages: { step: { type: 'freePages'; prefix: Uint8Array }; result: boolean }
  /** Records that a purge is complete, if nothing was erased since it began. */
  endPurge: { step: { type: 'endPurge'; erasures: number }; result: true }
}

export type ErasureType = keyof ErasureResults
export type ErasureStep = ErasureResults[ErasureType]['step']
export type ErasureResult = ErasureResults[ErasureType]['result']

/** Limits of one expiry, which takes a few milliseconds. */
const expiryRecordsMax = 256
const expiryBytesMax = 2 ** 20
/** The most leaf records that one transaction rewrites, and the most filled pages that one frees. */
const leavesPerStep = 512
const freesPerStep = 2048
/** A value that takes a whole page of its own. */
const pageOfZeros = Buffer.alloc(4064)

export interface ErasureTables extends EventLogTables {
  /** Values that fill free pages while a purge runs. */
  scratch: Table
}

/**
 * Runs the steps of erasing; only inside a write transaction, alone: what is rewritten twice in a transaction leaves old
 * bytes behind in its pages.
 */
export function createErasures(
  tables: ErasureTables,
  eventLog: EventLog,
  appender: Appender,
  lastPage: () => number,
): (step: ErasureStep) => ErasureResult {
  const { log, unpurged, scratch } = tables

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
    if (erased.record.length <= inlineBytesMax) unpurged.put(key, nothing)
    appender.reduceBytes(project, erased.bytes)
    return { events: erased.events, bytes: erased.bytes, recordBytes: before?.length ?? 0 }
  }

  function erase({ project, eventIds, fingerprints }: ErasureResults['erase']['step']): number {
    const indexes = new Map<number, Set<number>>()
    for (const position of appender.locate(project, eventIds, fingerprints)) {
      if (!position) continue
      const inRecord = indexes.get(position.sequence) ?? new Set()
      indexes.set(position.sequence, inRecord.add(position.index))
    }
    let events = 0
    for (const [sequence, inRecord] of indexes) {
      events += eraseIn(project, { sequence }, (index) => inRecord.has(index)).events
    }
    if (events > 0) countErasure(unpurged)
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
    if (step.events > 0) countErasure(unpurged)
    const [left] = eventLog.records(project, next, 1)
    return { ...step, isDone: left === undefined || !isOld(left.sequence) }
  }

  function cleanLeaves(): boolean {
    const keys = [...unpurged.getKeys({ start: sequenceKey(1), limit: leavesPerStep })]
    for (const key of keys) {
      // copying a page on write leaves out what is not in use
      const record = log.getBinary(key)
      if (record) log.put(key, record)
      unpurged.remove(key)
    }
    return keys.length === leavesPerStep
  }

  function freePages(prefix: Buffer): boolean {
    const keys = [...scratch.getKeys({ start: prefix, end: endOfPrefix(prefix), limit: freesPerStep })]
    for (const key of keys) scratch.remove(key)
    return keys.length === freesPerStep
  }

  return (step) => {
    switch (step.type) {
      case 'erase':
        return erase(step)
      case 'expire':
        return expire(step)
      case 'cleanLeaves':
        return cleanLeaves()
      case 'fillPages':
        for (let i = 0; i < step.count; i++) scratch.put(scratchKey(step.prefix, step.from + i), pageOfZeros)
        // of the last commit
        return lastPage()
      case 'freePages':
        return freePages(Buffer.from(step.prefix))
      case 'endPurge':
        if (readErasures(unpurged) === step.erasures) unpurged.remove(countKey)
        return true
    }
  }
}

const nothing = Buffer.alloc(0)
/** No record has this number. */
const countKey = sequenceKey(0)

/** How often something was erased since the last complete purge; 0 if there is nothing to purge. */
export function readErasures(unpurged: Table): number {
  return unpurged.getBinary(countKey)?.readDoubleLE() ?? 0
}

function countErasure(unpurged: Table): void {
  // continues from the clock, as a count that starts at 0 again could equal an earlier one
  unpurged.put(countKey, double(Math.max(Date.now(), readErasures(unpurged) + 1)))
}

function double(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeDoubleLE(value)
  return bytes
}

function scratchKey(prefix: Uint8Array, index: number): Buffer {
  const key = Buffer.allocUnsafe(prefix.length + 4)
  key.set(prefix)
  key.writeUInt32BE(index, prefix.length)
  return key
}

/** The end of the keys with this prefix. */
export function endOfPrefix(prefix: Buffer): Buffer {
  return Buffer.concat([prefix, Buffer.alloc(4, 0xff)])
}
