import type { Digest, Manifest, MapId } from '../maps/map.ts'
import { checkPendingBytes, manifestBytes } from '../maps/map-quota.ts'
import { type BuildEntry, type MapContents, type MapSlot, type MapStore, readyMapsMax } from '../maps/map-store.ts'
import { contentsAfterExpiry, contentsAfterFreeze, digestsOf, isExpired, isPinned } from '../maps/pending-map.ts'

interface KeptMap {
  id: MapId
  contents: MapContents
}

/** The maps of one project. */
export interface ProjectMaps {
  /** When each build froze, in milliseconds since 1970. */
  frozenAt: ReadonlyMap<string, number>
  /** By {@link nameOf}. */
  maps: Map<string, KeptMap>
  chunks: Map<Digest, Uint8Array>
}

export function createProjectMaps(frozenAt: ReadonlyMap<string, number>): ProjectMaps {
  return { frozenAt, maps: new Map(), chunks: new Map() }
}

/** `mapsOf` throws once the store is closed; `all` are the projects that were used. */
export function memoryMapStore(mapsOf: (projectId: string) => ProjectMaps, all: () => Iterable<ProjectMaps>): MapStore {
  return {
    async map({ projectId, ...id }) {
      return slotOf(mapsOf(projectId), id)
    },

    async maps(projectId, { placeId, buildId, after, limit }) {
      const project = mapsOf(projectId)
      const first = after && Buffer.from(nameOf(after))
      return [...project.maps.values()]
        .filter(({ id }) => placeId === undefined || id.placeId === placeId)
        .filter(({ id }) => buildId === undefined || id.buildId === buildId)
        .map(({ id }) => ({ id, name: Buffer.from(nameOf(id)) }))
        .filter(({ name }) => !first || name.compare(first) > 0)
        .sort((a, b) => a.name.compare(b.name))
        .slice(0, limit)
        .map(({ id }) => ({ ...id, slot: slotOf(project, id) }))
    },

    async builds(projectId, { after, limit }) {
      const { frozenAt, maps } = mapsOf(projectId)
      const builds = new Map<string, BuildEntry>()
      for (const [buildId, at] of frozenAt) builds.set(buildId, { buildId, frozenAt: at, maps: 0 })
      for (const { buildId } of [...maps.values()].map(({ id }) => id)) {
        const build = builds.get(buildId) ?? { buildId, maps: 0 }
        builds.set(buildId, { ...build, maps: build.maps + 1 })
      }
      return [...builds.values()]
        .sort((a, b) => compareBytes(a.buildId, b.buildId))
        .filter(({ buildId }) => after === undefined || compareBytes(buildId, after) > 0)
        .slice(0, limit)
    },

    async updateMap({ projectId, placeId, buildId }, { digests = [], uploads = [], pendingBytesMax }, decide) {
      const project = mapsOf(projectId)
      const id = { placeId, buildId }
      const present = new Set(digests.filter((digest) => project.chunks.has(digest)))
      const { contents, result } = decide(slotOf(project, id), present)
      if (contents) {
        const maps = new Map(project.maps).set(nameOf(id), { id, contents: storedContents(contents) })
        const chunks = new Map(project.chunks)
        for (const { digest, bytes } of uploads) chunks.set(digest, Buffer.from(bytes))
        const after = pendingBytesOf({ ...project, maps, chunks })
        checkPendingBytes(pendingBytesOf(project), after, pendingBytesMax)
        Object.assign(project, { maps, chunks })
        collectGarbage(project)
      }
      return result
    },

    async putChunk(projectId, { digest, bytes, receivedAt, pendingBytesMax }) {
      const project = mapsOf(projectId)
      if (!namedChunks(project).has(digest)) return { outcome: 'undeclared', ready: [] }
      if (project.chunks.has(digest)) return { outcome: 'existing', ready: readyMaps(project, digest) }
      const chunks = new Map(project.chunks).set(digest, Buffer.from(bytes))
      checkPendingBytes(pendingBytesOf(project), pendingBytesOf({ ...project, chunks }), pendingBytesMax)
      project.chunks = chunks
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

    async pendingBytes(projectId) {
      return pendingBytesOf(mapsOf(projectId))
    },

    async expirePending(touchedBefore) {
      for (const project of all()) {
        for (const map of project.maps.values()) {
          const { pending } = map.contents
          const frozenAt = project.frozenAt.get(map.id.buildId)
          if (isExpired({ pending, frozenAt }, touchedBefore)) map.contents = contentsAfterExpiry(map.contents)
        }
        collectGarbage(project)
      }
    },
  }
}

/** Applies the freeze of a build to its maps. */
export function freezeMaps(project: ProjectMaps, buildId: string): void {
  const maps = [...project.maps.values()].filter(({ id }) => id.buildId === buildId)
  if (maps.length === 0) return
  for (const map of maps) map.contents = contentsAfterFreeze(map.contents)
  collectGarbage(project)
}

function nameOf({ placeId, buildId }: MapId): string {
  // no build id has a U+0000 in it
  return `${buildId}\0${placeId}`
}

/** What is missing is computed for each read. */
function storedContents({ complete, pending }: MapContents): MapContents {
  return {
    ...(complete && { complete }),
    ...(pending && { pending: { manifest: pending.manifest, touchedAt: pending.touchedAt } }),
  }
}

function slotOf({ maps, frozenAt, chunks }: ProjectMaps, id: MapId): MapSlot {
  const at = frozenAt.get(id.buildId)
  const { complete, pending } = maps.get(nameOf(id))?.contents ?? {}
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

/** The pending maps that miss no chunk: those that name this chunk first. */
function readyMaps({ maps, chunks }: ProjectMaps, digest: Digest): MapId[] {
  const ready = [...maps.values()].flatMap(({ id, contents: { pending } }) =>
    pending?.manifest.chunks.every((chunk) => chunks.has(chunk.digest))
      ? [{ id, isNaming: names(pending.manifest, digest) }]
      : [],
  )
  ready.sort((a, b) => Number(b.isNaming) - Number(a.isNaming))
  return ready.slice(0, readyMapsMax).map(({ id }) => id)
}

/** The chunks that the maps of a project name. */
function namedChunks({ maps }: ProjectMaps): Set<Digest> {
  const manifests = [...maps.values()].flatMap(({ contents: { complete, pending } }) => [complete, pending])
  return new Set(manifests.flatMap((each) => each?.manifest.chunks ?? []).map(({ digest }) => digest))
}

/** The pending bytes of a project, counted from scratch. */
function pendingBytesOf({ maps, chunks, frozenAt }: ProjectMaps): number {
  const isKept = ({ id, contents }: KeptMap) => isPinned({ ...contents, frozenAt: frozenAt.get(id.buildId) })
  const kept = new Set(
    [...maps.values()]
      .flatMap((map) => [map.contents.complete, isKept(map) ? map.contents.pending : undefined])
      .flatMap((each) => each?.manifest.chunks ?? [])
      .map(({ digest }) => digest),
  )
  const counted = [...maps.values()].flatMap((map) => (isKept(map) ? [] : (map.contents.pending ?? [])))
  const named = new Set(counted.flatMap(({ manifest }) => manifest.chunks).map(({ digest }) => digest))
  const sizes = [...named].filter((digest) => !kept.has(digest)).map((digest) => chunks.get(digest)?.length ?? 0)
  return [...sizes, ...counted.map(({ manifest }) => manifestBytes(manifest))].reduce((sum, size) => sum + size, 0)
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
