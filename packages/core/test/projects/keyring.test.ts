import t from 'tap'
import { IngestError } from '../../src/error.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'
import { usesQueuedMax } from '../../src/projects/key-usage.ts'
import { createKeyring, type KeyOptions, type Keyring, keysMax } from '../../src/projects/keyring.ts'
import { hashKey, isActive, isKeyOf, keyIdOf, makeKey } from '../../src/projects/project.ts'
import { projectsCachedMax } from '../../src/projects/project-cache.ts'
import type { EntryStore } from '../../src/store.ts'
import { type KeyRecord, type Scope, scopes } from '../../src/store-types.ts'

const hourMs = 3_600_000
const projectAgeMs = 1000
const { key, keyId } = makeKey()
const record: KeyRecord = { keyId, hash: hashKey(key), scopes: ['events:write'], createdAt: 0 }

t.test('a key is ik_, an id, 160 random bits and a checksum; other text is no key', async (t) => {
  t.match(key, /^ik_[0-9a-hjkmnp-tv-z]{8}_[0-9a-hjkmnp-tv-z]{39}$/)
  t.equal(key.slice(3, 11), keyId)
  t.equal(keyIdOf(key), keyId)
  for (let at = 0; at < key.length; at++) {
    const other = key[at] === 'x' ? 'y' : 'x'
    t.equal(keyIdOf(key.slice(0, at) + other + key.slice(at + 1)), undefined, `at ${at}`)
  }
  const parts = [
    keyId,
    key.slice(1),
    key.slice(0, -1),
    `${key}0`,
    ` ${key}`,
    `${key}\n`,
    key.toUpperCase(),
    key.repeat(2),
  ]
  for (const text of [...parts, '', 'ik_', '\u0000', 'é', 'x'.repeat(100_000)]) {
    t.equal(keyIdOf(text), undefined, text.slice(0, 60))
  }
})

t.test('a key encodes 160 bits of its random bytes', async (t) => {
  const made = (fill: (at: number) => number) =>
    makeKey((size) => {
      t.equal(size, 40)
      return Uint8Array.from({ length: size }, (_, at) => fill(at))
    }).key
  const zeros = made(() => 0)
  t.ok(zeros.startsWith(`ik_${'0'.repeat(8)}_${'0'.repeat(32)}`))
  t.equal(
    made(() => 0b11100000),
    zeros,
  )
  const single = Array.from({ length: 40 }, (_, bit) => [1, 16].map((value) => made((at) => (at === bit ? value : 0))))
  t.equal(new Set(single.flat()).size, 80, 'each bit counts')
  t.equal(new Set(Array.from({ length: 1_000 }, () => makeKey().key)).size, 1_000)
})

t.test('a key is stored as its hash, and is valid for its scopes until it expires or is revoked', async (t) => {
  t.match(hashKey(key), /^[0-9a-f]{64}$/)
  t.strictSame(scopes, ['events:write', 'maps:write', 'read', 'consume'])
  for (const scope of scopes) t.equal(isKeyOf(record, key, scope, 0), scope === 'events:write', scope)
  for (const other of [makeKey().key, '']) t.equal(isKeyOf(record, other, 'events:write', 0), false)
  const expiring = { ...record, expiresAt: 1_000 }
  t.equal(isActive(record, Number.MAX_SAFE_INTEGER), true)
  t.equal(isKeyOf(expiring, key, 'events:write', 999), true)
  t.equal(isKeyOf(expiring, key, 'events:write', 1_000), false)
  t.equal(isActive({ ...record, revokedAt: 5 }, 0), false, 'at once, whatever the clock says')
})

/** A keyring, another one that caches nothing, like in another process, and the calls of the first to the store. */
function setUp(changes: Partial<EntryStore> = {}) {
  const memory = openMemoryStore()
  const clock = { now: 1_000, monotonic: 0 }
  const calls = { reads: 0, writes: 0 }
  const store: Pick<EntryStore, 'projectAgeMs' | 'entry' | 'updateEntry'> = {
    ...memory,
    ...changes,
    entry(kind, projectId) {
      calls.reads++
      return (changes.entry ?? memory.entry)(kind, projectId)
    },
    updateEntry(kind, projectId, decide) {
      return (changes.updateEntry ?? memory.updateEntry)(kind, projectId, (entry) => {
        const decision = decide(entry)
        if (decision.entry) calls.writes++
        return decision
      })
    },
  }
  const open = () =>
    createKeyring(
      store,
      () => clock.now,
      () => clock.monotonic,
    )
  const keys = open()
  return {
    store: memory,
    clock,
    calls,
    keys,
    open,
    other: createKeyring(memory, () => clock.now),
    opens: async (key: string, projectId = 'p', scope: Scope = 'read') =>
      (await keys.authenticate({ projectId, key, scope })) !== false,
  }
}

