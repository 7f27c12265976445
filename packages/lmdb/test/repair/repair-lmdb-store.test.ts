import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createIngest } from '@ingest/core'
import t from 'tap'
import { compileLibrary, whyNotPreloaded } from '../../../soak/src/faults/preload-library.js'
import { sequenceKey } from '../../src/environment/row-keys.ts'
import type { JobProgress } from '../../src/index.ts'
import { builtStore } from '../built-store.ts'
import { children, killAtOnce, noChildren } from '../children.ts'
import {
  changeRows,
  damageRecord,
  fillPages,
  flipIn,
  logBranch,
  logPages,
  losePage,
  makeStore,
  map,
  pagesWith,
  projectId,
  writeAt,
} from '../damaged-store.ts'
import { startStoreProcess } from '../store-process.ts'

const { backUpLmdbStore, openLmdbStore, repairLmdbStore, restoreLmdbStore, verifyLmdbStore } = (await import(
  builtStore
)) as typeof import('../../src/index.ts')

const noMount =
  process.platform !== 'linux' || spawnSync('unshare', ['--mount', 'true']).status !== 0
    ? 'a filesystem of its own takes Linux and its root'
    : false

const path = t.testdir()
const whole = join(path, 'whole')
const batches = 400
const key = await makeStore(whole, batches)
const allIds = Array.from({ length: batches }, (_, i) => [`e-${i + 1}-0`, `e-${i + 1}-1`]).flat()

function copy(name: string): string {
  const directory = join(path, name)
  cpSync(whole, directory, { recursive: true })
  return directory
}

const digestsOf = (directory: string) =>
  ['events', 'chunks', 'ids'].map((name) =>
    createHash('sha256')
      .update(readFileSync(join(directory, name, 'data.mdb')))
      .digest('hex'),
  )

/** Repairs a copy of the store after some damage, and opens the result. */
async function repair(name: string, damage: (directory: string) => Promise<void> | void) {
  const directory = copy(name)
  await damage(directory)
  const before = digestsOf(directory)
  const target = join(path, `${name}, repaired`)
  const report = await repairLmdbStore(directory, target)
  t.strictSame(digestsOf(directory), before, 'the damaged store is not changed')
  const ingest = createIngest({ store: await openLmdbStore(target, { create: false }) })
  const project = ingest.project(projectId)
  const ids: string[] = []
  for await (const { bytes } of project.readEvents()) ids.push(JSON.parse(Buffer.from(bytes).toString()).eventId)
  return { report, ingest, project, ids }
}

const idsOf = (batch: number) => [`e-${batch}-0`, `e-${batch}-1`]
const without = (...lost: number[]) => allIds.filter((id) => !lost.some((batch) => idsOf(batch).includes(id)))

t.test('everything in a store without damage is saved, and earlier cursors are refused', async (t) => {
  const store = await openLmdbStore(whole)
  const { lastCursor: after } = await store.totals(projectId)
  const { builds } = await store.builds(projectId, { limit: 100 })
  await store.close()
  const { report, ingest, project, ids } = await repair('no damage', () => {})
  t.match(report, { records: batches, events: batches * 2, maps: 2, projects: 1 })
  t.strictSame(report.lost, { records: [], recordCount: 0, events: [], maps: [], keysOf: [], tables: [] })
  t.strictSame(ids, allIds)
  t.ok(await ingest.authenticate({ projectId, key, scope: 'read' }))
  t.match(await project.getMap(map), { frozen: false })
  t.match((await project.listBuilds()).builds, builds)
  t.match(builds, [{ buildId: 'b', maps: 2 }, {}, {}, {}])
  t.ok(await project.getMapContent(map))
  t.match(await project.submitBatch({ events: [{ projectId, eventId: 'e-7-1', buildId: 'b' }] }), { duplicates: 1 })
  await t.rejects(project.readEvents({ after })[Symbol.asyncIterator]().next(), { code: 'invalid-cursor' })
  await ingest.close()
})

t.test('flipped bits lose only their records and maps, which are listed', async (t) => {
  const { report, ingest, project, ids } = await repair('flipped bits', (directory) => {
    for (const sequence of [7, 8, 200]) damageRecord(directory, sequence)
    flipIn(join(directory, 'chunks', 'data.mdb'), Buffer.from('x'.repeat(64)))
  })
  t.strictSame(ids, without(7, 8, 200))
  t.strictSame(report.lost, {
    records: [
      { from: 7, to: 8 },
      { from: 200, to: 200 },
    ],
    recordCount: 3,
    events: [{ projectId, events: 6 }],
    maps: [{ projectId, ...map }],
    keysOf: [],
    tables: [],
  })
  t.notOk(await project.getMap(map))
  t.ok(await project.getMapContent({ placeId: '2', buildId: 'b' }))
  await ingest.close()
})

