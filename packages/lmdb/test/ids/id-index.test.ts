import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { getPriority } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import { createIngest, type EmbeddedIngest } from '@ingest/core'
import t, { type Test } from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import { sequenceKey } from '../../src/environment/row-keys.ts'
import { openIdIndex, type RebuildProgress } from '../../src/ids/id-index.ts'
import { createIndexer } from '../../src/ids/indexer.ts'
import { createLogReader } from '../../src/ids/log-reader.ts'
import { mergeWidth } from '../../src/ids/run.ts'
import {
  emptyRunList,
  type IdTables,
  openIdTables,
  readRevision,
  readRunList,
  writeRunList,
} from '../../src/ids/run-list.ts'
import { type BuiltStoreOptions, builtInternals, openLmdbStore } from '../built-store.ts'
import { startStoreProcess } from '../store-process.ts'
import { fingerprintsFor, openWriterBed, recordAt } from '../writer-bed.ts'

// the index as a store uses it: with its thread, on disk, over restarts

const small: BuiltStoreOptions = { internals: { entriesPerFlush: 60 } }

async function open(directory: string, options = small): Promise<EmbeddedIngest> {
  return createIngest({ store: await openLmdbStore(directory, options) })
}

const batchOf = (name: string, count = 50) => ({
  events: Array.from({ length: count }, (_, i) => ({ projectId: 'p', eventId: `${name}-${i}` })),
})

async function fill(ingest: EmbeddedIngest, batches: number, prefix = ''): Promise<void> {
  for (let i = 0; i < batches; i++) await ingest.project('p').submitBatch(batchOf(`${prefix}${i}`))
}

/** Asserts that every sent id is known, and that an id that was not sent is not. */
async function checkAllKnown(t: Test, ingest: EmbeddedIngest, batches: number, prefix = ''): Promise<void> {
  let duplicates = 0
  for (let i = 0; i < batches; i++)
    duplicates += (await ingest.project('p').submitBatch(batchOf(`${prefix}${i}`))).duplicates
  t.equal(duplicates, batches * 50, 'all that was stored is known')
  t.equal(await ingest.project('p').findEvent(`${prefix}0-50`), undefined)
}

/** Resolves when the indexer thread has nothing left to flush, merge or remove. */
async function settled(directory: string, events: number, entriesPerFlush = 60): Promise<void> {
  const tables = openIdTables(await openEnvironment(join(directory, 'ids')))
  const { root } = tables.environment
  while (!isSettled()) await sleep(10)
  await tables.environment.close()

  function isSettled(): boolean {
    root.resetReadTxn()
    const runs = readRunList(tables)?.runs ?? []
    const flushed = runs.reduce((sum, { count }) => sum + count, 0)
    const sizes = runs.map(({ blockBits }) => blockBits)
    const isMerged = sizes.every((size) => sizes.filter((other) => other === size).length < mergeWidth)
    const listed = new Set(runs.map(({ id }) => id))
    const isClean = [...tables.blocks.getKeys(), ...tables.filters.getKeys()].every((key) =>
      listed.has(key.readUInt32BE()),
    )
    return events - flushed < entriesPerFlush && isMerged && isClean
  }
}

/** A closed store of `batches` batches, most of whose ids are in runs. */
async function makeStore(directory: string, batches: number, prefix = ''): Promise<string> {
  const ingest = await open(directory)
  await fill(ingest, batches, prefix)
  await settled(directory, batches * 50)
  await ingest.close()
  return directory
}

/** Changes a closed index in one transaction. */
async function changeIndex(ids: string, work: (tables: IdTables) => void): Promise<void> {
  const tables = openIdTables(await openEnvironment(ids))
  tables.environment.write(() => work(tables))
  await tables.environment.close()
}

/** Changes the text of the list of runs. */
const changeList = (change: (text: string) => string) => (ids: string) =>
  changeIndex(ids, ({ meta }) => {
    const key = Buffer.from('list')
    meta.put(key, Buffer.from(change((meta.getBinary(key) as Buffer).toString())))
  })

/** Flips a bit in each row of a table. */
const flipIn = (table: 'blocks' | 'filters') => (ids: string) =>
  changeIndex(ids, ({ [table]: rows }) => {
    for (const key of [...rows.getKeys()]) {
      const bytes = Buffer.from(rows.getBinary(key) as Buffer)
      // an empty block has only its checksum
      bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) ^ 4, bytes.length - 1)
      rows.put(key, bytes)
    }
  })

const whole = await makeStore(join(t.testdir(), 'whole'), 30)

