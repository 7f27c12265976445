import { setImmediate as nextTurn } from 'node:timers/promises'
import { IngestError, type Issue } from '../error.ts'
import { decodeListCursor, encodeListCursor } from '../json/cursor.ts'
import type { MapSlot, Store } from '../store.ts'
import { completeMap, verifyManifest, withContents } from './complete-map.ts'
import { type DecidedPublication, decidePublication, type LatePublish, type Proposal } from './decide-publication.ts'
import { digestIssue, isDigest } from './digest.ts'
import type {
  Digest,
  Manifest,
  MapId,
  MapKey,
  MapStatus,
  Maps,
  PublishedMap,
  PublishOptions,
  VerificationOptions,
} from './map.ts'
import { checkPendingBytes, manifestBytes, pendingBytesMaxDefault } from './map-quota.ts'
import { chunkBytesMax, type ParsedPublication, parseMapId, parsePublication } from './publication.ts'
import { putChunks } from './put-chunks.ts'
import { mapContent, mapStatus, publishedMap } from './read-map.ts'
import { createVerificationQueue } from './verification-queue.ts'

export interface MapRules {
  /**
   * What becomes of the first map for a place of a build that is frozen already: game servers can be faster than the
   * build pipeline. Without, it is accepted, once.
   */
  latePublish?: LatePublish
  /**
   * How many bytes the unfinished uploads of a project may hold: their manifests, and the chunks that no complete map
   * names. Default 17,179,869,184 (16 GiB).
   */
  pendingBytesMax?: number
}

export interface MapsOptions {
  store: Store
  rules: MapRules
  /** The clock, in milliseconds since 1970. */
  now(): number
}

/** Incomplete manifests that nobody touched for so long are dropped. */
const idleMs = 7 * 24 * 3_600_000
/** How often idle manifests are looked for. */
const tidyEveryMs = 3_600_000
const pageMax = 1_000
const pageDefault = 100
/** A page ends early once the manifests of its maps have so many chunks: all of them are read, and may be missing. */
const pageChunksMax = 20_000
/** So many maps of a page are read between turns of others. */
const mapsAtOnce = 10
/** The most maps that one upload of chunks completes: any number of manifests may wait for the same chunk. */
export const completionsMax = 16
/** An upload of chunks completes no further map after so many bytes were hashed. */
export const completionBytesMax = 64 * 2 ** 20

/**
 * The maps of each project of a store.
 *
 * @throws {IngestError} `invalid-argument` for invalid rules
 */