t.test('a created key is valid for its project and scopes only', async (t) => {
  const { store, keys, opens } = setUp()
  t.strictSame(await keys.list('p'), [])
  const { key, record } = await keys.create('p')
  t.equal(await opens(key), true)
  t.match(record, { keyId: key.slice(3, 11), scopes, createdAt: 1_000, expiresAt: undefined, revokedAt: undefined })
  t.strictSame(await keys.list('p'), [record])
  t.notMatch(JSON.stringify(await store.entry('project', 'p')), key.slice(12), 'only its hash is stored')
  const { key: reader } = await keys.create('p', { scopes: ['read'] })
  await keys.create('q')
  t.strictSame([await opens(reader), await opens(reader, 'p', 'events:write')], [true, false])
  for (const projectId of ['q', 'unknown', 'P', 'p ', '', '../p', 'x'.repeat(65)]) {
    t.equal(await opens(reader, projectId), false)
  }
  for (const other of ['', 'junk', key.slice(0, -1), `${key} `, key.toUpperCase(), makeKey().key]) {
    t.equal(await opens(other), false)
  }
})

t.test('the first key creates the project, which may have several', async (t) => {
  const { store, clock, keys, opens } = setUp()
  await keys.create('p')
  clock.now = 2_000
  const made = await Promise.all(Array.from({ length: 10 }, () => keys.create('p')))
  t.match(await store.entry('project', 'p'), { projectId: 'p', createdAt: 1_000, keys: [{ createdAt: 1_000 }] })
  for (const { key } of made) t.equal(await opens(key), true)
  t.equal((await keys.list('p')).length, 11)
})

t.test('a key with the id of another key is invalid', async (t) => {
  const { keys, opens } = setUp()
  const { record, key } = await keys.create('p')
  const id = Array.from(record.keyId, (character) => '0123456789abcdefghjkmnpqrstvwxyz'.indexOf(character))
  const forged = makeKey((size) => Uint8Array.from({ length: size }, (_, at) => id[at] ?? 7))
  t.equal(forged.keyId, record.keyId)
  t.strictSame([await opens(forged.key), await opens(key)], [false, true])
})

t.test('a failed read is an error, not an invalid key, and a malformed key needs no read', async (t) => {
  const { store, keys, opens } = setUp()
  const { key } = await keys.create('p')
  await store.close()
  await t.rejects(async () => opens(key), { code: 'store-closed' })
  t.strictSame([await opens('junk'), await opens(key, 'no project')], [false, false])
})

t.test('a revoked key is invalid immediately, and revoking it again changes nothing', async (t) => {
  const { clock, keys, opens } = setUp()
  const { key, record } = await keys.create('p')
  const other = await keys.create('p')
  clock.now = 3_000
  t.strictSame(await keys.revoke('p', record.keyId), { ...record, revokedAt: 3_000 })
  t.strictSame([await opens(key), await opens(other.key)], [false, true])
  clock.now = 9_000
  t.equal((await keys.revoke('p', record.keyId)).revokedAt, 3_000)
  t.strictSame(await keys.list('p'), [{ ...record, revokedAt: 3_000 }, other.record])
})

t.test('a rotated key stays valid for 48 hours, or for its overlap, and never longer than before', async (t) => {
  const { clock, keys, opens } = setUp()
  const old = await keys.create('p', { scopes: ['read', 'events:write'], name: 'Live' })
  const made = await keys.rotate('p', old.record.keyId)
  t.strictSame([made.record.scopes, made.record.name], [old.record.scopes, 'Live'])
  t.equal(made.record.expiresAt, undefined)
  const first = await keys.create('p')
  await keys.rotate('p', first.record.keyId, { overlapMs: 0 })
  t.equal(await opens(first.key), false)
  const short = await keys.create('p', { expiresAt: 2_000 })
  const { old: ended } = await keys.rotate('p', short.record.keyId, { overlapMs: hourMs })
  t.strictSame(ended, { ...short.record, expiresAt: 2_000 })
  t.strictSame(
    (await keys.list('p')).find(({ keyId }) => keyId === short.record.keyId),
    ended,
  )
  clock.now = 1_000 + 48 * hourMs - 1
  t.strictSame([await opens(old.key), await opens(made.key)], [true, true])
  clock.now++
  t.strictSame([await opens(old.key), await opens(made.key)], [false, true])
})