function copy(name: string): string {
  const directory = join(t.testdirName, name)
  cpSync(whole, directory, { recursive: true })
  return directory
}

type Damage = (ids: string) => Promise<void> | void

const damages: Record<string, Damage> = {
  'its directory is deleted': (ids) => rmSync(ids, { recursive: true }),
  'its file is zeroed': (ids) => writeFileSync(join(ids, 'data.mdb'), Buffer.alloc(100_000)),
  'its file is cut': (ids) => truncateSync(join(ids, 'data.mdb'), 9000),
  'its file is empty': (ids) => writeFileSync(join(ids, 'data.mdb'), ''),
  'its file is another one': (ids) => writeFileSync(join(ids, 'data.mdb'), 'not LMDB'.repeat(2000)),
  'its list names another run': changeList((text) => text.replace('"id":', '"id":1')),
  'its list has no runs': changeList((text) => text.replace('"runs":', '"runr":')),
  'its list is no JSON': changeList((text) => text.replace('{', '[')),
  'it is of another format': changeList((text) => {
    const { checksum, ...list } = JSON.parse(text)
    // like the first format
    return JSON.stringify({ ...list, checksum: crc32(JSON.stringify(list)) })
  }),
}

t.test('ids are known through flushes, merges and a restart', async (t) => {
  const directory = copy('restarted')
  const ingest = await open(directory)
  await checkAllKnown(t, ingest, 30)
  await fill(ingest, 30, 'later-')
  await checkAllKnown(t, ingest, 30, 'later-')
  await settled(directory, 3000)
  await checkAllKnown(t, ingest, 30)
  await checkAllKnown(t, ingest, 30, 'later-')
  await ingest.close()
})

t.test('the index is rebuilt when it is damaged, and the rebuild reports its progress', async (t) => {
  for (const [damage, apply] of Object.entries(damages)) {
    const directory = copy(damage)
    await apply(join(directory, 'ids'))
    const progress: RebuildProgress[] = []
    const again = await open(directory, { ...small, onRebuild: (each) => progress.push(each) })
    t.ok(progress.length > 0, damage)
    t.ok(progress.every(({ done, total }, i) => total === 30 && done >= (progress[i - 1]?.done ?? 0)))
    await checkAllKnown(t, again, 30)
    await again.close()
  }
})

/** Damage of the index, before the store opens it or while it is open, with the message of the store. */
const failures: Record<string, { closed?: Damage; open?: Damage; message: string }> = {
  'a damaged run': { closed: flipIn('blocks'), message: 'rebuilds the index' },
  'a damaged filter': { closed: flipIn('filters'), message: 'rebuilds the index' },
  'a deleted directory': { open: (ids) => rmSync(ids, { recursive: true }), message: 'rebuilds the index' },
  'a list that another process has emptied': {
    open: (ids) =>
      changeIndex(ids, (tables) => {
        writeRunList(tables, { ...emptyRunList('other'), revision: readRevision(tables) + 1 })
      }),
    message: 'has rebuilt',
  },
}

for (const [what, { closed, open: later, message }] of Object.entries(failures)) {
  t.test(`${what} fails the store when the index is used, and the next opening rebuilds it`, async (t) => {
    const directory = copy(what)
    const ids = join(directory, 'ids')
    await closed?.(ids)
    const codes: string[] = []
    const store = await openLmdbStore(directory, { ...small, onFatal: ({ code }) => codes.push(code) })
    const damaged = createIngest({ store })
    await later?.(ids)
    await t.rejects(checkAllKnown(t, damaged, 30), { code: 'store-failed', message })
    t.strictSame(codes, ['store-failed'])
    await damaged.close()
    const again = await open(directory)
    t.notOk(existsSync(join(ids, 'damaged')))
    await checkAllKnown(t, again, 30)
    await again.close()
  })
}

t.test('writes other than appends read no filter', async (t) => {
  const directory = copy('unread filters')
  const ids = join(directory, 'ids')
  await flipIn('filters')(ids)
  const store = await openLmdbStore(directory, small)
  const ingest = createIngest({ store })
  const { record } = await ingest.keys.create('p', { scopes: ['read'] })
  t.ok(await ingest.keys.revoke('p', record.keyId))
  t.notOk(existsSync(join(ids, 'damaged')), 'nothing has looked at the damage')
  await t.rejects(checkAllKnown(t, ingest, 1), { code: 'store-failed' })
  await ingest.close()
})

