import { IngestError } from '../error.ts'
import type { Digest, MapId } from '../map.ts'
import type { MapDecision, MapSlot, Store } from '../store.ts'
import type { ChunkBytes } from './chunks.ts'
import type { GroupCommit } from './group-commit.ts'
import type { FoundMap, MapTables, Place } from './maps.ts'
import type { Projects } from './projects.ts'

type MapStore = Pick<
  Store,
  'map' | 'maps' | 'updateMap' | 'putChunk' | 'chunk' | 'presentChunks' | 'readyMaps' | 'dropIdleMaps'
>

export interface MapStoreOptions {
  projects: Projects
  maps: MapTables
  chunks: ChunkBytes
  writer: GroupCommit
  look<T>(read: () => T): T
  frozenAt(project: number, buildId: string): number | undefined
}

/** What a map, and each chunk that it names, weighs in the queue of the writer. */
const mapBytes = 1024
const chunkBytes = 128

const noFound: FoundMap = { row: {}, contents: {} }

/** The part of the store that keeps maps. */
export function createMapStore({ projects, maps, chunks, writer, look, frozenAt }: MapStoreOptions): MapStore {
  /** Looks at what is there for a project, or answers `none` for one that has stored nothing. */
  function lookAt<T>(projectId: string, none: T, read: (project: number) => T): T {
    return look(() => {
      const project = projects.numberOf(projectId)
      return project === undefined ? none : read(project)
    })
  }

  async function numberFor(projectId: string): Promise<number> {
    const known = lookAt<number | undefined>(projectId, undefined, (project) => project)
    return known ?? writer.commit(mapBytes, () => projects.numberFor(projectId))
  }

  function discardAll(places: ReadonlyMap<Digest, Place>): void {
    for (const place of places.values()) maps.discard(place)
  }

  /** Inside a write transaction. */
  function decideMap<T>(
    projectId: string,
    id: MapId,
    digests: readonly Digest[],
    places: ReadonlyMap<Digest, Place>,
    decide: (slot: MapSlot, present: ReadonlySet<Digest>) => MapDecision<T>,
  ): { result: T } | { thrown: unknown } | 'again' {
    if (![...places.values()].every(chunks.canName)) {
      discardAll(places)
      return 'again'
    }
    const project = projects.numberOf(projectId)
    const found = project === undefined ? noFound : maps.find(project, id)
    const at = project === undefined ? undefined : frozenAt(project, id.buildId)
    const slot = { ...(at !== undefined && { frozenAt: at }), ...found.contents }
    const present = project === undefined ? new Set<Digest>() : maps.present(project, digests)
    let decision: MapDecision<T>
    try {
      decision = decide(slot, present)
    } catch (thrown) {
      discardAll(places)
      return { thrown }
    }
    const { contents, result } = decision
    if (contents) maps.put(projects.numberFor(projectId), id, found, contents, places)
    else discardAll(places)
    return { result }
  }

  return {
    async map({ projectId, ...id }) {
      return lookAt(projectId, {}, (project) => maps.slot(project, id))
    },

    async maps(projectId, selection) {
      return lookAt(projectId, [], (project) => maps.list(project, selection))
    },

    async updateMap({ projectId, placeId, buildId }, { digests = [], uploads = [] }, decide) {
      const weight = mapBytes + chunkBytes * (digests.length + uploads.length)
      for (;;) {
        const none = new Map<Digest, Place>()
        const places = uploads.length > 0 ? await chunks.write(await numberFor(projectId), uploads) : none
        const outcome = await writer.commit(weight, () =>
          decideMap(projectId, { placeId, buildId }, digests, places, decide),
        )
        if (outcome === 'again') continue
        if ('thrown' in outcome) throw outcome.thrown
        return outcome.result
      }
    },

    async putChunk(projectId, chunk) {
      const { digest, receivedAt } = chunk
      for (;;) {
        const project = lookAt<number | undefined>(projectId, undefined, (number) => number)
        if (project === undefined || !look(() => maps.isNamed(project, digest))) return 'undeclared'
        if (look(() => maps.placeOf(project, digest))) return 'existing'
        const place = (await chunks.write(project, [chunk])).get(digest) as Place
        const outcome = await writer.commit(mapBytes, () =>
          chunks.canName(place) ? maps.arrive(project, digest, place, receivedAt) : 'again',
        )
        if (outcome !== 'again') return outcome
      }
    },

    async chunk(projectId, digest) {
      for (let missed: Place | undefined; ; ) {
        const place = lookAt<Place | undefined>(projectId, undefined, (project) => maps.placeOf(project, digest))
        const bytes = place && look(() => chunks.read(place))
        if (!place || bytes) return bytes
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

    async readyMaps(projectId) {
      return lookAt(projectId, [], (project) => maps.ready(project))
    },

    async dropIdleMaps(touchedBefore) {
      for (const { project, id } of look(() => maps.idle(touchedBefore))) {
        await writer.commit(mapBytes, () => maps.dropIdle(project, id, touchedBefore))
      }
    },
  }
}
