import { spawnSync } from 'node:child_process'
import { randomFillSync } from 'node:crypto'
import t from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import { putEntry } from '../../src/ids/entry.ts'
import { makeQueries, openFilter, putFilter } from '../../src/ids/fuse-filter.ts'
import {
  blockOf,
  DamagedRun,
  defaultBlockBits,
  entriesPerFlush,
  flushBlockBits,
  getPart,
  mergeWidth,
  mergeWidthBits,
  partKey,
  putPart,
  type Run,
  toBlocks,
} from '../../src/ids/run.ts'
import {
  createClaim,
  emptyRunList,
  openIdTables,
  readRevision,
  readRunList,
  writeRunList,
} from '../../src/ids/run-list.ts'

t.test(
  'the default size of a run has 2^10 blocks, and a merge splits each into as many as it has inputs',
  async (t) => {
    t.equal(flushBlockBits(entriesPerFlush), 10)
    t.equal(flushBlockBits(1), 1)
    for (let level = 0; level < 5; level++) {
      const bits = defaultBlockBits(level)
      t.equal(1 << (defaultBlockBits(level + 1) - bits), mergeWidth)
      for (const high of [0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x12345678]) {
        t.equal(Math.floor(blockOf(high, bits + mergeWidthBits) / mergeWidth), blockOf(high, bits))
        t.ok(blockOf(high, bits) < 2 ** bits)
      }
    }
  },
)

t.test('a part is read as it was written; a flipped bit, a truncated and a missing part are damage', async (t) => {
  const environment = await openEnvironment(t.testdir())
  const table = environment.table('blocks')
  const words = randomFillSync(new Uint32Array(896))
  environment.root.transactionSync(() => putPart(table, 7, 9, words))
  t.strictSame(getPart(table, 7, 9), words)
  t.throws(() => getPart(table, 7, 8), DamagedRun)
  const bytes = table.getBinary(partKey(7, 9)) as Buffer
  for (const damaged of [
    bytes.subarray(0, -4),
    bytes.subarray(0, -1),
    Buffer.alloc(0),
    flip(bytes, 0),
    flip(bytes, 2000),
  ]) {
    environment.root.transactionSync(() => {
      table.put(partKey(7, 9), damaged)
    })
    t.throws(() => getPart(table, 7, 9), DamagedRun)
  }
  await environment.close()
})

function flip(bytes: Buffer, at: number): Buffer {
  const flipped = Buffer.from(bytes)
  flipped[at] = (flipped[at] as number) ^ 1
  return flipped
}

t.test('entries are put into blocks without losing one, in the order in which they came', async (t) => {
  const arrays = [new Uint32Array(400), new Uint32Array(0), new Uint32Array(40)]
  let sequence = 0
  for (const array of arrays) {
    for (let at = 0; at < array.length; at += 4)
      putEntry(array, at, Math.imul(++sequence, 0x9e3779b1) >>> 0, 0, sequence, 0)
  }
  const { words, starts } = toBlocks(arrays, 8, (high) => high >>> 29)
  t.equal(starts[8], 110)
  const all: number[] = []
  for (let block = 0; block < 8; block++) {
    const own = words.subarray((starts[block] as number) * 4, (starts[block + 1] as number) * 4)
    let last = 0
    for (let at = 0; at < own.length; at += 4) {
      t.equal((own[at] as number) >>> 29, block)
      const own3 = (own[at + 3] as number) >>> 8
      t.ok(own3 > last)
      last = own3
      all.push(own3)
    }
  }
  t.strictSame(
    all.sort((a, b) => a - b),
    Array.from({ length: 110 }, (_, i) => i + 1),
  )
})

/** Random fingerprints whose first bits are the number of a partition. */
function fingerprintsOf(count: number, { partition = 0, partitionBits = 0 } = {}): Uint32Array {
  const fingerprints = randomFillSync(new Uint32Array(count * 2))
  for (let at = 0; at < fingerprints.length; at += 2) {
    const high = fingerprints[at] as number
    fingerprints[at] = partition * 2 ** (32 - partitionBits) + Math.floor(high / 2 ** partitionBits)
  }
  return fingerprints
}

/** Entries with these fingerprints. */
function entriesOf(fingerprints: Uint32Array): Uint32Array {
  const entries = new Uint32Array(fingerprints.length * 2)
  for (let i = 0; i < fingerprints.length; i += 2) entries.set(fingerprints.subarray(i, i + 2), i * 2)
  return entries
}

const queriesOf = (fingerprints: Uint32Array) => makeQueries(fingerprints, fingerprints.length / 2)

