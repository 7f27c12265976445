import { createHash } from 'node:crypto'
import { statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type ChunkRef,
  digestOf,
  IngestError,
  type Manifest,
  type MapKey,
  type Project,
  type Store,
} from '@ingest/core'
import { asPermissionDenied, isProjectId, toBatch } from '@ingest/core/internal'
import { type JobOptions, runJob } from '../backup/run-job.ts'
import { fillDirectory } from '../backup/staging.ts'
import { checkReport } from '../backup/store-report.ts'
import { chunkRefBytes, decodeChunks, decodeStored } from '../chunks/chunk-encoding.ts'
import { chunkKey } from '../chunks/chunk-tables.ts'
import { openProjects } from '../entries/projects.ts'
import { checkDataFile } from '../environment/data-file.ts'
import { openEnvironment } from '../environment/environment.ts'
import { projectKey, sequenceKey } from '../environment/row-keys.ts'
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
 * - damaged store: asks the worker for rows, and searches for the next key that can be read after damage
 *   (`damaged-store.ts`)
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
 *   for a target that is not empty or inside the store; `disk-full`
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
  const { names, withKeys } = await copyProjects(source, join(staging, 'events'))
  const store = await openLmdbStore(staging)
  try {
    const log = await copyLog(source, store, names, options)
    const maps = await copyMaps(source, store, names, options)
    return {
      records: log.records,
      events: log.events,
      maps: maps.maps,
      projects: names.size,
      lost: {
        records: log.lost,
        recordCount: log.lostRecords,
        events: log.lostEvents,
        maps: maps.lost,
        keysOf: [...names.values()].filter((projectId) => !withKeys.has(projectId)),
        tables: [...source.damaged],
      },
    }
  } finally {
    await store.close()
    // the next opening builds the index
    await rm(join(staging, 'ids'), { recursive: true, force: true })
  }
}

/** Copies projects with their numbers and keys, and frozen builds. */
async function copyProjects(source: DamagedStore, to: string) {
  const names = new Map<number, string>()
  const known: Project[] = []
  const withKeys = new Set<string>()
  for await (const { key, value } of source.rows({ name: 'events', table: 'projects' })) {
    if (value.length < 4 || !isProjectId(key.toString())) continue
    names.set(value.readUInt32BE(), key.toString())
    const project = value.length === 4 ? undefined : parseJson<Project>(value.subarray(4))
    if (value.length > 4 && project?.projectId !== key.toString()) continue
    withKeys.add(key.toString())
    if (project) known.push(project)
  }
  for await (const { key, value } of source.rows({ name: 'events', table: 'project-numbers' })) {
    if (key.length !== 4 || !isProjectId(value.toString())) continue
    const number = key.readUInt32BE()
    const known = names.get(number)
    if (known === undefined) names.set(number, value.toString())
    // one of the two names is damaged; the events say which
    else if (known !== value.toString()) names.delete(number)
  }
  const environment = await openEnvironment(to)
  try {
    const { table } = environment
    const projects = openProjects(table)
    const [entries, numbers, freezes, newest] = [
      table('projects'),
      table('project-numbers'),
      table('freezes'),
      table('newest-builds'),
    ]
    environment.write(() => {
      for (const [number, projectId] of names) {
        entries.put(Buffer.from(projectId), projectKey(number))
        numbers.put(projectKey(number), Buffer.from(projectId))
      }
      for (const project of known) projects.put(project.projectId, JSON.stringify(project))
    })
    const frozen: Row[] = []
    for await (const row of source.rows({ name: 'events', table: 'freezes' })) {
      if (row.key.length <= 4 || row.value.length !== 8 || !names.has(row.key.readUInt32BE())) continue
      if (!Number.isNaN(new Date(row.value.readDoubleLE()).getTime())) frozen.push(row)
    }
    environment.write(() => {
      for (const { key, value } of frozen) {
        freezes.put(key, value)
        addFrozenBuild(newest, key.readUInt32BE(), key.toString('utf8', 4), value.readDoubleLE())
      }
    })
  } finally {
    await environment.close()
  }
  return { names, withKeys }
}

