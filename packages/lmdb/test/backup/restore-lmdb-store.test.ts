import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import t from 'tap'
import { openLmdbStore, restoreLmdbStore } from '../../src/index.ts'

const id = { placeId: '1', buildId: 'b' }
const event = { projectId: 'p', eventId: 'a', buildId: 'b' }

async function makeBackup(directory: string): Promise<string> {
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  await ingest.project('p').publishMap({ ...id, map: { walls: 4 } })
  await ingest.project('p').submitBatch({ events: [event] })
  await ingest.close()
  return directory
}

t.testdir()
const backup = await makeBackup(join(t.testdirName, 'backup'))

const dataOf = (directory: string) =>
  ['events', 'chunks'].map((name) => readFileSync(join(directory, name, 'data.mdb'), 'base64'))

t.test('a backup is restored whole and not changed, and earlier cursors are refused', async (t) => {
  t.testdir()
  const before = dataOf(backup)
  for (const name of ['missing', 'empty']) {
    const directory = join(t.testdirName, name)
    if (name === 'empty') mkdirSync(directory)
    await restoreLmdbStore(backup, directory)
    t.strictSame(dataOf(backup), before)
    t.strictSame(readdirSync(directory).sort(), ['chunks', 'events'])
    const [old, restored] = await Promise.all([openLmdbStore(backup), openLmdbStore(directory)])
    const ingest = createIngest({ store: restored })
    t.match(await ingest.project('p').submitBatch({ events: [event] }), { accepted: 0, duplicates: 1 })
    t.equal((await ingest.project('p').getMap(id))?.frozen, true)
    t.ok(await ingest.project('p').getMapContent(id))
    const after = await old.lastCursor('p')
    await t.rejects(restored.read('p', { after })[Symbol.asyncIterator]().next(), {
      code: 'invalid-cursor',
      message: 'before a backup of the store was restored',
    })
    await Promise.all([old.close(), ingest.close()])
  }
})

t.test('an interrupted restore is refused by all but the next restore, which starts over', async (t) => {
  const whole = join(t.testdir(), 'whole')
  await restoreLmdbStore(backup, whole)
  for (const moved of [[], ['chunks'], ['chunks', 'events']]) {
    const directory = join(t.testdirName, `interrupted-${moved.length}`)
    cpSync(whole, join(directory, 'restoring'), { recursive: true })
    for (const name of moved) renameSync(join(directory, 'restoring', name), join(directory, name))
    await t.rejects(openLmdbStore(directory), { code: 'store-incompatible', message: 'unfinished restore' })
    await t.rejects(restoreLmdbStore(directory, join(t.testdirName, 'from')), { code: /store-(incompatible|missing)/ })
    await restoreLmdbStore(backup, directory)
    t.strictSame(readdirSync(directory).sort(), ['chunks', 'events'])
    await (await openLmdbStore(directory, { create: false })).close()
  }
})

t.test('a directory that is not empty is refused, and not changed', async (t) => {
  const directory = join(t.testdir(), 'data')
  cpSync(backup, directory, { recursive: true })
  const before = dataOf(directory)
  await t.rejects(restoreLmdbStore(backup, directory), { code: 'invalid-argument', message: 'is not empty' })
  t.strictSame(dataOf(directory), before)
})

t.test('a backup that is not whole is refused', async (t) => {
  const other = await makeBackup(join(t.testdir(), 'other'))
  const cases: Record<string, [(path: string) => void, string]> = {
    'without events': [(path) => rmSync(join(path, 'events'), { recursive: true }), 'store-incompatible'],
    'without chunks': [(path) => rmSync(join(path, 'chunks'), { recursive: true }), 'store-incompatible'],
    'with the chunks of another': [
      (path) => cpSync(join(other, 'chunks'), join(path, 'chunks'), { recursive: true }),
      'store-incompatible',
    ],
    'cut in its events': [(path) => writeFileSync(join(path, 'events', 'data.mdb'), 'x'), 'store-incompatible'],
    'with nothing in it': [(path) => rmSync(path, { recursive: true }), 'store-missing'],
  }
  for (const [what, [damage, code]] of Object.entries(cases)) {
    const damaged = join(t.testdirName, what)
    cpSync(backup, damaged, { recursive: true })
    damage(damaged)
    const directory = join(t.testdirName, `${what}, restored`)
    await t.rejects(restoreLmdbStore(damaged, directory), { code }, what)
    await restoreLmdbStore(backup, directory)
  }
})