t.test('a filter has no false negatives, and few false positives', async (t) => {
  const environment = await openEnvironment(t.testdir())
  const table = environment.table('filters')
  const count = 229_376
  const levels = [
    { level: 0, bytesPerId: 2.33, passing: 0.000015 },
    { level: 1, bytesPerId: 1.75, passing: 0.00025 },
    { level: 2, bytesPerId: 1.46, passing: 0.001 },
    { level: 3, bytesPerId: 1.46, passing: 0.001 },
  ]
  for (const { level, bytesPerId, passing } of levels) {
    const partitionBits = level * mergeWidthBits
    const run = { id: level, nonce: 4, level, blockBits: defaultBlockBits(level), count: count << partitionBits }
    // far from the average, as the last of many partitions may be
    for (const [partition, own] of [
      [0, count],
      [2 ** partitionBits - 1, count + 1500],
    ] as const) {
      const ids = fingerprintsOf(own, { partition, partitionBits })
      environment.write(() => putFilter(table, run, partition, [entriesOf(ids)]))
      environment.root.resetReadTxn()
      const filter = openFilter(table, run)
      t.equal(filter.select(queriesOf(ids)).length, own, 'each id may be in the run')
      t.ok(filter.memoryBytes() < own * bytesPerId, `${filter.memoryBytes() / own} bytes an id`)
      const others = fingerprintsOf(1_000_000, { partition, partitionBits })
      const passed = filter.select(queriesOf(others)).length
      // five deviations
      t.ok(passed < 1e6 * passing + 5 * Math.sqrt(1e6 * passing), `${passed} of a million by chance`)
    }
  }
  await environment.close()
})

t.test('a filter is built for few ids, the same ids, and more than it is made for', async (t) => {
  const environment = await openEnvironment(t.testdir())
  const table = environment.table('filters')
  const others = fingerprintsOf(100_000)
  const select = (run: Run, ids: Uint32Array) => {
    environment.write(() => putFilter(table, run, 0, [entriesOf(ids.subarray(0, 2)), entriesOf(ids.subarray(2))]))
    environment.root.resetReadTxn()
    const filter = openFilter(table, run)
    t.equal(filter.select(queriesOf(ids)).length, ids.length / 2, 'each id may be in the run')
    return filter.select(queriesOf(others)).length
  }
  const run = { id: 1, nonce: 2, level: 0, blockBits: 4, count: 0 }
  for (let count = 1; count < 3000; count = Math.ceil(count * 1.2)) {
    t.ok(select({ ...run, count }, fingerprintsOf(count)) < 20, `${count} ids`)
  }
  const ids = fingerprintsOf(500)
  const twice = new Uint32Array(2000)
  twice.set(ids)
  twice.set(ids, 1000)
  t.ok(select({ ...run, count: 1000 }, twice) < 20, 'each id twice')
  t.equal(select({ ...run, count: 500 }, fingerprintsOf(5000)), 100_000, 'everything may be in a run without a filter')
  await environment.close()
})

t.test(
  'a filter is read when it is used first; one that is damaged, missing or of another size is damage',
  async (t) => {
    const environment = await openEnvironment(t.testdir())
    const table = environment.table('filters')
    const run = { id: 3, nonce: 4, level: 1, blockBits: defaultBlockBits(1), count: 8 * 1000 }
    const [first, second] = [0, 1].map((partition) => fingerprintsOf(1000, { partition, partitionBits: 3 }))
    const put = (key: Buffer, value: Buffer) => {
      environment.write(() => void table.put(key, value))
      environment.root.resetReadTxn()
    }
    environment.write(() => putFilter(table, run, 0, [entriesOf(first as Uint32Array)]))
    environment.root.resetReadTxn()
    const filter = openFilter(table, run)
    t.equal(filter.memoryBytes(), 0)
    const unread = queriesOf(fingerprintsOf(1000, { partition: 0, partitionBits: 3 }))
    t.equal(filter.select(unread, 0).length, 1000, 'all may be in it while it may not be read')
    t.ok(filter.select(unread).length < 20)
    const { length } = table.getBinary(partKey(3, 0)) as Buffer
    t.ok(filter.memoryBytes() > length - 16 && filter.memoryBytes() < length)
    t.throws(() => filter.select(queriesOf(second as Uint32Array)), DamagedRun, 'it is missing')
    t.throws(() => filter.readAll(Number.POSITIVE_INFINITY), DamagedRun, 'it is missing')
    environment.write(() => {
      for (let partition = 1; partition < 8; partition++) putFilter(table, run, partition, [])
    })
    environment.root.resetReadTxn()
    t.equal(filter.readAll(0), false)
    t.equal(filter.readAll(Number.POSITIVE_INFINITY), true)
    t.equal(filter.readAll(0), true)
    const bytes = Buffer.from(table.getBinary(partKey(3, 0)) as Buffer)
    for (const at of [0, 4, 5, length - 1]) {
      put(partKey(3, 0), flip(bytes, at))
      t.throws(() => openFilter(table, run).select(unread), DamagedRun)
    }
    put(partKey(3, 0), bytes)
    t.throws(() => openFilter(table, { ...run, count: 16_000 }).select(unread), DamagedRun)
    t.ok(openFilter(table, run).select(unread).length < 20)
    await environment.close()
  },
)