t.test('an index of another log, or of a later state of the log, is rebuilt', async (t) => {
  const one = copy('one')
  const other = await makeStore(join(t.testdir(), 'other'), 30, 'b')
  copyFileSync(join(other, 'ids', 'data.mdb'), join(one, 'ids', 'data.mdb'))
  const ingest = await open(one)
  await checkAllKnown(t, ingest, 30)
  t.equal((await ingest.project('p').submitBatch(batchOf('b0'))).accepted, 50)
  await ingest.close()

  // the log is restored from an older copy, the index is not
  const before = readFileSync(join(one, 'events', 'data.mdb'))
  const later = await open(one)
  await fill(later, 30, 'later')
  await settled(one, 61 * 50)
  await later.close()
  writeFileSync(join(one, 'events', 'data.mdb'), before)
  const restored = await open(one)
  const { accepted } = await restored.project('p').submitBatch(batchOf('later0'))
  t.equal(accepted, 50, 'an event that is not in the log is not known')
  await checkAllKnown(t, restored, 30)
  await restored.close()
})

t.test('a process knows ids that another one has flushed and merged', async (t) => {
  const directory = t.testdir()
  const [writer, reader] = await Promise.all([
    startStoreProcess(directory, { entriesPerFlush: 30 }),
    startStoreProcess(directory, { entriesPerFlush: 30 }),
  ])
  for (let round = 0; round < 12; round++) {
    const eventIds = Array.from({ length: 60 }, (_, i) => `${round}-${i}`)
    await writer.submit(eventIds)
    t.notOk((await reader.known(eventIds)).includes(false), 'known as soon as they are acknowledged')
  }
  await settled(directory, 720, 30)
  for (let round = 0; round < 12; round++) {
    const eventIds = Array.from({ length: 60 }, (_, i) => `${round}-${i}`)
    t.equal((await reader.submit(eventIds)).duplicates, 60, 'and still after they were merged')
  }
  await writer.kill()
  await reader.kill()
})

t.test('a process that does not close its store exits all the same', async (t) => {
  const directory = t.testdir()
  const program = `
    const { openLmdbStoreWith } = await import(${JSON.stringify(builtInternals)})
    const { createIngest } = await import(${JSON.stringify(import.meta.resolve('@ingest/core'))})
    const store = await openLmdbStoreWith(${JSON.stringify(directory)}, {}, { entriesPerFlush: 20 })
    const project = createIngest({ store }).project('p')
    for (let i = 0; i < 60; i++) await project.submitBatch({ events: [{ projectId: 'p', eventId: 'e-' + i }] })
    process.stdout.write('done')`
  const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { timeout: 20_000 })
  t.equal(String(stdout), 'done')
  t.equal(status, 0)
})

t.test(
  'the indexer thread starts before there is anything to flush',
  {
    skip:
      (process.platform !== 'linux' || getPriority() >= 4) && 'a thread has a lower priority than others on Linux only',
  },
  async (t) => {
    const ingest = await open(t.testdir())
    while (!niceness().includes(4)) await sleep(10)
    await ingest.close()
  },
)

t.test(
  'the index is read without read-ahead, and the log with it when that is asked for',
  { skip: process.platform !== 'linux' && 'only Linux tells how a file is mapped' },
  async (t) => {
    for (const readAhead of [false, true]) {
      const directory = t.testdir()
      const store = await openLmdbStore(directory, { readAhead })
      const isRandom = (name: string) => flagsOfMapping(join(directory, name, 'data.mdb')).includes('rr')
      t.ok(isRandom('ids'))
      t.equal(isRandom('events'), !readAhead)
      await store.close()
    }
  },
)

/** The flags of the memory in which this process has mapped a file, see proc_pid_smaps(5). */
function flagsOfMapping(path: string): string[] {
  const text = readFileSync('/proc/self/smaps', 'utf8')
  return /^VmFlags: (.*)$/m.exec(text.slice(text.indexOf(` ${path}\n`)))?.[1]?.split(' ') ?? []
}

/** The priority of each thread of this process. */
function niceness(): number[] {
  return readdirSync('/proc/self/task').map((thread) => {
    const path = `/proc/self/task/${thread}/stat`
    // a thread may have ended
    const [, fields = ''] = existsSync(path) ? readFileSync(path, 'utf8').split(') ') : []
    return Number(fields.split(' ')[16])
  })
}

