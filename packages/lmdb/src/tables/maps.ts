import {
  type CompleteMap,
  type Digest,
  type Manifest,
  type MapContents,
  type MapEntry,
  type MapId,
  type MapSelection,
  type MapSlot,
  manifestBytes,
  type NewChunk,
  type PendingMap,
} from '@ingest/core'
import { checkPendingBytes } from '@ingest/core/internal'
import type { Rows } from '../environment/environment.ts'
import { projectKey, readSequence, sequenceKey } from '../environment/row-keys.ts'
import { readFrozenAt } from '../log/event-log.ts'
import { decodeChunks, decodePending, decodeStored, encodeChunks, encodePending, encodeStored } from './map-records.ts'

/** The key of the bytes of a chunk: project, digest, and what tells one upload of it from another. */
export type Place = Buffer

/** A chunk whose bytes are durable. */
export interface WrittenChunk {
  place: Place
  size: number
}

export interface PutOptions {
  /** Chunks whose bytes are durable; those that are not needed become garbage. */
  uploads?: ReadonlyMap<Digest, WrittenChunk>
  /** Refuses what raises the pending bytes above this: throws, with rows written that must be undone. */
  pendingBytesMax?: number | undefined
}

/** A map as it stands, to be written back changed. */
export interface FoundMap {
  row: MapRow
  contents: MapContents
}

/** The maps, their manifests and which chunks they name. Projects go by number here. */
export interface MapTables {
  find(project: number, id: MapId): FoundMap
  /** The map as the contract gives it out. */
  slot(project: number, id: MapId, found?: FoundMap): MapSlot
  /** What is selected among the next `keysMax` maps; `last` is the last of these when there may be more behind it. */
  list(project: number, selection: MapSelection, keysMax: number): { entries: MapEntry[]; last?: MapId }
  present(project: number, digests: readonly Digest[]): Set<Digest>
  /** Where the bytes of a chunk are, if it is there. */
  placeOf(project: number, digest: Digest): Place | undefined
  isNamed(project: number, digest: Digest): boolean
  ready(project: number, limit: number): MapId[]
  /** Whether manifests are recorded as waiting for a chunk, stored or not. */
  hasWaits(project: number, digest: Digest): boolean
  pendingBytes(project: number): number
  /** Pending maps that were last touched before, and whose build is open. */
  idle(touchedBefore: number): { project: number; id: MapId }[]

  // only inside a write transaction, or a decision
  /** @throws {IngestError} `map-quota-exceeded` */
  put(project: number, id: MapId, found: FoundMap, contents: MapContents, options?: PutOptions): void
  /**
   * Records a chunk as stored, and settles the first of the manifests that wait for it.
   *
   * @throws {IngestError} `map-quota-exceeded`, with nothing written
   */
  arrive(
    project: number,
    digest: Digest,
    chunk: WrittenChunk,
    options: Pick<NewChunk, 'receivedAt' | 'pendingBytesMax'>,
  ): 'stored' | 'existing' | 'undeclared'
  /**
   * Records in a bounded number of waiting manifests that a chunk is stored, and touches them at `at`, if given. Call
   * it until {@link hasWaits} is false: any number may wait for the same chunk, and a write must not take long.
   */
  settle(project: number, digest: Digest, at?: number): void
  /** Drops what waits to replace a complete map of a build that freezes. */
  freeze(project: number, buildId: string): void
  dropIdle(project: number, id: MapId, touchedBefore: number): void

  /** Bytes that nothing needs any more, and that may not be relied on again. */
  waste(limit: number): Place[]
  isWaste(place: Place): boolean
  /** Whether the bytes are those of a chunk. */
  isKept(place: Place): boolean
  discard(place: Place): void
  /** Bytes that are deleted are no waste any more. */
  forget(places: readonly Place[]): void
}

/** What is kept of a map besides its manifests' chunks; `number` is the manifest's. */
interface MapRow {
  complete?: Omit<Manifest, 'chunks'> & { number: number; publishedAt: number }
  pending?: Omit<Manifest, 'chunks'> & { number: number }
}

/**
 * @param table those of the store, or those of a decision
 * @param onWaste called by what makes waste
 */
