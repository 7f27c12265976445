import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import t from 'tap'
import { openLmdbStore, restoreLmdbStore } from '../src/index.ts'

const id = { placeId: '1', buildId: 'b' }
const event = { projectId: 'p', eventId: 'a', buildId: 'b' }

async function makeBackup(directory: string): Promise<string> {
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  await ingest.project('p').publishMap({ ...id, map: { walls: 4 } })
  await ingest.project('p').submitBatch({ events: [event] })
  await ingest.close()
  return directory
}

const bytesOf = (directory: string) =>
  ['events', 'chunks'].map((name) => readFileSync(join(directory, name, 'data.mdb'), 'base64'))

t.test('a backup comes back whole, is left as it is, and cursors from before are refused', async (t) => {
  const backup = await makeBackup(join(t.testdir(), 'backup'))
  const before = bytesOf(backup)
  for (const name of ['missing', 'empty']) {
    const directory = join(t.testdirName, name)
    if (name === 'empty') mkdirSync(directory)
    await restoreLmdbStore(backup, directory)
    t.strictSame(bytesOf(backup), before)
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

t.test('a restore that was cut short is refused by everything else, and begun again', async (t) => {
  const backup = await makeBackup(join(t.testdir(), 'backup'))
  const whole = join(t.testdirName, 'whole')
  await restoreLmdbStore(backup, whole)
  for (const moved of [[], ['chunks'], ['chunks', 'events']]) {
    const directory = join(t.testdirName, `cut-${moved.length}`)
    cpSync(whole, join(directory, 'restoring'), { recursive: true })
    for (const name of moved) renameSync(join(directory, 'restoring', name), join(directory, name))
    await t.rejects(openLmdbStore(directory), { code: 'store-incompatible', message: 'cut short' })
    await t.rejects(restoreLmdbStore(directory, join(t.testdirName, 'from')), { code: /store-(incompatible|missing)/ })
    await restoreLmdbStore(backup, directory)
    t.strictSame(readdirSync(directory).sort(), ['chunks', 'events'])
    await (await openLmdbStore(directory, { create: false })).close()
  }
})

t.test('a directory that is not empty is refused, and left as it is', async (t) => {
  const backup = await makeBackup(join(t.testdir(), 'backup'))
  const directory = await makeBackup(join(t.testdirName, 'data'))
  const before = bytesOf(directory)
  await t.rejects(restoreLmdbStore(backup, directory), { code: 'invalid-argument', message: 'is not empty' })
  t.strictSame(bytesOf(directory), before)
})

t.test('what is no whole backup is refused', async (t) => {
  const whole = await makeBackup(join(t.testdir(), 'whole'))
  const other = await makeBackup(join(t.testdirName, 'other'))
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
  for (const [what, [spoil, code]] of Object.entries(cases)) {
    const backup = join(t.testdirName, what)
    cpSync(whole, backup, { recursive: true })
    spoil(backup)
    const directory = join(t.testdirName, `${what}, restored`)
    await t.rejects(restoreLmdbStore(backup, directory), { code }, what)
    await restoreLmdbStore(whole, directory)
  }
})
