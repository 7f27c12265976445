import { type SpawnSyncReturns, spawnSync } from 'node:child_process'
import { cpSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Store } from '@ingest/core'
import t from 'tap'
import { checkLog } from '../../src/backup/check-log.ts'
import { checkMaps } from '../../src/backup/check-maps.ts'
import { emptyReport } from '../../src/backup/store-report.ts'
import { openEnvironment, type Table } from '../../src/environment/environment.ts'
import { openIdentity } from '../../src/environment/identity.ts'
import { projectKey, sequenceKey } from '../../src/environment/row-keys.ts'
import type { TableName } from '../../src/environment/schema.ts'
import { getPart, putPart } from '../../src/ids/run.ts'
import { openIdTables } from '../../src/ids/run-list.ts'
import { builtStore, openLmdbStore } from '../built-store.ts'
import { children, killAtOnce, noChildren } from '../children.ts'
import {
  changeRows,
  damageRecord,
  fillPages,
  flipIn,
  logPages,
  losePage,
  makeStore,
  projectId,
} from '../damaged-store.ts'

const { backUpLmdbStore, verifyLmdbStore } = (await import(builtStore)) as typeof import('../../src/index.ts')

const path = t.testdir()
const whole = join(path, 'whole')
await makeStore(whole, 40)

function copy(name: string): string {
  const directory = join(path, name)
  cpSync(whole, directory, { recursive: true })
  return directory
}

t.test('a whole store has no problems, and its files are not changed', async (t) => {
  const files = () => ['events', 'chunks', 'ids'].map((name) => readFileSync(join(whole, name, 'data.mdb'), 'base64'))
  const before = files()
  const report = await verifyLmdbStore(whole)
  t.match(report, { problemCount: 0, records: 40, events: 80, maps: 2, chunks: 2, indexedIds: 80 })
  t.strictSame(files(), before)
})

t.test('a job that a signal from outside ended reports no damage', { skip: noChildren }, async (t) => {
  const before = children()
  const others = () => children().filter((pid) => !before.includes(pid))
  // as the out-of-memory killer of Linux does, or Ctrl-C before the job handles it
  const refused = t.rejects(verifyLmdbStore(whole), { code: 'store-unavailable', message: /ended by SIGKILL/ })
  while (others().length === 0) await new Promise(setImmediate)
  for (const job of others()) process.kill(job, 'SIGKILL')
  await refused
})

t.test('nor does one that is ended before it gets its job', { skip: noChildren }, async (t) => {
  const before = children()
  const { signal } = new AbortController()
  signal.addEventListener = () => {
    for (const job of children()) if (!before.includes(job)) killAtOnce(job)
  }
  await t.rejects(verifyLmdbStore(whole, { signal }), { code: 'store-unavailable', message: /ended by SIGKILL/ })
})

t.test('a directory without its chunks is refused, and not backed up', async (t) => {
  const directory = copy('without chunks')
  rmSync(join(directory, 'chunks'), { recursive: true })
  const refused = { code: 'store-incompatible', message: /chunks is missing or empty/ }
  await t.rejects(verifyLmdbStore(directory), refused)
  await t.rejects(backUpLmdbStore(directory, join(path, 'no-backup')), refused)
})

t.test('verifying creates no table', async (t) => {
  const directory = copy('without tables')
  const environment = await openEnvironment(join(directory, 'events'))
  for (const name of ['expiries', 'pending-manifests'] as const) environment.table(name).dropSync()
  await environment.close()
  const file = join(directory, 'events', 'data.mdb')
  const before = readFileSync(file)
  t.match(await verifyLmdbStore(directory), { problemCount: 0, records: 40 })
  t.ok(readFileSync(file).equals(before))
})

const change = (table: TableName, work: (rows: Table) => unknown) => (directory: string) =>
  changeRows(directory, table, work)

