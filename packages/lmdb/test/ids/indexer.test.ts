import { randomFillSync } from 'node:crypto'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Environment, openEnvironment, type Table } from '../../src/environment/environment.ts'
import { sequenceKey } from '../../src/environment/row-keys.ts'
import { positionAt } from '../../src/ids/entry.ts'
import { makeQueries, openFilter } from '../../src/ids/fuse-filter.ts'
import { createIndexer, type Indexer, type IndexerOptions } from '../../src/ids/indexer.ts'
import { createLogReader } from '../../src/ids/log-reader.ts'
import { blockOf, DamagedRun, getPart } from '../../src/ids/run.ts'
import {
  createClaim,
  emptyRunList,
  type IdTables,
  openIdTables,
  readRevision,
  readRunList,
  writeRunList,
} from '../../src/ids/run-list.ts'
import { recordWith } from '../writer-bed.ts'

interface Bed {
  events: Environment
  log: Table
  tables: IdTables
  fingerprints: Uint32Array[]
  indexer(options?: Partial<IndexerOptions>): Indexer
  close(): Promise<void>
}

const eventsPerRecord = 5
const entriesPerFlush = 20
let clock = 1_000_000

/** With 2^8 blocks in a run of level 0, a merge takes 8 steps. */
async function openBed(directory: string, blockBits = 8): Promise<Bed> {
  const events = await openEnvironment(join(directory, 'events'))
  const log = events.table('log')
  const tables = openIdTables(await openEnvironment(join(directory, 'ids')))
  const reader = createLogReader(events, log)
  return {
    events,
    log,
    tables,
    fingerprints: [],
    indexer: (options) =>
      createIndexer({ tables, log: reader, seed: 'seed', entriesPerFlush, blockBits, now: () => clock, ...options }),
    async close() {
      await events.close()
      await tables.environment.close()
    },
  }
}

function appendRecords({ events, log, fingerprints }: Bed, count: number): void {
  events.root.transactionSync(() => {
    for (let i = 0; i < count; i++) {
      const own = randomFillSync(new Uint32Array(eventsPerRecord * 2))
      fingerprints.push(own)
      log.put(sequenceKey(fingerprints.length), recordWith(fingerprints.length, own))
    }
  })
}

/** Asserts that every id up to the watermark is in exactly one run, in its block and in the filter. */
function checkIndex(t: Test, { tables, fingerprints }: Bed): void {
  tables.environment.root.resetReadTxn()
  const list = readRunList(tables) ?? emptyRunList('seed')
  const found = new Map<string, number>()
  for (const run of list.runs) {
    const filter = openFilter(tables.filters, run)
    filter.read(Number.POSITIVE_INFINITY)
    let count = 0
    for (let block = 0; block < 1 << run.blockBits; block++) {
      const words = getPart(tables.blocks, run.id, block)
      for (let at = 0; at < words.length; at += 4, count++) {
        const [high, low] = [words[at] as number, words[at + 1] as number]
        if (blockOf(high, run.blockBits) !== block) t.fail('an entry in the wrong block')
        if (filter.select(makeQueries(Uint32Array.of(high, low), 1)).length === 0)
          t.fail('an entry that its filter lacks')
        const { sequence, index } = positionAt(words, at)
        const own = fingerprints[sequence - 1]
        if (own?.[index * 2] !== high || own?.[index * 2 + 1] !== low) t.fail('an entry with a wrong position')
        const name = `${sequence}-${index}`
        found.set(name, (found.get(name) ?? 0) + 1)
      }
    }
    t.equal(count, run.count, `run ${run.id} of level ${run.level} has as many entries as it says`)
  }
  t.equal(found.size, list.watermark * eventsPerRecord, 'all ids up to the watermark are in a run')
  t.ok(
    [...found.values()].every((times) => times === 1),
    'each of them once',
  )
}

function work(indexer: Indexer): number {
  for (let steps = 0; ; steps++) if (indexer.step() !== 'worked') return steps
}

/** The ids of all runs with data on disk. */
function runsOnDisk({ tables }: Bed): Set<number> {
  tables.environment.root.resetReadTxn()
  return new Set(
    [tables.blocks, tables.filters].flatMap((table) => [...table.getKeys()].map((key) => key.readUInt32BE())),
  )
}

t.test('no id is lost at a flush or at a merge, over three levels', async (t) => {
  const bed = await openBed(t.testdir(), 4)
  const indexer = bed.indexer()
  work(indexer)
  appendRecords(bed, 3)
  work(indexer)
  t.equal(readRunList(bed.tables), undefined, 'too few ids for a run are not flushed')
  for (const records of [1, 28, 1, 100, 123]) {
    appendRecords(bed, records)
    work(indexer)
    checkIndex(t, bed)
  }
  const { runs, watermark } = readRunList(bed.tables) ?? emptyRunList('')
  t.equal(watermark, 256)
  t.strictSame(
    runs.map(({ level, count }) => [level, count]),
    [[2, 64 * 20]],
  )
  t.strictSame(runsOnDisk(bed), new Set(runs.map(({ id }) => id)), 'merged runs are removed')
  await bed.close()
})

t.test('the next worker removes the unfinished work of another, and starts over', async (t) => {
  const directory = t.testdir()
  for (const steps of [3, 8, 9, 11, 13, 15, 17, 19, 21, 23]) {
    const bed = await openBed(join(directory, String(steps)))
    appendRecords(bed, 4 * 8)
    const first = bed.indexer()
    for (let step = 0; step < steps; step++) first.step()
    t.equal(bed.indexer().step(), 'busy')
    clock += 3_600_000
    checkIndex(t, bed)
    work(bed.indexer())
    checkIndex(t, bed)
    t.strictSame(runsOnDisk(bed).size, 1)
    // the first one was only stopped, and continues
    appendRecords(bed, 4)
    clock += 3_600_000
    work(first)
    checkIndex(t, bed)
    await bed.close()
  }
})