async function copyLog(
  source: DamagedStore,
  store: Store,
  names: Map<number, string>,
  { onProgress = () => {}, recordsMax }: CopyOptions,
) {
  const copied = { records: 0, events: 0, lost: [] as { from: number; to: number }[], lostRecords: 0 }
  const lostEvents: { projectId: string; events: number }[] = []
  const totals = await readTotals(source)
  const sum = [...totals.values()].reduce((sum, { records }) => sum + records, 0)
  const total = sum <= recordsMax ? sum : 0
  let appends: Promise<unknown>[] = []
  let bytes = 0

  function noteLost(from: number, to: number): void {
    if (to < from) return
    copied.lostRecords += to - from + 1
    const previous = copied.lost.at(-1)
    if (previous?.to === from - 1) previous.to = to
    else if (copied.lost.length < lostRangesMax) copied.lost.push({ from, to })
  }

  function append({ project, receivedAt, events }: LogRecord): boolean {
    const projectId = names.get(project) ?? nameIn(events)
    if (projectId === undefined) return false
    names.set(project, projectId)
    const group = events.map((event) =>
      isTombstone(event)
        ? { receivedAt, bytes: nothing, erased: parseEventId(event), cursor: '' }
        : { receivedAt, bytes: event, cursor: '' },
    )
    const appended = store.append(projectId, toBatch(group, store.hashKey))
    // the error is thrown when the append is awaited
    appended.catch(() => {})
    appends.push(appended)
    bytes += events.reduce((sum, { length }) => sum + length, 0)
    copied.records++
    copied.events += events.length
    return true
  }

  let next = 1
  let lastRead = 0
  for await (const { number: sequence, value } of source.numbered({ name: 'events', table: 'log' }, recordsMax)) {
    lastRead = sequence
    const record = decode(value, sequence)
    if (!record || !append(record)) continue
    noteLost(next, sequence - 1)
    next = sequence + 1
    if (appends.length < appendRecords && bytes < appendBytes) continue
    await Promise.all(appends)
    appends = []
    bytes = 0
    onProgress({ phase: 'log', done: sequence, total: Math.max(total, sequence) })
  }
  await Promise.all(appends)
  noteLost(next, total)
  if (lastRead < total) source.damaged.add('log')
  for (const [project, { events }] of totals) {
    const projectId = names.get(project)
    const lost = projectId === undefined ? 0 : events - (await store.totals(projectId)).events
    if (projectId !== undefined && lost > 0) lostEvents.push({ projectId, events: lost })
  }
  return { ...copied, lostEvents }
}

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
  for await (const { key, value } of source.rows({ name: 'events', table: 'totals' })) {
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

async function copyMaps(
  source: DamagedStore,
  store: Store,
  names: ReadonlyMap<number, string>,
  { onProgress = () => {}, signal }: JobOptions,
) {
  const copied = { maps: 0, lost: [] as RepairReport['lost']['maps'] }

  /** A malformed row loses only its map. */
  function orDamaged(error: unknown): false {
    if (signal?.aborted || (error instanceof IngestError && error.retryable)) throw error
    return false
  }

  for await (const { key, value } of source.rows({ name: 'events', table: 'maps' })) {
    if (key.length <= mapKeyOffset || !key.includes(0, mapKeyOffset)) continue
    const project = key.readUInt32BE()
    const row = parseJson<MapRow>(value)
    if (row && !row.complete) continue
    const id = parseMapName(key.subarray(mapKeyOffset))
    const projectId = names.get(project)
    const isCopied =
      projectId !== undefined &&
      row &&
      (await copyMap(source, store, project, { ...id, projectId }, row).catch(orDamaged))
    if (!isCopied) copied.lost.push({ ...id, ...(projectId !== undefined && { projectId }) })
    else onProgress({ phase: 'maps', done: ++copied.maps })
  }
  return copied
}

/** Returns whether the map was complete and intact. */
async function copyMap(
  source: DamagedStore,
  store: Store,
  project: number,
  key: MapKey,
  { complete }: MapRow,
): Promise<boolean> {
  if (!complete) return false
  const get = (table: TableName, key: Buffer, name: 'events' | 'chunks' = 'events') => source.get({ name, table }, key)
  const bytes = await get('manifests', sequenceKey(complete.number))
  if (!bytes || bytes.length === 0 || bytes.length % chunkRefBytes !== 0) return false
  const { contentType, size, digest, publishedAt } = complete
  const manifest: Manifest = { contentType, size, digest, chunks: decodeChunks(bytes) }

  async function blobOf({ digest, size }: ChunkRef): Promise<Buffer | undefined> {
    const blob = chunkKey(project, digest)
    const row = await get('chunks', blob)
    const bytes = row && (await get('bytes', Buffer.concat([blob, decodeStored(row).upload]), 'chunks'))
    return bytes?.length === size && digestOf(bytes) === digest ? bytes : undefined
  }

  await store.updateMap(key, {}, () => ({
    contents: { pending: { manifest, touchedAt: Date.now() } },
    result: undefined,
  }))
  const hash = createHash('sha256')
  for (const ref of manifest.chunks) {
    const bytes = await blobOf(ref)
    if (!bytes) break
    hash.update(bytes)
    await store.putChunk(key.projectId, { digest: ref.digest, bytes, receivedAt: publishedAt })
  }
  const isWhole = `sha256:${hash.digest('hex')}` === digest
  await store.updateMap(key, {}, ({ pending }) => ({
    contents: isWhole && pending ? { complete: { manifest: pending.manifest, publishedAt } } : {},
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