export function createMaps({ store, rules, now }: MapsOptions): (projectId: string) => Maps {
  const { latePublish = 'accept', pendingBytesMax = pendingBytesMaxDefault } = rules
  if (!Number.isSafeInteger(pendingBytesMax) || pendingBytesMax < 1) {
    throw new IngestError('invalid-argument', 'maps.pendingBytesMax is a whole number of bytes from 1.')
  }
  const verifications = createVerificationQueue()
  let lastTurn: Promise<unknown> = Promise.resolve()
  let tidiedAt = Number.NEGATIVE_INFINITY

  async function tidy(): Promise<void> {
    const at = now()
    if (at < tidiedAt + tidyEveryMs) return
    tidiedAt = at
    // what cannot go now, as on a full disk, goes in an hour: that is no reason to refuse what was asked for
    await store.dropIdleMaps(at - idleMs).catch(() => {})
  }

  /** Resolves in a turn of the event loop in which no other verification hashes, over all projects. */
  function takeTurn(): Promise<unknown> {
    lastTurn = lastTurn.then(() => nextTurn())
    return lastTurn
  }

  /** Verifies and completes a pending manifest that misses nothing. Concurrent calls share the work. */
  function complete(key: MapKey, manifest: Manifest, { admit, signal }: VerificationOptions) {
    const { projectId, placeId, buildId } = key
    const verification = {
      projectId,
      name: JSON.stringify(['complete', placeId, buildId, manifest]),
      admit: () => admit?.(manifest.size),
      work: (signal: AbortSignal) => completeMap(store, key, manifest, { now, signal, nextTurn: takeTurn }),
    }
    return verifications.run(verification, signal)
  }

  function verify(projectId: string, manifest: Manifest, { admit, signal }: VerificationOptions) {
    const verification = {
      projectId,
      name: JSON.stringify(['verify', manifest]),
      admit: () => admit?.(manifest.size),
      work: (signal: AbortSignal) => verifyManifest(store, projectId, manifest, { signal, nextTurn: takeTurn }),
    }
    return verifications.run(verification, signal)
  }

  /**
   * Completes maps of a project whose last chunk is stored, including those that a crash kept from completing. A map
   * that cannot be verified now stays pending; the upload has succeeded all the same.
   */
  async function completeReady(
    projectId: string,
    { admit = () => {}, signal }: VerificationOptions,
  ): Promise<PublishedMap[]> {
    const completed: PublishedMap[] = []
    let bytes = 0
    for (const id of await store.readyMaps(projectId, completionsMax)) {
      const key = { projectId, ...id }
      const { pending } = await store.map(key)
      if (bytes >= completionBytesMax || verifications.isBusy(projectId) || signal?.aborted) break
      if (!pending || !isAdmitted(() => admit(pending.manifest.size))) continue
      bytes += pending.manifest.size
      const published = await complete(key, pending.manifest, signal ? { signal } : {}).catch((error) => {
        if (!signal?.aborted) throw error
      })
      if (published && published.outcome !== 'unchanged') completed.push(published)
    }
    return completed
  }

  /** What would become of a publication now, without writing anything. */
  async function tryOut(key: MapKey, { manifest, uploads }: ParsedPublication, options: PublishOptions) {
    const present = uploads ? new Set<Digest>() : await store.presentChunks(key.projectId, digestsOf(manifest))
    const slot = await store.map(key)
    const decided = decidePublication(slot, present, proposal(key, manifest, uploads !== undefined, options))
    return { slot, decided, published: publishedMap(key, decided, slot.frozenAt !== undefined) }
  }

  function proposal(id: MapId, manifest: Manifest, whole: boolean, options: PublishOptions): Proposal {
    const { ifNoneMatch, ifMatch } = options
    return {
      id,
      manifest,
      whole,
      latePublish,
      at: now(),
      ...(ifNoneMatch !== undefined && { ifNoneMatch }),
      ...(ifMatch !== undefined && { ifMatch }),
    }
  }

  async function dryRun(key: MapKey, publication: ParsedPublication, options: PublishOptions): Promise<PublishedMap> {
    const { slot, decided, published } = await tryOut(key, publication, options)
    const { manifest } = publication
    const isPinned = slot.frozenAt !== undefined && !slot.complete
    // only the store knows what replacing a pending manifest would free
    if (decided.outcome === 'incomplete' && !slot.pending && !isPinned) {
      const before = await store.pendingBytes(key.projectId)
      checkPendingBytes(before, before + manifestBytes(manifest), pendingBytesMax)
    }
    if (!isReady(decided)) return published
    const issues = await verify(key.projectId, manifest, options)
    if (issues === undefined) return dryRun(key, publication, options)
    if (issues.length > 0) throw mismatch(issues)
    return { ...published, state: 'complete', outcome: slot.complete ? 'replaced' : 'created' }
  }

  async function publish(key: MapKey, publication: ParsedPublication, options: PublishOptions): Promise<PublishedMap> {
    const { manifest, uploads } = publication
    // most publications are the same map again: nothing is written for those, and no chunk is for what is refused
    const { decided, published } = await tryOut(key, publication, options)
    if (!decided.contents) return published
    const chunks = uploads ? { uploads } : { digests: digestsOf(manifest), pendingBytesMax }
    for (;;) {
      const recorded = await store.updateMap(key, chunks, (slot, present) => {
        const decided = decidePublication(slot, present, proposal(key, manifest, uploads !== undefined, options))
        const published = publishedMap(key, decided, slot.frozenAt !== undefined)
        return withContents(decided, { ready: isReady(decided), published })
      })
      if (!recorded.ready) return recorded.published
      const completed = await complete(key, manifest, options)
      if (completed?.issues) throw mismatch(completed.issues)
      if (completed) return completed
      // something else was published meanwhile: it is decided anew
    }
  }

  return (projectId) => ({
    async publishMap(publication, options = {}) {
      checkPreconditions(options)
      const parsed = parsePublication(publication)
      await tidy()
      const key = { projectId, placeId: parsed.placeId, buildId: parsed.buildId }
      return options.dryRun ? dryRun(key, parsed, options) : publish(key, parsed, options)
    },

    async putChunks(chunks, options = {}) {
      await tidy()
      const outcomes = await putChunks(store, projectId, chunks, { now, pendingBytesMax })
      const rejected = outcomes.flatMap((outcome, index) => {
        if (typeof outcome === 'string') return []
        const digest: unknown = chunks[index]?.digest
        return [{ index, digest: isDigest(digest) ? digest : null, issues: [outcome] }]
      })
      const stored = outcomes.filter((outcome) => outcome === 'stored').length
      const existing = outcomes.length - stored - rejected.length
      const completed = stored + existing > 0 ? await completeReady(projectId, options) : []
      return { stored, existing, rejected, completed }
    },

    async putChunk(digest, bytes, options = {}) {
      await tidy()
      const [outcome] = await putChunks(store, projectId, [{ digest, bytes }], { now, pendingBytesMax })
      if (typeof outcome !== 'string') throw chunkRefusal(outcome as Issue, bytes.length)
      return { outcome, completed: await completeReady(projectId, options) }
    },

    async getMap(id) {
      const key = { projectId, ...parseMapId(id) }
      await tidy()
      const slot = await store.map(key)
      const named = slot.pending ? digestsOf(slot.pending.manifest) : []
      return mapStatus(key, slot, await store.presentChunks(projectId, named))
    },

    async listMaps({ placeId, buildId, cursor, limit = pageDefault } = {}) {
      if (!(Number.isInteger(limit) && limit >= 1 && limit <= pageMax)) {
        throw new IngestError('invalid-argument', `limit is a number of maps from 1 to ${pageMax}.`)
      }
      let last = cursor === undefined ? undefined : decodeListCursor('maps', projectId, cursor, parseMapNames)
      await tidy()
      const maps: MapStatus[] = []
      let chunks = 0
      while (maps.length < limit && chunks < pageChunksMax) {
        const count = Math.min(mapsAtOnce, limit - maps.length)
        const entries = await store.maps(projectId, {
          ...(placeId !== undefined && { placeId }),
          ...(buildId !== undefined && { buildId }),
          ...(last && { after: last }),
          limit: count + 1,
        })
        const some = entries.slice(0, count)
        const named = some.flatMap(({ slot }) => (slot.pending ? digestsOf(slot.pending.manifest) : []))
        const present = await store.presentChunks(projectId, named)
        maps.push(...some.flatMap(({ slot, ...id }) => mapStatus(id, slot, present) ?? []))
        if (entries.length === some.length) return { maps, next: null }
        chunks += some.reduce((sum, { slot }) => sum + chunksOf(slot), 0)
        last = some.at(-1)
        await nextTurn()
      }
      return { maps, next: last ? encodeListCursor('maps', projectId, [last.placeId, last.buildId]) : null }
    },

    async getMapContent(id) {
      const key = { projectId, ...parseMapId(id) }
      return mapContent(store, key, await store.map(key))
    },

    async getChunk(digest) {
      const issue = digestIssue(digest, '/digest')
      if (issue) throw new IngestError('invalid-argument', issue.message, { issues: [issue] })
      return store.chunk(projectId, digest, (bytes) => Buffer.from(bytes))
    },
  })
}

