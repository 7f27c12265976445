import { type SpawnSyncReturns, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { createIngest, type Store } from '@ingest/core'
import t, { type Test } from 'tap'
import { copyDirectory } from '../../src/backup/copy-directory.ts'
import type { JobProgress } from '../../src/backup/run-job.ts'
import { verifyDirectory } from '../../src/backup/verify-directory.ts'
import { builtStore, openLmdbStore } from '../built-store.ts'
import { damageRecord, fillPages, leakPage, logPages, makeStore, map, projectId } from '../damaged-store.ts'

const { backUpLmdbStore, restoreLmdbStore, verifyLmdbStore } = (await import(
  builtStore
)) as typeof import('../../src/index.ts')

const path = t.testdir()

async function idsIn(directory: string): Promise<string[]> {
  const ingest = createIngest({ store: await openLmdbStore(directory, { create: false }) })
  const ids: string[] = []
  for await (const { bytes } of ingest.project(projectId).readEvents()) {
    ids.push(JSON.parse(Buffer.from(bytes).toString()).eventId)
  }
  await ingest.close()
  return ids
}

t.test('a backup of a store that is written to is a prefix of its log, with every map', async (t) => {
  const directory = join(path, 'busy')
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  const project = ingest.project(projectId)
  const sent: string[] = []
  const filler = 'f'.repeat(2000)
  t.teardown(ingest.close)

  /** Writes batches and maps. Each map replaces the one before, whose chunks become garbage. */
  async function write(): Promise<void> {
    for (let i = 0; i < 10; i++) {
      const ids = Array.from({ length: 50 }, (_, j) => `e-${sent.length + j}`)
      sent.push(...ids)
      await Promise.all([
        project.submitBatch({ events: ids.map((eventId) => ({ projectId, eventId, buildId: 'b', filler })) }),
        project.publishMap({ placeId: '1', buildId: 'open', map: { walls: `${sent.length}`.repeat(5000) } }),
      ])
    }
  }

  // the copy of the log takes longer than many replacements
  for (let i = 0; i < 60; i++) {
    const ids = Array.from({ length: 100 }, (_, j) => `first-${i}-${j}`)
    sent.push(...ids)
    await project.submitBatch({ events: ids.map((eventId) => ({ projectId, eventId, buildId: 'b', filler })) })
  }
  await project.publishMap({ placeId: '1', buildId: 'open', map: {} })
  for (const name of ['backup-1', 'backup-2']) {
    const target = join(path, name)
    // writes at each step of the copy: continuous writes would keep the job, which has a low priority, from ending
    let writing = write()
    const onProgress = ({ phase }: JobProgress) => {
      if (phase === 'copy') writing = writing.then(write)
    }
    const report = await backUpLmdbStore(directory, target, { onProgress })
    await writing
    t.match(report, {
      maps: 1,
      fileBytes: ['events', 'chunks'].reduce((sum, each) => sum + statSync(join(target, each, 'data.mdb')).size, 0),
    })
    t.strictSame(readdirSync(target).sort(), ['chunks', 'events'])
    const restored = `${target}-restored`
    await restoreLmdbStore(target, restored)
    const ids = await idsIn(restored)
    t.equal(ids.length, report.events)
    t.strictSame(ids, sent.slice(0, ids.length))
  }
})

/** Replaces the map of a store and deletes its chunks, in a process whose clock is an hour ahead. */
const replaceMap = `
  const now = Date.now
  Date.now = () => now() + 3_600_000
  const [directory, projectId, partsModule, storeModule] = process.argv.slice(1)
  const { createIngest } = await import('@ingest/core')
  const { openLmdbStore } = await import(storeModule)
  const { openMapParts } = await import(partsModule)
  const ingest = createIngest({ store: await openLmdbStore(directory, { create: false }) })
  await ingest.project(projectId).publishMap({ placeId: '1', buildId: 'open', map: 'replaced' })
  await ingest.close()
  const parts = await openMapParts(directory)
  await parts.blobs.collectGarbage()
  await parts.close()
`

t.test('a copy has the chunks that its log names, although they are deleted while it is made', async (t) => {
  const parent = t.testdir()
  const [directory, to] = [join(parent, 'store'), join(parent, 'copy')]
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  await ingest.project(projectId).publishMap({ placeId: '1', buildId: 'open', map: 'first' })
  await ingest.close()
  const modules = [new URL('../map-parts.js', import.meta.url).href, builtStore]
  const args = [...process.execArgv, '--input-type=module', '-e', replaceMap, directory, projectId, ...modules]
  let replaced: SpawnSyncReturns<string> | undefined
  // after the first table of the log
  await copyDirectory(directory, to, () => {
    replaced ??= spawnSync(process.execPath, args, { encoding: 'utf8', cwd: import.meta.dirname })
  })
  t.match(replaced, { status: 0 })
  t.match(await verifyDirectory(to, () => {}), { problemCount: 0, maps: 1, chunks: 1 })
  t.match(await verifyDirectory(directory, () => {}), { problemCount: 0, maps: 1, chunks: 1 })
})

const store = join(path, 'store')
await makeStore(store, 20)

/** Asserts that a target has no backup, and nothing is left beside it. */
function hasNoBackup(t: Test, target: string): void {
  t.notOk(existsSync(target))
  t.strictSame(
    readdirSync(path).filter((name) => name.includes('unfinished')),
    [],
  )
}

t.test('a damaged store, a stopped backup and a wrong target leave nothing with the name', async (t) => {
  const damaged = join(path, 'damaged')
  await makeStore(damaged, 20)
  damageRecord(damaged, 7)
  const target = join(path, 'no-backup')
  await t.rejects(backUpLmdbStore(damaged, target), {
    code: 'store-damaged',
    message: /Record 7 of the log is damaged/,
  })
  hasNoBackup(t, target)
  fillPages(join(damaged, 'events', 'data.mdb'), logPages(damaged, [9]), 0)
  await t.rejects(backUpLmdbStore(damaged, target), { code: 'store-damaged' })
  hasNoBackup(t, target)

  const controller = new AbortController()
  const onProgress = () => controller.abort(new Error('stopped'))
  await t.rejects(backUpLmdbStore(store, target, { signal: controller.signal, onProgress }), { message: 'stopped' })
  hasNoBackup(t, target)

  await t.rejects(backUpLmdbStore(store, join(store, 'events', 'x')), { code: 'invalid-argument' })
  await t.rejects(backUpLmdbStore(join(path, 'none'), target), { code: 'store-missing' })
  mkdirSync(join(path, 'full'))
  writeFileSync(join(path, 'full', 'x'), '')
  await t.rejects(backUpLmdbStore(store, join(path, 'full')), { code: 'invalid-argument', message: 'not an empty' })
  hasNoBackup(t, target)
})

t.test('a store with leaked pages is backed up, event by event and with its maps', async (t) => {
  const leaky = join(path, 'leaky')
  cpSync(store, leaky, { recursive: true })
  const opened = await openLmdbStore(leaky)
  // frees pages
  for (let batch = 1; batch <= 20; batch++) await opened.erase(projectId, [`e-${batch}-1`])
  await opened.close()
  leakPage(join(leaky, 'events', 'data.mdb'))
  const target = join(path, 'of a leaky store')
  t.match(await backUpLmdbStore(leaky, target), { events: 40, maps: 2 })
  t.strictSame(await eventsIn(target), await eventsIn(leaky))
  t.strictSame((await verifyLmdbStore(target)).problems, [])
})

t.test('a backup has no erased bytes, and all other events', async (t) => {
  const directory = join(path, 'erased')
  const opened = await openLmdbStore(directory)
  t.teardown(() => opened.close())
  const project = createIngest({ store: opened }).project(projectId)
  const texts = Array.from(
    { length: 200 },
    (_, i) => `${i % 2 === 0 ? 'kept' : 'secret'}-${i}-${'x'.repeat((i % 9) * 400)}`,
  )
  for (let from = 0; from < texts.length; from += 5) {
    const events = texts.slice(from, from + 5).map((text, i) => ({ projectId, eventId: `e-${from + i}`, text }))
    await project.submitBatch({ events })
  }
  t.ok(countIn(directory, 'secret-') > 0)
  const odd = texts.flatMap((_, i) => (i % 2 === 1 ? [`e-${i}`] : []))
  t.equal(await opened.erase(projectId, odd), 100)
  const target = join(path, 'without erased events')
  t.match(await backUpLmdbStore(directory, target), { events: 200 })
  t.equal(countIn(target, 'secret-'), 0, 'no byte of them is in a file')
  t.equal(countIn(target, 'kept-'), 100)
  const restored = join(path, 'restored without erased events')
  await restoreLmdbStore(target, restored)
  t.equal(countIn(restored, 'secret-'), 0)
  const before = await eventsIn(directory, opened)
  t.equal(before.length, 200)
  for (const copy of [target, restored]) t.strictSame(await eventsIn(copy), before)
})

/** How often a text is in the data files of a directory. */
function countIn(directory: string, text: string): number {
  const files = ['events', 'chunks'].map((name) => readFileSync(join(directory, name, 'data.mdb'), 'latin1'))
  return files.reduce((sum, file) => sum + file.split(text).length - 1, 0)
}

/** All events and tombstones of a directory, without cursors, which differ after a restore. */
async function eventsIn(directory: string, opened?: Store): Promise<object[]> {
  const store = opened ?? (await openLmdbStore(directory, { create: false }))
  const events: object[] = []
  for await (const page of store.read(projectId, { erased: true })) {
    for (const { receivedAt, bytes, erased } of page)
      events.push({ receivedAt, text: Buffer.from(bytes).toString(), erased })
  }
  if (!opened) await store.close()
  return events
}

t.test('a process that is killed in the middle of a backup leaves nothing with the name', async (t) => {
  const target = join(path, 'killed')
  const program = `
    import { backUpLmdbStore } from ${JSON.stringify(builtStore)}
    await backUpLmdbStore(...process.argv.slice(1), { onProgress: () => process.kill(process.pid, 'SIGKILL') })
  `
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, store, target], {
    stdio: 'ignore',
    env: { ...process.env, NODE_OPTIONS: '' },
  })
  t.strictSame(await once(child, 'exit'), [null, 'SIGKILL'])
  t.notOk(existsSync(target))
  t.match(await backUpLmdbStore(store, target), { events: 40 })
})

