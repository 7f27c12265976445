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
import type { DataPages, FoundRow, RowLocation } from './data-pages.ts'
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
  const { pages, environment, names } = options
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
      const chunks = source.saveChunks(project, contents, (digest) => maps.chunks.isStored(project, digest))
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
function createMapSource({ pages, chunkPages, chunkEnvironment }: SaveMapsOptions) {
  const manifests = locationsOf(pages, 'manifests')
  const pendings = locationsOf(pages, 'pending-manifests')
  const chunks = locationsOf(pages, 'chunks')
  const blobs = chunkPages ? locationsOf(chunkPages, 'bytes') : new Map<string, RowLocation>()
  const target = chunkEnvironment.table('bytes')

  function valueAt(locations: ReadonlyMap<string, RowLocation>, key: Buffer, from = pages): Buffer | undefined {
    const location = locations.get(key.toString('hex'))
    return location && from.row(location)?.value
  }

  /** The blob of a stored chunk, if its bytes are those of its digest. */
  function blobOf(project: number, digest: Digest): { blobKey: Buffer; bytes: Buffer } | undefined {
    const key = chunkKey(project, digest)
    const row = valueAt(chunks, key)
    if (!row || row.length <= 4 || !chunkPages) return undefined
    const blobKey = Buffer.concat([key, decodeStored(row).upload])
    const bytes = valueAt(blobs, blobKey, chunkPages)
    return bytes && digestOf(bytes) === digest ? { blobKey, bytes } : undefined
  }

  function manifestOf({ contentType, size, digest, number }: NonNullable<MapRow['pending']>): Manifest | undefined {
    const bytes = valueAt(manifests, sequenceKey(number))
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
        const record = valueAt(pendings, projectKey(project, sequenceKey(row.pending.number)))
        const touchedAt = record && record.length > pendingHeaderBytes ? decodePending(record).touchedAt : Date.now()
        contents.pending = { manifest: pending, touchedAt }
      }
      const isAll = (role: 'complete' | 'pending') => row?.[role] === undefined || contents[role] !== undefined
      return { contents, isWhole: row !== undefined && isAll('complete') && isAll('pending') }
    },

    /** Writes the intact chunks of a map that are not stored yet. */
    saveChunks(
      project: number,
      { complete, pending }: MapContents,
      isStored: (digest: Digest) => boolean,
    ): Map<Digest, WrittenChunk> {
      const saved = new Map<Digest, WrittenChunk>()
      const refs = [...(complete?.manifest.chunks ?? []), ...(pending?.manifest.chunks ?? [])]
      for (let next = 0; next < refs.length; ) {
        chunkEnvironment.write(() => {
          for (let bytes = 0; bytes < transactionBytes && next < refs.length; next++) {
            const { digest } = refs[next] as ChunkRef
            const blob = saved.has(digest) || isStored(digest) ? undefined : blobOf(project, digest)
            if (!blob) continue
            target.put(blob.blobKey, blob.bytes)
            saved.set(digest, { blobKey: blob.blobKey, size: blob.bytes.length })
            bytes += blob.bytes.length
          }
        })
      }
      return saved
    },
  }
}

function locationsOf(pages: DataPages, table: string): Map<string, RowLocation> {
  const location = ({ key, page, index }: FoundRow) => [key.toString('hex'), { page, index }] as const
  return new Map(Array.from(pages.rows(table), location))
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
