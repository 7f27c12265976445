import { IngestError } from '@ingest/core'
import { openEntries } from '../entries/entry-tables.ts'
import { openProjects } from '../entries/projects.ts'
import type { Environment, Table } from '../environment/environment.ts'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import { fingerprint } from '../ids/fingerprint.ts'
import { createEventLog, openEventLogTables, type StoredTotals } from '../log/event-log.ts'
import { countedBytes, decodeRecord, fingerprintsIn, payloadOf, storedOrdinal } from '../log/record.ts'
import { hasFrozenBuild } from '../maps/builds.ts'
import type { IndexCheck } from './check-index.ts'
import { readEvents } from './read-events.ts'
import { addProblem, type StoreReport } from './store-report.ts'

export interface LogCheckOptions {
  environment: Environment
  hashKey: Buffer
  report: StoreReport
  index: IndexCheck
  /** Called between two snapshots with the number of checked records, and of all records. */
  onSlice(done: number, total: number): Promise<void>
}

/** The duration of one snapshot, in milliseconds: while it is held, freed pages cannot be reused. */
const sliceMs = 50
/** The number of records that are checked between two readings of the clock. */
const recordsPerClockRead = 16

/**
 * Reads the whole log in short snapshots, until it has caught up with concurrent appends: checksums, order, times, the
 * entries of projects, fingerprints and freezes of events, totals, and whether the id index finds each id.
 */
export async function checkLog(options: LogCheckOptions): Promise<void> {
  const { environment, report, onSlice } = options
  const check = createRecordCheck(options)
  for (let next = 1; ; ) {
    environment.root.resetReadTxn()
    check.beginSlice()
    const last = check.log.lastSequence()
    const until = performance.now() + sliceMs
    while (next <= last && (next % recordsPerClockRead !== 0 || performance.now() < until)) next = check.record(next)
    if (next > last) {
      checkCounters(environment, last, check.seen(), report)
      checkProjects(environment, report)
      options.index.end()
      return
    }
    await onSlice(next - 1, last)
  }
}

interface ProjectState {
  projectId: string | undefined
  totals: StoredTotals
  /** The bytes in the project's totals before the check, plus the bytes of the records that were appended since. */
  expectedBytes: number
  /** Builds that are known to be frozen. */
  frozen: Set<string>
}

/** The state that the records of the log add up to. */
interface SeenRecords {
  /** The projects by number. */
  projects: ReadonlyMap<number, ProjectState>
  /** Whether a record is damaged; it may belong to any project. */
  isDamaged: boolean
}

/** The most frozen builds that are remembered for each project. */
const frozenBuildsMax = 4096

function createRecordCheck({ environment, hashKey, report, index }: LogCheckOptions) {
  const tables = openEventLogTables(environment.table)
  const log = createEventLog(tables)
  const numbers = environment.table('project-numbers')
  const projects = new Map<number, ProjectState>()
  environment.root.resetReadTxn()
  const bytesBefore = readBytes(tables.totals)
  const lastBefore = log.lastSequence()
  let lastAt = Number.NEGATIVE_INFINITY
  let isDamaged = false

  function checkRecord(record: Buffer, sequence: number): void {
    const { project, ordinal, receivedAt, events } = decodeRecord(record, sequence)
    const state = projects.get(project) ?? newState(numbers, project, bytesBefore.get(project))
    projects.set(project, state)
    const { projectId, totals, frozen } = state
    const problem = (text: string, part: 'log' | 'freezes' = 'log') =>
      addProblem(report, { part, message: `Record ${sequence} ${text}.`, record: sequence, projectId })
    const fingerprints = fingerprintsIn(record)
    index.record(sequence, fingerprints)
    if (receivedAt < lastAt) problem('was received before the previous one')
    lastAt = Math.max(lastAt, receivedAt)
    if (projectId === undefined) problem(`is of project number ${project}, which has no name`)
    if (!tables.projectLog.doesExist(projectKey(project, sequenceKey(sequence)))) {
      problem('is not in the log of its project, whose readers skip it')
    }
    const bytes = count(events, totals, report)
    if (sequence > lastBefore) state.expectedBytes += bytes
    if (!isDamaged && ordinal !== storedOrdinal(totals.batches)) {
      problem(`is batch ${ordinal} of its project, and the log has ${totals.batches} up to it`)
    }
    const { hashes, builds } = readEvents(hashKey, projectId, events, payloadOf(record))
    for (let misses = differing(project, hashes, fingerprints); misses > 0; misses--) {
      problem('has an event whose fingerprint is not that of its id')
    }
    for (const buildId of builds) {
      if (frozen.has(buildId)) continue
      if (frozen.size < frozenBuildsMax) frozen.add(buildId)
      const frozenAt = log.frozenAt(project, buildId)
      if (frozenAt === undefined) problem('has an event of a build that is not frozen', 'freezes')
      else if (!hasFrozenBuild(tables.newestBuilds, project, buildId, frozenAt)) {
        problem('has an event of a build that the list of the newest lacks', 'freezes')
      }
    }
  }

  /**
   * Reports the gap before the next record, which is large if the key of the last record is damaged. Returns its end.
   */
  function skipMissing(sequence: number): number {
    isDamaged = true
    const [key] = tables.log.getKeys({ start: sequenceKey(sequence), limit: 1 })
    const found = key ? readSequence(key) : 0
    // a damaged B-tree may contain a cycle
    const next = found > sequence ? found : log.lastSequence() + 1
    const last = next - 1
    const message =
      last === sequence
        ? `Record ${sequence} of the log is missing.`
        : `Records ${sequence} to ${last} of the log are missing.`
    addProblem(report, { part: 'log', message, record: sequence })
    return next
  }

  return {
    log,
    seen: (): SeenRecords => ({ projects, isDamaged }),
    beginSlice: index.beginSlice,

    /** Checks a record; returns the sequence number of the next one. */
    record(sequence: number): number {
      try {
        const record = tables.log.getBinary(sequenceKey(sequence))
        if (!record) return skipMissing(sequence)
        report.records++
        checkRecord(record, sequence)
      } catch (error) {
        isDamaged = true
        addProblem(report, { part: 'log', message: describeReadError(error, sequence), record: sequence })
        // LMDB refuses further reads in a transaction that has found damage
        environment.root.resetReadTxn()
      }
      return sequence + 1
    },
  }
}

