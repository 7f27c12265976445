import { IngestError, type Totals } from '@ingest/core'
import type { Environment, Table } from '../environment/environment.ts'
import { projectKey, sequenceKey } from '../environment/row-keys.ts'
import { fingerprint } from '../ids/fingerprint.ts'
import { createEventLog, openEventLogTables } from '../log/event-log.ts'
import { countedBytes, decodeRecord, fingerprintsIn, payloadOf, readChecksum, storedOrdinal } from '../log/record.ts'
import { readErasures } from '../writer/erasures.ts'
import { compareIndex, type IndexedIds } from './check-index.ts'
import { createIdSums, type IdSums } from './id-sums.ts'
import { readEvents } from './read-events.ts'
import { addProblem, type StoreReport } from './store-report.ts'

export interface LogCheckOptions {
  environment: Environment
  hashKey: Buffer
  report: StoreReport
  /** What the id index holds, if there is one. */
  indexed: IndexedIds | undefined
  /** Called between two snapshots with how many records are done, of how many. */
  onSlice(done: number, total: number): Promise<void>
}

/** How long one snapshot is kept, in milliseconds: pages that are freed meanwhile are not used again. */
const sliceMs = 50
/** How many records are checked between two readings of the clock. */
const recordsPerClockRead = 16

/**
 * Reads the whole log in short snapshots, until it has caught up with what is appended meanwhile: checksums, order,
 * times, the entries of projects, fingerprints and freezes of events, totals, and the id index.
 */
export async function checkLog(options: LogCheckOptions): Promise<void> {
  const { environment, report, indexed, onSlice } = options
  const check = createRecordCheck(options)
  const log = createEventLog(openEventLogTables(environment.table))
  for (let next = 1; ; ) {
    environment.root.resetReadTxn()
    check.beginSlice()
    const last = log.lastSequence()
    const until = performance.now() + sliceMs
    while (next <= last && (next % recordsPerClockRead !== 0 || performance.now() < until)) check.record(next++)
    if (next > last) {
      check.counters(last)
      if (indexed) check.index(indexed)
      report.records = last
      return
    }
    await onSlice(next - 1, last)
  }
}

interface ProjectState {
  projectId: string | undefined
  totals: Totals
  /** Builds that are known to be frozen. */
  frozen: Set<string>
}

/** Builds that are remembered as frozen, for each project. */
const frozenBuildsMax = 4096