export function openMapTables(table: (name: string) => Rows, onWaste = () => {}): MapTables {
  /** project, build, place → row */
  const maps = table('maps')
  /** number → chunks */
  const manifests = table('manifests')
  /**
   * project, number → when it was touched, how many chunks are missing, which map it is of: of each pending manifest
   */
  const pendings = table('pending-manifests')
  /** project, number → the name of its map: of each pending manifest of which no chunk is missing */
  const readies = table('ready-manifests')
  /** project, digest → the last bytes of its place, and its size: of each stored chunk */
  const chunks = table('chunks')
  /** project, digest, number → nothing: what names a chunk */
  const references = table('chunk-references')
  /** project, digest, number → nothing: the complete and pinned manifests, whose chunks are not pending */
  const keeps = table('chunk-keeps')
  /** project → how many bytes are pending */
  const pendingTotals = table('pending-bytes')
  /** project, digest, number → nothing: what waits for a chunk */
  const waits = table('chunk-waits')
  /** place → nothing */
  const garbage = table('chunk-garbage')
  /** one row: how often garbage was forgotten */
  const cleanings = table('chunk-cleanings')
  const freezes = table('freezes')

  function frozenAt(project: number, buildId: string): number | undefined {
    return readFrozenAt(freezes, project, buildId)
  }

  function find(project: number, id: MapId): FoundMap {
    const bytes = maps.getBinary(projectKey(project, nameOf(id)))
    const row: MapRow = bytes ? JSON.parse(bytes.toString()) : {}
    const contents: MapContents = {}
    if (row.complete) {
      contents.complete = { manifest: manifestOf(row.complete), publishedAt: row.complete.publishedAt }
    }
    if (row.pending) {
      const { touchedAt } = pendingOf(project, row.pending.number)
      contents.pending = { manifest: manifestOf(row.pending), touchedAt }
    }
    return { row, contents }
  }

  function slot(project: number, id: MapId, { contents } = find(project, id)): MapSlot {
    const at = frozenAt(project, id.buildId)
    return { ...(at !== undefined && { frozenAt: at }), ...contents }
  }

  function manifestOf({ contentType, size, digest, number }: NonNullable<MapRow['pending']>): Manifest {
    return { contentType, size, digest, chunks: decodeChunks(manifests.getBinary(sequenceKey(number)) as Buffer) }
  }

  function pendingOf(project: number, number: number) {
    return decodePending(pendings.getBinary(projectKey(project, sequenceKey(number))) as Buffer)
  }

  function placeOf(project: number, digest: Digest): Place | undefined {
    const key = chunkKey(project, digest)
    const stored = chunks.getBinary(key)
    return stored && Buffer.concat([key, decodeStored(stored).upload])
  }

  /** The numbers of the manifests in a table of project, digest and number. */
  function numbersIn(rows: Rows, project: number, digest: Digest, limit = Number.MAX_SAFE_INTEGER): number[] {
    const start = chunkKey(project, digest)
    return Array.from(rows.getKeys({ start, end: Buffer.concat([start, above]), limit }), readSequence)
  }

  function isNamed(project: number, digest: Digest): boolean {
    return numbersIn(references, project, digest, 1).length > 0
  }

  function hasWaits(project: number, digest: Digest): boolean {
    return numbersIn(waits, project, digest, 1).length > 0
  }

  function pendingBytes(project: number): number {
    return pendingTotals.getBinary(projectKey(project))?.readDoubleLE() ?? 0
  }

  function addPendingBytes(project: number, bytes: number): void {
    if (bytes === 0) return
    const total = Buffer.alloc(8)
    total.writeDoubleLE(pendingBytes(project) + bytes)
    pendingTotals.put(projectKey(project), total)
  }

  /** What a chunk adds to the pending bytes: nothing if it is missing, or kept by a manifest. */
  function countedSize(project: number, digest: Digest): number {
    const stored = chunks.getBinary(chunkKey(project, digest))
    return stored && !hasKeeper(project, digest) ? decodeStored(stored).size : 0
  }

  function hasKeeper(project: number, digest: Digest): boolean {
    return numbersIn(keeps, project, digest, 1).length > 0
  }

  /** Keeps the chunks of a manifest, or no longer does; returns the change of the pending bytes. */
  function setKept(project: number, number: number, manifest: Manifest, isKeeper: boolean): number {
    let change = 0
    for (const digest of digestsOf(manifest)) {
      const before = countedSize(project, digest)
      const key = chunkKey(project, digest, number)
      if (isKeeper) keeps.put(key, nothing)
      else keeps.remove(key)
      change += countedSize(project, digest) - before
    }
    return change
  }

  function store(project: number, digest: Digest, { place, size }: WrittenChunk): void {
    chunks.put(chunkKey(project, digest), encodeStored({ upload: place.subarray(-uploadBytes), size }))
    addPendingBytes(project, countedSize(project, digest))
  }

  function settle(project: number, digest: Digest, at?: number): void {
    for (const number of numbersIn(waits, project, digest, settledAtOnce)) {
      waits.remove(chunkKey(project, digest, number))
      const pending = pendingOf(project, number)
      const touchedAt = at ?? pending.touchedAt
      putPending(project, number, { ...pending, touchedAt, missing: pending.missing - 1 })
    }
  }

  function putPending(project: number, number: number, pending: Parameters<typeof encodePending>[0]): void {
    const key = projectKey(project, sequenceKey(number))
    pendings.put(key, encodePending(pending))
    if (pending.missing === 0) readies.put(key, pending.name)
  }

  function add(project: number, manifest: Manifest): number {
    const [last] = [...manifests.getKeys({ reverse: true, limit: 1 })]
    const number = (last ? readSequence(last) : 0) + 1
    manifests.put(sequenceKey(number), encodeChunks(manifest.chunks))
    for (const digest of digestsOf(manifest)) references.put(chunkKey(project, digest, number), nothing)
    return number
  }

  function startWaiting(project: number, id: MapId, number: number, { manifest, touchedAt }: PendingMap): void {
    const missing = digestsOf(manifest).filter((digest) => !chunks.doesExist(chunkKey(project, digest)))
    for (const digest of missing) waits.put(chunkKey(project, digest, number), nothing)
    putPending(project, number, { touchedAt, missing: missing.length, name: nameOf(id) })
  }

  /** A pending manifest that was published again. */
  function goOnWaiting(project: number, number: number, { manifest, touchedAt }: PendingMap): void {
    const pending = pendingOf(project, number)
    const isReady =
      pending.missing === 0 || digestsOf(manifest).every((digest) => chunks.doesExist(chunkKey(project, digest)))
    // after a crash between storing the last chunk and settling the manifest
    if (isReady && pending.missing > 0) stopWaiting(project, number, manifest)
    putPending(project, number, { ...pending, touchedAt, missing: isReady ? 0 : pending.missing })
  }

  function stopWaiting(project: number, number: number, manifest: Manifest): void {
    if (pendingOf(project, number).missing > 0) {
      for (const digest of digestsOf(manifest)) waits.remove(chunkKey(project, digest, number))
    }
    const key = projectKey(project, sequenceKey(number))
    pendings.remove(key)
    readies.remove(key)
  }

  /** Returns the change of the pending bytes. */
  function remove(project: number, number: number, manifest: Manifest): number {
    let change = 0
    manifests.remove(sequenceKey(number))
    for (const digest of digestsOf(manifest)) {
      references.remove(chunkKey(project, digest, number))
      if (isNamed(project, digest)) continue
      const place = placeOf(project, digest)
      if (!place) continue
      change -= countedSize(project, digest)
      chunks.remove(chunkKey(project, digest))
      discard(place)
    }
    return change
  }

  function put(
    project: number,
    id: MapId,
    { row: before, contents: { complete, pending } }: FoundMap,
    contents: MapContents,
    { uploads = new Map(), pendingBytesMax }: PutOptions = {},
  ): void {
    const bytesBefore = pendingBytes(project)
    const isFrozen = frozenAt(project, id.buildId) !== undefined
    const old = [
      ...(before.complete && complete ? [{ number: before.complete.number, manifest: complete.manifest }] : []),
      ...(before.pending && pending ? [{ number: before.pending.number, manifest: pending.manifest }] : []),
    ]
    // a manifest that stays keeps its number and its references
    const numberOf = ({ manifest }: CompleteMap | PendingMap) =>
      old.find((each) => each.manifest === manifest)?.number ?? add(project, manifest)
    const row: MapRow = {}
    if (contents.complete) {
      const { publishedAt } = contents.complete
      row.complete = { ...outlineOf(contents.complete.manifest), number: numberOf(contents.complete), publishedAt }
    }
    if (contents.pending) row.pending = { ...outlineOf(contents.pending.manifest), number: numberOf(contents.pending) }
    for (const [digest, chunk] of uploads) {
      if (!isNamed(project, digest) || placeOf(project, digest)) discard(chunk.place)
      else {
        store(project, digest, chunk)
        settle(project, digest)
      }
    }
    if (before.pending && pending && before.pending.number !== row.pending?.number) {
      stopWaiting(project, before.pending.number, pending.manifest)
    }
    if (row.pending && contents.pending) {
      const { number } = row.pending
      if (number !== before.pending?.number) startWaiting(project, id, number, contents.pending)
      else goOnWaiting(project, number, contents.pending)
    }
    let change = 0
    const keepersBefore = keepersOf(before, isFrozen)
    const keepers = keepersOf(row, isFrozen)
    const now = [
      ...(row.complete && contents.complete
        ? [{ number: row.complete.number, manifest: contents.complete.manifest }]
        : []),
      ...(row.pending && contents.pending ? [{ number: row.pending.number, manifest: contents.pending.manifest }] : []),
    ]
    for (const { number, manifest } of now) {
      if (keepers.includes(number) && !keepersBefore.includes(number))
        change += setKept(project, number, manifest, true)
    }
    for (const { number, manifest } of old) {
      if (keepersBefore.includes(number) && !keepers.includes(number))
        change += setKept(project, number, manifest, false)
      if (number !== row.complete?.number && number !== row.pending?.number) change += remove(project, number, manifest)
    }
    if (row.pending && contents.pending && !keepers.includes(row.pending.number))
      change += manifestBytes(contents.pending.manifest)
    if (before.pending && pending && !keepersBefore.includes(before.pending.number))
      change -= manifestBytes(pending.manifest)
    addPendingBytes(project, change)
    checkPendingBytes(bytesBefore, pendingBytes(project), pendingBytesMax)
    const key = projectKey(project, nameOf(id))
    if (row.complete || row.pending) maps.put(key, Buffer.from(JSON.stringify(row)))
    else maps.remove(key)
  }

  function dropPending(project: number, id: MapId, found: FoundMap): void {
    const { complete } = found.contents
    put(project, id, found, complete ? { complete } : {})
  }

  function discard(place: Place): void {
    garbage.put(place, nothing)
    onWaste()
  }

  /** The maps of a project, or of one build of it, as keys. */
  function keysOf(project: number, buildId?: string, after?: MapId) {
    const start = projectKey(project, buildId === undefined ? nothing : nameOf({ buildId, placeId: '' }))
    const end = buildId === undefined ? projectKey(project + 1) : projectKey(project, Buffer.from(`${buildId}\u0001`))
    const behind = after && Buffer.concat([projectKey(project, nameOf(after)), Buffer.of(0)])
    return maps.getKeys({ start: behind && behind.compare(start) > 0 ? behind : start, end })
  }

  return {
    find,
    slot,
    placeOf,
    isNamed,
    put,
    discard,

    list(project, { placeId, buildId, after, limit }, keysMax) {
      const ids: MapId[] = []
      let last: MapId | undefined
      let left = keysMax
      for (const key of keysOf(project, buildId, after)) {
        const id = idOf(key.subarray(projectBytes))
        left--
        if (left === 0) last = id
        if (placeId === undefined || id.placeId === placeId) ids.push(id)
        if (left === 0 || ids.length === limit) break
      }
      return { entries: ids.map((id) => ({ ...id, slot: slot(project, id) })), ...(last && { last }) }
    },

    present(project, digests) {
      return new Set(digests.filter((digest) => chunks.doesExist(chunkKey(project, digest))))
    },

    hasWaits,
    pendingBytes,

    ready(project, limit) {
      const keys = readies.getKeys({ start: projectKey(project), end: projectKey(project + 1), limit })
      return Array.from(keys, (key) => idOf(readies.getBinary(key) as Buffer))
    },

    idle(touchedBefore) {
      const idle: { project: number; id: MapId }[] = []
      for (const key of pendings.getKeys({})) {
        const { touchedAt, name } = decodePending(pendings.getBinary(key) as Buffer)
        if (touchedAt < touchedBefore) idle.push({ project: key.readUInt32BE(), id: idOf(name) })
      }
      return idle.filter(({ project, id }) => frozenAt(project, id.buildId) === undefined)
    },

    arrive(project, digest, chunk, { receivedAt, pendingBytesMax }) {
      const outcome = placeOf(project, digest) ? 'existing' : isNamed(project, digest) ? 'stored' : 'undeclared'
      if (outcome === 'stored') {
        const before = pendingBytes(project)
        checkPendingBytes(before, before + (hasKeeper(project, digest) ? 0 : chunk.size), pendingBytesMax)
        store(project, digest, chunk)
        settle(project, digest, receivedAt)
      } else discard(chunk.place)
      return outcome
    },

    settle,

    freeze(project, buildId) {
      for (const key of [...keysOf(project, buildId)]) {
        const id = idOf(key.subarray(projectBytes))
        const found = find(project, id)
        const { complete, pending } = found.contents
        if (complete && pending) dropPending(project, id, found)
        else if (found.row.pending && pending) {
          const { manifest } = pending
          addPendingBytes(project, setKept(project, found.row.pending.number, manifest, true) - manifestBytes(manifest))
        }
      }
    },

    dropIdle(project, id, touchedBefore) {
      const found = find(project, id)
      const { pending } = found.contents
      if (!pending || pending.touchedAt >= touchedBefore || frozenAt(project, id.buildId) !== undefined) return
      dropPending(project, id, found)
    },

    waste: (limit) => Array.from(garbage.getKeys({ limit }), (key) => Buffer.from(key)),
    isWaste(place) {
      // what it stands on: else a decision would not see that bytes were disowned, deleted and forgotten since
      cleanings.getBinary(cleaningsKey)
      return garbage.doesExist(place)
    },

    isKept(place) {
      const stored = chunks.getBinary(place.subarray(0, -uploadBytes))
      return stored !== undefined && decodeStored(stored).upload.equals(place.subarray(-uploadBytes))
    },

    forget(places) {
      for (const place of places) garbage.remove(place)
      const count = Buffer.alloc(8)
      count.writeDoubleLE((cleanings.getBinary(cleaningsKey)?.readDoubleLE() ?? 0) + 1)
      cleanings.put(cleaningsKey, count)
    },
  }
}

