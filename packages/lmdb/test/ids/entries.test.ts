import { randomFillSync, randomUUID } from 'node:crypto'
import { hashId } from '@ingest/core/internal'
import t from 'tap'
import { openEnvironment, type Table } from '../../src/environment/environment.ts'
import { type Candidate, isEmptyAt, positionAt, putEntry } from '../../src/ids/entry.ts'
import { fingerprint } from '../../src/ids/fingerprint.ts'
import { makeQueries, openFilter, putFilter } from '../../src/ids/fuse-filter.ts'
import { createMemoryTable, type MemoryTable } from '../../src/ids/memory-table.ts'
import {
  DamagedRun,
  defaultBlockBits,
  entriesPerFlush,
  flushBlockBits,
  getPart,
  mergeWidthBits,
  partKey,
  putPart,
  type Run,
} from '../../src/ids/run.ts'

const hashKey = Buffer.alloc(16, 'key')

function fingerprintOf(project: number, eventId: string, key = hashKey): string {
  const into = new Uint32Array(2)
  fingerprint(project, ...hashId(key, eventId), into, 0)
  return into.join('-')
}

t.test('the same event has the same fingerprint, another event, project or store another one', async (t) => {
  const one = fingerprintOf(1, 'e-1')
  t.equal(fingerprintOf(1, 'e-1'), one)
  const others = [
    fingerprintOf(1, 'e-1', Buffer.alloc(16, 'kez')),
    fingerprintOf(2, 'e-1'),
    ...['e-2', 'e-11', '1-e', 'e-\u0131'].map((eventId) => fingerprintOf(1, eventId)),
  ]
  t.notOk(others.includes(one))
})

t.test(
  'the fingerprints of similar ids, and of one id in many projects, spread as evenly as random ones',
  async (t) => {
    const count = 1 << 16
    const families: Record<string, (i: number) => [project: number, eventId: string]> = {
      counted: (i) => [1, String(i)],
      'counted with zeros': (i) => [1, String(i).padStart(200, '0')],
      'counted at the front': (i) => [1, `${i}-abcdefghijkl`],
      random: () => [1, randomUUID()],
      'one id': (i) => [i + 1, 'e'],
    }
    for (const [family, idOf] of Object.entries(families)) {
      const into = new Uint32Array(2)
      const seen = new Set<string>()
      const byHigh = new Uint32Array(256)
      const byLow = new Uint32Array(256)
      for (let i = 0; i < count; i++) {
        const [project, eventId] = idOf(i)
        fingerprint(project, ...hashId(hashKey, eventId), into, 0)
        const [high = 0, low = 0] = into
        seen.add(`${high}-${low}`)
        byHigh[high >>> 24] = (byHigh[high >>> 24] ?? 0) + 1
        byLow[low & 255] = (byLow[low & 255] ?? 0) + 1
      }
      t.equal(seen.size, count, `${family}: no two of ${count} collide`)
      // 256 in a bucket on average, with a deviation of 16: seven deviations are not chance
      const isEven = (n: number) => n > 256 - 112 && n < 256 + 112
      t.ok(byHigh.every(isEven) && byLow.every(isEven), `${family}: even buckets`)
    }
  },
)

t.test('an entry is read as it was written, at every size of its numbers', async (t) => {
  const words = new Uint32Array(12)
  for (const sequence of [1, 2 ** 24 - 1, 2 ** 24, 2 ** 32, 2 ** 40 + 5, Number.MAX_SAFE_INTEGER]) {
    for (const index of [0, 99, 255]) {
      putEntry(words, 4, 0xffffffff, 7, sequence, index)
      t.same([...words.subarray(4, 6)], [0xffffffff, 7])
      t.same(positionAt(words, 4), { sequence, index })
      t.strictSame(
        [0, 4, 8].map((at) => isEmptyAt(words, at)),
        [true, false, true],
      )
    }
  }
})

function search(table: MemoryTable, ...fingerprints: number[]): Candidate[] {
  const found: Candidate[] = []
  table.search(Uint32Array.of(...fingerprints), fingerprints.length / 2, found)
  return found
}

