import t from 'tap'
import { IngestError } from '../../src/error.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'
import { usesQueuedMax } from '../../src/projects/key-usage.ts'
import { createKeyring, type KeyOptions, type Keyring, keysMax } from '../../src/projects/keyring.ts'
import { makeKey, scopes } from '../../src/projects/project.ts'
import type { ProjectStore } from '../../src/projects/project-store.ts'

const hourMs = 3_600_000

function setUp() {
  const store = openMemoryStore()
  const clock = { now: 1_000 }
  const keys = createKeyring(store, () => clock.now)
  const opens = (key: string, projectId = 'p', scope: (typeof scopes)[number] = 'events:write') =>
    keys.authenticate({ projectId, key, scope })
  return { store, clock, keys, opens }
}

t.test('a created key is valid for its project', async (t) => {
  const { keys, opens } = setUp()
  const { key, record } = await keys.create('p')
  t.equal(await opens(key), true)
  t.match(record, { keyId: key.slice(3, 11), scopes, createdAt: 1_000, expiresAt: undefined, revokedAt: undefined })
  t.strictSame(await keys.list('p'), [record])
})

t.test('the first key creates the project', async (t) => {
  const { store, clock, keys } = setUp()
  t.strictSame(await keys.list('p'), [])
  await keys.create('p')
  clock.now = 2_000
  await keys.create('p')
  t.match(await store.project('p'), {
    projectId: 'p',
    createdAt: 1_000,
    keys: [{ createdAt: 1_000 }, { createdAt: 2_000 }],
  })
})

t.test('the key itself is not stored', async (t) => {
  const { store, keys } = setUp()
  const { key } = await keys.create('p')
  t.notMatch(JSON.stringify(await store.project('p')), key.slice(12))
})

t.test('a project may have several valid keys', async (t) => {
  const { keys, opens } = setUp()
  const made = await Promise.all(Array.from({ length: 10 }, () => keys.create('p')))
  for (const { key } of made) t.equal(await opens(key), true)
  t.equal((await keys.list('p')).length, 10)
})

t.test('a key is valid for its project and scopes only', async (t) => {
  const { keys, opens } = setUp()
  const { key } = await keys.create('p', { scopes: ['read'] })
  await keys.create('q')
  t.equal(await opens(key, 'p', 'read'), true)
  t.equal(await opens(key, 'p', 'events:write'), false)
  t.equal(await opens(key, 'p', 'maps:write'), false)
  for (const projectId of ['q', 'unknown', 'P', 'p ', '', '../p', 'x'.repeat(65)])
    t.equal(await opens(key, projectId, 'read'), false)
})

t.test('a wrong key is invalid', async (t) => {
  const { keys, opens } = setUp()
  const { key } = await keys.create('p')
  for (const other of ['', 'junk', key.slice(0, -1), `${key} `, key.toUpperCase(), makeKey().key])
    t.equal(await opens(other), false)
})

t.test('a key with the id of another key is invalid', async (t) => {
  const { keys, opens } = setUp()
  let id: Uint8Array = new Uint8Array(8)
  const withId = (fill: number) => makeKey((size) => Uint8Array.from({ length: size }, (_, at) => id[at] ?? fill))
  const { record, key } = await keys.create('p')
  id = Uint8Array.from(record.keyId, (character) => '0123456789abcdefghjkmnpqrstvwxyz'.indexOf(character))
  const forged = withId(7)
  t.equal(forged.keyId, record.keyId)
  t.equal(await opens(forged.key), false)
  t.equal(await opens(key), true)
})

t.test('a malformed key is refused without a read of the store', async (t) => {
  const { store, keys, opens } = setUp()
  const { key } = await keys.create('p')
  await store.close()
  t.equal(await opens('junk'), false)
  t.equal(await opens(key, 'no project'), false)
})

t.test('a failed read of the store is an error, not an invalid key', async (t) => {
  const { store, keys, opens } = setUp()
  const { key } = await keys.create('p')
  await store.close()
  await t.rejects(async () => opens(key), { code: 'store-closed' })
})

t.test('a key is invalid once it expires', async (t) => {
  const { clock, keys, opens } = setUp()
  const { key } = await keys.create('p', { expiresAt: 5_000 })
  clock.now = 4_999
  t.equal(await opens(key), true)
  clock.now = 5_000
  t.equal(await opens(key), false)
})

t.test('a revoked key is invalid immediately, and revoking it again changes nothing', async (t) => {
  const { clock, keys, opens } = setUp()
  const { key, record } = await keys.create('p')
  const other = await keys.create('p')
  clock.now = 3_000
  t.strictSame(await keys.revoke('p', record.keyId), { ...record, revokedAt: 3_000 })
  t.equal(await opens(key), false)
  t.equal(await opens(other.key), true)
  clock.now = 9_000
  t.equal((await keys.revoke('p', record.keyId)).revokedAt, 3_000)
  t.strictSame(await keys.list('p'), [{ ...record, revokedAt: 3_000 }, other.record])
})

