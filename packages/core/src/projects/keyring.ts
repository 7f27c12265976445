import { IngestError } from '../error.ts'
import type { EntryStore } from '../store.ts'
import type { EntryDecision } from '../store-types.ts'
import { type KeyRecord, type Project, type Scope, scopes } from '../store-types.ts'
import { checkProjectId, isProjectId, nameIssue } from '../validation.ts'
import { createKeyUsage, isLastUseRecent, type KeyUse } from './key-usage.ts'
import { hashKey, isActive, isKeyOf, keyIdLength, keyIdOf, makeKey } from './project.ts'
import { createProjectCache } from './project-cache.ts'

/** The credentials of a request and the scope that it needs. */
export interface Credentials {
  projectId: string
  key: string
  scope: Scope
}

/** The result for valid credentials; with the key's id if it has one. */
export interface Authenticated {
  keyId: string | null
}

/**
 * Checks credentials for a project and a scope; `true` means `{ keyId: null }`. Throws if the check is impossible now.
 */
export type Authenticate = (credentials: Credentials) => Authenticated | boolean | Promise<Authenticated | boolean>

/** Options of a new key. */
export interface KeyOptions {
  /** Scopes of the key. Default: all. */
  scopes?: readonly Scope[]
  /** Milliseconds since 1970. Default: the key does not expire. */
  expiresAt?: number
  /** Who has the key, as `listRejected` shows it: 1 to 100 bytes, not secret. Default: none. */
  name?: string
}

/** The ingestion keys of all projects of one store. */
export interface Keyring {
  /** Checks a key. Records the use of a valid key in `lastUsedAt` afterwards, at most once an hour. */
  authenticate: Authenticate
  /**
   * Creates a key, and the project if it is new. The key is returned once; only its hash is stored. If the project has
   * 1,000 keys, the oldest expired or revoked one is deleted.
   *
   * @throws {IngestError} `invalid-argument` for an invalid project id, scope, time or name, and for a project with 1,000
   *   active keys, as `rotate` does
   */
  create(projectId: string, options?: KeyOptions): Promise<{ key: string; record: KeyRecord }>
  /**
   * The keys of the project, oldest first.
   *
   * @throws {IngestError} `invalid-argument` for an invalid project id, as `revoke` and `rotate` do
   */
  list(projectId: string): Promise<readonly KeyRecord[]>
  /**
   * Revokes a key permanently, at once; in other processes within `projectAgeMs` of the store.
   *
   * @throws {IngestError} `unknown-key`
   */
  revoke(projectId: string, keyId: string): Promise<KeyRecord>
  /**
   * Creates a key with the scopes and the name of an old one, which stays valid for `overlapMs` (default: 48 hours).
   * Deploy the new key before the old one ends: game servers stop sending for minutes after a 401. `old` has the time of
   * that end.
   *
   * @throws {IngestError} `unknown-key`, also for an expired or revoked key; `invalid-argument` for an overlap that is
   *   not an integer of at least 0
   */
  rotate(
    projectId: string,
    keyId: string,
    options?: { overlapMs?: number },
  ): Promise<{ key: string; record: KeyRecord; old: KeyRecord }>
}

/**
 * Maximum number of keys of a project. They are read and written together: more would block the event loop. Beyond it,
 * the oldest expired or revoked key is deleted.
 */
export const keysMax = 1_000

const keyNameBytesMax = 100

const overlapMsDefault = 48 * 3600 * 1000

/**
 * The keyring of a store. `authenticate` caches a project for up to `store.projectAgeMs` by the monotonic `clock`.
 * Changes by this keyring take effect at once.
 */
export function createKeyring(
  store: Pick<EntryStore, 'projectAgeMs' | 'entry' | 'updateEntry'>,
  now: () => number = Date.now,
  clock: () => number = () => performance.now(),
): Keyring {
  const cache = createProjectCache(store, clock)

  /** Drops the cached project even if the write fails, because it may have completed. */
  async function update<T>(
    projectId: string,
    decide: (project: Project | undefined) => EntryDecision<'project', T>,
  ): Promise<T> {
    try {
      return await store.updateEntry('project', projectId, decide)
    } finally {
      cache.forget(projectId)
    }
  }

  const noteUse = createKeyUsage((projectId, uses) => update(projectId, (project) => decideUses(project, uses)))

  return {
    async authenticate({ projectId, key, scope }) {
      const keyId = keyIdOf(key)
      if (keyId === undefined || !isProjectId(projectId)) return false
      const project = await cache.read(projectId)
      const record = project && recordsOf(project).get(keyId)
      const at = now()
      if (record === undefined || !isKeyOf(record, key, scope, at)) return false
      noteUse(projectId, { keyId, at }, record)
      return { keyId }
    },

    async create(projectId, options = {}) {
      checkKeyOptions(projectId, options)
      const at = now()
      const made = newKey(at, options)
      return update(projectId, (project = { projectId, createdAt: at, keys: [] }) => {
        // `decide` may run again after an attempt that was written
        if (recordsOf(project).has(made.record.keyId)) return { result: made }
        return { entry: { ...project, keys: added(project.keys, made.record, at) }, result: made }
      })
    },

    async list(projectId) {
      checkProjectId(projectId)
      return (await store.entry('project', projectId))?.keys ?? []
    },

    async revoke(projectId, keyId) {
      checkProjectId(projectId)
      const at = now()
      return update(projectId, (project) => {
        const [found, old] = findKey(project, keyId)
        if (old.revokedAt !== undefined) return { result: old }
        const record = { ...old, revokedAt: at }
        return { entry: { ...found, keys: replaced(found.keys, old, record) }, result: record }
      })
    },

    async rotate(projectId, keyId, { overlapMs = overlapMsDefault } = {}) {
      checkProjectId(projectId)
      checkOverlap(overlapMs)
      const at = now()
      const made = newKey(at)
      return update(projectId, (project) => decideRotation(project, { keyId, made, at, overlapMs }))
    },
  }
}

