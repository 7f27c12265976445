import { createHash } from 'node:crypto'
import { statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { digestOf, IngestError, type Manifest, type MapKey, type Project, type Store } from '@ingest/core'
import { asPermissionDenied, isProjectId, toBatch } from '@ingest/core/internal'
import { type JobOptions, runJob } from '../backup/run-job.ts'
import { fillDirectory } from '../backup/staging.ts'
import { checkReport } from '../backup/store-report.ts'
import { chunkRefBytes, decodeChunks, decodeStored } from '../chunks/chunk-encoding.ts'
import { chunkKey } from '../chunks/chunk-tables.ts'
import { openProjects } from '../entries/projects.ts'
import { checkDataFile } from '../environment/data-file.ts'
import { openEnvironment } from '../environment/environment.ts'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import type { TableName } from '../environment/schema.ts'
import { findProcessMapping } from '../environment/write-lock.ts'
import { decodeRecord, isTombstone, type LogRecord, parseEventId } from '../log/record.ts'
import { addFrozenBuild } from '../maps/builds.ts'
import { parseMapName } from '../maps/map-encoding.ts'
import { type MapRow, mapKeyOffset } from '../maps/map-reader.ts'
import { openLmdbStore } from '../open-lmdb-store.ts'
import { type DamagedStore, openDamagedStore, type Row } from './damaged-store.ts'
import type { RepairReport } from './repair-report.ts'

/*
 * Copies the readable rows of a damaged store to a new store.
 *
 * - read worker: a process that reads rows of the damaged store (`read-worker.ts`); if LMDB crashes it, another one is
 *   started
 * - damaged store: walks the tables (`damaged-store.ts`), and after damage searches for the next key that can be read
 *   (`find-intact.ts`)
 * - record: copied only if its checksums are right; the lists of projects, the totals and the id index are rebuilt
 * - report: the copied and the lost content, by ranges of records, events of projects, and maps (`repair-report.ts`)
 *
 * Start with `copyAll` below.
 */

/** The most ranges of lost records that a report lists. */
const lostRangesMax = 1000
/** The bytes that one append stores. */
const appendBytes = 2 ** 20
const appendRecords = 1024
/** The size of a record with one tombstone, including its key, is larger than this. */
const recordBytesMin = 32

/**
 * Copies the readable content of a damaged store to a new one in an empty or missing directory: records with an intact
 * checksum, projects, keys, frozen builds and complete maps, but neither unfinished maps, consumers nor activity. LMDB
 * reads the damaged store in a separate process; when it crashes, a new process continues after the damage; nothing is
 * written to its data files. The copy is verified and durable before it gets its name. It is a new store: earlier
 * cursors are rejected.
 *
 * @throws {IngestError} `store-missing`; `store-locked` while a process has the store open; `store-incompatible` for a
 *   damaged header; `store-damaged` if the list of its tables cannot be read; `permission-denied`; `invalid-argument`
 *   for a target that is not empty or inside the store; `disk-full`; `store-unavailable`, which is temporary, if a
 *   signal ended the process that reads
 */
export async function repairLmdbStore(
  directory: string,
  target: string,
  options: JobOptions = {},
): Promise<RepairReport> {
  try {
    return await repair(directory, target, options)
  } catch (error) {
    throw asPermissionDenied(error)
  }
}

async function repair(directory: string, target: string, options: JobOptions): Promise<RepairReport> {
  const path = join(directory, 'events', 'data.mdb')
  if (!checkDataFile(path)) throw new IngestError('store-missing', `There is no ${path} with anything in it.`)
  const pid = findProcessMapping(path)
  if (pid !== undefined) {
    throw new IngestError('store-locked', `Process ${pid} has ${directory} open: end it first.`)
  }
  return fillDirectory(directory, target, async (staging) => {
    const source = openDamagedStore(directory, options.signal)
    try {
      await source.open()
      const report = await copyAll(source, staging, {
        ...options,
        recordsMax: Math.ceil(statSync(path).size / recordBytesMin),
      })
      checkReport(target, await runJob({ directory: staging }, options))
      return report
    } finally {
      source.close()
    }
  })
}

type Copied = Omit<RepairReport, 'fileBytes'>

/** Options of a job, and the most records that the data file may hold. */
interface CopyOptions extends JobOptions {
  recordsMax: number
}

async function copyAll(source: DamagedStore, staging: string, options: CopyOptions): Promise<Copied> {
  const { names, known } = await readProjects(source)
  await writeProjects(source, join(staging, 'events'), names, known)
  const store = await openLmdbStore(staging)
  try {
    const { lost, ...log } = await copyLog(source, store, names, options)
    const maps = await copyMaps(source, store, names, options)
    const keysOf = [...names.values()].filter((projectId) => !known.has(projectId))
    return {
      ...log,
      maps: maps.copied,
      projects: names.size,
      lost: { ...lost, maps: maps.lost, keysOf, tables: [...source.damaged] },
    }
  } finally {
    await store.close()
    // the next opening builds the index
    await rm(join(staging, 'ids'), { recursive: true, force: true })
  }
}

/** The names of projects by number, and the entries of those whose row is intact: undefined without keys. */
async function readProjects(source: DamagedStore) {
  const names = new Map<number, string>()
  const known = new Map<string, Project | undefined>()
  for await (const { key, value } of source.rows('projects')) {
    const projectId = key.toString()
    if (value.length < 4 || !isProjectId(projectId)) continue
    names.set(value.readUInt32BE(), projectId)
    const project = parseJson<Project>(value.subarray(4))
    if (value.length === 4 || project?.projectId === projectId) known.set(projectId, project)
  }
  for await (const { key, value } of source.rows('project-numbers')) {
    if (key.length !== 4 || !isProjectId(value.toString())) continue
    const number = key.readUInt32BE()
    const name = names.get(number)
    if (name === undefined) names.set(number, value.toString())
    // one of the two names is damaged; the events say which
    else if (name !== value.toString()) names.delete(number)
  }
  return { names, known }
}

/** Writes projects with their numbers and keys, and frozen builds. */
async function writeProjects(
  source: DamagedStore,
  to: string,
  names: ReadonlyMap<number, string>,
  known: ReadonlyMap<string, Project | undefined>,
): Promise<void> {
  const frozen: Row[] = []
  for await (const row of source.rows('freezes')) {
    if (row.key.length <= 4 || row.value.length !== 8 || !names.has(row.key.readUInt32BE())) continue
    if (!Number.isNaN(new Date(row.value.readDoubleLE()).getTime())) frozen.push(row)
  }
  const environment = await openEnvironment(to)
  try {
    const { table } = environment
    const projects = openProjects(table)
    const [entries, numbers, freezes] = [table('projects'), table('project-numbers'), table('freezes')]
    const newest = table('newest-builds')
    environment.write(() => {
      for (const [number, projectId] of names) {
        entries.put(Buffer.from(projectId), projectKey(number))
        numbers.put(projectKey(number), Buffer.from(projectId))
      }
      for (const [projectId, project] of known) if (project) projects.put(projectId, JSON.stringify(project))
      for (const { key, value } of frozen) {
        freezes.put(key, value)
        addFrozenBuild(newest, key.readUInt32BE(), key.toString('utf8', 4), value.readDoubleLE())
      }
    })
  } finally {
    await environment.close()
  }
}

/** Copies the records whose checksums are right. Adds to `names` the projects that only events name. */
async function copyLog(
  source: DamagedStore,
  store: Store,
  names: Map<number, string>,
  { onProgress = () => {}, recordsMax }: CopyOptions,
) {
  const totals = await readTotals(source)
  const sum = [...totals.values()].reduce((sum, { records }) => sum + records, 0)
  const last = sum <= recordsMax ? sum : 0
  const lost: Pick<RepairReport['lost'], 'records' | 'recordCount' | 'events'> = {
    records: [],
    recordCount: 0,
    events: [],
  }
  const copied = { records: 0, events: 0 }
  let appends: Promise<unknown>[] = []
  let bytes = 0
  let next = 1

  /** Notes that the records from `next` to before `sequence` are lost. */
  function noteLost(sequence: number): void {
    if (sequence <= next) return
    lost.recordCount += sequence - next
    if (lost.records.length < lostRangesMax) lost.records.push({ from: next, to: sequence - 1 })
  }

  for await (const { key, value } of source.rows('log', recordsMax + 1)) {
    const sequence = readSequence(key)
    const record = decode(value, sequence)
    const projectId = record && (names.get(record.project) ?? nameIn(record.events))
    if (!record || projectId === undefined) continue
    noteLost(sequence)
    next = sequence + 1
    names.set(record.project, projectId)
    const appended = store.append(projectId, toBatch(record.events.map(toStored(record.receivedAt)), store.hashKey))
    // the error is thrown when the append is awaited
    appended.catch(() => {})
    appends.push(appended)
    bytes += value.length
    copied.records++
    copied.events += record.events.length
    if (appends.length < appendRecords && bytes < appendBytes) continue
    await Promise.all(appends)
    appends = []
    bytes = 0
    onProgress({ phase: 'log', done: sequence, total: Math.max(last, sequence) })
  }
  await Promise.all(appends)
  noteLost(last + 1)
  for (const [project, { events }] of totals) {
    const projectId = names.get(project)
    const missing = projectId === undefined ? 0 : events - (await store.totals(projectId)).events
    if (projectId !== undefined && missing > 0) lost.events.push({ projectId, events: missing })
  }
  return { ...copied, lost }
}

const toStored = (receivedAt: number) => (event: Buffer) =>
  isTombstone(event)
    ? { receivedAt, bytes: nothing, erased: parseEventId(event), cursor: '' }
    : { receivedAt, bytes: event, cursor: '' }

function decode(value: Buffer, sequence: number): LogRecord | undefined {
  try {
    return decodeRecord(value, sequence)
  } catch {
    return undefined
  }
}

/** The number of events and records that each project had. */
async function readTotals(source: DamagedStore): Promise<Map<number, { events: number; records: number }>> {
  const totals = new Map<number, { events: number; records: number }>()
  for await (const { key, value } of source.rows('totals')) {
    if (key.length !== 4 || value.length !== 24) continue
    const [events, records] = [value.readDoubleLE(0), value.readDoubleLE(8)]
    if (Number.isSafeInteger(events + records)) totals.set(key.readUInt32BE(), { events, records })
  }
  return totals
}

/** The project that the events name. */
function nameIn(events: readonly Buffer[]): string | undefined {
  for (const event of events) {
    const projectId = parseJson<{ projectId?: unknown }>(event)?.projectId
    if (typeof projectId === 'string' && isProjectId(projectId)) return projectId
  }
  return undefined
}

/** Copies the complete maps whose bytes are those of their digests. */
async function copyMaps(
  source: DamagedStore,
  store: Store,
  names: ReadonlyMap<number, string>,
  { onProgress = () => {}, signal }: JobOptions,
) {
  const lost: RepairReport['lost']['maps'] = []
  let copied = 0

  /** A malformed row loses only its map. */
  function orDamaged(error: unknown): false {
    if (signal?.aborted || (error instanceof IngestError && error.retryable)) throw error
    return false
  }

  for await (const { key, value } of source.rows('maps')) {
    if (key.length <= mapKeyOffset || !key.includes(0, mapKeyOffset)) continue
    const project = key.readUInt32BE()
    const row = parseJson<MapRow>(value)
    if (row && !row.complete) continue
    const id = parseMapName(key.subarray(mapKeyOffset))
    const projectId = names.get(project)
    const isCopied =
      projectId !== undefined &&
      row?.complete &&
      (await copyMap(source, store, project, { ...id, projectId }, row.complete).catch(orDamaged))
    if (isCopied) onProgress({ phase: 'maps', done: ++copied })
    else lost.push({ ...id, ...(projectId !== undefined && { projectId }) })
  }
  return { copied, lost }
}

/** Returns whether the map is intact. A pending map names its chunks until they are all stored. */
async function copyMap(
  source: DamagedStore,
  store: Store,
  project: number,
  key: MapKey,
  { number, publishedAt, contentType, size, digest }: NonNullable<MapRow['complete']>,
): Promise<boolean> {
  const get = (table: TableName, key: Buffer) =>
    source.get({ name: table === 'bytes' ? 'chunks' : 'events', table }, key)
  const refs = await get('manifests', sequenceKey(number))
  if (!refs || refs.length % chunkRefBytes !== 0) return false
  const manifest: Manifest = { contentType, size, digest, chunks: decodeChunks(refs) }
  await store.updateMap(key, {}, () => ({
    contents: { pending: { manifest, touchedAt: Date.now() } },
    result: undefined,
  }))
  const hash = createHash('sha256')
  let left = size
  for (const { digest, size } of manifest.chunks) {
    const blob = chunkKey(project, digest)
    const row = await get('chunks', blob)
    const bytes = row && (await get('bytes', Buffer.concat([blob, decodeStored(row).upload])))
    if (bytes?.length !== size || digestOf(bytes) !== digest) break
    hash.update(bytes)
    left -= bytes.length
    await store.putChunk(key.projectId, { digest, bytes, receivedAt: publishedAt })
  }
  const isWhole = left === 0 && `sha256:${hash.digest('hex')}` === digest
  await store.updateMap(key, {}, () => ({
    contents: isWhole ? { complete: { manifest, publishedAt } } : {},
    result: undefined,
  }))
  return isWhole
}

const nothing = Buffer.alloc(0)

function parseJson<T extends object>(bytes: Buffer): T | undefined {
  try {
    const value: unknown = JSON.parse(bytes.toString())
    return typeof value === 'object' && value !== null ? (value as T) : undefined
  } catch {
    return undefined
  }
}
