import type { CompleteMap, Digest, EntryKind, Manifest, MapId } from '@ingest/core'
import { type ActivityCommands, type ActivityTable, openActivity } from '../activity/activity-table.ts'
import type { Rows } from '../environment/environment.ts'
import type { TableName } from '../environment/schema.ts'
import type { ChunkTables, WrittenChunk } from '../tables/chunks.ts'
import { type EntryTables, openEntries } from '../tables/entries.ts'
import type { FoundMap } from '../tables/map-reader.ts'
import { chunkRefBytes, decodeChunks, digestBytes } from '../tables/map-records.ts'
import { type MapTables, openMapTables } from '../tables/maps.ts'
import { openProjects, type Projects } from '../tables/projects.ts'

/**
 * A manifest to write, its chunks encoded by {@link encodeChunks}; a manifest that the slot already has is referred to
 * by its role.
 */
export type ManifestToPut = (Omit<Manifest, 'chunks'> & { chunks: Uint8Array }) | 'complete' | 'pending'

/** The bytes that a command counts while it is queued. */
export function bytesOf(command: Command): number {
  const bodies = command.type === 'putActivity' ? command.rows : []
  return commandBytes + rowBytes * rowCount(command) + bodies.reduce((sum, { body }) => sum + body.length, 0)
}

const commandBytes = 256
const rowBytes = 256

/** The number of rows that a large command writes or looks up; 0 for others. */
export function rowCount(command: Command): number {
  if (command.type === 'putMap') return chunkCount(command)
  if (command.type === 'putActivity') return command.rows.length
  return command.type === 'removeActivity' ? command.keys.length : 0
}

/** The number of chunks that a command writes or looks up. */
function chunkCount({ complete, pending, digests, uploads }: PutMap): number {
  const chunksOf = (manifest: ManifestToPut | undefined) =>
    typeof manifest === 'object' ? manifest.chunks.length / chunkRefBytes : 0
  const written = chunksOf(complete?.manifest) + chunksOf(pending?.manifest) + uploads.size
  return Math.max(written, digests.length / digestBytes)
}

/** Writes the decision about a map if the slot and the presence of chunks have not changed since. */
export interface PutMap {
  type: 'putMap'
  projectId: string
  /**
   * {@link Projects.numberToBe} when it was decided: the first map of a project creates the project with this number.
   */
  project: number
  map: MapId
  /** {@link FoundMap.version} of the slot. */
  version: string
  /** The chunks whose presence the decision depends on, encoded by {@link encodeDigests}. */
  digests: Uint8Array
  /** For each of `digests`, 1 if it was stored. */
  present: Uint8Array
  complete: (Omit<CompleteMap, 'manifest'> & { manifest: ManifestToPut }) | undefined
  pending: { manifest: ManifestToPut; touchedAt: number } | undefined
  uploads: ReadonlyMap<Digest, WrittenChunk>
  /** {@link ChunkTables.collections} when the uploads' blobs were known to exist. */
  collections: number
}

export interface PutChunk {
  type: 'putChunk'
  project: number
  digest: Digest
  chunk: WrittenChunk
  /** Like {@link PutMap.collections}. */
  collections: number
  receivedAt: number
}

/** The commands of the writer other than appending, and their results. */
export interface CommandResults extends ActivityCommands {
  /** Writes the JSON of an entry, empty for none, if the entry still is `before`; returns whether it was. */
  putEntry: {
    command: { type: 'putEntry'; kind: EntryKind; projectId: string; before: string; after: string }
    result: boolean
  }
  /** `unreleased`: the map is written, and `releaseChunks` has more to do. */
  putMap: { command: PutMap; result: 'written' | 'unreleased' | 'changed' }
  /** `changed` when the chunk's blob may be deleted. */
  putChunk: { command: PutChunk; result: 'stored' | 'existing' | 'undeclared' | 'changed' }
  /** Like {@link MapTables.releaseChunks}. */
  releaseChunks: { command: { type: 'releaseChunks' }; result: boolean }
  /**
   * Updates some of the pending manifests that miss a stored chunk; a chunk that was deleted meanwhile stays missing.
   */
  resolveAwaited: {
    command: { type: 'resolveAwaited'; project: number; digest: Digest; touchedAt: number | undefined }
    result: true
  }
  /** Drops the pending manifest of a map if it is expired, or void. Returns the same as `releaseChunks`. */
  sweepMap: { command: { type: 'sweepMap'; project: number; map: MapId; touchedBefore: number }; result: boolean }
  /** Records where the check for unused blobs continues; undefined once all are checked. */
  saveOrphansFrom: { command: { type: 'saveOrphansFrom'; from: Uint8Array | undefined }; result: true }
  /** Marks blobs that no chunk uses as garbage. */
  markGarbage: { command: { type: 'markGarbage'; blobKeys: readonly Uint8Array[] }; result: true }
  /** Removes the marks of deleted blobs. */
  collectGarbage: { command: { type: 'collectGarbage'; blobKeys: readonly Uint8Array[] }; result: true }
}

