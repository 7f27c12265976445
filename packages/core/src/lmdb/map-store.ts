import { setImmediate as nextTurn } from 'node:timers/promises'
import { IngestError } from '../error.ts'
import type { Digest, MapId } from '../map.ts'
import type { MapDecision, MapEntry, MapSlot, Store } from '../store.ts'
import type { ChunkBytes } from './chunks.ts'
import { type FoundMap, type MapTables, openMapTables, type Place } from './maps.ts'
import { openProjects, type Projects } from './projects.ts'
import type { Writer } from './writer-handle.ts'

type MapStore = Pick<
  Store,
  'map' | 'maps' | 'updateMap' | 'putChunk' | 'chunk' | 'presentChunks' | 'readyMaps' | 'dropIdleMaps'
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

  function discardAll(maps: MapTables, places: ReadonlyMap<Digest, Place>): void {
    for (const place of places.values()) maps.discard(place)
  }

  function decideMap<T>(
    maps: MapTables,
    projects: Projects,
    projectId: string,
    id: MapId,
    digests: readonly Digest[],
    places: ReadonlyMap<Digest, Place>,
    decide: (slot: MapSlot, present: ReadonlySet<Digest>) => MapDecision<T>,
  ): { result: T } | { thrown: unknown } | 'again' {
    if (![...places.values()].every((place) => chunks.canName(maps, place))) {
      discardAll(maps, places)
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
      discardAll(maps, places)
      return { thrown }
    }
    const { contents, result } = decision
    if (contents) maps.put(projects.numberFor(projectId), id, found, contents, places)
    else discardAll(maps, places)
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

    async updateMap({ projectId, placeId, buildId }, { digests = [], uploads = [] }, decide) {
      for (;;) {
        const none = new Map<Digest, Place>()
        const places = uploads.length > 0 ? await chunks.write(await numberFor(projectId), uploads) : none
        const outcome = await inOneStep((maps, projects) =>
          decideMap(maps, projects, projectId, { placeId, buildId }, digests, places, decide),
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
        const outcome = await inOneStep((maps) =>
          chunks.canName(maps, place) ? maps.arrive(project, digest, place, receivedAt) : 'again',
        )
        if (outcome !== 'again') return outcome
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

    async readyMaps(projectId) {
      return lookAt(projectId, [], (project) => maps.ready(project))
    },

    async dropIdleMaps(touchedBefore) {
      for (const { project, id } of look(() => maps.idle(touchedBefore))) {
        await inOneStep((maps) => maps.dropIdle(project, id, touchedBefore))
      }
    },
  }
}
