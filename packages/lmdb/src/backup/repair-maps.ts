import { createHash } from 'node:crypto'
import { type ChunkRef, type Digest, digestOf, isPendingVoid, type Manifest, type MapContents } from '@ingest/core'
import type { Environment } from '../environment/environment.ts'
import { projectKey, sequenceKey } from '../environment/row-keys.ts'
import { readFrozenAt } from '../log/event-log.ts'
import { chunkKey, type WrittenChunk } from '../tables/chunks.ts'
import { type MapRow, mapKeyOffset, versionOfNone } from '../tables/map-reader.ts'
import {
  chunkRefBytes,
  decodeChunks,
  decodePending,
  decodeStored,
  parseMapName,
  pendingHeaderBytes,
} from '../tables/map-records.ts'
import { openMapTables } from '../tables/maps.ts'
import type { DataPages } from './data-pages.ts'
import type { LostMap } from './repair-report.ts'

export interface SaveMapsOptions {
  pages: DataPages
  /** Undefined without a file of chunks that can be read. */
  chunkPages: DataPages | undefined
  environment: Environment
  chunkEnvironment: Environment
  names: ReadonlyMap<number, string>
}

/** The most bytes of chunks that one transaction writes. */
const transactionBytes = 16 * 2 ** 20

/** Writes each map whose manifest and bytes are whole, and unfinished uploads with the chunks that are. */
export async function saveMaps(
  options: SaveMapsOptions,
  onMap: (done: number) => Promise<void>,
): Promise<{ maps: number; lost: LostMap[] }> {
  const { pages, environment, chunkEnvironment, names } = options
  const maps = openMapTables(environment.table)
  const freezes = environment.table('freezes')
  const source = createMapSource(options)
  const lost: LostMap[] = []
  let saved = 0
  for (const { key, value } of pages.rows('maps')) {
    if (key.length <= mapKeyOffset || !key.includes(0, mapKeyOffset)) continue
    const project = key.readUInt32BE()
    const id = parseMapName(key.subarray(mapKeyOffset))
    const { contents, isWhole } = source.read(project, value)
    environment.root.resetReadTxn()
    const frozenAt = readFrozenAt(freezes, project, id.buildId)
    // no sweep would look for it
    if (isPendingVoid(contents, frozenAt)) delete contents.pending
    if (contents.complete || contents.pending) {
      const chunks = saveBlobs(chunkEnvironment, contents, (digest) =>
        maps.chunks.isStored(project, digest) ? undefined : source.blobOf(project, digest),
      )
      const none = { row: {}, contents: {}, frozenAt, version: versionOfNone }
      environment.write(() => maps.put(project, id, none, contents, { uploads: chunks }))
      await onMap(++saved)
    }
    if (isWhole) continue
    const projectId = names.get(project)
    lost.push({ ...id, ...(projectId !== undefined && { projectId }) })
  }
  return { maps: saved, lost }
}

/** The maps of a damaged store. */
function createMapSource({ pages, chunkPages }: SaveMapsOptions) {
  const manifestAt = lookUpIn(pages, 'manifests')
  const pendingAt = lookUpIn(pages, 'pending-manifests')
  const chunkAt = lookUpIn(pages, 'chunks')
  const blobAt = chunkPages ? lookUpIn(chunkPages, 'bytes') : () => undefined

  /** The blob of a stored chunk, if its bytes are those of its digest. */
  function blobOf(project: number, digest: Digest): Blob | undefined {
    const key = chunkKey(project, digest)
    const row = chunkAt(key)
    if (!row || row.length <= 4) return undefined
    const blobKey = Buffer.concat([key, decodeStored(row).upload])
    const bytes = blobAt(blobKey)
    return bytes && digestOf(bytes) === digest ? { blobKey, bytes } : undefined
  }

  function manifestOf({ contentType, size, digest, number }: NonNullable<MapRow['pending']>): Manifest | undefined {
    const bytes = manifestAt(sequenceKey(number))
    if (!bytes || bytes.length === 0 || bytes.length % chunkRefBytes !== 0) return undefined
    const manifest = { contentType, size, digest, chunks: decodeChunks(bytes) }
    return manifest.chunks.reduce((sum, each) => sum + each.size, 0) === size ? manifest : undefined
  }

  function isWhole(project: number, manifest: Manifest): boolean {
    const hash = createHash('sha256')
    for (const { digest, size } of manifest.chunks) {
      const bytes = blobOf(project, digest)?.bytes
      if (bytes?.length !== size) return false
      hash.update(bytes)
    }
    return `sha256:${hash.digest('hex')}` === manifest.digest
  }

  return {
    blobOf,

    /** What can be saved of a map, and whether that is all of it. */
    read(project: number, value: Buffer): { contents: MapContents; isWhole: boolean } {
      const row = parseRow(value)
      const contents: MapContents = {}
      const complete = row?.complete && manifestOf(row.complete)
      if (row?.complete && complete && isWhole(project, complete)) {
        contents.complete = { manifest: complete, publishedAt: row.complete.publishedAt }
      }
      const pending = row?.pending && manifestOf(row.pending)
      if (row?.pending && pending) {
        const record = pendingAt(projectKey(project, sequenceKey(row.pending.number)))
        const touchedAt = record && record.length > pendingHeaderBytes ? decodePending(record).touchedAt : Date.now()
        contents.pending = { manifest: pending, touchedAt }
      }
      const isAll = (role: 'complete' | 'pending') => row?.[role] === undefined || contents[role] !== undefined
      return { contents, isWhole: row !== undefined && isAll('complete') && isAll('pending') }
    },
  }
}

interface Blob {
  blobKey: Buffer
  bytes: Buffer
}

/** Writes the blobs of a map's chunks that are intact and not stored yet. */
function saveBlobs(
  { write, table }: Environment,
  { complete, pending }: MapContents,
  blobOf: (digest: Digest) => Blob | undefined,
): Map<Digest, WrittenChunk> {
  const saved = new Map<Digest, WrittenChunk>()
  const blobs = table('bytes')
  const refs = [...(complete?.manifest.chunks ?? []), ...(pending?.manifest.chunks ?? [])]
  for (let next = 0; next < refs.length; ) {
    write(() => {
      for (let bytes = 0; bytes < transactionBytes && next < refs.length; next++) {
        const { digest } = refs[next] as ChunkRef
        const blob = saved.has(digest) ? undefined : blobOf(digest)
        if (!blob) continue
        blobs.put(blob.blobKey, blob.bytes)
        saved.set(digest, { blobKey: blob.blobKey, size: blob.bytes.length })
        bytes += blob.bytes.length
      }
    })
  }
  return saved
}

/** Reads the values of a table by their keys. */
function lookUpIn(pages: DataPages, table: string): (key: Buffer) => Buffer | undefined {
  const locations = new Map(
    Array.from(pages.rows(table), ({ key, page, index }) => [key.toString('hex'), { page, index }] as const),
  )
  return (key) => {
    const location = locations.get(key.toString('hex'))
    return location && pages.value(location)
  }
}

/** The row of a map; undefined for one that is damaged. */
function parseRow(value: Buffer): MapRow | undefined {
  try {
    const row = JSON.parse(value.toString())
    return typeof row === 'object' && row !== null ? row : undefined
  } catch {
    return undefined
  }
}