t.test('a rotated key stays valid for 48 hours', async (t) => {
  const { clock, keys, opens } = setUp()
  const old = await keys.create('p', { scopes: ['read', 'events:write'] })
  const made = await keys.rotate('p', old.record.keyId)
  t.strictSame(made.record.scopes, old.record.scopes)
  t.equal(made.record.expiresAt, undefined)
  clock.now = 1_000 + 48 * hourMs - 1
  t.strictSame([await opens(old.key), await opens(made.key)], [true, true])
  clock.now++
  t.strictSame([await opens(old.key), await opens(made.key)], [false, true])
})

t.test('the overlap of a rotation is an option, and never extends a key', async (t) => {
  const { clock, keys, opens } = setUp()
  const first = await keys.create('p')
  await keys.rotate('p', first.record.keyId, { overlapMs: 0 })
  t.equal(await opens(first.key), false)
  const short = await keys.create('p', { expiresAt: 2_000 })
  await keys.rotate('p', short.record.keyId, { overlapMs: hourMs })
  t.equal((await keys.list('p')).find(({ keyId }) => keyId === short.record.keyId)?.expiresAt, 2_000)
  clock.now = 2_000
  t.equal(await opens(short.key), false)
})

t.test('an expired or revoked key cannot be rotated', async (t) => {
  const { clock, keys } = setUp()
  const revoked = await keys.create('p')
  await keys.revoke('p', revoked.record.keyId)
  const expired = await keys.create('p', { expiresAt: 2_000 })
  clock.now = 2_000
  for (const { record } of [revoked, expired]) await t.rejects(keys.rotate('p', record.keyId), { code: 'unknown-key' })
  t.equal((await keys.list('p')).length, 2, 'no key was created')
})

t.test('an invalid argument revokes and rotates no key', async (t) => {
  const { keys, opens } = setUp()
  const { key, record } = await keys.create('p')
  const invalid = { code: 'invalid-argument' }
  for (const overlapMs of [Number.NaN, -1, 0.5]) {
    await t.rejects(keys.rotate('p', record.keyId, { overlapMs }), invalid)
  }
  for (const projectId of ['', 'a b', 'x'.repeat(65)]) {
    await t.rejects(keys.list(projectId), invalid)
    await t.rejects(keys.revoke(projectId, record.keyId), invalid)
    await t.rejects(keys.rotate(projectId, record.keyId), invalid)
  }
  t.equal(await opens(key), true)
})

t.test('a missing key is unknown-key', async (t) => {
  const { store, keys } = setUp()
  const { record } = await keys.create('p')
  for (const [projectId, keyId] of [
    ['p', 'nothing0'],
    ['q', record.keyId],
    ['p', ''],
  ] as const) {
    await t.rejects(keys.revoke(projectId, keyId), { name: 'IngestError', code: 'unknown-key' })
    await t.rejects(keys.rotate(projectId, keyId), { name: 'IngestError', code: 'unknown-key' })
  }
  t.equal(await store.project('q'), undefined, 'no project was created')
})

t.test('an invalid project id, scope or time is an invalid argument, and creates nothing', async (t) => {
  const { store, keys } = setUp()
  const invalid = { name: 'IngestError', code: 'invalid-argument' }
  for (const projectId of ['', 'a b', 'é', 'x'.repeat(65)]) await t.rejects(keys.create(projectId), invalid)
  await t.rejects(keys.create('p', { scopes: [] }), invalid)
  const strange = JSON.parse('{"scopes":["read","admin"]}') as KeyOptions
  await t.rejects(keys.create('p', strange), invalid)
  for (const expiresAt of [Number.NaN, 1.5, Number.POSITIVE_INFINITY])
    await t.rejects(keys.create('p', { expiresAt }), invalid)
  t.equal(await store.project('p'), undefined)
})

/** A store whose writes of projects are counted, and fail while `fails`. */
function setUpUses() {
  const { store, clock } = setUp()
  const writes = { count: 0, fails: false }
  const counting: ProjectStore = {
    ...store,
    async updateProject(projectId, decide) {
      if (writes.fails) throw new IngestError('disk-full', 'no space')
      return store.updateProject(projectId, (project) => {
        const decision = decide(project)
        if (decision.project) writes.count++
        return decision
      })
    },
  }
  const open = () => createKeyring(counting, () => clock.now)
  return { store, clock, writes, open }
}

/** Uses are written one after the other, each in a turn of its own. */
async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve))
}

