import { pendingBytesOf } from '../maps/map-quota.ts'
import { contentsAfterExpiry, digestsOf, isExpired, isPendingVoid } from '../maps/pending-map.ts'
import type { MapStore } from '../store.ts'
import type { Digest, Manifest, MapId } from '../store-types.ts'
import {
  type BuildEntry,
  type BuildPosition,
  type BuildSelection,
  buildsSearchedMax,
  type FoundBuilds,
  foldBuildId,
  type MapContents,
  type MapEntry,
  type MapSelection,
  type MapSlot,
  readyMapsMax,
} from '../store-types.ts'

interface KeptMap {
  id: MapId
  contents: MapContents
}

/** The maps of one project. */
export interface ProjectMaps {
  /** When each build froze, in milliseconds since 1970. */
  frozenAt: ReadonlyMap<string, number>
  /** Maps by {@link nameOf}. */
  maps: Map<string, KeptMap>
  chunks: Map<Digest, Uint8Array>
}

export function createProjectMaps(frozenAt: ReadonlyMap<string, number>): ProjectMaps {
  return { frozenAt, maps: new Map(), chunks: new Map() }
}

/** `mapsOf` throws once the store is closed. */
export function memoryMapStore(mapsOf: (projectId: string) => ProjectMaps): MapStore {
  return {
    async map({ projectId, ...id }) {
      return slotOf(mapsOf(projectId), id)
    },

    maps: async (projectId, selection) => listMaps(mapsOf(projectId), selection),

    builds: async (projectId, selection) => listBuilds(mapsOf(projectId), selection),

    async updateMap({ projectId, placeId, buildId }, { digests = [], uploads = [] }, decide) {
      const project = mapsOf(projectId)
      const id = { placeId, buildId }
      const present = new Set(digests.filter((digest) => project.chunks.has(digest)))
      const { contents, result } = decide(slotOf(project, id), present)
      if (contents) {
        const maps = new Map(project.maps).set(nameOf(id), { id, contents: storedContents(contents) })
        const chunks = new Map(project.chunks)
        for (const { digest, bytes } of uploads) chunks.set(digest, Buffer.from(bytes))
        Object.assign(project, { maps, chunks })
        collectGarbage(project)
      }
      return result
    },

    async putChunk(projectId, { digest, bytes, receivedAt }) {
      const project = mapsOf(projectId)
      if (project.chunks.has(digest)) return { outcome: 'existing', ready: readyMaps(project, digest) }
      if ((namedChunks(project).get(digest) ?? 0) < bytes.length) return { outcome: 'undeclared', ready: [] }
      project.chunks = new Map(project.chunks).set(digest, Buffer.from(bytes))
      for (const { contents } of project.maps.values()) {
        const { pending } = contents
        if (pending && names(pending.manifest, digest)) contents.pending = { ...pending, touchedAt: receivedAt }
      }
      return { outcome: 'stored', ready: readyMaps(project, digest) }
    },

    async readChunk(projectId, digest) {
      const bytes = mapsOf(projectId).chunks.get(digest)
      return bytes && Buffer.from(bytes)
    },

    async pendingTotals(projectId) {
      const { maps, frozenAt } = mapsOf(projectId)
      const pending = [...maps.values()].filter(({ contents }) => contents.pending)
      const bytes = pending.map(({ id, contents }) => pendingBytesOf(contents, frozenAt.get(id.buildId)))
      return { maps: pending.length, bytes: bytes.reduce((sum, each) => sum + each, 0) }
    },
  }
}

/** Drops pending maps that are void or expired, and the chunks that only they named. */
export function sweepProjectMaps(project: ProjectMaps, touchedBefore: number): void {
  for (const map of project.maps.values()) {
    map.contents = contentsOf(project, map)
    const { pending } = map.contents
    const frozenAt = project.frozenAt.get(map.id.buildId)
    if (isExpired({ pending, frozenAt }, touchedBefore)) map.contents = contentsAfterExpiry(map.contents)
  }
  collectGarbage(project)
}

function listMaps(project: ProjectMaps, { placeId, buildId, after, limit }: MapSelection): MapEntry[] {
  const first = after && Buffer.from(nameOf(after))
  return [...project.maps.values()]
    .filter(({ id }) => placeId === undefined || id.placeId === placeId)
    .filter(({ id }) => buildId === undefined || id.buildId === buildId)
    .map(({ id }) => ({ id, name: Buffer.from(nameOf(id)) }))
    .filter(({ name }) => !first || name.compare(first) > 0)
    .sort((a, b) => a.name.compare(b.name))
    .slice(0, limit)
    .map(({ id }) => ({ ...id, slot: slotOf(project, id) }))
}

