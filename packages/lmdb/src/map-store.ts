import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  type ChunkUpload,
  type Digest,
  IngestError,
  type MapDecision,
  type MapEntry,
  type MapId,
  type MapSlot,
  type Store,
} from '@ingest/core'
import type { ChunkBytes } from './chunks/chunk-blobs.ts'
import { type FoundMap, type MapTables, openMapTables, type Place, type WrittenChunk } from './tables/maps.ts'
import { openProjects, type Projects } from './tables/projects.ts'
import type { Writer } from './writer/writer-client.ts'

type MapStore = Pick<
  Store,
  'map' | 'maps' | 'updateMap' | 'putChunk' | 'chunk' | 'presentChunks' | 'readyMaps' | 'pendingBytes' | 'dropIdleMaps'
>

export interface MapStoreOptions {
  projects: Projects
  maps: MapTables
  chunks: ChunkBytes
  writer: Writer
  look<T>(read: () => T): T
}

/** How many maps are looked at between turns of others. */
const mapsAtOnce = 1000

const noFound: FoundMap = { row: {}, contents: {} }

/** The part of the store that keeps maps. */
export function createMapStore({ projects, maps, chunks, writer, look }: MapStoreOptions): MapStore {
  /** Looks at what is there for a project, or answers `none` for one that has stored nothing. */
  function lookAt<T>(projectId: string, none: T, read: (project: number) => T): T {
    return look(() => {
      const project = projects.numberOf(projectId)
      return project === undefined ? none : read(project)
    })
  }

  /** Decides and writes in one step; what that makes waste of is deleted afterwards. */
  async function inOneStep<T>(decide: (maps: MapTables, projects: Projects) => T): Promise<T> {
    let hasWaste = false
    const result = await writer.decide((table) => {
      hasWaste = false
      const onWaste = () => {
        hasWaste = true
      }
      return decide(openMapTables(table, onWaste), openProjects(table))
    })
    if (hasWaste) void chunks.clean()
    return result
  }

  async function numberFor(projectId: string): Promise<number> {
    const known = lookAt<number | undefined>(projectId, undefined, (project) => project)
    return known ?? inOneStep((_, projects) => projects.numberFor(projectId))
  }

  function discardAll(maps: MapTables, uploads: ReadonlyMap<Digest, WrittenChunk>): void {
    for (const { place } of uploads.values()) maps.discard(place)
  }

  /** Writes the bytes of chunks, and says where they are. */
  async function write(project: number, chunksOf: readonly ChunkUpload[]): Promise<Map<Digest, WrittenChunk>> {
    const places = await chunks.write(project, chunksOf)
    return new Map(
      chunksOf.map(({ digest, bytes }) => [digest, { place: places.get(digest) as Place, size: bytes.length }]),
    )
  }

  /** Marks bytes as garbage when the decision for which they were written fails. */
  async function orDiscard<T>(uploads: ReadonlyMap<Digest, WrittenChunk>, decided: Promise<T>): Promise<T> {
    try {
      return await decided
    } catch (error) {
      // bytes that cannot be marked now are found when the store is opened next
      if (uploads.size > 0) await inOneStep((maps) => discardAll(maps, uploads)).catch(() => {})
      throw error
    }
  }

  /** Settles all manifests that wait for a stored chunk, a bounded number in each step. */
  async function settleAll(projectId: string, digest: Digest, at?: number): Promise<void> {
    for (;;) {
      const project = lookAt<number | undefined>(projectId, undefined, (number) =>
        maps.hasWaits(number, digest) && maps.placeOf(number, digest) ? number : undefined,
      )
      if (project === undefined) return
      await inOneStep((maps) => {
        // a chunk that was deleted since is missing again
        if (maps.placeOf(project, digest)) maps.settle(project, digest, at)
      })
    }
  }

  function decideMap<T>(
    maps: MapTables,
    projects: Projects,
    projectId: string,
    id: MapId,
    digests: readonly Digest[],
    uploads: ReadonlyMap<Digest, WrittenChunk>,
    pendingBytesMax: number | undefined,
    decide: (slot: MapSlot, present: ReadonlySet<Digest>) => MapDecision<T>,
  ): { result: T } | { thrown: unknown } | 'again' {
    if (![...uploads.values()].every(({ place }) => chunks.canName(maps, place))) {
      discardAll(maps, uploads)
      return 'again'
    }
    const project = projects.numberOf(projectId)
    const found = project === undefined ? noFound : maps.find(project, id)
    const slot = project === undefined ? {} : maps.slot(project, id, found)
    const present = project === undefined ? new Set<Digest>() : maps.present(project, digests)
    let decision: MapDecision<T>
    try {
      decision = decide(slot, present)
    } catch (thrown) {
      discardAll(maps, uploads)
      return { thrown }
    }
    const { contents, result } = decision
    if (contents) maps.put(projects.numberFor(projectId), id, found, contents, { uploads, pendingBytesMax })
    else discardAll(maps, uploads)
    return { result }
  }

  return {
    async map({ projectId, ...id }) {
      return lookAt(projectId, {}, (project) => maps.slot(project, id))
    },

    async maps(projectId, { limit, ...selection }) {
      const entries: MapEntry[] = []
      for (let after = selection.after; ; ) {
        const place = { ...selection, ...(after && { after }), limit: limit - entries.length }
        const page = lookAt(projectId, { entries: [] }, (project) => maps.list(project, place, mapsAtOnce))
        entries.push(...page.entries)
        if (!page.last || entries.length === limit) return entries
        after = page.last
        await nextTurn()
      }
    },

    async updateMap({ projectId, placeId, buildId }, { digests = [], uploads = [], pendingBytesMax }, decide) {
      for (;;) {
        const none = new Map<Digest, WrittenChunk>()
        const written = uploads.length > 0 ? await write(await numberFor(projectId), uploads) : none
        const deciding = inOneStep((maps, projects) =>
          decideMap(maps, projects, projectId, { placeId, buildId }, digests, written, pendingBytesMax, decide),
        )
        const outcome = await orDiscard(written, deciding)
        if (outcome === 'again') continue
        if ('thrown' in outcome) throw outcome.thrown
        for (const digest of written.keys()) await settleAll(projectId, digest)
        return outcome.result
      }
    },

    async putChunk(projectId, chunk) {
      const { digest, receivedAt } = chunk
      for (;;) {
        const project = lookAt<number | undefined>(projectId, undefined, (number) => number)
        if (project === undefined || !look(() => maps.isNamed(project, digest))) return 'undeclared'
        if (look(() => maps.placeOf(project, digest))) {
          await settleAll(projectId, digest, receivedAt)
          return 'existing'
        }
        const written = await write(project, [chunk])
        const own = written.get(digest) as WrittenChunk
        const deciding = inOneStep((maps) =>
          chunks.canName(maps, own.place) ? maps.arrive(project, digest, own, chunk) : 'again',
        )
        const outcome = await orDiscard(written, deciding)
        if (outcome === 'again') continue
        await settleAll(projectId, digest, receivedAt)
        return outcome
      }
    },

    async chunk<T>(projectId: string, digest: Digest, use: (bytes: Uint8Array) => T) {
      for (let missed: Place | undefined; ; ) {
        const place = lookAt<Place | undefined>(projectId, undefined, (project) => maps.placeOf(project, digest))
        const used = place && look(() => chunks.read(place, (bytes) => ({ result: use(bytes) })))
        if (!place || used) return used?.result
        // a chunk may go between two looks, but then it is nowhere
        if (missed?.equals(place)) {
          throw new IngestError('store-damaged', `The bytes of chunk ${digest} are missing: restore a backup.`)
        }
        missed = place
      }
    },

    async presentChunks(projectId, digests) {
      return lookAt<ReadonlySet<Digest>>(projectId, new Set(), (project) => maps.present(project, digests))
    },

    async readyMaps(projectId, limit) {
      return lookAt(projectId, [], (project) => maps.ready(project, limit))
    },

    async pendingBytes(projectId) {
      return lookAt(projectId, 0, (project) => maps.pendingBytes(project))
    },

    async dropIdleMaps(touchedBefore) {
      for (const { project, id } of look(() => maps.idle(touchedBefore))) {
        await inOneStep((maps) => maps.dropIdle(project, id, touchedBefore))
      }
    },
  }
}
