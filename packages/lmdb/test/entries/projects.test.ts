import { createIngest } from '@ingest/core'
import t from 'tap'
import { createParsedProjects, openProjects } from '../../src/entries/projects.ts'
import { openEnvironment } from '../../src/environment/environment.ts'
import { projectKey } from '../../src/environment/row-keys.ts'
import { openLmdbStore } from '../../src/open-lmdb-store.ts'
import { startStoreProcess } from '../store-process.ts'

t.test('a project is numbered once, and round-trips', async (t) => {
  const environment = await openEnvironment(t.testdir())
  const projects = openProjects(environment.table)
  const one = { projectId: 'one', createdAt: 1, keys: [] }
  t.equal(projects.numberOf('one'), undefined)
  t.equal(projects.get('one'), undefined)
  environment.root.transactionSync(() => {
    t.equal(projects.numberFor('one'), 1)
    t.equal(projects.numberFor('other'), 2)
    t.equal(projects.numberFor('one'), 1)
    projects.put('one', JSON.stringify(one))
    projects.put('third', JSON.stringify({ ...one, projectId: 'third' }))
  })
  environment.root.resetReadTxn()
  t.equal(projects.numberOf('one'), 1)
  t.equal(projects.numberOf('other'), 2)
  t.equal(projects.numberOf('third'), 3)
  t.strictSame(projects.get('one'), one)
  t.equal(projects.get('other'), undefined, 'a project that only has events')
  await environment.close()
})

t.test('a project whose number or key is damaged is refused, and never takes the number of another', async (t) => {
  const environment = await openEnvironment(t.testdir())
  const entries = environment.table('projects')
  const projects = openProjects(environment.table)
  const ids = ['alpha', 'beta', 'gamma']
  const damaged = { code: 'store-damaged' }
  const change = (work: () => unknown) => {
    environment.write(() => void work())
    environment.root.resetReadTxn()
  }
  change(() => ids.map((projectId) => projects.numberFor(projectId)))
  change(() => entries.put(Buffer.from('beta'), projectKey(3)))
  t.throws(() => projects.numberOf('beta'), damaged)
  t.throws(() => environment.write(() => projects.numberFor('beta')), damaged)
  change(() => entries.put(Buffer.from('beta'), Buffer.of(0)))
  t.throws(() => projects.numberOf('beta'), damaged)
  t.strictSame([projects.numberOf('alpha'), projects.numberOf('gamma')], [1, 3])
  for (const key of ['betb', 'bet!']) {
    change(() => {
      entries.remove(Buffer.from('beta'))
      entries.put(Buffer.from(key), projectKey(2))
    })
    t.throws(() => environment.write(() => projects.numberFor('beta')), damaged, key)
    t.throws(() => projects.numberOf(key), damaged)
    change(() => entries.remove(Buffer.from(key)))
  }
  await environment.close()
})

t.test('slices of projects make up the whole', async (t) => {
  const environment = await openEnvironment(t.testdir())
  const projects = openProjects(environment.table)
  const ids = ['B', 'a', 'a-', 'a.b', 'a0', 'ab', 'b']
  environment.write(() => void ids.map((projectId) => projects.numberFor(projectId)))
  environment.root.resetReadTxn()
  for (const limit of [1, 2, 3, ids.length]) {
    const listed: string[] = []
    for (let slice = ['']; slice.length > 0 && listed.length <= ids.length; listed.push(...slice)) {
      slice = projects.ids({ after: listed.at(-1), limit })
    }
    t.strictSame(listed, ids, `${limit} at once`)
  }
  await environment.close()
})

t.test('a number assigned in a failed transaction is assigned again', async (t) => {
  const environment = await openEnvironment(t.testdir())
  const projects = openProjects(environment.table)
  t.throws(() =>
    environment.root.transactionSync(() => {
      projects.numberFor('lost')
      throw new Error('no')
    }),
  )
  environment.root.transactionSync(() => {
    t.equal(projects.numberFor('kept'), 1)
  })
  t.equal(projects.numberOf('lost'), undefined)
  await environment.close()
})

