import { IngestError } from '../error.ts'
import { createKeyedMutex } from '../operations.ts'
import type { MapStore } from '../store.ts'
import { createMapVerifier } from './complete-map.ts'
import type { LatePublish } from './decide-publication.ts'
import { digestIssue } from './digest.ts'
import type { Maps } from './map.ts'
import { pendingBytesMaxDefault } from './map-quota.ts'
import { parseMapId, parsePublication } from './publication.ts'
import { checkPublishOptions, publishMap, tryPublication } from './publish-map.ts'
import { putChunk, putChunks } from './put-chunks.ts'
import { listMaps, mapContent, mapStatus } from './read-map.ts'

/** The rules for the maps of all projects. */
export interface MapRules {
  /**
   * Whether the first map for a place is accepted when its build is already frozen: game servers can be faster than the
   * build pipeline. Default: `accept`, for one map per place.
   */
  latePublish?: LatePublish
  /**
   * Maximum pending bytes of a project: the sizes of its unfinished maps, plus 256 bytes for each manifest and 160 for
   * each of its chunks. Default: 17,179,869,184 (16 GiB).
   */
  pendingBytesMax?: number
}

export interface MapsOptions {
  store: MapStore
  rules: MapRules
  /** The clock, in milliseconds since 1970. */
  now(): number
}

/**
 * The maps of each project of a store. The operations of a project use the `store` passed for it, which its caller may
 * cancel; a verification ends by its signal.
 *
 * @throws {IngestError} `invalid-argument` for invalid rules
 */
export function createMaps({ store, rules, now }: MapsOptions): (projectId: string, store: MapStore) => Maps {
  const { latePublish = 'accept', pendingBytesMax = pendingBytesMaxDefault } = rules
  if (!Number.isSafeInteger(pendingBytesMax) || pendingBytesMax < 1) {
    throw new IngestError('invalid-argument', 'maps.pendingBytesMax must be a whole number of bytes, at least 1.')
  }
  const verifier = createMapVerifier(store, now)
  const shared = { verifier, latePublish, pendingBytesMax, inTurn: createKeyedMutex(), now }

  return (projectId, store) => ({
    async publishMap(publication, options = {}) {
      checkPublishOptions(options)
      const parsed = parsePublication(publication)
      const key = { projectId, placeId: parsed.placeId, buildId: parsed.buildId }
      return (options.dryRun ? tryPublication : publishMap)({ ...shared, store }, key, parsed, options)
    },

    async putChunks(chunks, options = {}) {
      return putChunks({ ...shared, store }, projectId, chunks, options)
    },

    async putChunk(digest, bytes, options = {}) {
      return putChunk({ ...shared, store }, projectId, { digest, bytes }, options)
    },

    async getMap(id) {
      const key = { projectId, ...parseMapId(id) }
      return mapStatus(key, await store.map(key))
    },

    async listMaps(options = {}) {
      return listMaps(store, projectId, options)
    },

    async getMapContent(id) {
      const key = { projectId, ...parseMapId(id) }
      return mapContent(store, key, await store.map(key))
    },

    async getChunk(digest) {
      const issue = digestIssue(digest, '/digest')
      if (issue) throw new IngestError('invalid-argument', issue.message, { issues: [issue] })
      return store.readChunk(projectId, digest)
    },
  })
}
