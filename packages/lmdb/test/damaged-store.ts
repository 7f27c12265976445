import { closeSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import { openEnvironment, type Table } from '../src/environment/environment.ts'
import { openIdentity } from '../src/environment/identity.ts'
import type { TableName } from '../src/environment/schema.ts'
import { createIndexer } from '../src/ids/indexer.ts'
import { createLogReader } from '../src/ids/log-reader.ts'
import { openIdTables } from '../src/ids/run-list.ts'
import { builtStore, openLmdbStore } from './built-store.ts'

const { backUpLmdbStore } = (await import(builtStore)) as typeof import('../src/index.ts')

export const projectId = 'p'
export const map = { placeId: '1', buildId: 'b' }

/**
 * Creates a store with a key, two maps and this number of batches of two events; every second batch is larger than a page.
 * Its files have no free pages, so that they hold all bytes only once.
 */
export async function makeStore(directory: string, batches: number): Promise<string> {
  const written = `${directory}.written`
  const ingest = createIngest({ store: await openLmdbStore(written) })
  const project = ingest.project(projectId)
  const { key } = await ingest.keys.create(projectId)
  await project.publishMap({ ...map, map: { walls: 'x'.repeat(9000) } })
  await project.publishMap({ placeId: '2', buildId: 'b', map: { walls: 2 } })
  for (let batch = 1; batch <= batches; batch++) {
    const filler = 'f'.repeat(batch % 2 === 0 ? 3000 : 10)
    const events = [0, 1].map((i) => ({ projectId, eventId: `e-${batch}-${i}`, buildId: `b${batch % 3}`, filler }))
    await project.submitBatch({ events })
  }
  await ingest.close()
  await backUpLmdbStore(written, directory)
  rmSync(written, { recursive: true })
  await buildIndex(directory)
  return key
}

/** Moves the ids of a closed store into runs, as the thread of an open one does in time. */
export async function buildIndex(directory: string): Promise<void> {
  const events = await openEnvironment(join(directory, 'events'))
  const ids = await openEnvironment(join(directory, 'ids'))
  const seed = openIdentity(events, directory, []).hashKey.toString('hex')
  const log = createLogReader(events, events.table('log'))
  const indexer = createIndexer({ tables: openIdTables(ids), log, seed, entriesPerFlush: 16 })
  while (indexer.step() !== 'idle');
  await events.close()
  await ids.close()
}

/** Changes rows of a table of `events/` in a closed store. */
export async function changeRows(directory: string, table: TableName, work: (rows: Table) => unknown): Promise<void> {
  const environment = await openEnvironment(join(directory, 'events'))
  const rows = environment.table(table)
  // a transaction whose callback returns a promise, as put does, would wait for it
  environment.write(() => void work(rows))
  await environment.close()
}

const pageBytes = 4096
const headerBytes = 24
const flagsAt = 18
const branchFlag = 1
const leafFlag = 2

/** Flips a bit in the payload of a record of the log. */
export function damageRecord(directory: string, sequence: number): void {
  flipIn(join(directory, 'events', 'data.mdb'), Buffer.from(`"eventId":"e-${sequence}-0"`))
}

/** The leaf pages of the records of small batches. */
export function logPages(directory: string, sequences: readonly number[]): number[] {
  const bytes = readFileSync(join(directory, 'events', 'data.mdb'))
  const pages = sequences.map((sequence) => {
    const at = bytes.indexOf(`"eventId":"e-${sequence}-0"`)
    if (at === -1) throw new Error(`there is no record ${sequence}`)
    return Math.floor(at / pageBytes)
  })
  return [...new Set(pages)]
}

/** The pages that contain these bytes. */
export function pagesWith(path: string, part: Buffer): number[] {
  const bytes = readFileSync(path)
  const pages = new Set<number>()
  for (let at = bytes.indexOf(part); at !== -1; at = bytes.indexOf(part, at + 1)) pages.add(Math.floor(at / pageBytes))
  return [...pages]
}

/** The branch that leads to a page, and the position of the page number in it. */
function branchTo(bytes: Buffer, page: number): { branch: number; at: number } {
  for (let branch = 2; branch * pageBytes < bytes.length; branch++) {
    const start = branch * pageBytes
    const isOwn = Number(bytes.readBigUInt64LE(start)) === branch
    if (!isOwn || (bytes.readUInt16LE(start + flagsAt) & (branchFlag | leafFlag)) !== branchFlag) continue
    const count = bytes.readUInt16LE(start + flagsAt + 2) >> 1
    for (let index = 0; index < count; index++) {
      const at = start + headerBytes + bytes.readUInt16LE(start + headerBytes + index * 2)
      if (bytes.readUInt32LE(at) === page) return { branch, at }
    }
  }
  throw new Error(`no branch leads to page ${page}`)
}

/** The branch of the log that leads to the leaf of a record. */
export function logBranch(directory: string, sequence: number): number {
  const [leaf] = logPages(directory, [sequence]) as [number]
  return branchTo(readFileSync(join(directory, 'events', 'data.mdb')), leaf).branch
}

/** Makes a branch of the log lead to a page after the end of the file instead of the leaf of a record. */
export function losePage(directory: string, sequence: number): void {
  const path = join(directory, 'events', 'data.mdb')
  const [leaf] = logPages(directory, [sequence]) as [number]
  writeAt(path, branchTo(readFileSync(path), leaf).at, Buffer.alloc(4, 0x7f))
}

/** Takes a page out of the list of free pages, which is one leaf. */
export function leakPage(path: string): void {
  const bytes = readFileSync(path)
  const transactionOf = (meta: number) => bytes.readBigUInt64LE(meta * pageBytes + 152)
  const meta = transactionOf(0) > transactionOf(1) ? 0 : 1
  const leaf = Number(bytes.readBigUInt64LE(meta * pageBytes + 88)) * pageBytes
  if ((bytes.readUInt16LE(leaf + flagsAt) & leafFlag) === 0) throw new Error('the list of free pages is no leaf')
  const count = bytes.readUInt16LE(leaf + flagsAt + 2) >> 1
  for (let index = 0; index < count; index++) {
    const node = leaf + headerBytes + bytes.readUInt16LE(leaf + headerBytes + index * 2)
    const list = node + 8 + bytes.readUInt16LE(node + 6)
    // the length of the list, then page numbers; runs of pages have a negative length and their start
    for (let at = list + 8; at < list + bytes.readUInt32LE(node); at += 8) {
      const isRun = at > list + 8 && bytes.readBigInt64LE(at - 8) < 0n
      if (bytes.readBigInt64LE(at) <= 0n || isRun) continue
      writeAt(path, at, Buffer.alloc(8))
      return
    }
  }
  throw new Error('the list has no single free page')
}

/** Flips a bit of these bytes, which occur once in a file. */
export function flipIn(path: string, bytes: Buffer): void {
  const at = readFileSync(path).indexOf(bytes)
  if (at === -1) throw new Error('the bytes are not in the file')
  flipBit(path, at)
}

/** Flips the lowest bit of the byte at `at`. */
export function flipBit(path: string, at: number): void {
  writeAt(path, at, Buffer.of(readFileSync(path).readUInt8(at) ^ 1))
}

/** Overwrites pages of a file with a byte. */
export function fillPages(path: string, pages: readonly number[], byte: number): void {
  for (const page of pages) writeAt(path, page * pageBytes, Buffer.alloc(pageBytes, byte))
}

/** Overwrites bytes of a file. */
export function writeAt(path: string, at: number, bytes: Buffer): void {
  const file = openSync(path, 'r+')
  writeSync(file, bytes, 0, bytes.length, at)
  closeSync(file)
}
