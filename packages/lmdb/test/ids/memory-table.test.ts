import { randomUUID } from 'node:crypto'
import { hashId } from '@ingest/core/internal'
import t from 'tap'
import { type Candidate, isEmptyAt, positionAt, putEntry } from '../../src/ids/entry.ts'
import { fingerprint } from '../../src/ids/fingerprint.ts'
import { createMemoryTable, type MemoryTable } from '../../src/ids/memory-table.ts'

const hashKey = Buffer.alloc(16, 'key')

function fingerprintOf(project: number, eventId: string, key = hashKey): string {
  const into = new Uint32Array(2)
  fingerprint(project, ...hashId(key, eventId), into, 0)
  return into.join('-')
}

t.test('the same event has the same fingerprint, another event, project or store another one', async (t) => {
  const one = fingerprintOf(1, 'e-1')
  t.equal(fingerprintOf(1, 'e-1'), one)
  for (const other of [
    fingerprintOf(1, 'e-1', Buffer.alloc(16, 'kez')),
    fingerprintOf(2, 'e-1'),
    fingerprintOf(1, 'e-2'),
    fingerprintOf(1, 'e-11'),
    fingerprintOf(1, '1-e'),
    fingerprintOf(1, 'e-\u0131'),
  ]) {
    t.not(other, one)
  }
})

t.test('the fingerprints of one id spread evenly over projects', async (t) => {
  const byHigh = new Uint32Array(16)
  const byLow = new Uint32Array(16)
  const into = new Uint32Array(2)
  for (let project = 1; project <= 4096; project++) {
    fingerprint(project, 0, 0, into, 0)
    const [high = 0, low = 0] = into
    byHigh[high >>> 28] = (byHigh[high >>> 28] ?? 0) + 1
    byLow[low & 15] = (byLow[low & 15] ?? 0) + 1
  }
  // 256 in a bucket on average, with a deviation of 16
  for (const buckets of [byHigh, byLow]) t.ok(buckets.every((n) => n > 256 - 112 && n < 256 + 112))
})

t.test('similar ids spread as evenly as random ones', async (t) => {
  const count = 1 << 16
  const families: Record<string, (i: number) => string> = {
    counted: (i) => String(i),
    'counted with zeros': (i) => String(i).padStart(200, '0'),
    'counted at the front': (i) => `${i}-abcdefghijkl`,
    random: () => randomUUID(),
  }
  for (const [family, idOf] of Object.entries(families)) {
    const into = new Uint32Array(2)
    const seen = new Set<string>()
    const byHigh = new Uint32Array(256)
    const byLow = new Uint32Array(256)
    for (let i = 0; i < count; i++) {
      fingerprint(1, ...hashId(hashKey, idOf(i)), into, 0)
      const [high = 0, low = 0] = into
      seen.add(`${high}-${low}`)
      byHigh[high >>> 24] = (byHigh[high >>> 24] ?? 0) + 1
      byLow[low & 255] = (byLow[low & 255] ?? 0) + 1
    }
    t.equal(seen.size, count, `${family}: no two of ${count} collide`)
    // 256 in a bucket on average, with a deviation of 16: seven deviations are not chance
    for (const buckets of [byHigh, byLow]) {
      t.ok(
        buckets.every((n) => n > 256 - 112 && n < 256 + 112),
        `${family}: even buckets`,
      )
    }
  }
})

t.test('an entry is read as it was written, at every size of its numbers', async (t) => {
  const words = new Uint32Array(12)
  for (const sequence of [1, 2 ** 24 - 1, 2 ** 24, 2 ** 32, 2 ** 40 + 5, Number.MAX_SAFE_INTEGER]) {
    for (const index of [0, 99, 255]) {
      putEntry(words, 4, 0xffffffff, 7, sequence, index)
      t.same([...words.subarray(4, 6)], [0xffffffff, 7])
      t.same(positionAt(words, 4), { sequence, index })
      t.equal(isEmptyAt(words, 4), false)
    }
  }
  t.equal(isEmptyAt(words, 0), true)
  t.equal(isEmptyAt(words, 8), true)
})

