import type { Issue } from '../error.ts'
import { IngestError } from '../error.ts'
import { type MapVerifier, withContents } from './complete-map.ts'
import { decidePublication, type LatePublish, type Proposal } from './decide-publication.ts'
import { isDigest } from './digest.ts'
import type { MapKey, PublishedMap, PublishOptions } from './map.ts'
import { checkPendingBytes, declaredBytes } from './map-quota.ts'
import type { MapStore } from './map-store.ts'
import { digestsOf, pendingBytesOf } from './pending-map.ts'
import type { ParsedPublication } from './publication.ts'
import { publishedMap } from './read-map.ts'

export interface PublishContext {
  store: MapStore
  verifier: MapVerifier
  latePublish: LatePublish
  pendingBytesMax: number
  /** Milliseconds since 1970. */
  now(): number
}

/** Publishes a map; a manifest of which no chunk is missing is verified and completed. */
export async function publishMap(
  context: PublishContext,
  key: MapKey,
  publication: ParsedPublication,
  options: PublishOptions,
): Promise<PublishedMap> {
  const { store, verifier, pendingBytesMax } = context
  const { manifest, uploads } = publication
  const chunks = uploads ? { uploads } : { digests: digestsOf(manifest), pendingBytesMax }
  for (;;) {
    const { outcome, published } = await store.updateMap(key, chunks, (slot, present) => {
      const decided = decidePublication(slot, present, proposalOf(context, publication, options))
      const published = publishedMap(key, decided, slot.frozenAt !== undefined)
      return withContents(decided, { outcome: decided.outcome, published })
    })
    if (outcome !== 'verify') return published
    const completed = await verifier.complete(key, manifest, options)
    if (completed?.issues) throw digestMismatch(completed.issues)
    if (completed) return completed
    // the manifest is no longer pending: decide again
  }
}

/** The result that publishing would have now; nothing is written. */
export async function tryPublication(
  context: PublishContext,
  key: MapKey,
  publication: ParsedPublication,
  options: PublishOptions,
): Promise<PublishedMap> {
  const { store, verifier, pendingBytesMax } = context
  const { manifest, uploads } = publication
  const digests = uploads ? [] : digestsOf(manifest)
  const { slot, outcome, published } = await store.updateMap(key, { digests }, (slot, present) => {
    const decided = decidePublication(slot, present, proposalOf(context, publication, options))
    const published = publishedMap(key, decided, slot.frozenAt !== undefined)
    return { result: { slot, outcome: decided.outcome, published } }
  })
  const isPending = outcome === 'incomplete' || outcome === 'verify'
  if (isPending && slot.frozenAt === undefined) {
    const before = await store.pendingBytes(key.projectId)
    const after = before - pendingBytesOf(slot, slot.frozenAt) + declaredBytes(manifest)
    checkPendingBytes(before, after, pendingBytesMax)
  }
  if (outcome !== 'verify') return published
  const issues = await verifier.verify(key.projectId, manifest, options)
  if (issues === undefined) return tryPublication(context, key, publication, options)
  if (issues.length > 0) throw digestMismatch(issues)
  return { ...published, state: 'complete', outcome: slot.complete ? 'replaced' : 'created' }
}

function proposalOf(
  { latePublish, now }: PublishContext,
  { placeId, buildId, manifest, uploads }: ParsedPublication,
  { ifNoneMatch, ifMatch }: PublishOptions,
): Proposal {
  return {
    id: { placeId, buildId },
    manifest,
    isWhole: uploads !== undefined,
    latePublish,
    at: now(),
    ...(ifNoneMatch !== undefined && { ifNoneMatch }),
    ...(ifMatch !== undefined && { ifMatch }),
  }
}

/** @throws {IngestError} `invalid-argument` */
export function checkPublishOptions({ ifNoneMatch, ifMatch }: PublishOptions): void {
  if (ifNoneMatch !== undefined && ifNoneMatch !== '*') {
    throw new IngestError('invalid-argument', 'ifNoneMatch must be "*" if it is set.')
  }
  if (ifMatch !== undefined && !isDigest(ifMatch)) throw new IngestError('invalid-argument', 'ifMatch is a digest.')
}

function digestMismatch(issues: Issue[]): IngestError {
  const [first] = issues as [Issue]
  const message = `The chunks do not match the manifest at "${first.path}", so it was dropped: ${first.message}`
  return new IngestError('digest-mismatch', message, { issues })
}