function newState(numbers: Table, project: number, expectedBytes = 0): ProjectState {
  const projectId = numbers.getBinary(projectKey(project))?.toString()
  return { projectId, totals: { events: 0, batches: 0, bytes: 0 }, expectedBytes, frozen: new Set() }
}

/** The bytes of each project, from the table of totals. */
function readBytes(totals: Table): Map<number, number> {
  const bytes = new Map<number, number>()
  for (const { key, value } of totals.getRange({})) {
    if (key.length === 4 && value.length === 24) bytes.set(key.readUInt32BE(), value.readDoubleLE(16))
  }
  return bytes
}

/** Adds the events of a record to the totals of their project and of the store. Returns their size in bytes. */
function count(events: readonly Buffer[], totals: StoredTotals, report: StoreReport): number {
  const bytes = countedBytes(events)
  totals.batches++
  totals.events += events.length
  totals.bytes += bytes
  report.events += events.length
  report.bytes += bytes
  return bytes
}

/** The number of events whose fingerprint does not match the hash of their id. */
function differing(project: number, hashes: Uint32Array, fingerprints: Uint32Array): number {
  const own = new Uint32Array(2)
  let count = 0
  for (let i = 0; i < hashes.length; i += 2) {
    fingerprint(project, hashes[i] as number, hashes[i + 1] as number, own, 0)
    if (own[0] !== fingerprints[i] || own[1] !== fingerprints[i + 1]) count++
  }
  return count
}

/** Compares the counters with the records read, on the snapshot of the last record. */
function checkCounters({ table }: Environment, last: number, seen: SeenRecords, report: StoreReport): void {
  const problem = (message: string, projectId?: string) => addProblem(report, { part: 'counters', message, projectId })
  const tables = openEventLogTables(table)
  const log = createEventLog(tables)
  const counts = [countRows(tables.log), countRows(tables.projectLog)]
  if (counts.some((count) => count !== last)) {
    problem(`The log ends with record ${last}, has ${counts[0]} records, and ${counts[1]} entries of projects.`)
  }
  if (seen.isDamaged) return
  for (const [project, { projectId, totals, expectedBytes }] of seen.projects) {
    if (!isReadable(() => log.expiredBefore(project))) {
      problem('The end of the expired events of a project is damaged.', projectId)
    }
    const stored = log.totals(project)
    // events were erased during the check, perhaps after their records were read
    const isErasing = stored.bytes < expectedBytes
    for (const name of ['events', 'batches', 'bytes'] as const) {
      if (stored[name] === totals[name] || (name === 'bytes' && isErasing)) continue
      problem(`The totals of a project say ${stored[name]} ${name}, and the log has ${totals[name]}.`, projectId)
    }
  }
}

/** Checks that the two tables of projects name the same ids and numbers, and that the entries are JSON. */
function checkProjects({ table }: Environment, report: StoreReport): void {
  const problem = (message: string, projectId?: string) => addProblem(report, { part: 'projects', message, projectId })
  const [entries, numbers] = [table('projects'), table('project-numbers')]
  const tables = openEntries(table, openProjects(table))
  let areIntact = countRows(entries) === countRows(numbers)
  for (const key of entries.getKeys({})) {
    const number = entries.getBinary(key)?.subarray(0, 4)
    if (number?.length !== 4 || !numbers.getBinary(number)?.equals(key)) areIntact = false
  }
  if (!areIntact) problem('The ids and the numbers of projects do not match.')
  for (const [kind, what] of [
    ['project', 'keys'],
    ['consumers', 'consumers'],
  ] as const) {
    for (const projectId of tables[kind].ids()) {
      if (!isJson(tables[kind].json(projectId))) problem(`The ${what} of a project are damaged.`, projectId)
    }
  }
}

/** Whether a text is JSON or empty. */
function isJson(text: string): boolean {
  try {
    return text === '' || typeof JSON.parse(text) === 'object'
  } catch {
    return false
  }
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

/** @throws errors that are not damage */
function describeReadError(error: unknown, sequence: number): string {
  if (error instanceof IngestError && (error.code === 'store-damaged' || error.code === 'malformed-body')) {
    return `Record ${sequence} of the log is damaged.`
  }
  if (error instanceof SyntaxError) return `Record ${sequence} of the log has an event that is not JSON.`
  // errors of lmdb have a number as their code; the others are not damage
  if (typeof (error as { code?: unknown }).code !== 'number') throw error
  return `Record ${sequence} of the log cannot be read: ${(error as Error).message}.`
}
