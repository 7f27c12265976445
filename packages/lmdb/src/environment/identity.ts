import { randomBytes } from 'node:crypto'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { IngestError, type StoreIdentity } from '@ingest/core'
import { checkDataFile } from './data-file.ts'
import { type Environment, openEnvironment } from './environment.ts'
import { listTables } from './root.ts'

/** The identity of a store. `events/` holds all of it, `chunks/` a copy of the id and the epoch, `ids/` of the key. */
export interface LmdbIdentity extends StoreIdentity {
  /** The key of the hashes of event ids, 16 bytes. Secret, as it allows crafting ids that collide. */
  hashKey: Buffer
}

/*
 * A new store is created in this order, each step durable before the next, so that a crash in between loses nothing:
 * `events/` with its identity, `chunks/` with its identity, `ids/`. So `events/` is never missing beside one of the
 * others, and `chunks/` is missing only while the log names no chunk.
 */
const formatVersion = 1
const hashKeyAt = 1
const idAt = hashKeyAt + 16
const idBytes = 8
const epochAt = idAt + idBytes
const checksumAt = epochAt + idBytes
const metaTable = 'meta'
const formatKey = Buffer.from('format')
const storeKey = Buffer.from('store')

/** The directories beside `events/` that hold data. Call this before opening `events/`, which is created first. */
export function findSiblings(directory: string): string[] {
  return ['chunks', 'ids'].map((name) => join(directory, name)).filter(holdsData)
}

function holdsData(path: string): boolean {
  try {
    return (statSync(join(path, 'data.mdb'), { throwIfNoEntry: false })?.size ?? 0) > 0
  } catch (error) {
    // ENOTDIR: a file instead of a directory; after any other error there may be data
    return (error as NodeJS.ErrnoException).code !== 'ENOTDIR'
  }
}

/**
 * Checks that a missing `events/` belongs to a new store.
 *
 * @throws {IngestError} `store-incompatible` for one beside directories that hold data
 */
export function checkEventsPresent(eventsDirectory: string, siblings: readonly string[]): void {
  const [sibling] = siblings
  if (sibling !== undefined) throw lost(eventsDirectory, sibling)
}

/**
 * The identity in `events/`; created if there is none and no other directory holds data.
 *
 * @throws {IngestError} `store-incompatible`; `store-damaged`, as with another key every event would be new; and the
 *   codes of {@link Environment.write}
 */
export function openIdentity(events: Environment, eventsDirectory: string, siblings: readonly string[]): LmdbIdentity {
  if (!listTables(events.root).includes(metaTable)) checkEventsPresent(eventsDirectory, siblings)
  const meta = events.table(metaTable)
  // an existing store opens without the write lock
  const format = meta.getBinary(formatKey) ?? (siblings.length > 0 ? undefined : events.write(makeFormat))
  if (!format) throw lost(eventsDirectory, siblings[0] as string)
  if (format[0] !== formatVersion) {
    throw new IngestError(
      'store-incompatible',
      `${eventsDirectory} is of format ${format[0]}, and this version reads format ${formatVersion}: use the version that created it.`,
    )
  }
  if (!isIntact(format)) {
    throw new IngestError(
      'store-damaged',
      `The identity of the store in ${eventsDirectory} is damaged: save the store with \`ingest repair\`, or restore a backup.`,
    )
  }
  return readIdentity(format)

  function makeFormat(): Buffer {
    const existing = meta.getBinary(formatKey)
    const format = existing ?? makeRow({ hashKey: randomBytes(idAt - hashKeyAt), id: randomBytes(idBytes) })
    if (!existing) meta.put(formatKey, format)
    return format
  }
}

/** The identity in the row `format` of the table `meta`. */
function readIdentity(format: Buffer): LmdbIdentity {
  return {
    hashKey: format.subarray(hashKeyAt, idAt),
    id: format.subarray(idAt, epochAt),
    epoch: format.subarray(epochAt, checksumAt),
  }
}

/** The row of a store in a new epoch. */
function makeRow({ hashKey, id }: Pick<LmdbIdentity, 'hashKey' | 'id'>): Buffer {
  return withChecksum(Buffer.concat([Buffer.of(formatVersion), hashKey, id, randomBytes(idBytes)]))
}

function withChecksum(identity: Buffer): Buffer {
  const checksum = Buffer.alloc(4)
  checksum.writeUInt32LE(crc32(identity))
  return Buffer.concat([identity, checksum])
}

function isIntact(row: Buffer): boolean {
  return row.equals(withChecksum(row.subarray(0, checksumAt)))
}

/**
 * Whether `chunks/` has a data file; without one, the store has no chunk.
 *
 * @throws {IngestError} `store-incompatible` for a missing file if the log names a chunk, and for a damaged one
 */