t.test('the last use of a key is written at most once an hour, over all servers', async (t) => {
  const { clock, writes, open } = setUpUses()
  const servers = [open(), open(), open()]
  const [keys] = servers as [Keyring]
  const { key, record } = await keys.create('p')
  writes.count = 0
  const useByAll = async () => {
    for (const server of servers) {
      for (let i = 0; i < 5; i++) await server.authenticate({ projectId: 'p', key, scope: 'read' })
    }
    await settle()
    return (await keys.list('p')).map(({ lastUsedAt }) => lastUsedAt)
  }
  t.equal(record.lastUsedAt, undefined)
  t.strictSame(await useByAll(), [1_000])
  t.equal(writes.count, 1)
  clock.now += hourMs - 1
  t.strictSame(await useByAll(), [1_000])
  t.equal(writes.count, 1)
  clock.now += 1
  t.strictSame(await useByAll(), [clock.now])
  t.equal(writes.count, 2)
})

t.test('only a valid use of a key is noted', async (t) => {
  const { writes, open } = setUpUses()
  const keys = open()
  const { key, record } = await keys.create('p', { scopes: ['read'] })
  const { key: other } = await keys.create('q')
  await keys.revoke('p', record.keyId)
  writes.count = 0
  await keys.authenticate({ projectId: 'p', key, scope: 'read' })
  await keys.authenticate({ projectId: 'p', key: other, scope: 'read' })
  await settle()
  t.equal(writes.count, 0)
})

t.test('a last use that cannot be written fails no request, and is not tried by every request', async (t) => {
  const { clock, writes, open } = setUpUses()
  const keys = open()
  const { key } = await keys.create('p')
  const use = () => keys.authenticate({ projectId: 'p', key, scope: 'read' })
  writes.fails = true
  for (let i = 0; i < 5; i++) t.equal(await use(), true)
  await settle()
  writes.fails = false
  writes.count = 0
  t.equal(await use(), true)
  await settle()
  t.equal(writes.count, 0)
  clock.now += hourMs
  await use()
  await settle()
  t.equal(writes.count, 1)
})

t.test('uses that wait to be written are bounded', async (t) => {
  const { store, clock } = setUp()
  let writing = 0
  let finish = () => {}
  const isFinished = new Promise<void>((resolve) => {
    finish = resolve
  })
  const slow: ProjectStore = {
    ...store,
    async updateProject(projectId, decide) {
      writing++
      await isFinished
      return store.updateProject(projectId, decide)
    },
  }
  const made = await Promise.all(
    Array.from({ length: usesQueuedMax + 5 }, (_, i) => createKeyring(store).create(`p-${i}`)),
  )
  const keys = createKeyring(slow, () => clock.now)
  for (const [i, { key }] of made.entries()) {
    t.equal(await keys.authenticate({ projectId: `p-${i}`, key, scope: 'read' }), true)
  }
  await settle()
  t.equal(writing, 1, 'one at a time')
  finish()
  while (writing < usesQueuedMax) await settle()
  await settle()
  t.equal(writing, usesQueuedMax)
})

t.test('the uses of keys of one project that wait are written together', async (t) => {
  const store = openMemoryStore()
  let writes = 0
  const keys = createKeyring({
    ...store,
    updateProject(projectId, decide) {
      writes++
      return store.updateProject(projectId, decide)
    },
  })
  const made = await Promise.all(Array.from({ length: 20 }, () => keys.create('p')))
  writes = 0
  for (const { key } of made) t.equal(await keys.authenticate({ projectId: 'p', key, scope: 'read' }), true)
  while ((await keys.list('p')).some(({ lastUsedAt }) => lastUsedAt === undefined)) await settle()
  t.equal(writes, 1)
})

t.test('beyond the most keys of a project, the oldest that has ended is forgotten', async (t) => {
  const store = openMemoryStore()
  const keys = createKeyring(store)
  const record = { hash: 'h', scopes: ['read'], createdAt: 1 } as const
  const full = Array.from({ length: keysMax }, (_, i) => ({ ...record, keyId: `k-${i}` }))
  await store.updateProject('p', () => ({ project: { projectId: 'p', createdAt: 1, keys: full }, result: 1 }))
  await t.rejects(keys.create('p'), { code: 'invalid-argument', limit: keysMax, actual: keysMax })
  await t.rejects(keys.rotate('p', 'k-1'), { code: 'invalid-argument' })
  await keys.revoke('p', 'k-7')
  const { key } = await keys.create('p')
  t.equal(await keys.authenticate({ projectId: 'p', key, scope: 'read' }), true)
  const left = await keys.list('p')
  t.equal(left.length, keysMax)
  t.notOk(left.some(({ keyId }) => keyId === 'k-7'))
})