/** Kinds of damage that do not hide each other, with the problem that is reported for each. */
const damages: Record<string, [damage: (directory: string) => unknown, problem: object]>[] = [
  {
    'a flipped bit in a record': [
      (directory) => damageRecord(directory, 7),
      { part: 'log', record: 7, message: 'Record 7 of the log is damaged.' },
    ],
    'a flipped bit in a large record': [(directory) => damageRecord(directory, 8), { part: 'log', record: 8 }],
    'a missing record': [change('log', (rows) => rows.remove(sequenceKey(9))), { part: 'log', record: 9 }],
    'an entry of a project that is missing': [
      change('project-log', (rows) => rows.remove(projectKey(1, sequenceKey(5)))),
      { part: 'log', record: 5, projectId, message: /is not in the log of its project/ },
    ],
    'two records in the wrong order': [
      change('log', (rows) => {
        const [first, last] = [rows.getBinary(sequenceKey(1)), rows.getBinary(sequenceKey(40))] as [Buffer, Buffer]
        rows.put(sequenceKey(1), last)
        rows.put(sequenceKey(40), first)
      }),
      { part: 'log', record: 1, message: 'Record 1 of the log is damaged.' },
    ],
    'a map without its manifest': [
      change('manifests', (rows) => rows.remove(sequenceKey(1))),
      { part: 'maps', message: /map of place 1 and build b has lost its manifest/ },
    ],
  },
  {
    'a project with the number of another': [
      change('projects', (rows) => {
        rows.put(Buffer.from('other'), projectKey(1))
        rows.remove(Buffer.from(projectId))
      }),
      { part: 'projects', message: 'The ids and the numbers of projects do not match.' },
    ],
    'an entry of a project without a record': [
      change('project-log', (rows) => rows.put(projectKey(1, sequenceKey(99)), Buffer.alloc(0))),
      { part: 'counters', message: /40 records, and 41 entries/ },
    ],
    'wrong totals': [
      change('totals', (rows) => rows.put(projectKey(1), Buffer.alloc(24))),
      { part: 'counters', projectId, message: /say 0 events, and the log has 80/ },
    ],
    'an end of expired events that is damaged': [
      change('expiries', (rows) => rows.put(projectKey(1), Buffer.from('0000000000c04240', 'hex'))),
      { part: 'counters', projectId, message: /expired events/ },
    ],
    'a build that is not frozen': [
      change('freezes', (rows) => rows.remove(projectKey(1, Buffer.from('b2')))),
      { part: 'freezes', record: 2, projectId },
    ],
    'a build that the list of the newest lacks': [
      change('newest-builds', (rows) => {
        for (const key of [...rows.getKeys({})]) if (key.toString().endsWith('b1')) rows.remove(key)
      }),
      { part: 'freezes', record: 1, message: /the list of the newest lacks/ },
    ],
    'a flipped bit in the bytes of a map': [
      (directory) => flipIn(join(directory, 'chunks', 'data.mdb'), Buffer.from('x'.repeat(64))),
      { part: 'maps', projectId, message: /^Chunk sha256:\w+ has other bytes than its digest says/ },
    ],
    'a marked id index': [
      (directory) => cpSync(join(directory, 'events', 'lock.mdb'), join(directory, 'ids', 'damaged')),
      { part: 'index', message: /marked as damaged/ },
    ],
  },
  {
    'a record far beyond the last one': [
      change('log', (rows) => rows.put(sequenceKey(2 ** 52), Buffer.alloc(40))),
      { part: 'log', record: 41, message: `Records 41 to ${2 ** 52 - 1} of the log are missing.` },
    ],
    'a project whose keys are not JSON': [
      change('projects', (rows) => rows.put(Buffer.from(projectId), projectKey(1, Buffer.from('{"keys":')))),
      { part: 'projects', projectId, message: 'The keys of a project are damaged.' },
    ],
    'consumers that are not JSON': [
      change('consumers', (rows) => rows.put(Buffer.from('other'), Buffer.from('[{'))),
      { part: 'projects', projectId: 'other', message: 'The consumers of a project are damaged.' },
    ],
  },
  {
    'a data file of the id index that is not of LMDB': [
      (directory) => writeFileSync(join(directory, 'ids', 'data.mdb'), 'not LMDB'.repeat(1024)),
      { part: 'index', message: /damaged data file: stop every process on the directory and delete ids/ },
    ],
  },
  {
    'a project without a name': [
      change('project-numbers', (rows) => rows.remove(projectKey(1))),
      { part: 'log', record: 1, message: /which has no name/ },
    ],
    'a chunk without its reference': [
      change('chunk-references', (rows) => rows.clearSync()),
      { part: 'maps', message: /without its reference/ },
    ],
    'an id index that lacks an id, and has one twice': [
      (directory) => duplicateId(directory),
      {
        part: 'index',
        message: /^The id index lacks ids of the log \(1, the first of record \d+\)/,
      },
    ],
  },
  {
    'an id index of another log': [
      async (directory) => {
        const other = join(path, 'other')
        await makeStore(other, 40)
        cpSync(join(other, 'ids'), join(directory, 'ids'), { recursive: true })
      },
      { part: 'index', message: /^The id index lacks ids of the log \(80, the first of record 1\)/ },
    ],
  },
]