t.test('records that are missing at the end are found by the totals', async (t) => {
  const { report, ingest } = await repair('without its end', (directory) =>
    changeRows(directory, 'log', (rows) => {
      for (let sequence = batches - 9; sequence <= batches; sequence++) rows.remove(sequenceKey(sequence))
    }),
  )
  t.match(report.lost, { records: [{ from: batches - 9, to: batches }], recordCount: 10 })
  await ingest.close()
})

t.test('a report comes after the last append, also on a slow disk', { skip: whyNotPreloaded() ?? false }, async (t) => {
  const library = join(path, 'slow-syncs.so')
  await compileLibrary(fileURLToPath(new URL('../slow-syncs.c', import.meta.url)), library)
  const program = `
    const { repairLmdbStore } = await import(${JSON.stringify(builtStore)})
    const { events, lost } = await repairLmdbStore(...process.argv.slice(1))
    console.log(events, lost.events.length)
  `
  const args = ['--input-type=module', '-e', program, copy('slow'), join(path, 'slow, repaired')]
  const env = { ...process.env, NODE_OPTIONS: '', LD_PRELOAD: library, SYNC_MS: '50' }
  t.equal(spawnSync(process.execPath, args, { encoding: 'utf8', env }).stdout, `${batches * 2} 0\n`)
})

t.test('repair and restore report a full disk as one', { skip: noMount }, async (t) => {
  const disk = join(path, 'disk')
  mkdirSync(disk)
  spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=40m', 'tmpfs', disk])
  try {
    spawnSync('dd', ['if=/dev/zero', `of=${join(disk, 'filler')}`, 'bs=1M', 'count=22'])
    const large = join(path, 'large')
    const ingest = createIngest({ store: await openLmdbStore(large) })
    for (let batch = 0; batch < 240; batch++) {
      await ingest.project(projectId).submitBatch({
        events: [{ projectId, eventId: `e-${batch}`, filler: 'f'.repeat(200_000) }],
      })
    }
    await ingest.close()
    for (const command of [repairLmdbStore, restoreLmdbStore]) {
      const saved: Promise<unknown> = command(large, join(disk, command.name))
      await t.rejects(saved, { code: 'disk-full' }, command.name)
    }
  } finally {
    spawnSync('umount', [disk])
  }
})

t.test(
  'a store whose file has the inode number of an open one on another disk is repaired',
  { skip: noMount },
  async (t) => {
    const disks = ['one', 'other'].map((name) => join(path, `disk-${name}`))
    for (const disk of disks) {
      mkdirSync(disk)
      spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=60m', 'tmpfs', disk])
    }
    try {
      const [open = '', damaged = ''] = disks.map((disk) => join(disk, 'data'))
      await (await openLmdbStore(damaged)).close()
      const other = await startStoreProcess(open)
      const inodes = [open, damaged].map((data) => statSync(join(data, 'events', 'data.mdb')).ino)
      t.equal(inodes[0], inodes[1])
      t.match(await repairLmdbStore(damaged, join(path, 'repaired beside another')), { records: 0 })
      await other.end()
    } finally {
      for (const disk of disks) spawnSync('umount', [disk])
    }
  },
)

const events = (directory: string) => join(directory, 'events', 'data.mdb')

/** Damage of pages of the log. LMDB crashes on some of it. */
const damages: Record<string, (directory: string) => void> = {
  'the first leaf of zeros': (directory) => fillPages(events(directory), logPages(directory, [1]), 0),
  'leaves of zeros in two places': (directory) =>
    fillPages(events(directory), logPages(directory, [51, 151, 153, 155]), 0),
  'a leaf of ones': (directory) => fillPages(events(directory), logPages(directory, [101]), 0xff),
  'a leaf of text': (directory) => fillPages(events(directory), logPages(directory, [101]), 0x61),
  'a leaf with a header and random bytes': (directory) => {
    const [page] = logPages(directory, [101]) as [number]
    const bytes = Buffer.from(Array.from({ length: 4096 - 24 }, (_, i) => (i * 7919) % 251))
    writeAt(events(directory), page * 4096 + 24, bytes)
  },
  'a key behind the last one': (directory) => {
    const [page] = logPages(directory, [101]) as [number]
    writeAt(events(directory), readFileSync(events(directory)).indexOf(sequenceKey(101), page * 4096), Buffer.of(0xff))
  },
  'a leaf that is lost': (directory) => losePage(directory, 101),
  'a leaf that is a later one': (directory) => replaceLeaf(directory, 101, 151),
  'the first leaf that is the last one': (directory) => replaceLeaf(directory, 1, batches - 1),
  'the last leaf that is the first one': (directory) => replaceLeaf(directory, batches - 1, 1),
}

