import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { IngestError, type Project, type Totals } from '@ingest/core'
import { asPermissionDenied } from '@ingest/core/internal'
import { type Environment, openEnvironment } from '../environment/environment.ts'
import { adoptIdentity, type LmdbIdentity, openChunks, parseIdentity } from '../environment/identity.ts'
import { pageSize } from '../environment/page-file.ts'
import { projectKey } from '../environment/row-keys.ts'
import { findProcessMapping } from '../environment/write-lock.ts'
import { fillNewestBuilds } from '../tables/newest-builds.ts'
import { asDiskFull } from '../threads/error-transfer.ts'
import { type DataPages, openDataPages } from './data-pages.ts'
import { saveLog } from './repair-log.ts'
import { saveMaps } from './repair-maps.ts'
import type { RepairReport } from './repair-report.ts'
import { type JobOptions, runJob } from './run-job.ts'
import { fillDirectory } from './staging.ts'
import { checkReport } from './store-report.ts'

/** A later time is damaged: in milliseconds since 1970, the year 3000. */
const timeMax = Date.UTC(3000, 0)

/** Tables whose lost rows nothing else names. */
const unlistedTables = ['projects', 'freezes', 'maps']

/**
 * Saves every intact record of a damaged store in an empty or missing directory, with projects, keys, frozen builds and
 * the maps whose bytes are whole, but neither consumers nor activity. Reads the files without LMDB, which crashes over
 * damage, and never writes to them. The saved store has the identity of the damaged one and a new epoch: earlier cursors
 * are refused. It is verified and durable before it gets its name.
 *
 * @throws {IngestError} `store-missing`; `store-locked` while a process has the store open; `store-damaged` if its
 *   identity is lost; `permission-denied`; `invalid-argument` for a target that is not empty or inside the store;
 *   `disk-full`
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
  if (!statSync(path, { throwIfNoEntry: false })?.size) {
    throw new IngestError('store-missing', `There is no ${path} with anything in it.`)
  }
  const pid = findProcessMapping(path)
  if (pid !== undefined) {
    throw new IngestError('store-locked', `Process ${pid} has ${directory} open: end it first.`)
  }
  return fillDirectory(directory, target, async (staging) => {
    const report = await saveAll(directory, staging, options)
    checkReport(target, await runJob({ directory: staging }, options))
    return report
  })
}

type Saved = Omit<RepairReport, 'fileBytes'>

async function saveAll(directory: string, staging: string, options: JobOptions): Promise<Saved> {
  const pages = openDataPages(join(directory, 'events', 'data.mdb'))
  const chunkPages = openIfPresent(join(directory, 'chunks', 'data.mdb'))
  const index = readIndexHead(join(directory, 'ids', 'data.mdb'))
  const environment = await openEnvironment(join(staging, 'events'))
  let chunkEnvironment: Environment | undefined
  try {
    const identity = adoptIdentity(environment, findIdentity(directory, pages, chunkPages, index))
    chunkEnvironment = await openChunks(environment, staging, identity)
    return await save({ pages, chunkPages, environment, chunkEnvironment, identity, index }, options)
  } catch (error) {
    throw asDiskFull(error, environment.lacksSpace)
  } finally {
    await chunkEnvironment?.close()
    await environment.close()
    chunkPages?.close()
    pages.close()
  }
}

interface Files {
  pages: DataPages
  chunkPages: DataPages | undefined
  environment: Environment
  chunkEnvironment: Environment
  identity: LmdbIdentity
  index: IndexHead | undefined
}

async function save(files: Files, { signal, onProgress = () => {} }: JobOptions): Promise<Saved> {
  const { pages, environment } = files
  const step = async (phase: 'log' | 'maps', done: number, total?: number) => {
    onProgress({ phase, done, ...(total !== undefined && { total }) })
    await nextTurn()
    signal?.throwIfAborted()
  }
  const names = readNames(pages)
  const expected = expectedRecords(files)
  const log = await saveLog({ ...files, names, expected, onRecord: (done, total) => step('log', done, total) })
  const frozenAt = lastFreeze(pages)
  const withKeys = saveProjects(pages, environment, names)
  const maps = await saveMaps({ ...files, names }, (done) => step('maps', done))
  environment.write(() => fillNewestBuilds(environment.table))
  return {
    records: log.records,
    events: log.events,
    maps: maps.maps,
    projects: names.size,
    lost: {
      records: log.lost,
      recordCount: log.lostRecords,
      ...(frozenAt > log.lastAt && { until: frozenAt }),
      bytes: Math.max(0, pages.pages.expected - pages.pages.actual) * pageSize,
      events: lostEvents(pages, names, log.totals),
      maps: maps.lost,
      keysOf: [...names.values()].filter((projectId) => !withKeys.has(projectId)),
      tables: unlistedTables.filter((table) => pages.damagedPages(table) > 0),
    },
    clampedRecords: log.clampedRecords,
    mayHaveErased: pages.isFreeListDamaged,
  }
}

/** How many records the log had: by the header, the totals of projects, and the id index. */
function expectedRecords({ pages, index }: Files): number {
  let batches = 0
  for (const { key, value } of pages.rows('totals')) {
    if (key.length === 4 && value.length === 24) batches += toCount(value.readDoubleLE(8))
  }
  return Math.max(batches, toCount(pages.rowCount('log')), toCount(index?.watermark))
}

