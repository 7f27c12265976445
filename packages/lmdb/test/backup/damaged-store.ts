import { closeSync, openSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import { openDataPages } from '../../src/backup/data-pages.ts'
import { openEnvironment, type Table } from '../../src/environment/environment.ts'
import { openIdentity } from '../../src/environment/identity.ts'
import { openPageFile, readTable, rowsOf } from '../../src/environment/page-file.ts'
import { sequenceKey } from '../../src/environment/row-keys.ts'
import type { TableName } from '../../src/environment/schema.ts'
import { createIndexer } from '../../src/ids/indexer.ts'
import { createLogReader } from '../../src/ids/log-reader.ts'
import { openIdTables } from '../../src/ids/run-list.ts'
import { openLmdbStore } from '../built-store.ts'

export const projectId = 'p'
export const map = { placeId: '1', buildId: 'b' }

/** Makes a store with so many batches of two events, of which every second is larger than a page, a key and a map. */
export async function makeStore(directory: string, batches: number): Promise<string> {
  const ingest = createIngest({ store: await openLmdbStore(directory, { internals: { entriesPerFlush: 16 } }) })
  const project = ingest.project(projectId)
  const { key } = await ingest.keys.create(projectId)
  await project.publishMap({ ...map, map: { walls: 'x'.repeat(9000) } })
  await project.publishMap({ placeId: '2', buildId: 'b', map: { walls: 2 } })
  for (let batch = 1; batch <= batches; batch++) {
    const filler = 'f'.repeat(batch % 2 === 0 ? 9000 : 10)
    const events = [0, 1].map((i) => ({ projectId, eventId: `e-${batch}-${i}`, buildId: `b${batch % 3}`, filler }))
    await project.submitBatch({ events })
  }
  await ingest.close()
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

/** Flips a bit in the payload of a record of the log. */
export function damageRecord(directory: string, sequence: number): void {
  const { path, row } = findRecord(directory, sequence)
  // a page begins with its number
  const page = Number(Buffer.from(row.value.buffer, 0, 8).readBigUInt64LE())
  flipBit(path, page * 4096 + row.value.byteOffset + 60)
}

/** Overwrites the node of a record of the log with zeros, which are the node of an empty key and value. */
export function zeroNode(directory: string, sequence: number): void {
  const { path, row } = findRecord(directory, sequence)
  writeAt(path, row.page * 4096 + row.key.byteOffset - 8, Buffer.alloc(8))
}

function findRecord(directory: string, sequence: number) {
  const path = join(directory, 'events', 'data.mdb')
  const pages = openDataPages(path)
  const row = [...pages.rows('log')].find(({ key }) => key.equals(sequenceKey(sequence)))
  pages.close()
  if (!row) throw new Error(`there is no record ${sequence}`)
  return { path, row }
}

/** Makes the first branch of a table lead to a page behind the end of the file. */
export function loseFirstPage(path: string, table: string): void {
  const file = openPageFile(path)
  const [meta] = file.metas()
  const tables = Array.from(rowsOf(file, meta?.main as bigint, { onDamage: () => {} }), readTable)
  const root = Number(tables.find((each) => each?.name === table)?.root)
  const page = file.page(root)
  file.close()
  if (!page || page.isLeaf) throw new Error(`the table ${table} has no branch`)
  // of its first node, which begins with the number of its page
  writeAt(path, root * 4096 + 24 + page.bytes.readUInt16LE(24), Buffer.alloc(4, 0x7f))
}

/** A single free page of a data file, and where the list of free pages names it. */
function findFreePage(path: string): { page: number; at: number } {
  const file = openPageFile(path)
  const [meta] = file.metas()
  for (const { page, value } of rowsOf(file, meta?.free as bigint, { onDamage: () => {} })) {
    for (let at = 8; at < value.length; at += 8) {
      const entry = Number(value.readBigInt64LE(at))
      const previous = Number(value.readBigInt64LE(at - 8))
      // the start of a run follows its negative length
      if (entry <= 0 || (at > 8 && previous < 0)) continue
      file.close()
      return { page: entry, at: page * 4096 + value.byteOffset + at }
    }
  }
  throw new Error('the list has no single free page')
}

/** Takes a page out of the list of free pages. */
export function leakPage(path: string): void {
  writeNumber(path, findFreePage(path).at, 0)
}

/** Puts a page that is in use into the list of free pages, in place of one that is free. */
export function freeUsedPage(path: string, page: number): void {
  writeNumber(path, findFreePage(path).at, page)
}

function writeNumber(path: string, at: number, value: number): void {
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64LE(BigInt(value))
  writeAt(path, at, bytes)
}

/** Flips a bit of these bytes, which are in a file once. */
export function flipIn(path: string, bytes: Buffer): void {
  const at = readFileSync(path).indexOf(bytes)
  if (at === -1) throw new Error('the bytes are not in the file')
  flipBit(path, at)
}

/** Flips the lowest bit of the byte at `at`. */
export function flipBit(path: string, at: number): void {
  writeAt(path, at, Buffer.of(readFileSync(path).readUInt8(at) ^ 1))
}

/** Overwrites pages of a file with zeros. */
export function zeroPages(path: string, pages: readonly number[]): void {
  for (const page of pages) writeAt(path, page * 4096, Buffer.alloc(4096))
}

/** Overwrites bytes of a file. */
export function writeAt(path: string, at: number, bytes: Buffer): void {
  const file = openSync(path, 'r+')
  writeSync(file, bytes, 0, bytes.length, at)
  closeSync(file)
}
