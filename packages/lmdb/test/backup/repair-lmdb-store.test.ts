import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import t from 'tap'
import { type FoundRow, openDataPages } from '../../src/backup/data-pages.ts'
import { projectKey, sequenceKey } from '../../src/environment/row-keys.ts'
import { moveRecord } from '../../src/log/record.ts'
import { builtStore } from '../built-store.ts'
import { startStoreProcess } from '../store-process.ts'
import { changeRows, damageRecord, flipBit, flipIn, makeStore, map, projectId, zeroPages } from './damaged-store.ts'

const { openLmdbStore, repairLmdbStore, restoreLmdbStore, verifyLmdbStore } = (await import(
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

const bytesOf = (directory: string) =>
  ['events', 'chunks', 'ids'].map((name) => readFileSync(join(directory, name, 'data.mdb'), 'base64'))

/** Repairs a copy of the store after some damage, and opens the result. */
async function repair(name: string, damage: (directory: string) => Promise<void> | void) {
  const directory = copy(name)
  await damage(directory)
  const before = bytesOf(directory)
  const target = join(path, `${name}, repaired`)
  const report = await repairLmdbStore(directory, target)
  t.strictSame(bytesOf(directory), before, 'the damaged store is not changed')
  const ingest = createIngest({ store: await openLmdbStore(target, { create: false }) })
  const project = ingest.project(projectId)
  const ids: string[] = []
  for await (const { bytes } of project.readEvents()) ids.push(JSON.parse(Buffer.from(bytes).toString()).eventId)
  return { report, ingest, project, ids }
}

const idsOf = (batch: number) => [`e-${batch}-0`, `e-${batch}-1`]
const without = (...lost: number[]) => allIds.filter((id) => !lost.some((batch) => idsOf(batch).includes(id)))

/** The pages of the leaves of a table, and of the rest of its tree. */
function pagesOf(directory: string, table: string): number[] {
  const pages = openDataPages(join(directory, 'events', 'data.mdb'))
  const found = new Set([...pages.rows(table)].map(({ page }) => page))
  pages.close()
  return [...found]
}

t.test('a number of a record that no file of this size can have is not looked for', async (t) => {
  const { ids } = await repair('numbers', (directory) => {
    const pages = openDataPages(join(directory, 'events', 'data.mdb'))
    for (const table of ['log', 'project-log']) {
      const { key, page } = [...pages.rows(table)][batches - 1] as FoundRow
      const file = join(directory, 'events', 'data.mdb')
      const at = readFileSync(file).indexOf(key, page * 4096)
      // the highest byte of the number but one
      flipBit(file, at + key.length - 7)
    }
    pages.close()
  })
  t.strictSame(ids, without(batches))
})

t.test('of a store without damage everything is saved, and earlier cursors are refused', async (t) => {
  const store = await openLmdbStore(whole)
  const after = await store.lastCursor(projectId)
  const { builds } = await store.newestBuilds(projectId, { limit: 100 })
  await store.close()
  const { report, ingest, project, ids } = await repair('no damage', () => {})
  t.match(report, { records: batches, events: batches * 2, maps: 2, projects: 1, mayHaveErased: false })
  t.strictSame(report.lost, { records: [], recordCount: 0, bytes: 0, events: [], maps: [], keysOf: [], tables: [] })
  t.strictSame(ids, allIds)
  t.ok(await ingest.authenticate({ projectId, key, scope: 'read' }))
  t.match(await project.getMap(map), { frozen: false })
  t.match((await project.listBuilds({ order: 'frozen' })).builds, builds)
  t.match(builds, [{ buildId: 'b', maps: 2 }, {}, {}, {}])
  t.ok(await project.getMapContent(map))
  t.match(await project.submitBatch({ events: [{ projectId, eventId: 'e-7-1', buildId: 'b' }] }), { duplicates: 1 })
  await t.rejects(project.readEvents({ after })[Symbol.asyncIterator]().next(), { code: 'invalid-cursor' })
  await ingest.close()
})

t.test('flipped bits lose their records and maps only, and are listed', async (t) => {
  const until = Date.now() + 3_600_000
  const { report, ingest, project, ids } = await repair('flipped bits', async (directory) => {
    for (const sequence of [7, 8, 200]) damageRecord(directory, sequence)
    flipIn(join(directory, 'chunks', 'data.mdb'), Buffer.from('x'.repeat(64)))
    // a clock that was set back
    await changeRows(directory, 'log', (rows) => {
      for (const sequence of [20, 21]) {
        const key = sequenceKey(sequence)
        const identity = { sequence, project: 1, ordinal: sequence }
        rows.put(key, moveRecord(rows.getBinary(key) as Buffer, identity, 1_000))
      }
    })
    const at = Buffer.alloc(8)
    at.writeDoubleLE(until)
    await changeRows(directory, 'freezes', (rows) => rows.put(projectKey(1, Buffer.from('later')), at))
  })
  t.strictSame(ids, without(7, 8, 200))
  t.match(report.lost, {
    records: [
      { from: 7, to: 8, projectId },
      { from: 200, to: 200, projectId },
    ],
    recordCount: 3,
    events: [{ projectId, events: 6 }],
    until,
  })
  t.equal(report.clampedRecords, 2)
  let last = 0
  for await (const { receivedAt } of project.readEvents()) {
    t.ok(receivedAt >= last, 'records are saved with the time of the previous one')
    last = receivedAt
  }
  t.strictSame(report.lost.maps, [{ projectId, ...map }])
  t.notOk(await project.getMap(map))
  t.ok(await project.getMapContent({ placeId: '2', buildId: 'b' }))
  await ingest.close()
})

for (const witness of ['ids', 'totals'] as const) {
  t.test(`records that only ${witness} know of are lost`, async (t) => {
    const { report, ingest } = await repair(`without its end, ${witness}`, async (directory) => {
      await changeRows(directory, 'log', (rows) => {
        for (let sequence = batches - 9; sequence <= batches; sequence++) rows.remove(sequenceKey(sequence))
      })
      await changeRows(directory, 'project-log', (rows) => {
        for (let sequence = batches - 9; sequence <= batches; sequence++) {
          rows.remove(projectKey(1, sequenceKey(sequence)))
        }
      })
      if (witness === 'ids') await changeRows(directory, 'totals', (rows) => rows.remove(projectKey(1)))
      else writeFileSync(join(directory, 'ids', 'data.mdb'), '')
    })
    t.match(report.lost, { records: [{ from: batches - 9, to: batches }], recordCount: 10 })
    await ingest.close()
  })
}

t.test('a full disk is one, also for repair and restore', { skip: noMount }, async (t) => {
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

t.test('a run of zeroed pages loses what is in it', async (t) => {
  const { report, ingest, ids } = await repair('zeroed pages', (directory) => {
    zeroPages(join(directory, 'events', 'data.mdb'), pagesOf(directory, 'log').slice(3, 6))
  })
  t.ok(ids.length > allIds.length / 2 && ids.length < allIds.length)
  t.equal(report.lost.events[0]?.events, allIds.length - ids.length)
  t.equal(report.events, ids.length)
  await ingest.close()
})

t.test('records that no page leads to any more are found', async (t) => {
  const directory = join(whole, 'events', 'data.mdb')
  const leaves = new Set(
    ['log', 'project-log', 'freezes', 'projects', 'meta'].flatMap((table) => pagesOf(whole, table)),
  )
  const { ingest, ids } = await repair('without branches', (damaged) => {
    zeroPages(join(damaged, 'events', 'data.mdb'), branchPages(directory, leaves))
  })
  t.strictSame(ids, allIds)
  await ingest.close()
})

/** The pages of a file that are branches of a tree. */
function branchPages(file: string, leaves: ReadonlySet<number>): number[] {
  const bytes = readFileSync(file)
  const branches: number[] = []
  for (let page = 2; page * 4096 < bytes.length; page++) {
    const isOwn = Number(bytes.readBigUInt64LE(page * 4096)) === page
    if (isOwn && (bytes.readUInt16LE(page * 4096 + 18) & 7) === 1 && !leaves.has(page)) branches.push(page)
  }
  if (branches.length === 0) throw new Error('the log has no branches')
  return branches
}

t.test('of a truncated file the front is saved', async (t) => {
  const { report, ingest, ids } = await repair('a truncated file', (directory) => {
    truncateSync(join(directory, 'events', 'data.mdb'), 2 ** 20)
  })
  t.ok(report.lost.bytes > 0)
  t.equal(report.records + report.lost.recordCount, batches)
  t.ok(ids.length > 0 && ids.length < allIds.length)
  t.equal(report.events, ids.length)
  await ingest.close()
})

t.test('without its header and its projects, a store is saved by what is in its records', async (t) => {
  const { report, ingest, ids } = await repair('no header', (directory) => {
    zeroPages(join(directory, 'events', 'data.mdb'), [0, 1, ...pagesOf(directory, 'projects')])
  })
  t.strictSame(ids, allIds)
  t.strictSame(report.lost.keysOf, [projectId])
  t.equal(report.mayHaveErased, true)
  await ingest.close()
})

t.test('a damaged identity is that of the directories beside it', async (t) => {
  const { ingest, project, ids } = await repair('identity', (directory) =>
    changeRows(directory, 'meta', (rows) => {
      const format = Buffer.from(rows.getBinary(Buffer.from('format')) as Buffer)
      format[1] = (format[1] as number) ^ 1
      rows.putSync(Buffer.from('format'), format)
    }),
  )
  t.strictSame(ids, allIds)
  t.match(await project.submitBatch({ events: [{ projectId, eventId: 'e-1-0' }] }), { duplicates: 1 })
  await ingest.close()
})

t.test('a store that is open, a target inside it, and one that is not empty are refused', async (t) => {
  await t.rejects(repairLmdbStore(whole, join(whole, 'x')), { code: 'invalid-argument', message: 'is inside of' })
  await t.rejects(repairLmdbStore(whole, path), { code: 'invalid-argument', message: 'is not an empty directory' })
  await t.rejects(repairLmdbStore(join(path, 'none'), join(path, 'x')), { code: 'store-missing' })
  t.notOk(readdirSync(path).some((name) => name.includes('unfinished')))
})

t.test('erased events stay erased, and are no damage', async (t) => {
  const directory = copy('erased')
  const store = await openLmdbStore(directory)
  t.equal(await store.erase(projectId, ['e-7-1', 'e-8-0']), 2)
  await store.close()
  t.match(await verifyLmdbStore(directory), { problems: [], events: batches * 2 })
  const target = join(path, 'erased, repaired')
  t.match(await repairLmdbStore(directory, target), { events: batches * 2, lost: { recordCount: 0 } })
  t.match(await verifyLmdbStore(target), { problems: [] })
})