t.test('two alternating workers each continue from the runs that the other has published', async (t) => {
  const bed = await openBed(t.testdir())
  const [one, other] = [bed.indexer(), bed.indexer()]
  for (let round = 0; round < 20; round++) {
    appendRecords(bed, 3 + (round % 5))
    for (let i = 0; i < 3; i++) {
      const outcomes = [one.step(), other.step()]
      t.notSame(outcomes, ['busy', 'busy'])
    }
    if (round % 7 === 0) clock += 3_600_000
  }
  clock += 3_600_000
  work(one)
  clock += 3_600_000
  work(other)
  checkIndex(t, bed)
  t.strictSame(runsOnDisk(bed), new Set((readRunList(bed.tables) ?? emptyRunList('')).runs.map(({ id }) => id)))
  await bed.close()
})

t.test('ids are flushed in the middle of a merge', async (t) => {
  const bed = await openBed(t.testdir())
  const indexer = bed.indexer()
  appendRecords(bed, 4 * 8)
  for (let step = 0; step < 14; step++) indexer.step()
  const before = readRunList(bed.tables) ?? emptyRunList('')
  t.equal(before.runs.filter(({ level }) => level === 1).length, 0, 'the merge is not done')
  appendRecords(bed, 4)
  indexer.step()
  bed.tables.environment.root.resetReadTxn()
  t.equal(readRunList(bed.tables)?.watermark, 36)
  work(indexer)
  checkIndex(t, bed)
  await bed.close()
})

/** Makes the n-th transaction of the index from now on fail and roll back as it commits. */
function failCommit({ tables }: Bed, nth: number): void {
  const { root } = tables.environment
  const transact = root.transactionSync.bind(root)
  let count = 0
  root.transactionSync = (work) =>
    transact(() => {
      const result = work()
      if (++count === nth) throw new Error('no space left')
      return result
    })
}

t.test('a commit that fails at any step of a flush, a merge or garbage collection loses nothing', async (t) => {
  const directory = t.testdir()
  for (let nth = 1; nth <= 35; nth += 2) {
    const bed = await openBed(join(directory, String(nth)))
    appendRecords(bed, 4 * 7)
    const indexer = bed.indexer()
    failCommit(bed, nth)
    const workOn = () => {
      try {
        work(indexer)
      } catch (error) {
        t.equal((error as Error).message, 'no space left')
        // enough for a flush, which gets the id of the failed run
        appendRecords(bed, 4)
        work(indexer)
      }
    }
    workOn()
    appendRecords(bed, 4 * 2)
    workOn()
    checkIndex(t, bed)
    t.strictSame(runsOnDisk(bed), new Set((readRunList(bed.tables) ?? emptyRunList('')).runs.map(({ id }) => id)))
    await bed.close()
  }
})

t.test(
  'a list is read as it was written, with its revision beside it, and one with a flipped bit is damage',
  async (t) => {
    const tables = openIdTables(await openEnvironment(t.testdir()))
    t.strictSame([readRunList(tables), readRevision(tables)], [undefined, 0])
    const runs = [1, 2].map((id) => ({ id, nonce: 2, level: 0, blockBits: 10, count: 5 }))
    const list = { ...emptyRunList('seed'), revision: 4, watermark: 2 ** 40, runs }
    const change = (work: () => unknown) => {
      tables.environment.write(() => void work())
      tables.environment.root.resetReadTxn()
    }
    change(() => writeRunList(tables, list))
    t.strictSame([readRunList(tables), readRevision(tables)], [list, 4])
    const key = Buffer.from('list')
    const bytes = Buffer.from(tables.meta.getBinary(key) as Buffer)
    // one commit: each put replaces the last
    tables.environment.write(() => {
      for (let at = 0; at < bytes.length; at++) {
        const flipped = Buffer.from(bytes)
        flipped.writeUInt8(flipped.readUInt8(at) ^ (1 << (at & 7)), at)
        tables.meta.put(key, flipped)
        t.throws(() => readRunList(tables), DamagedRun, flipped.toString())
      }
    })
    await tables.environment.close()
  },
)

t.test('one worker at a time has the claim', async (t) => {
  const tables = openIdTables(await openEnvironment(t.testdir()))
  let now = 1_000_000
  const clock = () => now
  const [one, other] = [createClaim(tables, clock), createClaim(tables, clock)]
  const hold = (claim: typeof one) => {
    let held = 'busy'
    claim.write((claimed) => {
      held = claimed
    })
    return held
  }
  t.equal(hold(one), 'acquired')
  t.equal(hold(other), 'busy', 'another worker has it')
  t.equal(hold(one), 'renewed', 'its holder renews it')
  other.release()
  t.equal(hold(other), 'busy', 'only its holder releases it')
  now += 4_500
  t.equal(hold(one), 'renewed')
  now += 4_500
  t.equal(hold(other), 'busy', 'it was renewed')
  now += 4_500
  t.equal(hold(one), 'renewed', 'it expired, and no other worker acquired it')
  one.release()
  t.equal(hold(other), 'acquired', 'it was released')
  other.release()
  t.equal(hold(one), 'acquired', 'another worker had it in the meantime')
  now += 5_001
  t.equal(hold(other), 'acquired', 'it expired')
  now -= 3_600_000
  t.equal(hold(one), 'acquired', 'a clock that was set back does not extend it')
  await tables.environment.close()
})