function parseMapNames([placeId, buildId]: readonly unknown[]): MapId {
  return parseMapId({ placeId, buildId })
}

function chunksOf({ complete, pending }: MapSlot): number {
  return (complete?.manifest.chunks.length ?? 0) + (pending?.manifest.chunks.length ?? 0)
}

function digestsOf({ chunks }: Manifest): Digest[] {
  return [...new Set(chunks.map(({ digest }) => digest))]
}

/** Whether all chunks of a manifest are there, so that it remains to be verified. */
function isReady({ outcome, missing }: DecidedPublication): boolean {
  return outcome === 'incomplete' && missing.length === 0
}

function isAdmitted(admit: () => void): boolean {
  try {
    admit()
    return true
  } catch {
    return false
  }
}

function checkPreconditions({ ifNoneMatch, ifMatch }: PublishOptions): void {
  if (ifNoneMatch !== undefined && ifNoneMatch !== '*') {
    throw new IngestError('invalid-argument', 'ifNoneMatch is "*" or nothing.')
  }
  if (ifMatch !== undefined && !isDigest(ifMatch)) throw new IngestError('invalid-argument', 'ifMatch is a digest.')
}

function mismatch(issues: Issue[]): IngestError {
  const [first] = issues as [Issue]
  const message = `The chunks are not what the manifest says at "${first.path}", so it was dropped: ${first.message}`
  return new IngestError('digest-mismatch', message, { issues })
}

/** The refusal of a chunk that was sent alone. */
function chunkRefusal(issue: Issue, actual: number): IngestError {
  if (issue.code === 'undeclared') return new IngestError('chunk-undeclared', issue.message)
  if (issue.code === 'digest_mismatch') return new IngestError('digest-mismatch', issue.message)
  if (issue.code === 'too_long') {
    const limits = { limit: chunkBytesMax, actual }
    return new IngestError('chunk-too-large', `A chunk holds at most ${chunkBytesMax} bytes: make it smaller.`, limits)
  }
  return new IngestError('invalid-argument', issue.message, { issues: [issue] })
}