t.test('appends wait while the index cannot keep up, and none fails', async (t) => {
  const directory = t.testdir()
  const ingest = await open(directory)
  await fill(ingest, 1)
  const holder = await startStoreProcess(directory)
  // the indexer thread cannot write now
  await holder.ask('hold-ids')
  let done = 0
  const all = Array.from({ length: 40 }, async (_, i) => {
    for (let j = 0; j < 5; j++) {
      await ingest.project('p').submitBatch(batchOf(`wait-${i}-${j}`))
      done++
    }
  })
  const finished = Promise.allSettled(all)
  let before = -1
  while (before !== done) {
    before = done
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  t.ok(done < 200, `only ${done} of 200 were stored while nothing could be flushed`)
  await holder.kill()
  t.ok((await finished).every(({ status }) => status === 'fulfilled'))
  t.equal(done, 200)
  await checkAllKnown(t, ingest, 5, 'wait-39-')
  await ingest.close()
})

t.test('a rollback reads no record again', async (t) => {
  const { environment, data } = await openWriterBed(t.testdir())
  const log = environment.table('log')
  const put = (sequence: number, ...eventIds: string[]) =>
    environment.write(() => void log.put(sequenceKey(sequence), recordAt(sequence, eventIds)))
  for (let i = 1; i <= 10; i++) put(i, `${i}`)
  const reader = createLogReader(environment, log)
  let reads = 0
  const counted = {
    ...reader,
    fingerprints(sequence: number) {
      reads++
      return reader.fingerprints(sequence)
    },
  }
  const ids = await openIdIndex({
    ...data,
    directory: data.idsDirectory,
    log: counted,
    logDirectory: '',
    logFileIds: '',
  })
  ids.refresh()
  ids.catchUp(10)
  t.equal(reads, 10)
  ids.addRecord(11, fingerprintsFor(1, ['rolled back']), 1)
  t.equal(ids.search(fingerprintsFor(1, ['rolled back']), 1).length, 1)
  ids.rollback()
  t.equal(ids.search(fingerprintsFor(1, ['rolled back']), 1).length, 0)
  put(11, 'of another process')
  ids.refresh()
  ids.catchUp(11)
  t.equal(reads, 11)
  for (const eventId of ['1', '10', 'of another process']) {
    t.equal(ids.search(fingerprintsFor(1, [eventId]), 1).length, 1)
  }
  await ids.close()
  await environment.close()
})

t.test('a refresh reads no run whose records its snapshot of the log lacks', async (t) => {
  const { environment, data } = await openWriterBed(t.testdir(), 1)
  const { seed, entriesPerFlush } = data
  const log = environment.table('log')
  const reader = createLogReader(environment, log)
  const tables = openIdTables(await openEnvironment(data.idsDirectory))
  const indexer = createIndexer({ tables, log: createLogReader(environment, log), seed, entriesPerFlush })
  const known = reader.lastSequence()
  let beforeNextRead = () => {}
  const raced = {
    ...reader,
    refresh() {
      reader.refresh()
      beforeNextRead()
    },
  }
  const ids = await openIdIndex({ ...data, directory: data.idsDirectory, log: raced, logDirectory: '', logFileIds: '' })
  // another process stores an event and flushes its id as soon as the log is read
  beforeNextRead = () => {
    beforeNextRead = () => {}
    environment.write(() => void log.put(sequenceKey(known + 1), recordAt(known + 1, ['late'])))
    while ((readRunList(tables)?.watermark ?? 0) <= known) indexer.step()
  }
  ids.refresh()
  t.equal(readRunList(tables)?.watermark, known + 1)
  t.strictSame(ids.search(fingerprintsFor(1, ['late']), 1), [])
  ids.refresh()
  t.equal(ids.search(fingerprintsFor(1, ['late']), 1).length, 1)
  await ids.close()
  await tables.environment.close()
  await environment.close()
})

t.test('an index in which LMDB finds damage is rebuilt while the store opens', async (t) => {
  const directory = copy('LMDB finds damage')
  // more events than small runs keep in memory: the opening must flush some
  let ingest = await open(directory, {})
  await fill(ingest, 40, 'later-')
  await ingest.close()
  const path = join(directory, 'ids', 'data.mdb')
  const bytes = readFileSync(path)
  let damaged = 0
  for (let page = 2; page * 4096 < bytes.length; page++) {
    // the pages to which a branch page points
    if (bytes.readUInt16LE(page * 4096 + 18) !== 1 || bytes.readUInt32LE(page * 4096) !== page) continue
    bytes.fill(0xff, page * 4096 + 2000, (page + 1) * 4096)
    damaged++
  }
  t.ok(damaged > 0)
  writeFileSync(path, bytes)
  ingest = await open(directory)
  await checkAllKnown(t, ingest, 30)
  await checkAllKnown(t, ingest, 40, 'later-')
  await ingest.close()
})