interface MadeKey {
  key: string
  record: KeyRecord
}

/** Gives the new key the scopes and the name of the old one, which expires after the overlap. */
function decideRotation(
  project: Project | undefined,
  { keyId, made, at, overlapMs }: { keyId: string; made: MadeKey; at: number; overlapMs: number },
): EntryDecision<'project', MadeKey & { old: KeyRecord }> {
  const [found, old] = findKey(project, keyId)
  const record = { ...made.record, scopes: old.scopes, ...(old.name !== undefined && { name: old.name }) }
  // `decide` may run again after an attempt that was written
  if (recordsOf(found).has(record.keyId)) return { result: { ...made, record, old } }
  if (!isActive(old, at)) {
    throw new IngestError('unknown-key', `The key ${keyId} is expired or revoked: create a new one.`)
  }
  const ending = { ...old, expiresAt: Math.min(old.expiresAt ?? Number.POSITIVE_INFINITY, at + overlapMs) }
  const keys = added(replaced(found.keys, old, ending), record, at)
  return { entry: { ...found, keys }, result: { ...made, record, old: ending } }
}

/** Decides on the current project, so that a revocation after the use is kept. */
function decideUses(project: Project | undefined, uses: readonly KeyUse[]): EntryDecision<'project', void> {
  if (!project) return { result: undefined }
  const usedAt = new Map(uses.map(({ keyId, at }) => [keyId, at]))
  const keys = project.keys.map((record) => {
    const at = usedAt.get(record.keyId)
    return at === undefined || isLastUseRecent(record, at) ? record : { ...record, lastUsedAt: at }
  })
  const isChanged = keys.some((record, i) => record !== project.keys[i])
  return { ...(isChanged && { entry: { ...project, keys } }), result: undefined }
}

function newKey(createdAt: number, { scopes: given = scopes, expiresAt, name }: KeyOptions = {}): MadeKey {
  const { key, keyId } = makeKey()
  const record: KeyRecord = { keyId, hash: hashKey(key), scopes: [...new Set(given)], createdAt }
  if (expiresAt !== undefined) record.expiresAt = expiresAt
  if (name !== undefined) record.name = name
  return { key, record }
}

function checkKeyOptions(projectId: string, options: KeyOptions): void {
  checkProjectId(projectId)
  const strange = options.scopes?.find((scope) => !scopes.includes(scope))
  if (strange !== undefined || options.scopes?.length === 0) {
    throw new IngestError('invalid-argument', `A key needs one or more of the scopes ${scopes.join(', ')}.`)
  }
  if (options.expiresAt !== undefined && !Number.isSafeInteger(options.expiresAt)) {
    throw new IngestError('invalid-argument', 'expiresAt must be a number of milliseconds since 1970.')
  }
  if (options.name !== undefined && nameIssue(options.name, '', keyNameBytesMax)) {
    throw new IngestError(
      'invalid-argument',
      `The name of a key is 1 to ${keyNameBytesMax} bytes of UTF-8 without control characters.`,
    )
  }
}

function checkOverlap(overlapMs: number): void {
  if (Number.isSafeInteger(overlapMs) && overlapMs >= 0) return
  throw new IngestError('invalid-argument', 'overlapMs must be a whole number of milliseconds.')
}

/** Records by id for each list of keys: a store returns the same array while the keys have not changed. */
const recordsByKeys = new WeakMap<readonly KeyRecord[], ReadonlyMap<string, KeyRecord>>()

function recordsOf({ keys }: Project): ReadonlyMap<string, KeyRecord> {
  const known = recordsByKeys.get(keys)
  if (known) return known
  const records = new Map(keys.map((record) => [record.keyId, record]))
  recordsByKeys.set(keys, records)
  return records
}

/** Adds a key; at {@link keysMax}, it replaces the oldest expired or revoked one. */
function added(keys: readonly KeyRecord[], record: KeyRecord, now: number): KeyRecord[] {
  if (keys.length < keysMax) return [...keys, record]
  const ended = keys.findIndex((each) => !isActive(each, now))
  if (ended >= 0) return [...keys.toSpliced(ended, 1), record]
  throw new IngestError('invalid-argument', `The project has ${keysMax} active keys, the most: revoke one.`, {
    limit: keysMax,
    actual: keys.length,
  })
}

function findKey(project: Project | undefined, keyId: string): [Project, KeyRecord] {
  const record = project?.keys.find((each) => each.keyId === keyId)
  if (project && record) return [project, record]
  // a long text may be a whole key: do not quote it
  const name = keyId.length > keyIdLength ? 'with this id: an id is the 8 characters after ik_' : keyId
  throw new IngestError('unknown-key', `The project has no key ${name}.`)
}

function replaced(keys: readonly KeyRecord[], old: KeyRecord, record: KeyRecord): KeyRecord[] {
  return keys.map((each) => (each === old ? record : each))
}