t.test('a missing, expired or revoked key is unknown-key, and no key is created', async (t) => {
  const { store, clock, keys } = setUp()
  const revoked = await keys.create('p')
  await keys.revoke('p', revoked.record.keyId)
  const expired = await keys.create('p', { expiresAt: 2_000 })
  clock.now = 2_000
  const unknown = { name: 'IngestError', code: 'unknown-key' }
  for (const { record } of [revoked, expired]) await t.rejects(keys.rotate('p', record.keyId), unknown)
  for (const [projectId, keyId] of [
    ['p', 'nothing0'],
    ['q', revoked.record.keyId],
    ['p', ''],
  ] as const) {
    await t.rejects(keys.revoke(projectId, keyId), unknown)
    await t.rejects(keys.rotate(projectId, keyId), unknown)
  }
  t.equal((await keys.list('p')).length, 2)
  t.equal(await store.entry('project', 'q'), undefined, 'no project was created')
})

t.test('an invalid project id, scope, time, name or overlap is an invalid argument, and changes nothing', async (t) => {
  const { store, keys, opens } = setUp()
  const invalid = { name: 'IngestError', code: 'invalid-argument' }
  const { key, record } = await keys.create('p')
  for (const overlapMs of [Number.NaN, -1, 0.5]) await t.rejects(keys.rotate('p', record.keyId, { overlapMs }), invalid)
  for (const projectId of ['', 'a b', 'é', 'x'.repeat(65)]) {
    await t.rejects(keys.create(projectId), invalid)
    await t.rejects(keys.list(projectId), invalid)
    await t.rejects(keys.revoke(projectId, record.keyId), invalid)
    await t.rejects(keys.rotate(projectId, record.keyId), invalid)
  }
  const strange = JSON.parse('{"scopes":["read","admin"]}') as KeyOptions
  const times = [Number.NaN, 1.5, Number.POSITIVE_INFINITY].map((expiresAt) => ({ expiresAt }))
  const names = ['', 'x'.repeat(101), 'a\nb', 7 as never].map((name) => ({ name }))
  for (const options of [{ scopes: [] }, strange, ...times, ...names])
    await t.rejects(keys.create('q', options), invalid)
  t.equal(await store.entry('project', 'q'), undefined)
  t.equal(await opens(key), true)
})

t.test('a new key beyond the limit of a project replaces the oldest expired or revoked one', async (t) => {
  const { store, keys, opens } = setUp()
  const full = Array.from({ length: keysMax }, (_, i) => ({ ...record, keyId: `k-${i}` }))
  await store.updateEntry('project', 'p', () => ({ entry: { projectId: 'p', createdAt: 1, keys: full }, result: 1 }))
  await t.rejects(keys.create('p'), { code: 'invalid-argument', limit: keysMax, actual: keysMax })
  await t.rejects(keys.rotate('p', 'k-1'), { code: 'invalid-argument' })
  await keys.revoke('p', 'k-7')
  const { key } = await keys.create('p')
  t.equal(await opens(key), true)
  const left = await keys.list('p')
  t.equal(left.length, keysMax)
  t.notOk(left.some(({ keyId }) => keyId === 'k-7'))
})

t.test('a change that is decided again on top of its own write adds no second key', async (t) => {
  const { store } = setUp()
  // the first write completes, but its result is lost
  const updateEntry: typeof store.updateEntry = async (kind, projectId, decide) => {
    await store.updateEntry(kind, projectId, decide)
    return store.updateEntry(kind, projectId, decide)
  }
  let now = 1_000
  const keys = createKeyring({ ...store, updateEntry }, () => now++)
  const created = await keys.create('p')
  t.strictSame(await keys.list('p'), [created.record])
  const rotated = await keys.rotate('p', created.record.keyId, { overlapMs: 0 })
  t.strictSame((await keys.list('p')).slice(1), [rotated.record])
  t.strictSame(await keys.authenticate({ projectId: 'p', key: rotated.key, scope: 'read' }), {
    keyId: rotated.record.keyId,
  })
  const revoked = await keys.revoke('p', rotated.record.keyId)
  t.strictSame((await keys.list('p'))[1], revoked)
})

