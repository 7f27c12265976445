import { createHash } from 'node:crypto'
import { type Digest, digestOf, IngestError } from '@ingest/core'
import { decodeStored } from '../chunks/chunk-encoding.ts'
import { type ChunkTables, chunkKey, openChunkTables } from '../chunks/chunk-tables.ts'
import type { Environment, Rows } from '../environment/environment.ts'
import { projectKey } from '../environment/row-keys.ts'
import type { TableName } from '../environment/schema.ts'
import { parseMapName } from '../maps/map-encoding.ts'
import { createMapReader, type FoundMap, type MapReader, mapKeyOffset } from '../maps/map-reader.ts'
import { openPendingTables } from '../maps/pending-manifests.ts'
import { addProblem, type StoreReport } from './store-report.ts'

export interface MapCheckOptions {
  environment: Environment
  chunkEnvironment: Environment
  report: StoreReport
  /** Called between two snapshots with the number of bytes that were hashed. */
  onSlice(bytes: number): Promise<void>
}

/** The most rows that are read from one snapshot. */
const rowsAtOnce = 256

/**
 * Hashes every stored chunk, then every complete map as a whole. Servers may replace maps meanwhile, so a row that
 * seems damaged is read again, and is reported only if it has not changed.
 */
export async function checkMaps(options: MapCheckOptions): Promise<void> {
  const { environment, chunkEnvironment } = options
  const { table } = environment
  const chunks = openChunkTables(table)
  const context: MapCheck = {
    ...options,
    chunks,
    reader: createMapReader(table, chunks, openPendingTables(table)),
    references: table('chunk-references'),
    names: table('project-numbers'),
    readBlob(blobKey) {
      chunkEnvironment.root.resetReadTxn()
      return chunkEnvironment.table('bytes').getBinary(blobKey)
    },
  }
  await eachKey(options, 'chunks', (key) => checkChunk(context, key))
  await eachKey(options, 'maps', (key) => checkMap(context, key))
}

interface MapCheck extends MapCheckOptions {
  chunks: ChunkTables
  reader: MapReader
  references: Rows
  names: Rows
  readBlob(blobKey: Buffer): Buffer | undefined
}

async function eachKey(
  { environment, report }: MapCheckOptions,
  name: TableName,
  check: (key: Buffer) => Promise<void>,
): Promise<void> {
  const rows = environment.table(name)
  for (let start = Buffer.alloc(0); ; ) {
    environment.root.resetReadTxn()
    const keys = Array.from(rows.getKeys({ start, limit: rowsAtOnce }), (key) => Buffer.from(key))
    const [first, last] = [keys[0], keys.at(-1)]
    if (!first || !last) return
    // a damaged B-tree may contain a cycle
    if (Buffer.compare(first, start) < 0 || Buffer.compare(last, first) < 0) {
      addProblem(report, { part: 'maps', message: `The table ${name} is damaged: its keys are out of order.` })
      return
    }
    for (const key of keys) await check(key)
    start = Buffer.concat([last, Buffer.of(0)])
  }
}

const digestIn = (key: Buffer): Digest => `sha256:${key.toString('hex', 4)}`

/** The state of a row, and its problem. */
interface Finding {
  state: string
  problem: string | undefined
}

/** Reads a row until it has no problem, or the same state is found twice. */
async function settle<T extends Finding>(
  { environment }: MapCheck,
  look: () => Promise<T | undefined>,
): Promise<T | undefined> {
  for (let missed: string | undefined; ; ) {
    environment.root.resetReadTxn()
    const found = await look()
    if (found?.problem === undefined || found.state === missed) return found
    missed = found.state
  }
}

function addMapProblem({ report, names }: MapCheck, project: number, message: string): void {
  const projectId = names.getBinary(projectKey(project))?.toString()
  addProblem(report, { part: 'maps', message, projectId })
}

async function checkChunk(context: MapCheck, key: Buffer): Promise<void> {
  const { environment, report, onSlice } = context
  const rows = environment.table('chunks')
  const found = await settle(context, async () => {
    const row = rows.getBinary(key)
    if (!row) return undefined
    const { upload, size } = decodeStored(row)
    const bytes = context.readBlob(Buffer.concat([key, upload]))
    await onSlice(bytes?.length ?? 0)
    const isWhole = bytes?.length === size && digestOf(bytes) === digestIn(key)
    const problem = bytes ? 'has other bytes than its digest says' : 'has lost its bytes'
    return { state: row.toString('hex'), problem: isWhole ? undefined : problem, size }
  })
  if (!found) return
  if (found.problem !== undefined) {
    addMapProblem(context, key.readUInt32BE(), `Chunk ${digestIn(key)} ${found.problem}.`)
    return
  }
  report.chunks++
  report.chunkBytes += found.size
}

async function checkMap(context: MapCheck, key: Buffer): Promise<void> {
  const project = key.readUInt32BE()
  const id = parseMapName(key.subarray(mapKeyOffset))
  const found = await settle(context, async () => {
    const map = findMap(context.reader, project, id)
    if (typeof map === 'string') return { state: map, problem: map }
    if (!map.row.complete && !map.row.pending) return undefined
    return { state: map.version, problem: await problemOf(context, project, map) }
  })
  if (!found) return
  if (found.problem === undefined) context.report.maps++
  else addMapProblem(context, project, `The map of place ${id.placeId} and build ${id.buildId} ${found.problem}.`)
}

/** A map, or the problem of its rows. */
function findMap(reader: MapReader, project: number, id: { placeId: string; buildId: string }): FoundMap | string {
  try {
    return reader.find(project, id)
  } catch (error) {
    if (error instanceof IngestError && error.code === 'store-damaged') return 'has lost its manifest'
    // the row is not JSON, or a pending row is missing
    if (error instanceof SyntaxError || error instanceof TypeError || error instanceof RangeError) {
      return 'has a row that is damaged'
    }
    throw error
  }
}

/** The problem of a map, if it has one. */
async function problemOf(context: MapCheck, project: number, { row, contents }: FoundMap): Promise<string | undefined> {
  const { chunks, references, onSlice, environment } = context
  for (const role of ['complete', 'pending'] as const) {
    const manifest = contents[role]?.manifest
    const number = row[role]?.number
    if (!manifest || number === undefined) continue
    environment.root.resetReadTxn()
    const hasReference = (digest: Digest) => references.doesExist(chunkKey(project, digest, number))
    if (!manifest.chunks.every(({ digest }) => hasReference(digest)))
      return `has a chunk without its reference (${role})`
    if (manifest.chunks.reduce((sum, { size }) => sum + size, 0) !== manifest.size) return 'has another size'
  }
  if (!contents.complete) return undefined
  const { manifest } = contents.complete
  const hash = createHash('sha256')
  for (const { digest, size } of manifest.chunks) {
    environment.root.resetReadTxn()
    const blobKey = chunks.blobKeyOf(project, digest)
    const bytes = blobKey && context.readBlob(blobKey)
    if (bytes?.length !== size) return `has lost chunk ${digest}`
    hash.update(bytes)
    await onSlice(bytes.length)
  }
  return `sha256:${hash.digest('hex')}` === manifest.digest ? undefined : 'has other bytes than its digest says'
}