function listBuilds(project: ProjectMaps, { search = '', after, limit }: BuildSelection): FoundBuilds {
  const following = buildsOf(project)
    .sort(byAge)
    .filter((build) => !after || byAge(build, after) > 0)
  const searched = following.slice(0, buildsSearchedMax)
  const found = searched.filter(({ buildId }) => foldBuildId(buildId).includes(search))
  const last = found.length < limit && searched.length < following.length ? searched.at(-1) : undefined
  return { builds: found.slice(0, limit), ...(last && { last }) }
}

function byAge(a: BuildPosition, b: BuildPosition): number {
  const [aAt, bAt] = [a.frozenAt ?? Number.POSITIVE_INFINITY, b.frozenAt ?? Number.POSITIVE_INFINITY]
  return aAt === bAt ? compareBytes(b.buildId, a.buildId) : bAt - aAt
}

function buildsOf({ frozenAt, maps }: ProjectMaps): BuildEntry[] {
  const builds = new Map<string, BuildEntry>()
  for (const [buildId, at] of frozenAt) builds.set(buildId, { buildId, frozenAt: at, maps: 0 })
  for (const { buildId } of [...maps.values()].map(({ id }) => id)) {
    const build = builds.get(buildId) ?? { buildId, maps: 0 }
    builds.set(buildId, { ...build, maps: build.maps + 1 })
  }
  return [...builds.values()]
}

function nameOf({ placeId, buildId }: MapId): string {
  // build ids contain no U+0000
  return `${buildId}\0${placeId}`
}

/** Drops `missing`, which is computed for each read. */
function storedContents({ complete, pending }: MapContents): MapContents {
  return {
    ...(complete && { complete }),
    ...(pending && { pending: { manifest: pending.manifest, touchedAt: pending.touchedAt } }),
  }
}

/** The contents of a map without a pending map that a freeze has made void. */
function contentsOf({ frozenAt }: ProjectMaps, { id, contents }: KeptMap): MapContents {
  if (!isPendingVoid(contents, frozenAt.get(id.buildId))) return contents
  const { pending: _, ...rest } = contents
  return rest
}

function slotOf(project: ProjectMaps, id: MapId): MapSlot {
  const { maps, frozenAt, chunks } = project
  const at = frozenAt.get(id.buildId)
  const map = maps.get(nameOf(id))
  const { complete, pending } = map ? contentsOf(project, map) : {}
  const missing = pending && digestsOf(pending.manifest).filter((digest) => !chunks.has(digest))
  return {
    ...(at !== undefined && { frozenAt: at }),
    ...(complete && { complete }),
    ...(pending && missing && { pending: { ...pending, missing } }),
  }
}

function names({ chunks }: Manifest, digest: Digest): boolean {
  return chunks.some((chunk) => chunk.digest === digest)
}

/** Pending maps whose chunks are all stored; maps that name this chunk come first. */
function readyMaps(project: ProjectMaps, digest: Digest): MapId[] {
  const ready = [...project.maps.values()].flatMap((map) => {
    const { pending } = contentsOf(project, map)
    return pending?.manifest.chunks.every((chunk) => project.chunks.has(chunk.digest))
      ? [{ id: map.id, isNaming: names(pending.manifest, digest) }]
      : []
  })
  ready.sort((a, b) => Number(b.isNaming) - Number(a.isNaming))
  return ready.slice(0, readyMapsMax).map(({ id }) => id)
}

/** The chunks that the maps of a project name, each with the largest declared size. */
function namedChunks(project: ProjectMaps): Map<Digest, number> {
  const named = new Map<Digest, number>()
  for (const map of project.maps.values()) {
    const { complete, pending } = contentsOf(project, map)
    for (const { digest, size } of [complete, pending].flatMap((each) => each?.manifest.chunks ?? [])) {
      named.set(digest, Math.max(size, named.get(digest) ?? 0))
    }
  }
  return named
}

/** Deletes empty maps, and chunks that no map names. */
function collectGarbage(project: ProjectMaps): void {
  for (const [name, { contents }] of project.maps) {
    if (!contents.complete && !contents.pending) project.maps.delete(name)
  }
  const named = namedChunks(project)
  for (const digest of project.chunks.keys()) if (!named.has(digest)) project.chunks.delete(digest)
}

export function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