/** Writes the leaf of one record over that of another. */
function replaceLeaf(directory: string, record: number, other: number): void {
  const [page, from] = [record, other].map((each) => logPages(directory, [each])[0] as number) as [number, number]
  replacePage(directory, page, from)
}

function replacePage(directory: string, page: number, from: number): void {
  const bytes = readFileSync(events(directory))
  writeAt(events(directory), page * 4096, bytes.subarray(from * 4096, (from + 1) * 4096))
}

for (const [what, damage] of Object.entries(damages)) {
  t.test(`all but the records of damaged pages are copied: ${what}`, async (t) => {
    const { report, ingest, ids } = await repair(what, damage)
    t.strictSame(report.lost.tables, ['log'])
    const lost = report.lost.records.flatMap(({ from, to }) =>
      Array.from({ length: to - from + 1 }, (_, i) => from + i),
    )
    t.equal(lost.length, report.lost.recordCount)
    t.ok(lost.length > 0 && lost.length < batches / 4, `${lost.length} records are lost`)
    t.strictSame(ids, without(...lost))
    t.strictSame(report.lost.events, [{ projectId, events: lost.length * 2 }])
    await ingest.close()
  })
}

t.test('what is behind damage is copied, also if it is shorter than the damage', async (t) => {
  const leaves = Array.from({ length: 85 }, (_, i) => 301 + i)
  const { report, ingest } = await repair('shorter', (directory) =>
    fillPages(events(directory), logPages(directory, leaves), 0),
  )
  t.equal(report.lost.records.length, 1)
  t.ok((report.lost.records[0]?.to ?? 0) < batches, 'the last record is copied')
  await ingest.close()
})

t.test('a damaged branch loses the pages below it', async (t) => {
  const { report, ingest, ids } = await repair('a branch', (directory) =>
    fillPages(events(directory), [logBranch(directory, 101)], 0),
  )
  t.equal(report.records + report.lost.recordCount, batches)
  t.equal(ids.length, report.events)
  await ingest.close()
})

t.test('without its projects, a store is copied by the projects in its records', async (t) => {
  const { report, ingest, ids } = await repair('no projects', (directory) => {
    const pages = pagesWith(events(directory), Buffer.from('"keyId"'))
    fillPages(events(directory), pages, 0)
  })
  t.strictSame(ids, allIds)
  t.strictSame(report.lost.keysOf, [projectId])
  t.strictSame(report.lost.tables, ['projects'])
  await ingest.close()
})

t.test('a damaged header, and a damaged list of tables, are refused', async (t) => {
  const [header, tables] = ['header', 'tables'].map(copy) as [string, string]
  fillPages(events(header), [0, 1], 0)
  await t.rejects(repairLmdbStore(header, join(path, 'x')), { code: 'store-incompatible' })
  fillPages(events(tables), pagesWith(events(tables), Buffer.from('newest-builds')), 0)
  await t.rejects(repairLmdbStore(tables, join(path, 'x')), { code: 'store-damaged', message: /restore a backup/ })
  const other = copy('other tables')
  const [list, leaf] = [pagesWith(events(other), Buffer.from('newest-builds')), logPages(other, [1])] as [
    number[],
    number[],
  ]
  for (const page of list) replacePage(other, page, leaf[0] as number)
  await t.rejects(repairLmdbStore(other, join(path, 'x')), { code: 'store-damaged', message: /restore a backup/ })
  t.notOk(readdirSync(path).some((name) => name.includes('unfinished')))
})

t.test('if the tables of projects differ, the events decide', async (t) => {
  const { report, ingest, ids } = await repair('a renamed project', (directory) =>
    changeRows(directory, 'project-numbers', (rows) => {
      for (const { key, value } of rows.getRange({}))
        if (value.toString() === projectId) rows.putSync(key, Buffer.from('q'))
    }),
  )
  t.strictSame(ids, allIds)
  t.strictSame({ projects: report.projects, maps: report.maps }, { projects: 1, maps: 2 })
  await ingest.close()
})