/** What tells the bytes of one upload from those of another, at the end of a place. */
export const uploadBytes = 8
/** How many manifests one write settles at most. */
const settledAtOnce = 256
const projectBytes = 4
const nothing = Buffer.alloc(0)
const cleaningsKey = Buffer.from('count')
/** Behind every number. */
const above = Buffer.alloc(9, 0xff)

/** The key of a chunk, or that of what a manifest has to do with it. */
export function chunkKey(project: number, digest: Digest, number?: number): Buffer {
  const hash = Buffer.from(digest.slice('sha256:'.length), 'hex')
  return projectKey(project, number === undefined ? hash : Buffer.concat([hash, sequenceKey(number)]))
}

/** No build has a U+0000 in it. */
function nameOf({ placeId, buildId }: MapId): Buffer {
  return Buffer.from(`${buildId}\0${placeId}`)
}

function idOf(name: Buffer): MapId {
  const end = name.indexOf(0)
  return { placeId: name.toString('utf8', end + 1), buildId: name.toString('utf8', 0, end) }
}

/** The numbers of the manifests of a map whose chunks are not pending: complete ones, and those that a freeze pins. */
function keepersOf({ complete, pending }: MapRow, isFrozen: boolean): number[] {
  if (complete) return [complete.number]
  return pending && isFrozen ? [pending.number] : []
}

function outlineOf({ contentType, size, digest }: Manifest): Omit<Manifest, 'chunks'> {
  return { contentType, size, digest }
}

function digestsOf({ chunks }: Manifest): Digest[] {
  return [...new Set(chunks.map(({ digest }) => digest))]
}
