import { IngestError, type Totals } from '@ingest/core'
import type { Environment, Table } from '../environment/environment.ts'
import { projectKey, sequenceKey } from '../environment/row-keys.ts'
import { fingerprint } from '../ids/fingerprint.ts'
import { createEventLog, openEventLogTables } from '../log/event-log.ts'
import { countedBytes, decodeRecord, fingerprintsIn, payloadOf, storedOrdinal } from '../log/record.ts'
import { hasFrozenBuild } from '../tables/newest-builds.ts'
import { readUnpurged } from '../writer/erasures.ts'
import { createIndexComparison, type IndexedIds } from './check-index.ts'
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
  const { environment, report, onSlice } = options
  const check = createRecordCheck(options)
  for (let next = 1; ; ) {
    environment.root.resetReadTxn()
    check.beginSlice()
    const last = check.log.lastSequence()
    const until = performance.now() + sliceMs
    while (next <= last && (next % recordsPerClockRead !== 0 || performance.now() < until)) check.record(next++)
    if (next > last) {
      checkCounters(environment, last, check.seen(), report)
      check.endIndex()
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

/** What the records of the log say together. */
interface SeenRecords {
  /** The projects by number. */
  projects: ReadonlyMap<number, ProjectState>
  /** Whether a record is damaged, which may be of any project. */
  isDamaged: boolean
  /** Whether events were erased meanwhile, which changes the bytes of records that were read. */
  isErasing: boolean
}

/** Builds that are remembered as frozen, for each project. */
const frozenBuildsMax = 4096

function createRecordCheck({ environment, hashKey, report, indexed }: LogCheckOptions) {
  const tables = openEventLogTables(environment.table)
  const log = createEventLog(tables)
  const numbers = environment.table('project-numbers')
  const projects = new Map<number, ProjectState>()
  const comparison = createIndexComparison(indexed, report)
  // an earlier version has no list
  const isListed = [...tables.newestBuilds.getKeys({ limit: 1 })].length > 0
  let lastAt = Number.NEGATIVE_INFINITY
  let isDamaged = false
  /** As of the last slice. */
  let erasures: number | undefined
  let isErasing = false

  function checkRecord(record: Buffer | undefined, sequence: number): void {
    const { project, ordinal, receivedAt, events } = decodeRecord(record, sequence)
    const state = projects.get(project) ?? newState(numbers, project)
    projects.set(project, state)
    const { projectId, totals, frozen } = state
    const problem = (text: string, part: 'log' | 'freezes' = 'log') =>
      addProblem(report, { part, message: `Record ${sequence} ${text}.`, record: sequence, projectId })
    const fingerprints = fingerprintsIn(record as Buffer)
    comparison.add(sequence, fingerprints)
    if (receivedAt < lastAt) problem('was received before the previous one')
    lastAt = Math.max(lastAt, receivedAt)
    if (projectId === undefined) problem(`is of project number ${project}, which has no name`)
    if (!tables.projectLog.doesExist(projectKey(project, sequenceKey(sequence)))) {
      problem('is not in the log of its project, whose readers skip it')
    }
    count(events, totals, report)
    if (!isDamaged && ordinal !== storedOrdinal(totals.batches)) {
      problem(`is batch ${ordinal} of its project, and the log has ${totals.batches} up to it`)
    }
    const { hashes, builds } = readEvents(hashKey, projectId, events, payloadOf(record as Buffer))
    for (let misses = differing(project, hashes, fingerprints); misses > 0; misses--) {
      problem('has an event whose fingerprint is not that of its id')
    }
    for (const buildId of builds) {
      if (frozen.has(buildId)) continue
      if (frozen.size < frozenBuildsMax) frozen.add(buildId)
      const frozenAt = log.frozenAt(project, buildId)
      if (frozenAt === undefined) problem('has an event of a build that is not frozen', 'freezes')
      else if (isListed && !hasFrozenBuild(tables.newestBuilds, project, buildId, frozenAt)) {
        problem('has an event of a build that the list of the newest lacks', 'freezes')
      }
    }
  }

  return {
    log,
    seen: (): SeenRecords => ({ projects, isDamaged, isErasing }),
    endIndex: () => comparison.end(isDamaged),

    beginSlice(): void {
      const count = readUnpurged(tables.unpurged).events
      isErasing ||= count !== (erasures ?? count)
      erasures = count
    },

    record(sequence: number): void {
      let bytes: Buffer | undefined
      try {
        bytes = tables.log.getBinary(sequenceKey(sequence))
        checkRecord(bytes, sequence)
      } catch (error) {
        isDamaged = true
        addProblem(report, { part: 'log', message: describeReadError(error, sequence), record: sequence })
        // LMDB reads nothing more in a transaction in which it has found damage
        environment.root.resetReadTxn()
      }
      comparison.addChecksum(sequence, bytes)
    },
  }
}

function newState(numbers: Table, project: number): ProjectState {
  const projectId = numbers.getBinary(projectKey(project))?.toString()
  return { projectId, totals: { events: 0, batches: 0, bytes: 0 }, frozen: new Set() }
}

/** Adds the events of a record to the totals of their project and of the store. */
function count(events: readonly Buffer[], totals: Totals, report: StoreReport): void {
  const bytes = countedBytes(events)
  totals.batches++
  totals.events += events.length
  totals.bytes += bytes
  report.events += events.length
  report.bytes += bytes
}

/** How many events have another fingerprint than that of the hash of their id. */
function differing(project: number, hashes: Uint32Array, fingerprints: Uint32Array): number {
  const own = new Uint32Array(2)
  let count = 0
  for (let i = 0; i < hashes.length; i += 2) {
    fingerprint(project, hashes[i] as number, hashes[i + 1] as number, own, 0)
    if (own[0] !== fingerprints[i] || own[1] !== fingerprints[i + 1]) count++
  }
  return count
}

/** Compares the counters with what was read, on the snapshot of the last record. */
function checkCounters({ table }: Environment, last: number, seen: SeenRecords, report: StoreReport): void {
  const problem = (message: string, projectId?: string) => addProblem(report, { part: 'counters', message, projectId })
  const tables = openEventLogTables(table)
  const log = createEventLog(tables)
  const counts = [countRows(tables.log), countRows(tables.projectLog)]
  if (counts.some((count) => count !== last)) {
    problem(`The log ends with record ${last}, has ${counts[0]} records, and ${counts[1]} entries of projects.`)
  }
  if (!areNumbersIntact(table('projects'), table('project-numbers'))) {
    problem('The ids and the numbers of projects do not match.')
  }
  if (seen.isDamaged) return
  for (const [project, { projectId, totals }] of seen.projects) {
    if (!isReadable(() => log.expiredBefore(project))) {
      problem('The end of the expired events of a project is damaged.', projectId)
    }
    const stored = log.totals(project)
    for (const name of ['events', 'batches', 'bytes'] as const) {
      if (stored[name] === totals[name] || (name === 'bytes' && seen.isErasing)) continue
      problem(`The totals of a project say ${stored[name]} ${name}, and the log has ${totals[name]}.`, projectId)
    }
  }
}

/** Whether the two tables of projects name the same ids and numbers. */
function areNumbersIntact(entries: Table, numbers: Table): boolean {
  if (countRows(entries) !== countRows(numbers)) return false
  for (const key of entries.getKeys({})) {
    const number = entries.getBinary(key)?.subarray(0, 4)
    if (number?.length !== 4 || !numbers.getBinary(number)?.equals(key)) return false
  }
  return true
}

function isReadable(read: () => unknown): boolean {
  try {
    read()
    return true
  } catch (error) {
    if (error instanceof IngestError && error.code === 'store-damaged') return false
    throw error
  }
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