t.test('a list is read as it was written, with its revision beside it', async (t) => {
  const tables = openIdTables(await openEnvironment(t.testdir()))
  t.equal(readRunList(tables), undefined)
  t.equal(readRevision(tables), 0)
  const list = {
    ...emptyRunList('seed'),
    revision: 4,
    watermark: 2 ** 40,
    runs: [{ id: 1, nonce: 2, level: 0, blockBits: 10, count: 5 }],
  }
  tables.environment.root.transactionSync(() => writeRunList(tables, list))
  t.strictSame(readRunList(tables), list)
  t.equal(readRevision(tables), 4)
  await tables.environment.close()
})

t.test('a list with a flipped bit is damage', async (t) => {
  const tables = openIdTables(await openEnvironment(t.testdir()))
  const runs = [1, 2].map((id) => ({ id, nonce: 2, level: 0, blockBits: 10, count: 5 }))
  const list = { ...emptyRunList('seed'), revision: 4, watermark: 9, runs }
  const change = (work: () => unknown) => {
    tables.environment.write(() => void work())
    tables.environment.root.resetReadTxn()
  }
  change(() => writeRunList(tables, list))
  const key = Buffer.from('list')
  const bytes = Buffer.from(tables.meta.getBinary(key) as Buffer)
  for (let at = 0; at < bytes.length; at++) {
    const flipped = Buffer.from(bytes)
    flipped.writeUInt8(flipped.readUInt8(at) ^ (1 << (at & 7)), at)
    change(() => tables.meta.put(key, flipped))
    t.throws(() => readRunList(tables), DamagedRun, flipped.toString())
  }
  await tables.environment.close()
})

t.test('one worker at a time has the claim', async (t) => {
  const tables = openIdTables(await openEnvironment(t.testdir()))
  let now = 1_000_000
  const clock = () => now
  const [one, other] = [createClaim(tables, clock), createClaim(tables, clock)]
  const hold = (claim: typeof one) => tables.environment.root.transactionSync(() => claim.acquire())
  const release = (claim: typeof one) => tables.environment.root.transactionSync(() => claim.release())
  t.equal(hold(one), 'acquired')
  t.equal(hold(other), 'busy', 'another worker has it')
  t.equal(hold(one), 'renewed', 'its holder renews it')
  release(other)
  t.equal(hold(other), 'busy', 'only its holder releases it')
  now += 9_000
  t.equal(hold(one), 'renewed')
  now += 9_000
  t.equal(hold(other), 'busy', 'it was renewed')
  now += 9_000
  t.equal(hold(one), 'renewed', 'it expired, and no other worker acquired it')
  release(one)
  t.equal(hold(other), 'acquired', 'it was released')
  release(other)
  t.equal(hold(one), 'acquired', 'another worker had it in the meantime')
  now += 10_001
  t.equal(hold(other), 'acquired', 'it expired')
  now -= 3_600_000
  t.equal(hold(one), 'acquired', 'a clock that was set back does not extend it')
  await tables.environment.close()
})

t.test('the claim of a process that has ended is free at once', async (t) => {
  const tables = openIdTables(await openEnvironment(t.testdir()))
  const { pid } = spawnSync(process.execPath, ['--version'])
  tables.environment.root.transactionSync(() => {
    const bytes = Buffer.alloc(24)
    bytes.writeDoubleLE(7, 0)
    bytes.writeDoubleLE(pid, 8)
    bytes.writeDoubleLE(Date.now() + 9000, 16)
    tables.meta.put(Buffer.from('claim'), bytes)
  })
  const claim = createClaim(tables)
  t.equal(
    tables.environment.root.transactionSync(() => claim.acquire()),
    'acquired',
  )
  await tables.environment.close()
})
