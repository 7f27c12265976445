import { randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { IngestError } from '../error.ts'
import { type EventCursors, eventCursors, type StoreIdentity } from '../json/cursor.ts'
import type { Digest, Manifest, MapId } from '../maps/map.ts'
import { checkPendingBytes, manifestBytes } from '../maps/map-quota.ts'
import type { Project } from '../projects/project.ts'
import type { AppendBatch, BuildEntry, MapContents, MapSlot, Store, StoredEvent } from '../store.ts'

interface KeptMap {
  id: MapId
  contents: MapContents
}

interface Kept {
  cursors: EventCursors
  events: StoredEvent[]
  byId: Map<string, StoredEvent>
  frozenAt: Map<string, number>
  batches: { receivedAt: number; events: number }[]
  bytes: number
  maps: Map<string, KeptMap>
  chunks: Map<Digest, Uint8Array>
}

/**
 * A store that forgets everything when it is closed, for tests and trials: the shortest thing that keeps the contract.
 * Nothing here waits between a look and a write, so every operation is atomic.
 */
export function openMemoryStore(): Store {
  const identity: StoreIdentity = { id: randomBytes(8), epoch: randomBytes(8) }
  const kept = new Map<string, Kept>()
  const projects = new Map<string, Project>()
  let open = true

  function of(projectId: string): Kept {
    checkOpen()
    let project = kept.get(projectId)
    if (!project) {
      project = {
        cursors: eventCursors(identity, projectId),
        events: [],
        byId: new Map(),
        frozenAt: new Map(),
        batches: [],
        bytes: 0,
        maps: new Map(),
        chunks: new Map(),
      }
      kept.set(projectId, project)
    }
    return project
  }

  function checkOpen(): void {
    if (!open) throw new IngestError('store-closed', 'The store is closed.')
  }

  return {
    async append(projectId, batch) {
      return append(of(projectId), batch)
    },

    async known(projectId, eventIds) {
      const { byId } = of(projectId)
      return eventIds.map((eventId) => byId.has(eventId))
    },

    async find(projectId, eventId) {
      return of(projectId).byId.get(eventId)
    },

    async *read(projectId, { after, limit = Number.POSITIVE_INFINITY, from = Number.NEGATIVE_INFINITY } = {}) {
      const { events, cursors } = of(projectId)
      let first = after === undefined ? 0 : cursors.decode(after, (count) => recordOf(events[count - 1]?.bytes))
      while (first < events.length && (events[first] as StoredEvent).receivedAt < from) first++
      for (let i = first; i < events.length && i - first < limit; i++) {
        checkOpen()
        yield events[i] as StoredEvent
      }
    },

    async lastCursor(projectId) {
      const { events, cursors } = of(projectId)
      return events.at(-1)?.cursor ?? cursors.encode(0, 0)
    },

    async map({ projectId, ...id }) {
      return slotOf(of(projectId), id)
    },

    async maps(projectId, { placeId, buildId, after, limit }) {
      const project = of(projectId)
      const first = after && Buffer.from(nameOf(after))
      return [...project.maps.values()]
        .filter(({ id }) => placeId === undefined || id.placeId === placeId)
        .filter(({ id }) => buildId === undefined || id.buildId === buildId)
        .map((kept) => ({ name: Buffer.from(nameOf(kept.id)), ...kept }))
        .filter(({ name }) => !first || name.compare(first) > 0)
        .sort((a, b) => a.name.compare(b.name))
        .slice(0, limit)
        .map(({ id }) => ({ ...id, slot: slotOf(project, id) }))
    },

    async updateMap({ projectId, placeId, buildId }, { digests = [], uploads = [], pendingBytesMax }, decide) {
      const project = of(projectId)
      const id = { placeId, buildId }
      const { contents, result } = decide(slotOf(project, id), presentOf(project, digests))
      if (contents) {
        const maps = new Map(project.maps).set(nameOf(id), { id, contents: { ...contents } })
        const chunks = new Map(project.chunks)
        for (const { digest, bytes } of uploads) chunks.set(digest, Buffer.from(bytes))
        const after = pendingBytesOf({ ...project, maps, chunks })
        checkPendingBytes(pendingBytesOf(project), after, pendingBytesMax)
        Object.assign(project, { maps, chunks })
        sweep(project)
      }
      return result
    },

    async putChunk(projectId, { digest, bytes, receivedAt, pendingBytesMax }) {
      const project = of(projectId)
      if (!namedBy(project).has(digest)) return 'undeclared'
      if (project.chunks.has(digest)) return 'existing'
      const before = pendingBytesOf(project)
      const chunks = new Map(project.chunks).set(digest, Buffer.from(bytes))
      checkPendingBytes(before, pendingBytesOf({ ...project, chunks }), pendingBytesMax)
      project.chunks = chunks
      for (const { contents } of project.maps.values()) {
        const { pending } = contents
        if (pending && names(pending.manifest, digest)) contents.pending = { ...pending, touchedAt: receivedAt }
      }
      return 'stored'
    },

    async chunk(projectId, digest, use) {
      const bytes = of(projectId).chunks.get(digest)
      return bytes && use(bytes)
    },

    async presentChunks(projectId, digests) {
      return presentOf(of(projectId), digests)
    },

    async readyMaps(projectId, limit) {
      const { maps, chunks } = of(projectId)
      const isReady = ({ contents: { pending } }: KeptMap) =>
        pending?.manifest.chunks.every(({ digest }) => chunks.has(digest)) ?? false
      return [...maps.values()]
        .filter(isReady)
        .slice(0, limit)
        .map(({ id }) => id)
    },

    async pendingBytes(projectId) {
      return pendingBytesOf(of(projectId))
    },

    async dropIdleMaps(touchedBefore) {
      checkOpen()
      for (const project of kept.values()) {
        for (const { id, contents } of project.maps.values()) {
          const idle = contents.pending !== undefined && contents.pending.touchedAt < touchedBefore
          if (idle && !project.frozenAt.has(id.buildId)) delete contents.pending
        }
        sweep(project)
      }
    },

    async totals(projectId) {
      const { events, batches, bytes } = of(projectId)
      return { events: events.length, batches: batches.length, bytes }
    },

    async activity(projectId, { since, batchesMax }) {
      const { batches } = of(projectId)
      const [first, last] = [batches[0], batches.at(-1)]
      if (!first || !last) return undefined
      const newest = batches.slice(-batchesMax)
      const recent = newest.slice(newest.findLastIndex(({ receivedAt }) => receivedAt < since) + 1)
      const events = recent.reduce((sum, { events }) => sum + events, 0)
      const from = recent.length === batchesMax ? recent[0]?.receivedAt : undefined
      return { firstAt: first.receivedAt, lastAt: last.receivedAt, recent: { events, since: from ?? since } }
    },

    async builds(projectId, { after, limit }) {
      const { frozenAt, maps } = of(projectId)
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

    async projects() {
      checkOpen()
      const used = [...kept].filter(([, { batches, maps }]) => batches.length > 0 || maps.size > 0)
      return [...new Set([...used.map(([projectId]) => projectId), ...projects.keys()])].sort(compareBytes)
    },

    async project(projectId) {
      checkOpen()
      return projects.get(projectId)
    },

    async updateProject(projectId, decide) {
      checkOpen()
      const { project, result } = decide(projects.get(projectId))
      if (project) projects.set(projectId, project)
      return result
    },

    async check() {
      checkOpen()
    },

    async close() {
      open = false
    },
  }
}

function append(kept: Kept, { body, events, ...batch }: AppendBatch) {
  let conflicts = 0
  const receivedAt = Math.max(batch.receivedAt, kept.events.at(-1)?.receivedAt ?? Number.NEGATIVE_INFINITY)
  const stored = events.map(({ eventId, buildId, start, end }) => {
    const bytes = Buffer.from(body.subarray(start, end))
    const existing = kept.byId.get(eventId)
    if (existing) {
      if (!bytes.equals(existing.bytes)) conflicts++
      return false
    }
    // the position of an event is its number in the project, from 1
    const event = { cursor: kept.cursors.encode(kept.events.length + 1, crc32(bytes)), receivedAt, bytes }
    kept.events.push(event)
    kept.byId.set(eventId, event)
    if (buildId !== undefined && !kept.frozenAt.has(buildId)) freeze(kept, buildId, receivedAt)
    kept.bytes += bytes.length
    return true
  })
  const count = stored.filter(Boolean).length
  if (count > 0) kept.batches.push({ receivedAt, events: count })
  return { stored, conflicts }
}

function freeze(kept: Kept, buildId: string, at: number): void {
  kept.frozenAt.set(buildId, at)
  const voided = [...kept.maps.values()].filter(({ id, contents }) => id.buildId === buildId && contents.complete)
  if (voided.length === 0) return
  for (const { contents } of voided) delete contents.pending
  sweep(kept)
}

function nameOf({ placeId, buildId }: MapId): string {
  // no build has a U+0000 in it
  return `${buildId}\0${placeId}`
}

function slotOf({ maps, frozenAt }: Kept, id: MapId): MapSlot {
  const at = frozenAt.get(id.buildId)
  return { ...(at !== undefined && { frozenAt: at }), ...maps.get(nameOf(id))?.contents }
}

function presentOf({ chunks }: Kept, digests: readonly Digest[]): ReadonlySet<Digest> {
  return new Set(digests.filter((digest) => chunks.has(digest)))
}

function names({ chunks }: Manifest, digest: Digest): boolean {
  return chunks.some((chunk) => chunk.digest === digest)
}

/** The chunks that the maps of a project name. */
function namedBy({ maps }: Kept): Set<Digest> {
  const manifests = [...maps.values()].flatMap(({ contents: { complete, pending } }) => [complete, pending])
  return new Set(manifests.flatMap((each) => each?.manifest.chunks ?? []).map(({ digest }) => digest))
}

/** The pending bytes of a project, counted from scratch. */
function pendingBytesOf({ maps, chunks, frozenAt }: Kept): number {
  const isPinned = ({ id, contents }: KeptMap) => frozenAt.has(id.buildId) && !contents.complete
  const kept = new Set(
    [...maps.values()]
      .flatMap((map) => [map.contents.complete, isPinned(map) ? map.contents.pending : undefined])
      .flatMap((each) => each?.manifest.chunks ?? [])
      .map(({ digest }) => digest),
  )
  const counted = [...maps.values()].flatMap((map) => (isPinned(map) ? [] : (map.contents.pending ?? [])))
  const named = new Set(counted.flatMap(({ manifest }) => manifest.chunks).map(({ digest }) => digest))
  const sizes = [...named].filter((digest) => !kept.has(digest)).map((digest) => chunks.get(digest)?.length ?? 0)
  return [...sizes, ...counted.map(({ manifest }) => manifestBytes(manifest))].reduce((sum, size) => sum + size, 0)
}

/** Forgets maps of which nothing is left, and chunks that nothing names. */
function sweep(kept: Kept): void {
  for (const [name, { contents }] of kept.maps) {
    if (!contents.complete && !contents.pending) kept.maps.delete(name)
  }
  const named = namedBy(kept)
  for (const digest of kept.chunks.keys()) if (!named.has(digest)) kept.chunks.delete(digest)
}

function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

function recordOf(bytes: Uint8Array | undefined): number | undefined {
  return bytes && crc32(bytes)
}