for (const group of damages) {
  const names = Object.keys(group)
  t.test(`verifying finds ${names.join('; ')}`, async (t) => {
    const directory = copy(names[0] as string)
    for (const [damage] of Object.values(group)) await damage(directory)
    const { problems, problemCount } = await verifyLmdbStore(directory)
    t.ok(problemCount >= names.length)
    for (const [what, [, problem]] of Object.entries(group)) {
      t.ok(
        problems.some((each) => isLike(each, problem)),
        `${what}: ${JSON.stringify(problems)}`,
      )
    }
    rmSync(directory, { recursive: true })
  })
}

t.test('verifying ends on a B-tree with a cycle', async (t) => {
  for (const name of ['chunks', 'maps'] as const) {
    const directory = copy(`looped ${name}`)
    const events = await openEnvironment(join(directory, 'events'), { readOnly: true })
    const chunks = await openEnvironment(join(directory, 'chunks'), { readOnly: true })
    const rows = events.table(name)
    const looped = { ...rows, getBinary: rows.getBinary.bind(rows), getKeys: () => rows.getKeys({ limit: 1 }) }
    const table = (each: TableName) => (each === name ? (looped as unknown as Table) : events.table(each))
    const report = emptyReport()
    const environment = { ...events, table }
    await checkMaps({ environment, chunkEnvironment: chunks, report, onSlice: async () => {} })
    t.match(report.problems, [{ part: 'maps', message: `The table ${name} is damaged: its keys are out of order.` }])
    await Promise.all([events.close(), chunks.close()])
  }
})

t.test('verifying ends on a log whose B-tree has a cycle after a missing record', async (t) => {
  const directory = copy('looped log')
  await changeRows(directory, 'log', (rows) => rows.remove(sequenceKey(9)))
  const environment = await openEnvironment(join(directory, 'events'), { readOnly: true })
  const { hashKey } = openIdentity(environment, join(directory, 'events'), [directory])
  const rows = environment.table('log')
  const getKeys: Table['getKeys'] = ({ start, ...range } = {}) => rows.getKeys(start ? { limit: 1 } : range)
  const looped = Object.assign(Object.create(rows), { getKeys })
  const table = (each: TableName) => (each === 'log' ? looped : environment.table(each))
  const index = { record() {}, beginSlice() {}, end() {}, async close() {} }
  const report = emptyReport()
  await checkLog({ environment: { ...environment, table }, hashKey, report, index, onSlice: async () => {} })
  t.match(report.problems[0], { part: 'log', record: 9, message: 'Records 9 to 40 of the log are missing.' })
  await environment.close()
})

/** Puts one entry of a block of the id index in the place of another one. */
async function duplicateId(directory: string): Promise<void> {
  const { blocks, environment } = openIdTables(await openEnvironment(join(directory, 'ids')))
  environment.write(() => {
    for (const key of [...blocks.getKeys()]) {
      const [run, block] = [key.readUInt32BE(), key.readUInt32BE(4)]
      const words = getPart(blocks, run, block)
      if (words.length < 8) continue
      words.copyWithin(4, 0, 4)
      putPart(blocks, run, block, words)
      return
    }
    throw new Error('no block has two entries')
  })
  await environment.close()
}

function isLike(actual: object, wanted: object): boolean {
  return Object.entries(wanted).every(([name, value]) => {
    const own = (actual as Record<string, unknown>)[name]
    return value instanceof RegExp ? value.test(String(own)) : own === value
  })
}