t.test(
  'a memory table finds each entry, up to its capacity, and nothing else, also after it was cleared',
  async (t) => {
    const table = createMemoryTable(1000)
    const fingerprint = (i: number) => [Math.imul(i, 0x9e3779b1) >>> 0, Math.imul(i, 0x85ebca6b) >>> 0] as const
    for (const first of [1, 1001]) {
      const numbers = Array.from({ length: 1000 }, (_, i) => first + i)
      for (const i of numbers) table.add(...fingerprint(i), i, i % 100)
      t.strictSame([table.count(), table.lastSequence()], [1000, first + 999])
      t.strictSame(
        search(table, ...numbers.flatMap(fingerprint)),
        numbers.map((i, queryIndex) => ({ queryIndex, position: { sequence: i, index: i % 100 } })),
      )
      t.strictSame(search(table, ...numbers.flatMap((i) => fingerprint(i + 1000))), [])
      table.checkpoint()
      table.clear()
      t.strictSame(search(table, ...numbers.flatMap(fingerprint)), [])
      table.add(1, 2, 3, 4)
      table.rollback()
      t.strictSame([table.count(), table.lastSequence()], [0, 0], 'a rollback returns to the empty table')
    }
  },
)

t.test('entries with one fingerprint are all found, and those that only share a half are not', async (t) => {
  const table = createMemoryTable(10)
  for (const [high, low, sequence] of [
    [1, 2, 1],
    [1, 2, 2],
    [3, 2, 3],
    [1, 4, 4],
  ] as const) {
    table.add(high, low, sequence, 0)
  }
  t.strictSame(
    search(table, 4, 2, 1, 2).map(({ queryIndex, position }) => [queryIndex, position.sequence]),
    [
      [1, 1],
      [1, 2],
    ],
  )
})

t.test('a rollback restores a table to the last checkpoint', async (t) => {
  const table = createMemoryTable(1000)
  // all with the same slot, so that each is probed past the one before it
  for (let i = 1; i <= 50; i++) table.add(i, 7, i, 0)
  table.checkpoint()
  for (let i = 51; i <= 100; i++) table.add(i, 7, i, 0)
  for (const time of ['first', 'second']) {
    table.rollback()
    t.strictSame([table.count(), table.lastSequence()], [50, 50], `the ${time} rollback`)
    for (let i = 1; i <= 100; i++) t.equal(search(table, i, 7).length, i <= 50 ? 1 : 0)
  }
  table.add(51, 7, 51, 0)
  t.strictSame(search(table, 51, 7), [{ queryIndex: 0, position: { sequence: 51, index: 0 } }])
})

t.test('a part is read as it was written; a flipped bit, a truncated and a missing part are damage', async (t) => {
  const environment = await openEnvironment(t.testdir())
  const table = environment.table('blocks')
  const words = randomFillSync(new Uint32Array(896))
  environment.write(() => putPart(table, 7, 9, words))
  t.strictSame(getPart(table, 7, 9), words)
  t.throws(() => getPart(table, 7, 8), DamagedRun)
  const bytes = table.getBinary(partKey(7, 9)) as Buffer
  const truncated = [bytes.subarray(0, -4), bytes.subarray(0, -1), Buffer.alloc(0)]
  for (const damaged of [...truncated, flip(bytes, 0), flip(bytes, 2000)]) {
    environment.write(() => void table.put(partKey(7, 9), damaged))
    t.throws(() => getPart(table, 7, 9), DamagedRun)
  }
  await environment.close()
})

function flip(bytes: Buffer, at: number): Buffer {
  const flipped = Buffer.from(bytes)
  flipped[at] = (flipped[at] as number) ^ 1
  return flipped
}

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
const atOnce = Number.POSITIVE_INFINITY

/** A table in memory that holds only the last part that was put. */
function createPartTable(): Table {
  let part: Buffer | undefined
  const table = {
    put(_key: Buffer, value: Buffer) {
      part = value
    },
    getBinaryFast: () => part,
  }
  return table as unknown as Table
}

