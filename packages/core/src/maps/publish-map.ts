import type { Issue } from '../error.ts'
import { IngestError } from '../error.ts'
import type { MapStore } from '../store.ts'
import type { MapKey } from '../store-types.ts'
import { type MapVerifier, withContents } from './complete-map.ts'
import { decidePublication, type LatePublish, type Proposal } from './decide-publication.ts'
import { isDigest } from './digest.ts'
import type { PublishedMap, PublishOptions } from './map.ts'
import { checkPendingQuota } from './map-quota.ts'
import { digestsOf } from './pending-map.ts'
import type { ParsedPublication } from './publication.ts'
import { publishedMap } from './read-map.ts'

export interface PublishContext {
  store: MapStore
  verifier: MapVerifier
  latePublish: LatePublish
  pendingBytesMax: number
  /** Runs the operations of one project, or of one map, one after another. */
  inTurn<T>(key: string, operation: () => Promise<T>): Promise<T>
  /** Milliseconds since 1970. */
  now(): number
}

/** Publishes a map. A manifest whose chunks are all stored is verified and becomes the complete map. */
export async function publishMap(
  context: PublishContext,
  key: MapKey,
  publication: ParsedPublication,
  options: PublishOptions,
): Promise<PublishedMap> {
  const { verifier, inTurn } = context
  const { manifest, uploads } = publication
  const update = () => updateMap(context, key, publication, options)

  /** Undefined if the manifest was no longer pending when it was verified. */
  async function attempt(): Promise<PublishedMap | undefined> {
    // one at a time: manifests that are decided together could exceed the quota
    const { outcome, published } = await (uploads ? update() : inTurn(key.projectId, update))
    if (outcome !== 'verify') return published
    const completed = await verifier.complete(key, manifest, options)
    if (completed?.issues) throw digestMismatch(completed.issues)
    return completed
  }

  let published = await attempt()
  // one at a time: otherwise two publications could replace each other's manifest endlessly
  while (!published) published = await inTurn(JSON.stringify(key), attempt)
  return published
}

/** The result that publishing would have now; writes nothing. */
export async function tryPublication(
  context: PublishContext,
  key: MapKey,
  publication: ParsedPublication,
  options: PublishOptions,
): Promise<PublishedMap> {
  const { slot, outcome, published } = await updateMap(context, key, publication, options)
  if (outcome !== 'verify') return published
  const issues = await context.verifier.verify(key.projectId, publication.manifest, options)
  if (issues === undefined) return tryPublication(context, key, publication, options)
  if (issues.length > 0) throw digestMismatch(issues)
  return { ...published, state: 'complete', outcome: slot.complete ? 'replaced' : 'created' }
}

/**
 * Decides a publication, and writes the decision unless it is a dry run. The quota is checked against the pending bytes
 * before the update, so servers that publish at the same time may exceed it by one manifest each.
 */
async function updateMap(
  context: PublishContext,
  key: MapKey,
  publication: ParsedPublication,
  options: PublishOptions,
) {
  const { store, pendingBytesMax } = context
  const { manifest, uploads } = publication
  const totals = uploads ? { maps: 0, bytes: 0 } : await store.pendingTotals(key.projectId)
  const chunks = uploads ? { uploads } : { digests: digestsOf(manifest) }
  return store.updateMap(key, chunks, (slot, present) => {
    const decided = decidePublication(slot, present, proposalOf(context, publication, options))
    if (decided.contents) checkPendingQuota(totals, slot, decided.contents, pendingBytesMax)
    const published = publishedMap(key, decided, slot.frozenAt !== undefined)
    const result = { slot, outcome: decided.outcome, published }
    return options.dryRun ? { result } : withContents(decided, result)
  })
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
  if (ifMatch === undefined || isDigest(ifMatch)) return
  throw new IngestError('invalid-argument', 'ifMatch must be sha256: and 64 lower-case hex digits if it is set.')
}

function digestMismatch(issues: Issue[]): IngestError {
  const [first] = issues as [Issue]
  const message = `The chunks do not match the manifest at "${first.path}", so it was dropped: ${first.message}`
  return new IngestError('digest-mismatch', message, { issues })
}