t.test('damaged pages are a report or an error, and never end this process', async (t) => {
  const small = Array.from({ length: 20 }, (_, i) => 2 * i + 1)
  const cases: Record<string, number[]> = {
    'a leaf of the log': logPages(whole, [1]),
    'all leaves of the log': logPages(whole, small),
    'the first pages': [2, 3, 4, 5],
  }
  for (const [what, numbers] of Object.entries(cases)) {
    const directory = copy(what)
    fillPages(join(directory, 'events', 'data.mdb'), numbers, 0)
    const outcome = await verifyLmdbStore(directory).then(
      ({ problemCount }) => problemCount > 0,
      ({ code }) => ['store-damaged', 'store-incompatible', 'store-failed'].includes(code),
    )
    t.equal(outcome, true, what)
  }
})

t.test('a page that LMDB does not find is damage, which repeating a command does not repair', async (t) => {
  const directory = copy('lost page')
  losePage(directory, 1)
  const store = await openLmdbStore(directory)
  await t.rejects(readAll(store), { code: 'store-damaged' })
  await store.close()
  const isFound = await verifyLmdbStore(directory).then(
    ({ problems }) => problems.length > 0,
    ({ code }) => code === 'store-damaged',
  )
  t.equal(isFound, true)
  await t.rejects(backUpLmdbStore(directory, join(path, 'of damage')), { code: 'store-damaged' })
})

t.test('a truncated file is a report or an error', async (t) => {
  const directory = copy('truncated')
  const file = join(directory, 'events', 'data.mdb')
  truncateSync(file, statSync(file).size * 0.8)
  const isFound = await verifyLmdbStore(directory).then(
    ({ problems }) => problems.length > 0,
    ({ code }) => code === 'store-damaged',
  )
  t.equal(isFound, true)
})

/** Erases events of a store in a process of its own. */
const eraseFirst = `
  const [directory, projectId, storeModule] = process.argv.slice(1)
  const { openLmdbStore } = await import(storeModule)
  const store = await openLmdbStore(directory, { create: false })
  if ((await store.erase(projectId, ['e-1-0', 'e-2-0'])) !== 2) process.exit(1)
  await store.close()
`

t.test('events that are erased after they were read are not damage, but wrong bytes in the totals are', async (t) => {
  const directory = copy('erasing')
  const eventsDirectory = join(directory, 'events')
  const environment = await openEnvironment(eventsDirectory, { readOnly: true })
  t.teardown(() => environment.close())
  const { hashKey } = openIdentity(environment, eventsDirectory, [directory])
  const report = emptyReport()
  let erased: SpawnSyncReturns<string> | undefined
  const index = {
    beginSlice() {},
    // takes longer than a snapshot is kept
    record(sequence: number) {
      if (sequence !== 10) return
      const args = ['--input-type=module', '-e', eraseFirst, directory, projectId, builtStore]
      erased = spawnSync(process.execPath, args, { encoding: 'utf8', env: { ...process.env, NODE_OPTIONS: '' } })
    },
    end() {},
    async close() {},
  }
  await checkLog({ environment, hashKey, report, index, async onSlice() {} })
  t.match(erased, { status: 0 })
  t.strictSame(report.problems, [])
  t.equal(report.records, 40)

  const wrong = copy('other bytes')
  await changeRows(wrong, 'totals', (rows) => {
    const totals = Buffer.from(rows.getBinary(projectKey(1)) as Buffer)
    totals.writeDoubleLE(totals.readDoubleLE(16) - 1, 16)
    rows.put(projectKey(1), totals)
  })
  t.match((await verifyLmdbStore(wrong)).problems, [{ part: 'counters', message: /totals of a project say \d+ bytes/ }])
})

async function readAll(store: Store): Promise<void> {
  for await (const _ of store.read(projectId)) {
    // until it throws
  }
}

t.test('a missing store is refused', async (t) => {
  await t.rejects(verifyLmdbStore(join(path, 'none')), { code: 'store-missing' })
  t.notOk(readdirSync(path).includes('none'))
})
