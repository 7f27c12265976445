import { spawnSync } from 'node:child_process'
import { randomFillSync } from 'node:crypto'
import t from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import { addToFilter, createFilter, getFilter, mayHave, putFilter } from '../../src/ids/bloom-filter.ts'
import { putEntry } from '../../src/ids/entry.ts'
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

function filled(count: number) {
  const filter = createFilter(count)
  const ids = randomFillSync(new Uint32Array(count * 2))
  for (let i = 0; i < count; i++) addToFilter(filter, ids[i * 2] as number, ids[i * 2 + 1] as number)
  return { filter, ids }
}

t.test('a filter has no false negatives, and about one in a hundred false positives', async (t) => {
  const count = 100_000
  const { filter, ids } = filled(count)
  t.equal(filter.length, Math.ceil((count * 10) / 512) * 16, '10 bits an id')
  let denied = 0
  for (let i = 0; i < count; i++) if (!mayHave(filter, ids[i * 2] as number, ids[i * 2 + 1] as number)) denied++
  t.equal(denied, 0)
  const others = randomFillSync(new Uint32Array(count * 2))
  let perhaps = 0
  for (let i = 0; i < count; i++) if (mayHave(filter, others[i * 2] as number, others[i * 2 + 1] as number)) perhaps++
  t.ok(perhaps < count * 0.025, `${perhaps} of ${count} by chance`)
})

t.test('an empty filter has no id', async (t) => {
  t.equal(mayHave(createFilter(0), 1, 2), false)
})

t.test('a filter is read as it was written, in several parts', async (t) => {
  const environment = await openEnvironment(t.testdir())
  const table = environment.table('filters')
  const count = 600_000
  const { filter } = filled(count)
  const run = { id: 3, nonce: 4, level: 1, blockBits: 13, count }
  environment.root.transactionSync(() => putFilter(table, run, filter))
  t.ok([...table.getKeys()].length > 1, 'it takes more than one part')
  t.ok(Buffer.from(getFilter(table, run).buffer).equals(Buffer.from(filter.buffer)))
  await environment.close()
})

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