/** Uses are written one after the other, each in a turn of its own. */
async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
}

t.test('the last use of a key is written at most once an hour, over all servers', async (t) => {
  const { clock, calls, open } = setUp()
  const servers = [open(), open(), open()]
  const [keys] = servers as [Keyring]
  const { key, record } = await keys.create('p')
  calls.writes = 0
  const useByAll = async () => {
    for (const server of servers) {
      for (let i = 0; i < 5; i++) await server.authenticate({ projectId: 'p', key, scope: 'read' })
    }
    await settle()
    return [calls.writes, ...(await keys.list('p')).map(({ lastUsedAt }) => lastUsedAt)]
  }
  t.equal(record.lastUsedAt, undefined)
  t.strictSame(await useByAll(), [1, 1_000])
  clock.now += hourMs - 1
  t.strictSame(await useByAll(), [1, 1_000])
  clock.now += 1
  t.strictSame(await useByAll(), [2, clock.now])
})

t.test('only a valid use of a key is noted', async (t) => {
  const { calls, keys, opens } = setUp()
  const { key, record } = await keys.create('p', { scopes: ['read'] })
  const { key: other } = await keys.create('q')
  await keys.revoke('p', record.keyId)
  calls.writes = 0
  for (const used of [key, other]) t.equal(await opens(used), false)
  await settle()
  t.equal(calls.writes, 0)
})

t.test('a last use that cannot be written fails no request, and is not tried by every request', async (t) => {
  let fails = false
  const memory = openMemoryStore()
  const { clock, calls, keys, opens } = setUp({
    ...memory,
    async updateEntry(kind, projectId, decide) {
      if (fails) throw new IngestError('disk-full', 'no space')
      return memory.updateEntry(kind, projectId, decide)
    },
  })
  const { key } = await keys.create('p')
  fails = true
  for (let i = 0; i < 5; i++) t.equal(await opens(key), true)
  await settle()
  fails = false
  calls.writes = 0
  t.equal(await opens(key), true)
  await settle()
  t.equal(calls.writes, 0)
  clock.now += hourMs
  await opens(key)
  await settle()
  t.equal(calls.writes, 1)
})

t.test('queued uses are bounded, and those of one project are written together', async (t) => {
  let writing = 0
  let finish = () => {}
  const isFinished = new Promise<void>((resolve) => {
    finish = resolve
  })
  const memory = openMemoryStore()
  const { opens } = setUp({
    ...memory,
    async updateEntry(kind, projectId, decide) {
      writing++
      await isFinished
      return memory.updateEntry(kind, projectId, decide)
    },
  })
  const names = [
    ...Array.from({ length: usesQueuedMax - 18 }, (_, i) => `p-${i}`),
    ...new Array(20).fill('many'),
    'late',
  ]
  const keyring = createKeyring(memory)
  const made = await Promise.all(names.map((projectId) => keyring.create(projectId)))
  for (const [i, { key }] of made.entries()) t.equal(await opens(key, names[i]), true)
  await settle()
  t.equal(writing, 1, 'one at a time')
  finish()
  const written = usesQueuedMax - 18 + 1
  while (writing < written) await settle()
  await settle()
  t.equal(writing, written)
  t.match(await keyring.list('late'), [{ lastUsedAt: undefined }])
})

/** Reads of entries that `release` ends. */
function holdReads({ entry }: Pick<EntryStore, 'entry'>) {
  const held: (() => void)[] = []
  const heldEntry: EntryStore['entry'] = async (kind, projectId) => {
    const found = await entry(kind, projectId)
    await new Promise<void>((resolve) => held.push(resolve))
    return found
  }
  return { release: () => held.splice(0).map((resolve) => resolve()), entry: heldEntry }
}

t.test('a project is read once in projectAgeMs: then a key revoked or created elsewhere is known', async (t) => {
  const { calls, clock, keys, opens, other } = setUp({ projectAgeMs })
  const { key, record } = await other.create('p', { expiresAt: 2_000 })
  t.equal(await opens(key), true)
  t.equal(await opens(key, 'unknown'), false)
  t.equal(await opens(key, 'unknown'), false, 'a project without keys is cached as well')
  await other.revoke('p', record.keyId)
  const later = await other.create('p')
  clock.monotonic = projectAgeMs - 1
  t.strictSame([await opens(key), await opens(later.key), calls.reads], [true, false, 2])
  clock.now = 2_000
  t.equal(await opens(key), false, 'expired, although its project is cached')
  t.equal((await keys.list('p')).length, 2, 'a list is never cached')
  calls.reads = 0
  clock.monotonic = projectAgeMs
  t.strictSame([await opens(key), await opens(later.key), calls.reads], [false, true, 1])
})