export function hasChunksFile(events: Environment, directory: string): boolean {
  const chunksDirectory = join(directory, 'chunks')
  if (checkDataFile(join(chunksDirectory, 'data.mdb'))) return true
  if (namesChunks(events)) throw lost(chunksDirectory, join(directory, 'events'))
  return false
}

/**
 * Opens `chunks/` and checks that it belongs to the store of `events/`. A missing one is created if the log names no
 * chunk, so that nothing is lost.
 *
 * @throws {IngestError} `store-incompatible`, with nothing changed, and the codes of {@link openEnvironment}
 */
export async function openChunks(
  events: Environment,
  directory: string,
  identity: StoreIdentity,
): Promise<Environment> {
  const chunksDirectory = join(directory, 'chunks')
  const eventsDirectory = join(directory, 'events')
  const own = ownIdentity(identity)
  hasChunksFile(events, directory)
  const chunks = await openEnvironment(chunksDirectory)
  try {
    const known = readChunksIdentity(chunks, events, chunksDirectory, eventsDirectory)
    if (!(known ?? writeOnce(chunks, own)).equals(own)) throw foreign(chunksDirectory, eventsDirectory)
    return chunks
  } catch (error) {
    await chunks.close()
    throw error
  }
}

/**
 * Opens an existing `chunks/` to read it, and checks that it belongs to the store of `events/`. Returns undefined for
 * an empty one, whose process was killed while it created it.
 *
 * @throws {IngestError} `store-incompatible`, and the codes of {@link openEnvironment}
 */
export async function openChunksToRead(
  events: Environment,
  directory: string,
  identity: StoreIdentity,
): Promise<Environment | undefined> {
  const chunksDirectory = join(directory, 'chunks')
  const eventsDirectory = join(directory, 'events')
  const chunks = await openEnvironment(chunksDirectory, { readOnly: true })
  try {
    const known = readChunksIdentity(chunks, events, chunksDirectory, eventsDirectory)
    if (known?.equals(ownIdentity(identity))) return chunks
    if (known) throw foreign(chunksDirectory, eventsDirectory)
  } catch (error) {
    await chunks.close()
    throw error
  }
  await chunks.close()
  return undefined
}

/** The identity in `chunks/`; undefined for a new one. */
function readChunksIdentity(
  chunks: Environment,
  events: Environment,
  chunksDirectory: string,
  eventsDirectory: string,
): Buffer | undefined {
  const tables = listTables(chunks.root)
  const known = tables.includes(metaTable) ? chunks.table(metaTable).getBinary(storeKey) : undefined
  if (!known && tables.some((name) => name !== metaTable)) throw foreign(chunksDirectory, eventsDirectory)
  if (!known && namesChunks(events)) throw lost(chunksDirectory, eventsDirectory)
  return known
}

/** The part of the identity that `chunks/` holds. */
function ownIdentity({ id, epoch }: StoreIdentity): Buffer {
  return Buffer.concat([id, epoch])
}

/** Begins a new epoch, which invalidates all earlier cursors. The store must not be in use. */
export function beginEpoch(events: Environment, chunks: Environment): void {
  const meta = events.table(metaTable)
  const format = makeRow(readIdentity(meta.getBinary(formatKey) as Buffer))
  const chunksMeta = chunks.table(metaTable)
  // a transaction whose callback returns a promise, as put does, would wait for it
  events.write(() => void meta.put(formatKey, format))
  chunks.write(() => void chunksMeta.put(storeKey, ownIdentity(readIdentity(format))))
}

/** Returns the identity in `chunks/`, after writing `own` unless another process has created it meanwhile. */
function writeOnce(chunks: Environment, own: Buffer): Buffer {
  const meta = chunks.table(metaTable)
  return chunks.write(() => {
    const existing = meta.getBinary(storeKey)
    if (!existing) meta.put(storeKey, own)
    return existing ?? own
  })
}

/** Whether the log names any chunk as stored. */
function namesChunks(events: Environment): boolean {
  events.root.resetReadTxn()
  if (!listTables(events.root).includes('chunks')) return false
  return [...events.table('chunks').getKeys({ limit: 1 })].length > 0
}

const remedy = 'Nothing was changed. Put back what was moved away, or restore the whole directory from a backup.'

function lost(path: string, sibling: string): IngestError {
  return new IngestError(
    'store-incompatible',
    `${path} is missing or empty, and ${sibling} beside it belongs to a store: continuing without it would lose data. ${remedy}`,
  )
}

function foreign(path: string, sibling: string): IngestError {
  return new IngestError(
    'store-incompatible',
    `${path} does not belong to the same store as ${sibling}, or is of another backup of it. ${remedy}`,
  )
}