function search(table: MemoryTable, high: number, low: number): Candidate[] {
  const found: Candidate[] = []
  table.search(Uint32Array.of(high, low), 1, found)
  return found
}

t.test('each entry is found, up to the capacity, and nothing else is', async (t) => {
  const table = createMemoryTable(1000)
  const fingerprint = (i: number) => [Math.imul(i, 0x9e3779b1) >>> 0, Math.imul(i, 0x85ebca6b) >>> 0] as const
  for (let i = 1; i <= 1000; i++) table.add(...fingerprint(i), i, i % 100)
  t.equal(table.count(), 1000)
  t.equal(table.lastSequence(), 1000)
  for (let i = 1; i <= 1000; i++) {
    t.strictSame(search(table, ...fingerprint(i)), [{ queryIndex: 0, position: { sequence: i, index: i % 100 } }])
  }
  for (let i = 1001; i <= 2000; i++) t.strictSame(search(table, ...fingerprint(i)), [])
})

t.test('entries with one fingerprint are all found, and those that only share a half are not', async (t) => {
  const table = createMemoryTable(10)
  table.add(1, 2, 1, 0)
  table.add(1, 2, 2, 0)
  table.add(3, 2, 3, 0)
  table.add(1, 4, 4, 0)
  t.strictSame(
    search(table, 1, 2).map(({ position }) => position.sequence),
    [1, 2],
  )
  t.strictSame(search(table, 4, 2), [])
})

t.test('a query has several fingerprints, and each candidate says for which it is', async (t) => {
  const table = createMemoryTable(10)
  table.add(0, 0, 5, 0)
  const found: Candidate[] = []
  table.search(Uint32Array.of(9, 9, 0, 0, 9, 9, 0, 0), 3, found)
  t.strictSame(found, [{ queryIndex: 1, position: { sequence: 5, index: 0 } }])
})

t.test('a rollback restores the table to the last checkpoint', async (t) => {
  const table = createMemoryTable(1000)
  // all with the same slot, so that each is probed past the one before it
  for (let i = 1; i <= 50; i++) table.add(i, 7, i, 0)
  table.checkpoint()
  for (let i = 51; i <= 100; i++) table.add(i, 7, i, 0)
  table.rollback()
  t.equal(table.count(), 50)
  t.equal(table.lastSequence(), 50)
  for (let i = 1; i <= 100; i++) t.equal(search(table, i, 7).length, i <= 50 ? 1 : 0)
  table.rollback()
  t.equal(table.count(), 50, 'a second rollback has no effect')
  table.add(51, 7, 51, 0)
  t.strictSame(search(table, 51, 7), [{ queryIndex: 0, position: { sequence: 51, index: 0 } }])
})

t.test('a table that was cleared in steps is like a new one', async (t) => {
  const table = createMemoryTable(1000)
  const fill = (first: number) => {
    for (let i = 0; i < 1000; i++) table.add(first + i, Math.imul(first + i, 0x9e3779b1) >>> 0, first + i, 0)
  }
  for (const first of [1, 1001]) {
    fill(first)
    table.checkpoint()
    let steps = 1
    while (!table.clear(300)) steps++
    t.equal(steps, Math.ceil(2048 / 300), 'each step clears so many slots')
    t.equal(table.count(), 0)
    t.equal(table.lastSequence(), 0)
    const left = Array.from({ length: 1000 }, (_, i) =>
      search(table, first + i, Math.imul(first + i, 0x9e3779b1) >>> 0),
    )
    t.strictSame(left.flat(), [], 'no entry is left')
  }
  table.add(1, 2, 3, 4)
  table.rollback()
  t.equal(table.count(), 0, 'a rollback returns to the empty table')
  t.equal(table.lastSequence(), 0)
})
