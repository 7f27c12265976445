import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest, type Store } from '@ingest/core'
import t from 'tap'
import type { Table } from '../../src/environment/environment.ts'
import { projectKey, sequenceKey } from '../../src/environment/row-keys.ts'
import { builtStore, openLmdbStore } from '../built-store.ts'
import { buildIndex, changeRows } from '../damaged-store.ts'

const { verifyLmdbStore, repairLmdbStore } = (await import(builtStore)) as typeof import('../../src/index.ts')

const path = t.testdir()
const whole = join(path, 'whole')
/** Records 1 to 30 belong to `p`, 31 to 40 to `q`. */
const projectOf = (record: number) => (record <= 30 ? 'p' : 'q')
const idsOf = (record: number) => [0, 1].map((i) => `e-${record}-${i}`)
const batchOf = (record: number) => ({
  events: idsOf(record).map((eventId) => ({ projectId: projectOf(record), eventId })),
})
const recordsOf = (projectId: string) =>
  Array.from({ length: 40 }, (_, i) => i + 1).filter((record) => projectOf(record) === projectId)

const open = (directory: string) => openLmdbStore(directory, { internals: { entriesPerFlush: 16 } })
const ingest = createIngest({ store: await open(whole) })
for (let record = 1; record <= 40; record++) await ingest.project(projectOf(record)).submitBatch(batchOf(record))
/** The cursors of the events of `p`. */
const cursors: string[] = []
for await (const { cursor } of ingest.project('p').readEvents()) cursors.push(cursor)
await ingest.close()
await buildIndex(whole)

let copies = 0

async function damaged(table: Parameters<typeof changeRows>[1], work: (rows: Table) => void): Promise<string> {
  const directory = join(path, String(++copies))
  cpSync(whole, directory, { recursive: true })
  await changeRows(directory, table, work)
  return directory
}

/** The ids that a reader of a project gets, and the code with which it ends. */
async function readAll(store: Store, projectId: string, options = {}): Promise<{ ids: string[]; code?: string }> {
  const ids: string[] = []
  try {
    for await (const page of store.read(projectId, options)) {
      for (const { bytes } of page) ids.push(JSON.parse(Buffer.from(bytes).toString()).eventId)
    }
    return { ids }
  } catch (error) {
    return { ids, code: (error as { code: string }).code }
  }
}

const idsBefore = (record: number) =>
  recordsOf(projectOf(record))
    .filter((each) => each < record)
    .flatMap(idsOf)

/** Puts the bytes of a record in the position of another one. */
const put = (rows: Table, record: number, bytes: Buffer | undefined) => rows.put(sequenceKey(record), bytes as Buffer)
const get = (rows: Table, record: number) => rows.getBinary(sequenceKey(record))

/** Repairs a store, and reads the saved events of each project. */
async function repair(directory: string) {
  const target = `${directory}-saved`
  const report = await repairLmdbStore(directory, target)
  const store = await open(target)
  const events = { p: await readAll(store, 'p'), q: await readAll(store, 'q') }
  await store.close()
  return { report, events }
}

t.test('records at the positions of others are damaged for readers, retries, verify and repair', async (t) => {
  const misplaced = [5, 10, 11, 20]
  const directory = await damaged('log', (rows) => {
    put(rows, 5, get(rows, 6))
    const [first, second] = [get(rows, 10), get(rows, 11)]
    put(rows, 10, second)
    put(rows, 11, first)
    // a record of another project
    put(rows, 20, get(rows, 35))
  })
  const { problems } = await verifyLmdbStore(directory)
  t.match(
    problems.filter(({ part }) => part === 'log'),
    misplaced.map((record) => ({ record, message: `Record ${record} of the log is damaged.` })),
  )
  const store = await open(directory)
  t.strictSame(await readAll(store, 'p'), { ids: idsBefore(5), code: 'store-damaged' })
  const again = createIngest({ store })
  for (const record of misplaced) {
    // the cursor of the last event before it
    const after = cursors[record * 2 - 3]
    t.strictSame(await readAll(store, 'p', { after }), { ids: [], code: 'store-damaged' })
    await t.rejects(again.project('p').submitBatch(batchOf(record)), { code: 'store-damaged' })
    await t.rejects(store.find('p', `e-${record}-1`), { code: 'store-damaged' })
  }
  await again.close()
  const { report, events } = await repair(directory)
  t.match(report, { records: 36, lost: { recordCount: 4 } })
  const left = recordsOf('p').filter((each) => !misplaced.includes(each))
  t.strictSame(events, { p: { ids: left.flatMap(idsOf) }, q: { ids: recordsOf('q').flatMap(idsOf) } })
  // its ids are in no run
  rmSync(join(directory, 'ids'), { recursive: true })
  await t.rejects(open(directory), { code: 'store-damaged' }, 'ids that are not known are not taken for new')
})

