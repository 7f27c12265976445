import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import t, { type Test } from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import { openLmdbStore } from '../../src/open-lmdb-store.ts'

const event = { projectId: 'p', eventId: 'a', buildId: 'b' }
const id = { placeId: '1', buildId: 'b' }
const names = ['events', 'ids', 'chunks'] as const

/** Makes a store with an event and, by default, a map that the event froze. */
async function makeStore(directory: string, { withMap = true } = {}): Promise<string> {
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  if (withMap) await ingest.project('p').publishMap({ ...id, map: { walls: 4 } })
  await ingest.project('p').submitBatch({ events: [event] })
  await ingest.close()
  return directory
}

t.testdir()
const templates = {
  withMap: await makeStore(join(t.testdirName, 'with-map')),
  withoutMap: await makeStore(join(t.testdirName, 'without-map'), { withMap: false }),
  other: await makeStore(join(t.testdirName, 'other')),
}

function copyStore(directory: string, template: keyof typeof templates = 'withMap'): string {
  cpSync(templates[template], directory, { recursive: true })
  return directory
}

/** Every file of a directory with its bytes, except the lock files of LMDB. */
function filesOf(directory: string): Record<string, string> {
  const paths = readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== 'lock.mdb')
    .map((entry) => join(entry.parentPath, entry.name))
  return Object.fromEntries(paths.sort().map((path) => [path, readFileSync(path, 'base64')]))
}

const makeEmpty = async (path: string) => (await openEnvironment(path)).close()

/** Ways to lose one directory. */
const losses: Record<string, (path: string) => Promise<void> | void> = {
  'is missing': (path) => rmSync(path, { recursive: true }),
  'is an empty directory': (path) => {
    rmSync(path, { recursive: true })
    mkdirSync(path)
  },
  'has lost its data file': (path) => rmSync(join(path, 'data.mdb')),
  'has an empty data file': (path) => writeFileSync(join(path, 'data.mdb'), ''),
  'has a new data file': (path) => {
    rmSync(path, { recursive: true })
    return makeEmpty(path)
  },
}

async function isWhole(t: Test, directory: string, { withMap = true } = {}): Promise<void> {
  const ingest = createIngest({ store: await openLmdbStore(directory, { create: false }) })
  t.strictSame(await ingest.project('p').submitBatch({ events: [event] }), { accepted: 0, duplicates: 1, rejected: [] })
  const parts: Uint8Array[] = []
  for await (const part of (await ingest.project('p').getMapContent(id))?.bytes() ?? []) parts.push(part)
  t.equal(Buffer.concat(parts).toString(), withMap ? '{"walls":4}' : '')
  await ingest.close()
}

async function isRefused(t: Test, directory: string, message: string): Promise<void> {
  const before = filesOf(directory)
  for (const create of [true, false]) {
    await t.rejects(openLmdbStore(directory, { create }), { code: 'store-incompatible', message })
  }
  t.strictSame(filesOf(directory), before, 'nothing was changed')
}

for (const name of ['events', 'chunks'] as const) {
  for (const [what, lose] of Object.entries(losses)) {
    t.test(`a store with maps whose ${name}/ ${what} is refused, and nothing in it changes`, async (t) => {
      const directory = copyStore(join(t.testdir(), 'data'))
      const path = join(directory, name)
      cpSync(path, `${directory}-kept`, { recursive: true })
      await lose(path)
      await isRefused(t, directory, `${path} is missing or empty`)
      rmSync(path, { recursive: true, force: true })
      renameSync(`${directory}-kept`, path)
      await isWhole(t, directory)
    })
  }

  t.test(`a store whose ${name}/ is of another store is refused, and nothing in it changes`, async (t) => {
    for (const withMap of [true, false]) {
      t.testdir()
      const directory = copyStore(join(t.testdirName, `data-${withMap}`), withMap ? 'withMap' : 'withoutMap')
      const other = copyStore(join(t.testdirName, `other-${withMap}`), 'other')
      const path = join(directory, name)
      renameSync(path, `${directory}-kept`)
      renameSync(join(other, name), path)
      await isRefused(t, directory, `${join(directory, 'chunks')} does not belong to the same store as`)
      await isRefused(t, other, `${join(other, name)} is missing or empty`)
      rmSync(path, { recursive: true })
      renameSync(`${directory}-kept`, path)
      await isWhole(t, directory, { withMap })
    }
  })
}