const dataOf = (directory: string) =>
  ['events', 'chunks'].map((name) => readFileSync(join(directory, name, 'data.mdb'), 'base64'))

t.test('a closed store is restored whole and not changed, and earlier cursors are refused', async (t) => {
  const before = dataOf(store)
  for (const name of ['missing', 'empty']) {
    const directory = join(path, name)
    if (name === 'empty') mkdirSync(directory)
    await restoreLmdbStore(store, directory)
    t.strictSame(dataOf(store), before)
    t.strictSame(readdirSync(directory).sort(), ['chunks', 'events'])
    const [old, restored] = await Promise.all([openLmdbStore(store), openLmdbStore(directory)])
    const project = createIngest({ store: restored }).project(projectId)
    const events = [{ projectId, eventId: 'e-7-1', buildId: map.buildId }]
    t.match(await project.submitBatch({ events }), { accepted: 0, duplicates: 1 })
    t.ok(await project.getMapContent(map))
    const { lastCursor: after } = await old.totals(projectId)
    await t.rejects(restored.read(projectId, { after })[Symbol.asyncIterator]().next(), {
      code: 'invalid-cursor',
      message: 'before a backup of the store was restored',
    })
    await Promise.all([old.close(), restored.close()])
  }
})

t.test('an interrupted restore is refused by all but the next restore, which starts over', async (t) => {
  const whole = join(t.testdir(), 'whole')
  await restoreLmdbStore(store, whole)
  for (const moved of [[], ['chunks'], ['chunks', 'events']]) {
    const directory = join(t.testdirName, `interrupted-${moved.length}`)
    cpSync(whole, join(directory, 'restoring'), { recursive: true })
    for (const name of moved) renameSync(join(directory, 'restoring', name), join(directory, name))
    await t.rejects(openLmdbStore(directory), { code: 'store-incompatible', message: 'unfinished restore' })
    await t.rejects(restoreLmdbStore(directory, join(t.testdirName, 'from')), { code: /store-(incompatible|missing)/ })
    await restoreLmdbStore(store, directory)
    t.strictSame(readdirSync(directory).sort(), ['chunks', 'events'])
    await (await openLmdbStore(directory, { create: false })).close()
  }
})

t.test('a directory that is not empty, and an incomplete backup, are refused', async (t) => {
  t.testdir()
  const other = join(path, 'other')
  await makeStore(other, 1)
  const before = dataOf(other)
  await t.rejects(restoreLmdbStore(store, other), { code: 'invalid-argument', message: 'is not empty' })
  t.strictSame(dataOf(other), before)
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
  const directory = join(t.testdirName, 'restored')
  for (const [what, [damage, code]] of Object.entries(cases)) {
    const damaged = join(t.testdirName, what)
    cpSync(store, damaged, { recursive: true })
    damage(damaged)
    await t.rejects(restoreLmdbStore(damaged, directory), { code }, what)
  }
  await restoreLmdbStore(store, directory)
})