t.test('a key that another process revokes is invalid at once', async (t) => {
  const directory = t.testdir()
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  const other = await startStoreProcess(directory)
  t.teardown(() => Promise.all([other.end(), ingest.close()]))
  for (let round = 0; round < 3; round++) {
    const { key } = await ingest.keys.create('p')
    const isValid = async () => (await ingest.authenticate({ projectId: 'p', key, scope: 'read' })) !== false
    t.strictSame([await isValid(), await isValid()], [true, true])
    await other.ask('revoke')
    t.strictSame([await isValid(), await isValid()], [false, false])
  }
})

t.test('a project is parsed again when a byte of its entry has changed', async (t) => {
  const parsed = createParsedProjects()
  const one = parsed.get('one', entryOf({ projectId: 'one', createdAt: 1 }))
  t.strictSame(one, { projectId: 'one', createdAt: 1, keys: [] })
  t.equal(parsed.get('one', entryOf({ projectId: 'one', createdAt: 1 })), one)
  t.match(parsed.get('one', entryOf({ projectId: 'one', createdAt: 2 })), { createdAt: 2 })
  t.match(parsed.get('one', entryOf({ projectId: 'one', createdAt: 1 })), { createdAt: 1 })
})

t.test('a cached project cannot be changed by its readers', async (t) => {
  const keys = [{ keyId: 'k', hash: 'h', scopes: ['read'], createdAt: 1 }]
  const { keys: read } = createParsedProjects().get('one', entryOf({ projectId: 'one', keys }))
  const key = read[0] as { scopes: readonly string[] }
  t.throws(() => Object.assign(key, { hash: 'other' }), TypeError)
  t.throws(() => (key.scopes as string[]).push('events:write'), TypeError)
  t.throws(() => (read as unknown[]).pop(), TypeError)
})

t.test('cached projects are bounded in number and in bytes', async (t) => {
  const entries = ['a', 'b', 'c'].map((projectId) => ({ projectId, entry: entryOf({ projectId }) }))
  const bytes = entries[0]?.entry.length ?? 0
  for (const parsed of [createParsedProjects(2), createParsedProjects(100, 2 * bytes)]) {
    const [a, b, c] = entries.map(({ projectId, entry }) => parsed.get(projectId, entry))
    t.equal(parsed.get('b', entries[1]?.entry as Buffer), b)
    t.equal(parsed.get('c', entries[2]?.entry as Buffer), c)
    t.not(parsed.get('a', entries[0]?.entry as Buffer), a, 'the oldest was removed')
  }
  const small = createParsedProjects(100, bytes)
  const large = entryOf({ projectId: 'large' })
  const kept = small.get('a', entries[0]?.entry as Buffer)
  t.not(small.get('large', large), small.get('large', large), 'larger than the limit')
  t.equal(small.get('a', entries[0]?.entry as Buffer), kept)
})

function entryOf(project: object): Buffer {
  return Buffer.from(`1234${JSON.stringify({ projectId: 'x', createdAt: 0, keys: [], ...project })}`)
}

t.test('authenticating reads the keys of a project once, however many it has', async (t) => {
  const environment = await openEnvironment(t.testdir())
  let entriesRead = 0
  const projects = openProjects((name) => {
    const rows = environment.table(name)
    if (name !== 'projects') return rows
    return new Proxy(rows, {
      get(target, property) {
        if (property === 'getBinary') entriesRead++
        const value = Reflect.get(target, property)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
  })
  const keys = Array.from({ length: 3000 }, (_, i) => ({ keyId: `${i}`, hash: 'h', scopes: [], createdAt: 1 }))
  const write = (createdAt: number) => {
    environment.write(() => projects.put('p', JSON.stringify({ projectId: 'p', createdAt, keys })))
    environment.root.resetReadTxn()
    entriesRead = 0
  }
  write(1)
  const first = projects.get('p')
  for (let i = 0; i < 100; i++) t.equal(projects.get('p'), first)
  t.ok(entriesRead <= 2, `${entriesRead} reads of the entry`)
  write(2)
  t.equal(projects.get('p')?.createdAt, 2, 'a change is seen at once')
  await environment.close()
})
