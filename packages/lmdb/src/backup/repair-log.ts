import type { Totals } from '@ingest/core'
import type { Environment } from '../environment/environment.ts'
import type { LmdbIdentity } from '../environment/identity.ts'
import { pageSize } from '../environment/page-file.ts'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import { createEventLog, openEventLogTables } from '../log/event-log.ts'
import { countedBytes, decodeRecord, type LogRecord, moveRecord, payloadOf } from '../log/record.ts'
import type { DataPages, FoundRow } from './data-pages.ts'
import { readEvents } from './read-events.ts'
import { createRecordLocations, type RecordLocations } from './record-locations.ts'
import type { LostRecords } from './repair-report.ts'

/** What is saved of a log. */
export interface SavedLog {
  records: number
  events: number
  /** By project number. */
  totals: Map<number, Totals>
  /** The first {@link lostRangesMax} ranges. */
  lost: LostRecords[]
  lostRecords: number
  /** When the last record was received. */
  lastAt: number
  /** Records whose time was before that of the previous record, and was replaced by the latter. */
  clampedRecords: number
}

/** What a record takes of its file at least. */
const recordBytesMin = 32
/** The most bytes of records that one transaction writes. */
const transactionBytes = 8 * 2 ** 20

/** The most ranges of lost records that a report lists. */
const lostRangesMax = 1000

/** Finds each intact record: in the log, else in pages that nothing leads to any more. */
function findRecords(pages: DataPages): { locations: RecordLocations; last: number } {
  const locations = createRecordLocations()
  // a damaged key may say any number
  const recordsMax = (Math.max(pages.pages.actual, pages.pages.expected) * pageSize) / recordBytesMin
  let last = 0
  for (const row of pages.rows('log')) {
    const sequence = sequenceIn(row, recordsMax)
    if (sequence === undefined) continue
    last = Math.max(last, sequence)
    if (isIntact(row, sequence)) locations.set(sequence, row, 0)
  }
  for (const { key } of pages.rows('project-log')) {
    if (key.length !== 12 || readSequence(key) > recordsMax) continue
    last = Math.max(last, readSequence(key))
    if (!locations.has(readSequence(key))) locations.setProject(readSequence(key), key.readUInt32BE())
  }
  if (pages.damagedPages('log') === 0 && locations.size() === last) return { locations, last }
  for (const row of pages.scan()) {
    const sequence = sequenceIn(row, recordsMax)
    if (sequence === undefined) continue
    // a page may be that of an earlier version
    if (locations.has(sequence) && locations.transactionOf(sequence) === 0) continue
    if (locations.transactionOf(sequence) >= row.transaction || !isIntact(row, sequence)) continue
    locations.set(sequence, row, row.transaction)
    last = Math.max(last, sequence)
  }
  return { locations, last }
}

/** The number of a record; undefined for a row of another table. */
function sequenceIn({ key, value }: FoundRow, recordsMax: number): number | undefined {
  const sequence = key.length === 8 ? readSequence(key) : 0
  return sequence > 0 && sequence <= recordsMax && value.length > 0 ? sequence : undefined
}

function isIntact({ value }: FoundRow, sequence: number): boolean {
  return decode(value, sequence) !== undefined
}

function decode(value: Buffer, sequence: number): LogRecord | undefined {
  try {
    return decodeRecord(value, sequence)
  } catch {
    return undefined
  }
}

export interface SaveLogOptions {
  pages: DataPages
  environment: Environment
  identity: LmdbIdentity
  /** The id of a project by its number; those that are missing are added. */
  names: Map<number, string>
  /** How many records the log had, by what else names them; less if it is not known. */
  expected: number
  onRecord(done: number, total: number): Promise<void>
}

/** Writes the intact records as a log without gaps, with the tables that follow from it. */
export async function saveLog(options: SaveLogOptions): Promise<SavedLog> {
  const { pages, environment, names, expected, onRecord } = options
  const { locations, last } = findRecords(pages)
  const saved: SavedLog = {
    records: 0,
    events: 0,
    totals: new Map(),
    lost: [],
    lostRecords: 0,
    lastAt: Number.NEGATIVE_INFINITY,
    clampedRecords: 0,
  }
  const writer = createRecordWriter(options, saved)
  for (const row of pages.rows('freezes')) writer.freeze(row)
  for (let sequence = 1; sequence <= last; ) {
    environment.write(() => {
      for (let bytes = 0; bytes < transactionBytes && sequence <= last; sequence++) {
        const location = locations.get(sequence)
        const value = location && pages.row(location)?.value
        if (value) bytes += writer.write(value, sequence)
        else noteLost(saved, sequence, sequence, names.get(locations.projectOf(sequence) ?? -1))
      }
      writer.flush()
    })
    await onRecord(sequence - 1, last)
  }
  if (expected > last) noteLost(saved, last + 1, expected, undefined)
  return saved
}

function noteLost(saved: SavedLog, from: number, to: number, projectId: string | undefined): void {
  saved.lostRecords += to - from + 1
  const previous = saved.lost.at(-1)
  if (previous?.to === from - 1 && previous.projectId === projectId) previous.to = to
  else if (saved.lost.length < lostRangesMax)
    saved.lost.push({ from, to, ...(projectId !== undefined && { projectId }) })
}

function createRecordWriter({ environment, identity, names }: SaveLogOptions, saved: SavedLog) {
  const tables = openEventLogTables(environment.table)
  const eventLog = createEventLog(tables)
  const freezes: FoundRow[] = []

  function addFreeze(key: Buffer, at: number): void {
    if (tables.freezes.doesExist(key)) return
    const value = Buffer.alloc(8)
    value.writeDoubleLE(at)
    tables.freezes.put(key, value)
  }

  function write(value: Buffer, sequence: number): number {
    const { project, receivedAt, events } = decodeRecord(value, sequence)
    const before = saved.totals.get(project) ?? { events: 0, batches: 0, bytes: 0 }
    // the times of a log never decrease: a clock that was set back gave this one
    if (receivedAt < saved.lastAt) saved.clampedRecords++
    saved.lastAt = Math.max(saved.lastAt, receivedAt)
    const projectId = names.get(project) ?? nameIn(events)
    if (projectId !== undefined) names.set(project, projectId)
    const own = ++saved.records
    // as the writer does, a full page is not split
    const record = moveRecord(value, { sequence: own, project, ordinal: before.batches + 1 }, saved.lastAt)
    tables.log.putSync(sequenceKey(own), record, { append: true })
    tables.projectLog.put(projectKey(project, sequenceKey(own)), Buffer.alloc(0))
    const { builds } = readEvents(identity.hashKey, projectId, events, payloadOf(value))
    for (const buildId of builds) addFreeze(projectKey(project, Buffer.from(buildId)), saved.lastAt)
    saved.totals.set(project, {
      events: before.events + events.length,
      batches: before.batches + 1,
      bytes: before.bytes + countedBytes(events),
    })
    saved.events += events.length
    return value.length
  }

  return {
    write,
    freeze: (row: FoundRow) => void freezes.push(row),
    flush() {
      for (const { key, value } of freezes.splice(0)) {
        if (key.length > 4 && value.length === 8) tables.freezes.put(Buffer.from(key), Buffer.from(value))
      }
      for (const [project, totals] of saved.totals) eventLog.putTotals(project, totals)
    },
  }
}

/** The project that the events name. */
function nameIn(events: readonly Buffer[]): string | undefined {
  for (const event of events) {
    try {
      const { projectId } = JSON.parse(event.toString())
      if (typeof projectId === 'string') return projectId
    } catch {
      // an event that is no JSON was never accepted
    }
  }
  return undefined
}
