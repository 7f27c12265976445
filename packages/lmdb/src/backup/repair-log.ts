import type { Totals } from '@ingest/core'
import { pageSize } from '../environment/data-file.ts'
import type { Environment } from '../environment/environment.ts'
import type { LmdbIdentity } from '../environment/identity.ts'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import { createEventLog, openEventLogTables } from '../log/event-log.ts'
import { countedBytes, decodeRecord, type LogRecord, moveRecord, payloadOf } from '../log/record.ts'
import type { DataPages, FoundRow, RowLocation } from './data-pages.ts'
import { readEvents } from './read-events.ts'
import type { LostRecords } from './repair-report.ts'

/** What is saved of a log. */
export interface SavedLog {
  records: number
  events: number
  /** By project number. */
  totals: Map<number, Totals>
  lost: LostRecords[]
  lostRecords: number
}

/** What a record takes of its file at least. */
const recordBytesMin = 32
/** The most bytes of records that one transaction writes. */
const transactionBytes = 8 * 2 ** 20

/** Finds each intact record: in the log, else in pages that nothing leads to any more. */
function findRecords(pages: DataPages): { locations: Map<number, RowLocation>; last: number } {
  const locations = new Map<number, RowLocation>()
  // a damaged key may say any number
  const recordsMax = (pages.pages.actual * pageSize) / recordBytesMin
  let last = 0
  for (const row of pages.rows('log')) {
    const sequence = sequenceIn(row, recordsMax)
    if (sequence === undefined) continue
    last = Math.max(last, sequence)
    if (isIntact(row, sequence)) locations.set(sequence, { page: row.page, index: row.index })
  }
  for (const { key } of pages.rows('project-log')) {
    if (key.length === 12 && readSequence(key) <= recordsMax) last = Math.max(last, readSequence(key))
  }
  if (pages.damagedPages('log') === 0 && locations.size === last) return { locations, last }
  const newest = new Map<number, number>()
  for (const row of pages.scan()) {
    const sequence = sequenceIn(row, recordsMax)
    if (sequence === undefined || (locations.has(sequence) && !newest.has(sequence))) continue
    // a page may be that of an earlier version
    if ((newest.get(sequence) ?? -1) >= row.transaction || !isIntact(row, sequence)) continue
    newest.set(sequence, row.transaction)
    locations.set(sequence, { page: row.page, index: row.index })
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
  onRecord(done: number, total: number): Promise<void>
}

/** Writes the intact records as a log without gaps, with the tables that follow from it. */
export async function saveLog(options: SaveLogOptions): Promise<SavedLog> {
  const { pages, environment, names, onRecord } = options
  const { locations, last } = findRecords(pages)
  const saved: SavedLog = { records: 0, events: 0, totals: new Map(), lost: [], lostRecords: 0 }
  const writer = createRecordWriter(options, saved)
  for (const row of pages.rows('freezes')) writer.freeze(row)
  const damaged = projectsOfLost(pages, locations)
  for (let sequence = 1; sequence <= last; ) {
    environment.write(() => {
      for (let bytes = 0; bytes < transactionBytes && sequence <= last; sequence++) {
        const location = locations.get(sequence)
        const value = location && pages.row(location)?.value
        if (value) bytes += writer.write(value, sequence)
        else noteLost(saved, sequence, names.get(damaged.get(sequence) ?? -1))
      }
      writer.flush()
    })
    await onRecord(sequence - 1, last)
  }
  return saved
}

/** The number of the project of each lost record, where it is known. */
function projectsOfLost(pages: DataPages, locations: ReadonlyMap<number, RowLocation>): Map<number, number> {
  const projects = new Map<number, number>()
  for (const { key } of pages.rows('project-log')) {
    if (key.length === 12 && !locations.has(readSequence(key))) projects.set(readSequence(key), key.readUInt32BE())
  }
  return projects
}

function noteLost(saved: SavedLog, sequence: number, projectId: string | undefined): void {
  saved.lostRecords++
  const previous = saved.lost.at(-1)
  if (previous?.to === sequence - 1 && previous.projectId === projectId) previous.to = sequence
  else saved.lost.push({ from: sequence, to: sequence, ...(projectId !== undefined && { projectId }) })
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
    const projectId = names.get(project) ?? nameIn(events)
    if (projectId !== undefined) names.set(project, projectId)
    const own = ++saved.records
    // as the writer does, a full page is not split
    const record = moveRecord(value, { sequence: own, project, ordinal: before.batches + 1 })
    tables.log.putSync(sequenceKey(own), record, { append: true })
    tables.projectLog.put(projectKey(project, sequenceKey(own)), Buffer.alloc(0))
    const { builds } = readEvents(identity.hashKey, projectId, events, payloadOf(value))
    for (const buildId of builds) addFreeze(projectKey(project, Buffer.from(buildId)), receivedAt)
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
