import { randomFillSync } from 'node:crypto'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Environment, openEnvironment, type Table } from '../../src/environment/environment.ts'
import { sequenceKey } from '../../src/environment/row-keys.ts'
import { getFilter, mayHave } from '../../src/ids/bloom-filter.ts'
import { positionAt } from '../../src/ids/entry.ts'
import { createIndexer, type Indexer, type IndexerOptions } from '../../src/ids/indexer.ts'
import { createLogReader } from '../../src/ids/log-reader.ts'
import { blockBits, blockOf, getPart, type Run } from '../../src/ids/run.ts'
import { emptyRunList, type IdTables, openIdTables, readRunList } from '../../src/ids/run-list.ts'
import { encodeRecord, sealRecord } from '../../src/log/record.ts'

interface Bed {
  events: Environment
  log: Table
  tables: IdTables
  fingerprints: Uint32Array[]
  indexer(options?: Partial<IndexerOptions>): Indexer
  close(): Promise<void>
}

const eventsPerRecord = 5
let clock = 1_000_000

function openBed(directory: string, entriesPerFlush = 20): Bed {
  const events = openEnvironment(join(directory, 'events'))
  const log = events.table('log')
  const tables = openIdTables(openEnvironment(join(directory, 'ids')))
  const reader = createLogReader(events, log)
  return {
    events,
    log,
    tables,
    fingerprints: [],
    indexer: (options) =>
      createIndexer({ tables, log: reader, seed: 'seed', entriesPerFlush, now: () => clock, ...options }),
    async close() {
      await events.root.close()
      await tables.environment.root.close()
    },
  }
}

function appendRecords({ events, log, fingerprints }: Bed, count: number): void {
  events.root.transactionSync(() => {
    for (let i = 0; i < count; i++) {
      const own = randomFillSync(new Uint32Array(eventsPerRecord * 2))
      fingerprints.push(own)
      const record = encodeRecord(0, own, Buffer.from('{"events":[]}'))
      sealRecord(record, 1, 0)
      log.put(sequenceKey(fingerprints.length), record)
    }
  })
}

/** Every id up to the watermark is in exactly one run, in its block, and not denied by the filter. */
function checkIndex(t: Test, { tables, fingerprints }: Bed): void {
  tables.environment.root.resetReadTxn()
  const list = readRunList(tables) ?? emptyRunList('seed')
  const found = new Map<string, number>()
  for (const run of list.runs) {
    const filter = getFilter(tables.filters, run)
    let count = 0
    for (let block = 0; block < 1 << blockBits(run.level); block++) {
      const words = getPart(tables.blocks, run.id, block)
      for (let at = 0; at < words.length; at += 4, count++) {
        const [high, low] = [words[at] as number, words[at + 1] as number]
        if (blockOf(high, run.level) !== block) t.fail('an entry in another block than its own')
        if (!mayHave(filter, high, low)) t.fail('an entry that its filter denies')
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

/** The numbers of all runs of which anything is on disk. */
function runsOnDisk({ tables }: Bed): Set<number> {
  tables.environment.root.resetReadTxn()
  return new Set(
    [tables.blocks, tables.filters].flatMap((table) => [...table.getKeys()].map((key) => key.readUInt32BE())),
  )
}

t.test('too few ids for a run stay where they are', async (t) => {
  const bed = openBed(t.testdir())
  const indexer = bed.indexer()
  work(indexer)
  appendRecords(bed, 3)
  work(indexer)
  t.equal(readRunList(bed.tables), undefined)
  t.strictSame(runsOnDisk(bed), new Set())
  await bed.close()
})

t.test('no id is lost at a flush or at a merge, over three levels', async (t) => {
  const bed = openBed(t.testdir())
  const indexer = bed.indexer()
  for (const records of [4, 28, 1, 100, 123]) {
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
  t.strictSame(runsOnDisk(bed), new Set(runs.map(({ id }) => id)), 'what was merged is gone')
  await bed.close()
})

t.test('a worker that dies after any step leaves nothing but space, which the next one sweeps', async (t) => {
  const bed = openBed(t.testdir())
  appendRecords(bed, 4 * 8 + 8)
  let steps = 0
  for (; ; steps++) {
    // a new one each time, which does one step and is never heard of again
    const outcome = bed.indexer().step()
    checkIndex(t, bed)
    clock += 3_600_000
    if (outcome === 'idle') break
    if (steps > 40) {
      // merging takes several steps, so somebody has to live for long enough
      work(bed.indexer())
      clock += 3_600_000
    }
    if (steps > 45) break
  }
  work(bed.indexer())
  checkIndex(t, bed)
  const { runs } = readRunList(bed.tables) ?? emptyRunList('')
  t.strictSame(
    runs.map(({ level }) => level),
    [0, 0, 1],
  )
  t.strictSame(runsOnDisk(bed), new Set(runs.map(({ id }) => id)), 'nothing is left behind')
  await bed.close()
})

t.test('a worker that dies in the middle of a merge is followed by one that begins it again', async (t) => {
  const directory = t.testdir()
  for (let lives = 1; lives < 40; lives += 6) {
    const bed = openBed(join(directory, String(lives)))
    appendRecords(bed, 4 * 8)
    const first = bed.indexer()
    for (let step = 0; step < 8 + lives; step++) first.step()
    clock += 3_600_000
    checkIndex(t, bed)
    work(bed.indexer())
    checkIndex(t, bed)
    t.strictSame(runsOnDisk(bed).size, 1)
    // and the first one, if it was only standing still, does no harm
    appendRecords(bed, 4)
    clock += 3_600_000
    work(first)
    checkIndex(t, bed)
    await bed.close()
  }
})

t.test('two workers take turns: what one publishes the other goes on from', async (t) => {
  const bed = openBed(t.testdir())
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

t.test('while one has the right to work, another one is told so', async (t) => {
  const bed = openBed(t.testdir())
  appendRecords(bed, 4 * 8)
  const one = bed.indexer()
  one.step()
  t.equal(bed.indexer().step(), 'busy')
  await bed.close()
})

t.test('ids are flushed also in the middle of a long merge', async (t) => {
  const bed = openBed(t.testdir())
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

t.test('a filter of a run that was never published is told from that of the run which got its number', async (t) => {
  const bed = openBed(t.testdir())
  appendRecords(bed, 4)
  const handedOut: Run[] = []
  const failing = bed.indexer({
    onFilter(run) {
      handedOut.push(run)
      throw new Error('the disk is full')
    },
  })
  t.throws(() => work(failing), { message: 'full' })
  appendRecords(bed, 4)
  clock += 3_600_000
  work(bed.indexer({ entriesPerFlush: 25 }))
  const [published] = readRunList(bed.tables)?.runs ?? []
  t.equal(published?.id, handedOut[0]?.id)
  t.not(published?.nonce, handedOut[0]?.nonce)
  t.not(published?.count, handedOut[0]?.count)
  await bed.close()
})

/** From now on the n-th transaction of the index fails as it commits, with all that it wrote undone. */
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

t.test('a commit that fails at any moment of a flush, a merge or a sweep loses nothing', async (t) => {
  const directory = t.testdir()
  for (let nth = 1; nth <= 50; nth += 4) {
    const bed = openBed(join(directory, String(nth)))
    appendRecords(bed, 4 * 7)
    const indexer = bed.indexer()
    failCommit(bed, nth)
    const workOn = () => {
      try {
        work(indexer)
      } catch (error) {
        t.equal((error as Error).message, 'no space left')
        // enough for a flush, which would take the number of the run that failed
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