t.test('a store that has only ids/, and no events/, is refused', async (t) => {
  const directory = copyStore(join(t.testdir(), 'data'))
  for (const name of ['events', 'chunks']) rmSync(join(directory, name), { recursive: true })
  await isRefused(t, directory, `${join(directory, 'events')} is missing or empty, and ${join(directory, 'ids')}`)
})

t.test('chunks/ in place of events/ is refused', async (t) => {
  const directory = copyStore(join(t.testdir(), 'data'))
  rmSync(join(directory, 'events'), { recursive: true })
  cpSync(join(directory, 'chunks'), join(directory, 'events'), { recursive: true })
  await isRefused(t, directory, `${join(directory, 'events')} is missing or empty`)
})

t.test('ids/ is rebuilt when it is lost or of another store', async (t) => {
  const foreign = (path: string) => {
    rmSync(path, { recursive: true })
    cpSync(join(templates.other, 'ids'), path, { recursive: true })
  }
  t.testdir()
  for (const [what, lose] of Object.entries({ ...losses, 'is of another store': foreign })) {
    const directory = copyStore(join(t.testdirName, what))
    await lose(join(directory, 'ids'))
    await isWhole(t, directory)
  }
})

t.test('chunks/ is recreated when it is lost and no map needs it', async (t) => {
  t.testdir()
  const recreate = async ([what, lose]: [string, (path: string) => void]) => {
    const directory = copyStore(join(t.testdirName, what), 'withoutMap')
    await lose(join(directory, 'chunks'))
    await isWhole(t, directory, { withMap: false })
    const ingest = createIngest({ store: await openLmdbStore(directory) })
    await ingest.project('p').publishMap({ ...id, map: { walls: 4 } })
    await ingest.close()
    await isWhole(t, directory)
  }
  await Promise.all(Object.entries(losses).map(recreate))
})

t.test('a store whose creation was interrupted at any step is created by the next opening', async (t) => {
  t.testdir()
  const emptyFile = (path: string) => {
    mkdirSync(path)
    writeFileSync(join(path, 'data.mdb'), '')
  }
  const withTable = async (path: string) => {
    const environment = await openEnvironment(path)
    environment.table('meta')
    await environment.close()
  }
  const copy = (path: string) => cpSync(join(templates.withoutMap, 'events'), path, { recursive: true })
  const states: Partial<Record<(typeof names)[number], (path: string) => unknown>>[] = [
    {},
    { events: (path) => mkdirSync(path) },
    { events: emptyFile },
    { events: makeEmpty },
    { events: withTable },
    { events: copy },
    { events: copy, chunks: (path) => mkdirSync(path) },
    { events: copy, chunks: emptyFile },
    { events: copy, chunks: makeEmpty },
    { events: copy, chunks: withTable },
  ]
  const create = async (state: (typeof states)[number], i: number) => {
    const directory = join(t.testdirName, `data-${i}`)
    mkdirSync(directory)
    for (const name of names) await state[name]?.(join(directory, name))
    await makeStore(directory)
    await isWhole(t, directory)
  }
  await Promise.all(states.map(create))
})

t.test('a store of another format is refused, and not changed', async (t) => {
  const directory = copyStore(join(t.testdir(), 'data'))
  const environment = await openEnvironment(join(directory, 'events'))
  const meta = environment.table('meta')
  const key = Buffer.from('format')
  const format = Buffer.from(meta.getBinary(key) as Buffer)
  format[0] = 99
  environment.root.transactionSync(() => void meta.put(key, format))
  await environment.close()
  await isRefused(t, directory, 'is of format 99')
})

t.test('a damaged identity is refused, and not changed: with another key each event would be new', async (t) => {
  for (const at of [1, 16, 17, 25, 33]) {
    const directory = copyStore(join(t.testdir(), 'data'))
    const environment = await openEnvironment(join(directory, 'events'))
    const meta = environment.table('meta')
    const key = Buffer.from('format')
    const format = Buffer.from(meta.getBinary(key) as Buffer)
    format[at] = (format[at] as number) ^ 1
    environment.write(() => void meta.put(key, format))
    await environment.close()
    const before = readFileSync(join(directory, 'events', 'data.mdb'))
    await t.rejects(openLmdbStore(directory), { code: 'store-damaged', message: 'The identity of the store' })
    t.ok(readFileSync(join(directory, 'events', 'data.mdb')).equals(before))
  }
})
