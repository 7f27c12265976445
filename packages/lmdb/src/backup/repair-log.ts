import type { Totals } from '@ingest/core'
import type { Environment } from '../environment/environment.ts'
import type { LmdbIdentity } from '../environment/identity.ts'
import { pageSize } from '../environment/page-file.ts'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import { createEventLog, openEventLogTables } from '../log/event-log.ts'
import { countedBytes, decodeRecord, type LogRecord, moveRecord, payloadOf } from '../log/record.ts'
import type { DataPages, FoundRow } from './data-pages.ts'
import { readEvents } from './read-events.ts'
import type { LostRecords } from './repair-report.ts'

/** What a record takes of its file at least. */
const recordBytesMin = 32
/** The most bytes of records that one transaction writes. */
const transactionBytes = 8 * 2 ** 20

/** The most ranges of lost records that a report lists. */
const lostRangesMax = 1000

/** Finds each intact record: in the log, else in pages that nothing leads to any more. */
function findRecords(pages: DataPages) {
  const locations = createNumbers()
  /** The transactions that wrote the locations which are not of the tree of the log. */
  const transactions = createNumbers()
  const projects = createNumbers()
  // a damaged key may say any number
  const recordsMax = (Math.max(pages.pages.actual, pages.pages.expected) * pageSize) / recordBytesMin
  let last = 0
  let found = 0

  function note(sequence: number, { page, index }: FoundRow): void {
    if (locations.get(sequence) === 0) found++
    locations.set(sequence, page * indexesPerPage + index)
  }

  for (const row of pages.rows('log')) {
    const sequence = sequenceIn(row, recordsMax)
    if (sequence === undefined) continue
    last = Math.max(last, sequence)
    if (isIntact(row, sequence)) note(sequence, row)
  }
  for (const { key } of pages.rows('project-log')) {
    if (key.length !== 12 || readSequence(key) > recordsMax) continue
    last = Math.max(last, readSequence(key))
    if (locations.get(readSequence(key)) === 0) projects.set(readSequence(key), key.readUInt32BE())
  }
  for (const row of pages.damagedPages('log') > 0 || found < last ? pages.scan() : []) {
    const sequence = sequenceIn(row, recordsMax)
    if (sequence === undefined) continue
    // a page may be that of an earlier version
    const known = transactions.get(sequence)
    if (known === 0 && locations.get(sequence) > 0) continue
    if (known >= row.transaction || !isIntact(row, sequence)) continue
    note(sequence, row)
    transactions.set(sequence, row.transaction)
    last = Math.max(last, sequence)
  }
  return {
    last,
    value(sequence: number): Buffer | undefined {
      const location = locations.get(sequence)
      // page 0 has no row
      return location === 0
        ? undefined
        : pages.value({ page: Math.floor(location / indexesPerPage), index: location % indexesPerPage })
    },
    /** The project of a record that was not found, where it is known. */
    projectOf: (sequence: number) => projects.get(sequence) || undefined,
  }
}

const indexesPerPage = 2 ** 16
const blockSize = 65_536

/** A number for each record, 0 at first, in blocks for the records that occur: a `Map` ends at 16.7 million entries. */
function createNumbers() {
  const blocks = new Map<number, Float64Array>()
  return {
    get: (sequence: number) => blocks.get(Math.floor(sequence / blockSize))?.[sequence % blockSize] ?? 0,
    set(sequence: number, value: number): void {
      const number = Math.floor(sequence / blockSize)
      const block = blocks.get(number) ?? new Float64Array(blockSize)
      blocks.set(number, block)
      block[sequence % blockSize] = value
    },
  }
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

/** What is saved of a log. */
export type SavedLog = Awaited<ReturnType<typeof saveLog>>

/** Writes the intact records as a log without gaps, with the tables that follow from it. */
export async function saveLog(options: SaveLogOptions) {
  const { pages, environment, names, expected, onRecord } = options
  const found = findRecords(pages)
  const saved = {
    records: 0,
    events: 0,
    /** By project number. */
    totals: new Map<number, Totals>(),
    /** The first {@link lostRangesMax} ranges. */
    lost: [] as LostRecords[],
    lostRecords: 0,
    /** When the last record was received. */
    lastAt: Number.NEGATIVE_INFINITY,
    /** Records whose time was before that of the previous record, and was replaced by the latter. */
    clampedRecords: 0,
  }
  const writeRecord = createRecordWriter(options, saved)
  const eventLog = createEventLog(openEventLogTables(environment.table))
  const freezes = environment.table('freezes')
  environment.write(() => {
    for (const { key, value } of pages.rows('freezes')) {
      if (key.length > 4 && value.length === 8) freezes.put(Buffer.from(key), Buffer.from(value))
    }
  })
  for (let sequence = 1; sequence <= found.last; ) {
    environment.write(() => {
      for (let bytes = 0; bytes < transactionBytes && sequence <= found.last; sequence++) {
        const value = found.value(sequence)
        if (value) bytes += writeRecord(value, sequence)
        else noteLost(saved, sequence, sequence, names.get(found.projectOf(sequence) ?? -1))
      }
      for (const [project, totals] of saved.totals) eventLog.putTotals(project, totals)
    })
    await onRecord(sequence - 1, found.last)
  }
  if (expected > found.last) noteLost(saved, found.last + 1, expected, undefined)
  return saved
}

function noteLost(saved: SavedLog, from: number, to: number, projectId: string | undefined): void {
  saved.lostRecords += to - from + 1
  const previous = saved.lost.at(-1)
  if (previous?.to === from - 1 && previous.projectId === projectId) previous.to = to
  else if (saved.lost.length < lostRangesMax)
    saved.lost.push({ from, to, ...(projectId !== undefined && { projectId }) })
}

/** Returns a function that writes a record under the next number, and what follows from it, and returns its size. */
function createRecordWriter({ environment, identity, names }: SaveLogOptions, saved: SavedLog) {
  const tables = openEventLogTables(environment.table)

  function addFreeze(key: Buffer, at: number): void {
    if (tables.freezes.doesExist(key)) return
    const value = Buffer.alloc(8)
    value.writeDoubleLE(at)
    tables.freezes.put(key, value)
  }

  return (value: Buffer, sequence: number): number => {
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