t.test('a filter has no false negatives, and few false positives', async (t) => {
  const table = createPartTable()
  t.equal(flushBlockBits(entriesPerFlush), 10)
  const levels = [
    { level: 0, bytesPerId: 2.33, passing: 0.000015 },
    { level: 1, bytesPerId: 1.75, passing: 0.00025 },
    { level: 2, bytesPerId: 1.46, passing: 0.001 },
  ]
  for (const { level, bytesPerId, passing } of levels) {
    const partitionBits = level * mergeWidthBits
    const partitions = 2 ** partitionBits
    const count = entriesPerFlush * partitions
    const run = { id: level, nonce: 4, level, blockBits: defaultBlockBits(level), count }
    // counts far from the average, as in the last of many partitions
    for (const [partition, own] of [
      [0, entriesPerFlush],
      [partitions - 1, entriesPerFlush + 1500],
    ] as const) {
      const ids = fingerprintsOf(own, { partition, partitionBits })
      putFilter(table, run, partition, [entriesOf(ids)])
      const filter = openFilter(table, run)
      t.equal(filter.read(atOnce), true)
      t.equal(filter.select(queriesOf(ids)).length, own, 'each id may be in the run')
      const bytes = filter.memoryBytes() / partitions
      t.ok(bytes < own * bytesPerId, `${bytes / own} bytes an id`)
      const passed = filter.select(queriesOf(fingerprintsOf(1_000_000, { partition, partitionBits }))).length
      // five deviations
      t.ok(passed < 1e6 * passing + 5 * Math.sqrt(1e6 * passing), `${passed} of a million by chance`)
    }
  }
})

t.test('a filter is built for few ids; with equal or too many ids, any id may be in the run', async (t) => {
  const table = createPartTable()
  const others = fingerprintsOf(100_000)
  const select = (count: number, ids: Uint32Array) => {
    const run = { id: 1, nonce: 2, level: 0, blockBits: 4, count }
    putFilter(table, run, 0, [entriesOf(ids.subarray(0, 2)), entriesOf(ids.subarray(2))])
    const filter = openFilter(table, run)
    filter.read(atOnce)
    t.equal(filter.select(queriesOf(ids)).length, ids.length / 2, 'each id may be in the run')
    return filter.select(queriesOf(others)).length
  }
  for (let count = 1; count < 3000; count = Math.ceil(count * 1.2)) {
    t.ok(select(count, fingerprintsOf(count)) < 20, `${count} ids`)
  }
  const ids = fingerprintsOf(500)
  t.equal(select(1000, Uint32Array.of(...ids, ...ids)), 100_000, 'each id twice')
  t.equal(select(500, fingerprintsOf(5000)), 100_000, 'more than it is made for')
})

t.test('filters are read one after another; one that is damaged, missing or of another size is damage', async (t) => {
  const environment = await openEnvironment(t.testdir())
  const table = environment.table('filters')
  const run: Run = { id: 3, nonce: 4, level: 1, blockBits: defaultBlockBits(1), count: 8 * 1000 }
  const change = (work: () => unknown) => {
    environment.write(() => void work())
    environment.root.resetReadTxn()
  }
  const none = openFilter(table, run)
  t.throws(() => none.read(atOnce), DamagedRun, 'it is missing')
  change(() => {
    for (let partition = 0; partition < 8; partition++) {
      putFilter(table, run, partition, [entriesOf(fingerprintsOf(1000, { partition, partitionBits: 3 }))])
    }
  })
  const filter = openFilter(table, run)
  const others = queriesOf(fingerprintsOf(8000))
  t.equal(filter.read(0), false)
  t.equal(filter.memoryBytes(), 0)
  t.equal(filter.select(others).length, 8000, 'all may be in the run while no filter is read')
  t.equal(filter.read(atOnce), true)
  t.equal(filter.read(0), true)
  t.ok(filter.select(others).length < 20)
  const bytes = Buffer.from(table.getBinary(partKey(3, 1)) as Buffer)
  t.ok(filter.memoryBytes() > 8 * (bytes.length - 16) && filter.memoryBytes() < 8 * bytes.length)
  for (const at of [0, 4, 5, bytes.length - 1]) {
    change(() => table.put(partKey(3, 1), flip(bytes, at)))
    t.throws(() => openFilter(table, run).read(atOnce), DamagedRun)
  }
  change(() => table.put(partKey(3, 1), bytes))
  t.throws(() => openFilter(table, { ...run, count: 16_000 }).read(atOnce), DamagedRun)
  t.equal(openFilter(table, run).read(atOnce), true)
  await environment.close()
})
