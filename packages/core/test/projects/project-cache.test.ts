import t from 'tap'
import { IngestError } from '../../src/error.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'
import { createKeyring } from '../../src/projects/keyring.ts'
import type { Project } from '../../src/projects/project.ts'
import { projectsCachedMax } from '../../src/projects/project-cache.ts'
import type { Store } from '../../src/store.ts'

const projectAgeMs = 1000

/** A keyring with a cache, the keyring of another process, and the number of reads by the first one. */
function setUp(changes: Partial<Store> = {}) {
  const memory = openMemoryStore()
  const books = { reads: 0, time: 0 }
  const store: Store = {
    ...memory,
    projectAgeMs,
    ...changes,
    project(projectId) {
      books.reads++
      return (changes.project ?? memory.project)(projectId)
    },
  }
  const keys = createKeyring(store, Date.now, () => books.time)
  return {
    books,
    memory,
    keys,
    other: createKeyring(memory),
    opens: (key: string, projectId = 'p') => keys.authenticate({ projectId, key, scope: 'read' }),
  }
}

/** A read of a project that `release` ends. */
function holdReads(read: Store['project']) {
  const held: (() => void)[] = []
  return {
    release: () => held.splice(0).map((resolve) => resolve()),
    async project(projectId: string) {
      const project = await read(projectId)
      await new Promise<void>((resolve) => held.push(resolve))
      return project
    },
  }
}

t.test('a project is read once in projectAgeMs: then a key revoked or created elsewhere is known', async (t) => {
  const { books, opens, other } = setUp()
  const { key, record } = await other.create('p')
  t.equal(await opens(key), true)
  await other.revoke('p', record.keyId)
  const later = await other.create('p')
  books.time = projectAgeMs - 1
  t.strictSame([await opens(key), await opens(later.key), books.reads], [true, false, 1])
  books.time = projectAgeMs
  t.strictSame([await opens(key), await opens(later.key), books.reads], [false, true, 2])
})

t.test('an expired key is invalid although its project is cached', async (t) => {
  let now = 1_000
  const store = { ...openMemoryStore(), projectAgeMs }
  const keys = createKeyring(
    store,
    () => now,
    () => 0,
  )
  const { key } = await keys.create('p', { expiresAt: 2_000 })
  t.equal(await keys.authenticate({ projectId: 'p', key, scope: 'read' }), true)
  now = 2_000
  t.equal(await keys.authenticate({ projectId: 'p', key, scope: 'read' }), false)
})

t.test('without projectAgeMs each authentication reads the store', async (t) => {
  for (const age of [0, undefined]) {
    const { books, opens, other } = setUp({ projectAgeMs: age as number })
    const { key, record } = await other.create('p')
    t.equal(await opens(key), true)
    await other.revoke('p', record.keyId)
    t.equal(await opens(key), false)
    t.equal(books.reads, 2)
  }
})

t.test('the keys are listed as they are stored now', async (t) => {
  const { keys, opens, other } = setUp()
  const { key } = await other.create('p')
  await opens(key)
  await other.create('p')
  t.equal((await keys.list('p')).length, 2)
})

t.test('a project without keys is cached as well', async (t) => {
  const { books, opens, other } = setUp()
  const { key } = await other.create('q')
  for (let i = 0; i < 3; i++) t.equal(await opens(key, 'unknown'), false)
  t.equal(books.reads, 1)
})

t.test('concurrent authentications share one read, whose age counts from its start', async (t) => {
  const memory = openMemoryStore()
  const { key } = await createKeyring(memory).create('p')
  const held = holdReads(memory.project)
  const { books, opens } = setUp({ project: held.project })
  const opened = [opens(key), opens(key), opens(key)]
  await new Promise(setImmediate)
  books.time = projectAgeMs
  held.release()
  t.strictSame(await Promise.all(opened), [true, true, true])
  t.equal(books.reads, 1)
  const again = opens(key)
  await new Promise(setImmediate)
  held.release()
  t.equal(await again, true)
  t.equal(books.reads, 2)
})

t.test('a failed read is the error of all that share it, and the next one reads again', async (t) => {
  const memory = openMemoryStore()
  const { key } = await createKeyring(memory).create('p')
  let isDown = true
  const { books, opens } = setUp({
    async project(projectId) {
      if (isDown) throw new IngestError('store-unavailable', 'gone')
      return memory.project(projectId)
    },
  })
  const opened = await Promise.allSettled([opens(key), opens(key)])
  t.match(opened, [{ reason: { code: 'store-unavailable' } }, { reason: { code: 'store-unavailable' } }])
  t.equal(books.reads, 1)
  isDown = false
  t.equal(await opens(key), true)
  t.equal(books.reads, 2)
})

t.test('changes by the keyring take effect at once', async (t) => {
  const { keys, opens, other } = setUp()
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
  const held = holdReads(memory.project)
  const { keys, opens } = setUp({ project: held.project, updateProject: memory.updateProject })
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
    project: memory.project,
    async updateProject(projectId, decide) {
      await memory.updateProject(projectId, decide)
      throw new IngestError('store-unavailable', 'The connection was lost.')
    },
  })
  const { key, record } = await createKeyring(memory).create('p')
  t.equal(await opens(key), true)
  await t.rejects(keys.revoke('p', record.keyId), { code: 'store-unavailable' })
  t.equal(await opens(key), false)
})

t.test('a change that is decided again on top of its own write adds no second key', async (t) => {
  const memory = openMemoryStore()
  const store: Store = {
    ...memory,
    // the first write is completed, and its result is lost
    async updateProject(projectId, decide) {
      await memory.updateProject(projectId, decide)
      return memory.updateProject(projectId, decide)
    },
  }
  let now = 1_000
  const keys = createKeyring(store, () => now++)
  const created = await keys.create('p')
  t.strictSame(await keys.list('p'), [created.record])
  const rotated = await keys.rotate('p', created.record.keyId, { overlapMs: 0 })
  t.strictSame((await keys.list('p'))[1], rotated.record)
  t.equal((await keys.list('p')).length, 2)
  t.equal(await keys.authenticate({ projectId: 'p', key: rotated.key, scope: 'read' }), true)
  const revoked = await keys.revoke('p', rotated.record.keyId)
  t.strictSame((await keys.list('p'))[1], revoked)
})

t.test('the cache is bounded: the project read the longest ago is dropped', async (t) => {
  const empty: Project = { projectId: 'p', createdAt: 0, keys: [] }
  const { books, opens, other } = setUp({ project: async () => empty })
  const { key } = await other.create('p')
  for (let i = 0; i <= projectsCachedMax; i++) await opens(key, `p-${i}`)
  t.equal(books.reads, projectsCachedMax + 1)
  await opens(key, 'p-1')
  t.equal(books.reads, projectsCachedMax + 1, 'still cached')
  await opens(key, 'p-0')
  t.equal(books.reads, projectsCachedMax + 2, 'dropped')
})