t.test('an invalid row of a map loses only this map', async (t) => {
  const { report, ingest, ids } = await repair('a map row', (directory) =>
    changeRows(directory, 'maps', (rows) => {
      const [row] = [...rows.getRange({})].filter(({ value }) => value.includes('"number"'))
      if (row) rows.putSync(row.key, Buffer.from(row.value.toString().replace('"number"', '"nulber"')))
    }),
  )
  t.strictSame(ids, allIds)
  t.strictSame({ maps: report.maps, lost: report.lost.maps.length }, { maps: 1, lost: 1 })
  await ingest.close()
})

t.test('damaged pages of the table of maps lose only their maps', async (t) => {
  const whole = join(path, 'many maps')
  const ingest = createIngest({ store: await openLmdbStore(`${whole}, written`) })
  const maps = Array.from({ length: 120 }, (_, i) => ({ placeId: 'the-only-place', buildId: `build-${1000 + i}` }))
  for (const each of maps) await ingest.project(projectId).publishMap({ ...each, map: {} })
  await ingest.close()
  await backUpLmdbStore(`${whole}, written`, whole)
  for (const damaged of [[0], [40, 80], [119]]) {
    const directory = `${whole}, damaged at ${damaged}`
    cpSync(whole, directory, { recursive: true })
    const rows = damaged.map((i) => `${maps[i]?.buildId}\0${maps[i]?.placeId}{`)
    fillPages(
      events(directory),
      rows.flatMap((row) => pagesWith(events(directory), Buffer.from(row))),
      0,
    )
    const { lost, ...report } = await repairLmdbStore(directory, `${directory}, repaired`)
    t.strictSame(lost.tables, ['maps'])
    t.ok(report.maps >= 80 && report.maps < 120, `${report.maps} maps are copied with damage at ${damaged}`)
  }
})

t.test('a map row with another size loses only this map', async (t) => {
  const { report, ingest, ids } = await repair('a map size', (directory) =>
    changeRows(directory, 'maps', (rows) => {
      const [row] = [...rows.getRange({})].filter(({ value }) => value.includes('"size":'))
      if (row) rows.putSync(row.key, Buffer.from(row.value.toString().replace('"size":', '"size":1')))
    }),
  )
  t.strictSame(ids, allIds)
  t.strictSame({ maps: report.maps, lost: report.lost.maps.length }, { maps: 1, lost: 1 })
  await ingest.close()
})

t.test(
  'a reader that a signal from outside ended between two requests is no damage',
  { skip: noChildren },
  async (t) => {
    const before = children()
    let ended: number[] | undefined
    const onProgress = ({ phase }: JobProgress) => {
      if (phase !== 'maps' || ended) return
      ended = children().filter((pid) => !before.includes(pid))
      for (const reader of ended) killAtOnce(reader)
    }
    const target = join(path, 'ended from outside')
    await t.rejects(repairLmdbStore(whole, target, { onProgress }), { code: 'store-unavailable' })
    t.equal(ended?.length, 1)
    t.notOk(readdirSync(path).some((name) => name.startsWith('ended from outside')))
  },
)

t.test('an open store, a target inside the store, and a target that is not empty are refused', async (t) => {
  await t.rejects(repairLmdbStore(whole, join(whole, 'x')), { code: 'invalid-argument', message: 'is inside of' })
  await t.rejects(repairLmdbStore(whole, path), { code: 'invalid-argument', message: 'is not an empty directory' })
  await t.rejects(repairLmdbStore(join(path, 'none'), join(path, 'x')), { code: 'store-missing' })
  t.notOk(readdirSync(path).some((name) => name.includes('unfinished')))
})

t.test('erased events stay erased, and are not damage', async (t) => {
  const directory = copy('erased')
  const store = await openLmdbStore(directory)
  t.equal(await store.erase(projectId, ['e-7-1', 'e-8-0']), 2)
  await store.close()
  t.match(await verifyLmdbStore(directory), { problemCount: 0, events: batches * 2 })
  const target = join(path, 'erased, repaired')
  t.match(await repairLmdbStore(directory, target), { events: batches * 2, lost: { recordCount: 0 } })
  t.match(await verifyLmdbStore(target), { problemCount: 0 })
})