t.test('a last record with the bytes of the one before it refuses the opening, and is not repaired', async (t) => {
  const directory = await damaged('log', (rows) => put(rows, 40, get(rows, 39)))
  await t.rejects(open(directory), { code: 'store-damaged', message: /^Record 40 of the log is damaged/ })
  t.match((await verifyLmdbStore(directory)).problems, [{ part: 'log', record: 40 }])
  t.match(await repairLmdbStore(directory, join(path, `${copies}-saved`)), { records: 39, lost: { recordCount: 1 } })
})

const remove = (record: number) => (rows: Table) => void rows.remove(projectKey(1, sequenceKey(record)))

/** Changes of the list of the records of `p`, and the first record that it hides. */
const gaps: Record<string, [change: (rows: Table) => void, record: number]> = {
  'its first record': [remove(1), 1],
  'a record': [remove(10), 10],
  'its last record': [remove(30), 30],
  'its last record, and has one of another project': [
    (rows) => {
      remove(30)(rows)
      rows.put(projectKey(1, sequenceKey(35)), Buffer.alloc(0))
    },
    30,
  ],
  'all of its records': [
    (rows) => {
      for (const record of recordsOf('p')) remove(record)(rows)
    },
    1,
  ],
}

for (const [what, [change, record]] of Object.entries(gaps)) {
  t.test(`the list of a project that lacks ${what} ends reads with store-damaged`, async (t) => {
    const directory = await damaged('project-log', change)
    const store = await open(directory)
    const { ids, code } = await readAll(store, 'p')
    t.equal(code, 'store-damaged')
    t.strictSame(ids, idsBefore(record).slice(0, ids.length), 'nothing is skipped')
    await t.rejects(store.count('p', { from: 0 }, 100), { code: 'store-damaged' })
    await t.rejects(store.expire('p', Date.now() + 1e9), { code: 'store-damaged' }, 'nor is it left out of an expiry')
    if (record === 30) await t.rejects(store.totals('p'), { code: 'store-damaged' })
    t.strictSame(await readAll(store, 'q'), { ids: recordsOf('q').flatMap(idsOf) }, 'other projects are readable')
    await store.close()
    if (record > 1) return
    const { report, events } = await repair(directory)
    t.match(report, { records: 40, lost: { recordCount: 0 } })
    t.strictSame(events.p, { ids: recordsOf('p').flatMap(idsOf) })
  })
}

t.test('a cursor before a gap does not lead across it', async (t) => {
  const again = await open(await damaged('project-log', remove(10)))
  t.strictSame(await readAll(again, 'p', { after: cursors[17] }), { ids: [], code: 'store-damaged' })
  t.strictSame(await readAll(again, 'p', { after: cursors[23] }), { ids: recordsOf('p').slice(12).flatMap(idsOf) })
  await again.close()
})

t.test('a damaged end of the expired events does not hide events', async (t) => {
  const store = await open(
    await damaged('expiries', (rows) => rows.put(projectKey(1), Buffer.from('0000000000c04240', 'hex'))),
  )
  t.strictSame(await readAll(store, 'p'), { ids: [], code: 'store-damaged' })
  await store.close()
})