t.test('without projectAgeMs each authentication reads the store', async (t) => {
  for (const age of [0, undefined]) {
    const { calls, opens, other } = setUp(age === undefined ? {} : { projectAgeMs: age })
    const { key, record } = await other.create('p')
    t.equal(await opens(key), true)
    await other.revoke('p', record.keyId)
    t.equal(await opens(key), false)
    t.equal(calls.reads, 2)
  }
})

t.test('concurrent authentications share one read, whose age counts from its start', async (t) => {
  const memory = openMemoryStore()
  const { key } = await createKeyring(memory).create('p')
  const held = holdReads(memory)
  const { calls, clock, opens } = setUp({ projectAgeMs, entry: held.entry })
  const opened = [opens(key), opens(key), opens(key)]
  await new Promise(setImmediate)
  clock.monotonic = projectAgeMs
  held.release()
  t.strictSame(await Promise.all(opened), [true, true, true])
  t.equal(calls.reads, 1)
  const again = opens(key)
  await new Promise(setImmediate)
  held.release()
  t.equal(await again, true)
  t.equal(calls.reads, 2)
})

t.test('a failed read is the error of all that share it, and the next one reads again', async (t) => {
  const memory = openMemoryStore()
  const { key } = await createKeyring(memory).create('p')
  let isDown = true
  const { calls, opens } = setUp({
    projectAgeMs,
    async entry(kind, projectId) {
      if (isDown) throw new IngestError('store-unavailable', 'gone')
      return memory.entry(kind, projectId)
    },
  })
  const opened = await Promise.allSettled([opens(key), opens(key)])
  t.match(opened, [{ reason: { code: 'store-unavailable' } }, { reason: { code: 'store-unavailable' } }])
  t.equal(calls.reads, 1)
  isDown = false
  t.equal(await opens(key), true)
  t.equal(calls.reads, 2)
})

t.test('changes by the keyring take effect at once', async (t) => {
  const { keys, opens, other } = setUp({ projectAgeMs })
  const old = await other.create('p')
  t.equal(await opens(old.key), true)
  const made = await keys.create('p')
  t.equal(await opens(made.key), true)
  const rotated = await keys.rotate('p', old.record.keyId, { overlapMs: 0 })
  t.strictSame([await opens(old.key), await opens(rotated.key)], [false, true])
  await keys.revoke('p', made.record.keyId)
  t.equal(await opens(made.key), false)
})

t.test('a read that began before a change by the keyring is not used after it', async (t) => {
  const memory = openMemoryStore()
  const { key, record } = await createKeyring(memory).create('p')
  const held = holdReads(memory)
  const { keys, opens } = setUp({ projectAgeMs, entry: held.entry, updateEntry: memory.updateEntry })
  const before = opens(key)
  await new Promise(setImmediate)
  await keys.revoke('p', record.keyId)
  const after = opens(key)
  await new Promise(setImmediate)
  held.release()
  t.strictSame([await before, await after], [true, false])
  t.equal(await opens(key), false)
})

t.test('a change that was completed although it failed takes effect at once', async (t) => {
  const memory = openMemoryStore()
  const { keys, opens } = setUp({
    projectAgeMs,
    entry: memory.entry,
    async updateEntry(kind, projectId, decide) {
      await memory.updateEntry(kind, projectId, decide)
      throw new IngestError('store-unavailable', 'The connection was lost.')
    },
  })
  const { key, record } = await createKeyring(memory).create('p')
  t.equal(await opens(key), true)
  await t.rejects(keys.revoke('p', record.keyId), { code: 'store-unavailable' })
  t.equal(await opens(key), false)
})

t.test('the cache is bounded: the project that was read longest ago is dropped', async (t) => {
  const { calls, opens } = setUp({ projectAgeMs, entry: async () => undefined })
  for (let i = 0; i <= projectsCachedMax; i++) await opens(key, `p-${i}`)
  t.equal(calls.reads, projectsCachedMax + 1)
  await opens(key, 'p-1')
  t.equal(calls.reads, projectsCachedMax + 1, 'still cached')
  await opens(key, 'p-0')
  t.equal(calls.reads, projectsCachedMax + 2, 'dropped')
})