function createRecordCheck({ environment, hashKey, report, indexed }: LogCheckOptions) {
  const tables = openEventLogTables(environment.table)
  const eventLog = createEventLog(tables)
  const numbers = environment.table('project-numbers')
  const entries = environment.table('projects')
  const projects = new Map<number, ProjectState>()
  const sums = createIdSums()
  const own = new Uint32Array(2)
  let lastAt = Number.NEGATIVE_INFINITY
  let isDamaged = false
  let watermarkChecksum = 0
  /** As of the last slice. */
  let erasures: number | undefined
  /** Whether events are erased meanwhile, which changes the bytes of records that were read. */
  let isErasing = false

  function beginSlice(): void {
    const count = readErasures(tables.unpurged)
    isErasing ||= count !== (erasures ?? count)
    erasures = count
  }

  function stateOf(project: number): ProjectState {
    const known = projects.get(project)
    if (known) return known
    const projectId = numbers.getBinary(projectKey(project))?.toString()
    const state = { projectId, totals: { events: 0, batches: 0, bytes: 0 }, frozen: new Set<string>() }
    projects.set(project, state)
    return state
  }

  function record(sequence: number): void {
    const problem = (message: string, projectId?: string) =>
      addProblem(report, { part: 'log', message, record: sequence, ...(projectId !== undefined && { projectId }) })
    let bytes: Buffer | undefined
    try {
      bytes = viewOf(tables.log, sequenceKey(sequence))
      checkRecord(bytes, sequence, problem)
    } catch (error) {
      isDamaged = true
      problem(describeReadError(error, sequence))
      // LMDB reads nothing more in a transaction in which it has found damage
      environment.root.resetReadTxn()
    }
    if (sequence === indexed?.watermark) watermarkChecksum = readChecksum(bytes)
  }

  function checkRecord(bytes: Buffer | undefined, sequence: number, problem: (message: string, of?: string) => void) {
    // reading other tables overwrites the view
    const record = bytes && Buffer.from(bytes)
    const { project, ordinal, receivedAt, events } = decodeRecord(record, sequence)
    const { projectId, totals, frozen } = stateOf(project)
    const fingerprints = fingerprintsIn(record as Buffer)
    if (indexed && sequence <= indexed.watermark) addFingerprints(sums, fingerprints, sequence)
    if (receivedAt < lastAt) problem(`Record ${sequence} was received before the previous one.`, projectId)
    lastAt = Math.max(lastAt, receivedAt)
    if (projectId === undefined) problem(`Record ${sequence} is of project number ${project}, which has no name.`)
    if (!tables.projectLog.doesExist(projectKey(project, sequenceKey(sequence)))) {
      problem(`Record ${sequence} is not in the log of its project, whose readers skip it.`, projectId)
    }
    totals.events += events.length
    totals.batches++
    // a damaged record may be of any project
    if (!isDamaged && ordinal !== storedOrdinal(totals.batches)) {
      problem(
        `Record ${sequence} is batch ${ordinal} of its project, and the log has ${totals.batches} up to it.`,
        projectId,
      )
    }
    const counted = countedBytes(events)
    totals.bytes += counted
    report.events += events.length
    report.bytes += counted
    const { hashes, builds } = readEvents(hashKey, projectId, events, payloadOf(record as Buffer))
    for (let i = 0; i < hashes.length; i += 2) {
      fingerprint(project, hashes[i] as number, hashes[i + 1] as number, own, 0)
      if (own[0] === fingerprints[i] && own[1] === fingerprints[i + 1]) continue
      problem(`Record ${sequence} has an event whose fingerprint is not that of its id.`, projectId)
    }
    for (const buildId of builds) {
      if (frozen.has(buildId)) continue
      if (frozen.size >= frozenBuildsMax) frozen.clear()
      frozen.add(buildId)
      if (eventLog.frozenAt(project, buildId) !== undefined) continue
      addProblem(report, {
        part: 'freezes',
        message: `Record ${sequence} has an event of a build that is not frozen.`,
        record: sequence,
        ...(projectId !== undefined && { projectId }),
      })
    }
  }

  /** Compares the counters with what was read, on the snapshot of the last record. */
  function counters(last: number): void {
    const problem = (message: string, projectId?: string) =>
      addProblem(report, { part: 'counters', message, ...(projectId !== undefined && { projectId }) })
    const counts = [countRows(tables.log), countRows(tables.projectLog)]
    if (counts.some((count) => count !== last)) {
      problem(`The log ends with record ${last}, has ${counts[0]} records, and ${counts[1]} entries of projects.`)
    }
    if (!areNumbersIntact()) problem('The ids and the numbers of projects do not match.')
    // a damaged record may be of any project
    if (isDamaged) return
    for (const [project, { projectId, totals }] of projects) {
      if (!isExpiryIntact(project)) problem('The end of the expired events of a project is damaged.', projectId)
      const stored = eventLog.totals(project)
      for (const name of ['events', 'batches', 'bytes'] as const) {
        if (stored[name] === totals[name] || (name === 'bytes' && isErasing)) continue
        problem(`The totals of a project say ${stored[name]} ${name}, and the log has ${totals[name]}.`, projectId)
      }
    }
  }

  /** Whether the two tables of projects name the same ids and numbers. */
  function areNumbersIntact(): boolean {
    if (countRows(entries) !== countRows(numbers)) return false
    for (const key of entries.getKeys({})) {
      const number = entries.getBinary(key)?.subarray(0, 4)
      if (number?.length !== 4 || !numbers.getBinary(number)?.equals(key)) return false
    }
    return true
  }

  function isExpiryIntact(project: number): boolean {
    try {
      return eventLog.expiredBefore(project) >= 0
    } catch (error) {
      if (error instanceof IngestError && error.code === 'store-damaged') return false
      throw error
    }
  }

  function index(ids: IndexedIds): void {
    if (ids.watermark > 0 && watermarkChecksum !== ids.watermarkChecksum) {
      addProblem(report, {
        part: 'index',
        message: `The id index ends with record ${ids.watermark}, and the log has another record of that number.`,
        record: ids.watermark,
      })
    }
    if (!isDamaged) compareIndex(ids, sums, report)
  }

  return { beginSlice, record, counters, index }
}

function addFingerprints(sums: IdSums, fingerprints: Uint32Array, sequence: number): void {
  for (let i = 0; i * 2 < fingerprints.length; i++) {
    sums.add(fingerprints[i * 2] as number, fingerprints[i * 2 + 1] as number, sequence, i)
  }
}

/** The bytes of a row, in memory that the next read overwrites. */
function viewOf(table: Table, key: Buffer): Buffer | undefined {
  const bytes = table.getBinaryFast(key)
  // lmdb returns a buffer that is larger than it says
  return bytes && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}

function countRows(table: Table): number {
  return (table.getStats() as { entryCount: number }).entryCount
}

/** @throws what is no damage */
function describeReadError(error: unknown, sequence: number): string {
  if (error instanceof IngestError && (error.code === 'store-damaged' || error.code === 'malformed-body')) {
    return `Record ${sequence} of the log is damaged.`
  }
  if (error instanceof SyntaxError) return `Record ${sequence} of the log has an event that is not JSON.`
  // errors of lmdb have a number as their code
  if (typeof (error as { code?: unknown }).code !== 'number') throw error
  return `Record ${sequence} of the log cannot be read: ${(error as Error).message}.`
}