/** A number of rows; 0 for a damaged one. */
function toCount(value: unknown): number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 48 ? (value as number) : 0
}

/** When the last build froze that is known. */
function lastFreeze(pages: DataPages): number {
  let last = Number.NEGATIVE_INFINITY
  for (const { value } of pages.rows('freezes')) {
    const at = value.length === 8 ? value.readDoubleLE() : Number.NaN
    if (at > last && at < timeMax) last = at
  }
  return last
}

function openIfPresent(path: string): DataPages | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size ? openDataPages(path) : undefined
}

/** The identity of a damaged store: the key of its hashes is also in the id index. */
function findIdentity(
  directory: string,
  pages: DataPages,
  chunkPages: DataPages | undefined,
  index: IndexHead | undefined,
): Pick<LmdbIdentity, 'hashKey' | 'id'> {
  for (const rows of [pages.rows('meta'), pages.scan()]) {
    for (const { key, value } of rows) {
      const identity = parseIdentity(key, value)
      if (identity) return { hashKey: Buffer.from(identity.hashKey), id: Buffer.from(identity.id) }
    }
  }
  const hashKey = index?.seed
  const store = chunkPages && [...chunkPages.rows('meta')].find(({ key }) => key.toString() === 'store')?.value
  if (hashKey && store) return { hashKey, id: Buffer.from(store.subarray(0, 8)) }
  throw new IngestError(
    'store-damaged',
    `${directory} has lost its identity in events/, and ids/ or chunks/ beside it does not have it: put them back.`,
  )
}

/** What the id index says of the log. */
interface IndexHead {
  seed: Buffer | undefined
  watermark: unknown
}

function readIndexHead(path: string): IndexHead | undefined {
  const pages = openIfPresent(path)
  if (!pages) return undefined
  try {
    const list = [...pages.rows('meta')].find(({ key }) => key.toString() === 'list')?.value
    const { seed, watermark } = list ? JSON.parse(list.toString()) : {}
    const isSeed = typeof seed === 'string' && /^[\da-f]{32}$/.test(seed)
    return { seed: isSeed ? Buffer.from(seed, 'hex') : undefined, watermark }
  } catch {
    return undefined
  } finally {
    pages.close()
  }
}

/** The ids of projects by number, from both tables that have them. */
function readNames(pages: DataPages): Map<number, string> {
  const names = new Map<number, string>()
  for (const { key, value } of pages.rows('projects')) {
    if (value.length >= 4) names.set(value.readUInt32BE(), key.toString())
  }
  for (const { key, value } of pages.rows('project-numbers')) {
    if (key.length === 4) names.set(key.readUInt32BE(), value.toString())
  }
  return names
}

/** Writes the projects; returns those whose keys, or whose lack of keys, is known. */
function saveProjects(pages: DataPages, environment: Environment, names: ReadonlyMap<number, string>): Set<string> {
  const entries = new Map<string, Buffer>()
  for (const { key, value } of pages.rows('projects')) {
    const projectId = key.toString()
    if (value.length >= 4 && names.get(value.readUInt32BE()) === projectId && isProject(value.subarray(4), projectId)) {
      entries.set(projectId, Buffer.from(value))
    }
  }
  const [projects, numbers] = [environment.table('projects'), environment.table('project-numbers')]
  environment.write(() => {
    for (const [number, projectId] of names) {
      projects.put(Buffer.from(projectId), entries.get(projectId) ?? projectKey(number))
      numbers.put(projectKey(number), Buffer.from(projectId))
    }
  })
  return new Set(entries.keys())
}

/** Whether bytes are a project as JSON, or nothing for a project with events only. */
function isProject(json: Buffer, projectId: string): boolean {
  if (json.length === 0) return true
  try {
    const project: Partial<Project> = JSON.parse(json.toString())
    return project.projectId === projectId
  } catch {
    return false
  }
}

function lostEvents(
  pages: DataPages,
  names: ReadonlyMap<number, string>,
  saved: ReadonlyMap<number, Totals>,
): { projectId: string; events: number }[] {
  const lost: { projectId: string; events: number }[] = []
  for (const { key, value } of pages.rows('totals')) {
    if (key.length !== 4 || value.length !== 24) continue
    const events = value.readDoubleLE(0) - (saved.get(key.readUInt32BE())?.events ?? 0)
    const projectId = names.get(key.readUInt32BE())
    if (events > 0 && projectId !== undefined) lost.push({ projectId, events })
  }
  return lost
}