export type CommandType = keyof CommandResults
export type Command = CommandResults[CommandType]['command']
export type CommandResult = CommandResults[CommandType]['result']

export interface CommandTables {
  activity: ActivityTable
  entries: EntryTables
  maps: MapTables
  projects: Projects
}

/** Opens the tables of all commands up front, as tables must not be opened in a transaction. */
export function openCommandTables(table: (name: TableName) => Rows, onGarbage: () => void): CommandTables {
  const projects = openProjects(table)
  return {
    activity: openActivity(table),
    entries: openEntries(table, projects),
    maps: openMapTables(table, onGarbage),
    projects,
  }
}

/** Runs a command. Only inside a write transaction. */
export function runCommand(tables: CommandTables, command: Command): CommandResult {
  const { activity, entries, maps } = tables
  switch (command.type) {
    case 'putEntry': {
      const table = entries[command.kind]
      if (table.json(command.projectId) !== command.before) return false
      table.put(command.projectId, command.after)
      return true
    }
    case 'putActivity':
      for (const row of command.rows) activity.put(row)
      return true
    case 'removeActivity':
      return command.keys.filter((key) => activity.remove(asBuffer(key))).length
    case 'putMap':
      return putMap(tables, command)
    case 'putChunk':
      return putChunk(maps, command)
    case 'releaseChunks':
      return maps.releaseChunks()
    case 'resolveAwaited': {
      const { project, digest, touchedAt } = command
      if (maps.chunks.isStored(project, digest)) maps.pending.resolveAwaited(project, digest, touchedAt)
      return true
    }
    case 'sweepMap':
      maps.sweep(command.project, command.map, command.touchedBefore)
      return maps.releaseChunks()
    case 'saveOrphansFrom':
      maps.chunks.saveOrphansFrom(command.from && asBuffer(command.from))
      return true
    case 'markGarbage':
      for (const blobKey of command.blobKeys.map(asBuffer)) {
        if (!maps.chunks.isUsed(blobKey)) maps.chunks.markGarbage(blobKey)
      }
      return true
    case 'collectGarbage':
      maps.chunks.collectGarbage(command.blobKeys.map(asBuffer))
      return true
  }
}

function putMap({ maps, projects }: CommandTables, command: PutMap): 'written' | 'unreleased' | 'changed' {
  const { projectId, project, map, version, digests, present, collections } = command
  const uploads = new Map([...command.uploads].map(([digest, chunk]) => [digest, received(chunk)]))
  const found = maps.find(project, map)
  const isCurrent =
    projects.numberToBe(projectId) === project &&
    found.version === version &&
    maps.chunks.areStored(project, asBuffer(digests)).equals(present) &&
    canName(maps.chunks, [...uploads.values()], collections)
  if (!isCurrent) return 'changed'
  const { complete, pending } = command
  const contents = {
    ...(complete && { complete: { ...complete, manifest: manifestIn(found, complete.manifest) } }),
    ...(pending && { pending: { ...pending, manifest: manifestIn(found, pending.manifest) } }),
  }
  projects.numberFor(projectId)
  maps.put(project, map, found, contents, { uploads })
  return maps.releaseChunks() ? 'unreleased' : 'written'
}

function putChunk(maps: MapTables, command: PutChunk): 'stored' | 'existing' | 'undeclared' | 'changed' {
  const { project, digest, collections, receivedAt } = command
  const chunk = received(command.chunk)
  return canName(maps.chunks, [chunk], collections) ? maps.putChunk(project, digest, chunk, receivedAt) : 'changed'
}

/** Whether blobs that existed at this count of collections still exist. */
function canName(chunks: ChunkTables, written: readonly WrittenChunk[], collections: number): boolean {
  if (written.length === 0) return true
  return chunks.collections() === collections && !written.some(({ blobKey }) => chunks.isGarbage(blobKey))
}

function manifestIn({ contents }: FoundMap, manifest: ManifestToPut): Manifest {
  if (typeof manifest !== 'string') return { ...manifest, chunks: decodeChunks(asBuffer(manifest.chunks)) }
  return (contents[manifest] as { manifest: Manifest }).manifest
}

function received({ blobKey, size }: WrittenChunk): WrittenChunk {
  return { blobKey: asBuffer(blobKey), size }
}

/** The same bytes; a Buffer that another thread sent arrives as a Uint8Array. */
export function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}
