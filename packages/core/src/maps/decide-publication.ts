import { IngestError } from '../error.ts'
import type { Digest, Manifest, MapContents, MapId, UpdatedSlot } from '../store-types.ts'
import type { PublishOptions, PublishOutcome } from './map.ts'
import { digestsOf } from './pending-map.ts'

/** Whether the first map for a place is accepted when its build is already frozen. */
export type LatePublish = 'accept' | 'reject'

/** The input of {@link decidePublication}. */
export interface Proposal extends Pick<PublishOptions, 'ifNoneMatch' | 'ifMatch'> {
  id: MapId
  manifest: Manifest
  /** Whether the publication contains the whole map, from which the digest was computed. */
  isWhole: boolean
  latePublish: LatePublish
  /** Milliseconds since 1970. */
  at: number
}

export interface DecidedPublication {
  /** `verify`: all chunks are stored; they must be verified, then {@link decideCompletion} completes the map. */
  outcome: PublishOutcome | 'verify'
  /** The distinct chunks to upload, in the order of the manifest. */
  missing: Digest[]
  /** The manifest of the outcome: the stored one if nothing changes. */
  manifest: Manifest
  /** When it became complete, in milliseconds since 1970. */
  publishedAt?: number
  /** The new contents of the slot; undefined if nothing changes. */
  contents?: MapContents
}

/**
 * Decides a publication. The rules of frozen builds are here, in {@link decideCompletion} and in pending-map.ts.
 *
 * The *pinned* map of a place is the complete one, or else the incomplete manifest. On a frozen build, a publication is
 * accepted if and only if the place has no pinned map, or the publication has the pinned identity (digest and content
 * type).
 *
 * @throws {IngestError} `precondition-failed`, `map-frozen`
 */
export function decidePublication(
  slot: UpdatedSlot,
  present: ReadonlySet<Digest>,
  proposal: Proposal,
): DecidedPublication {
  const { manifest, isWhole, at } = proposal
  const { complete, pending } = slot
  checkPreconditions(slot, proposal)
  if (complete && isSameMap(complete.manifest, manifest)) {
    return { outcome: 'unchanged', missing: [], ...complete }
  }
  checkFrozen(slot, proposal)
  if (isWhole) {
    // a pending manifest was published before this
    const outcome = complete ? 'replaced' : 'created'
    return { outcome, missing: [], manifest, publishedAt: at, contents: { complete: { manifest, publishedAt: at } } }
  }
  const known = pending && isSameCut(pending.manifest, manifest) ? pending.manifest : manifest
  const missing = missingOf(manifest, present)
  return {
    outcome: missing.length > 0 ? 'incomplete' : 'verify',
    missing,
    manifest: known,
    contents: { ...(complete && { complete }), pending: { manifest: known, touchedAt: at } },
  }
}

/** Decides the completion of a verified manifest. Undefined if it is no longer pending, or a chunk has disappeared. */
export function decideCompletion(
  slot: UpdatedSlot,
  present: ReadonlySet<Digest>,
  manifest: Manifest,
  at: number,
): DecidedPublication | undefined {
  const { complete, pending, frozenAt } = slot
  if (complete && isSameMap(complete.manifest, manifest)) return { outcome: 'unchanged', missing: [], ...complete }
  if (!pending || !isSameCut(pending.manifest, manifest) || missingOf(manifest, present).length > 0) return undefined
  // the freeze voided the replacement
  if (complete && frozenAt !== undefined) return undefined
  const completed = { manifest: pending.manifest, publishedAt: at }
  return { outcome: complete ? 'replaced' : 'created', missing: [], ...completed, contents: { complete: completed } }
}

/** The distinct chunks of a manifest that are not stored, in its order. */
function missingOf(manifest: Manifest, present: ReadonlySet<Digest>): Digest[] {
  return digestsOf(manifest).filter((digest) => !present.has(digest))
}

/** Whether two manifests describe the same map, however it is split into chunks. */
export function isSameMap(a: Manifest, b: Manifest): boolean {
  return a.digest === b.digest && a.contentType === b.contentType
}

/** Whether two manifests describe the same map, split into the same chunks. */
export function isSameCut(a: Manifest, b: Manifest): boolean {
  if (a === b) return true
  return (
    isSameMap(a, b) &&
    a.chunks.length === b.chunks.length &&
    a.chunks.every(({ digest, size }, i) => digest === b.chunks[i]?.digest && size === b.chunks[i]?.size)
  )
}

function checkPreconditions({ complete }: UpdatedSlot, { id, ifNoneMatch, ifMatch }: Proposal): void {
  const is = complete ? `is ${complete.manifest.digest}` : 'is not published'
  const of = `The map of place "${id.placeId}" in build "${id.buildId}" ${is}`
  if (ifNoneMatch === '*' && complete) {
    throw new IngestError('precondition-failed', `${of}, and only a first map was to be published.`)
  }
  if (ifMatch !== undefined && complete?.manifest.digest !== ifMatch) {
    throw new IngestError('precondition-failed', `${of}, and ${ifMatch} was expected.`)
  }
}

function checkFrozen({ frozenAt, complete, pending }: UpdatedSlot, { id, manifest, latePublish }: Proposal): void {
  if (frozenAt === undefined) return
  const pinned = (complete ?? pending)?.manifest
  if (pinned ? isSameMap(pinned, manifest) : latePublish === 'accept') return
  const froze = `Build "${id.buildId}" froze at ${new Date(frozenAt).toISOString()}`
  const its = `its map for place "${id.placeId}"`
  const [stays, refused] = pinned ? describeBoth(pinned, manifest) : ['', manifest.digest]
  throw new IngestError(
    'map-frozen',
    `${froze}: ${its} ${pinned ? `stays ${stays}` : 'was published too late'}, so ${refused} is refused. Publish it under a new buildId.`,
  )
}

/** Describes two maps by digest, or by content type if only that differs. */
function describeBoth(a: Manifest, b: Manifest): [string, string] {
  if (a.digest !== b.digest) return [a.digest, b.digest]
  return [`${a.digest} as ${a.contentType}`, `${b.digest} as ${b.contentType}`]
}
