import t from 'tap'
import type { Candidate } from '../../src/ids/entry.ts'
import { createRecentTable, type RecentTable } from '../../src/ids/recent-table.ts'

function search(table: RecentTable, high: number, low: number): Candidate[] {
  const found: Candidate[] = []
  table.search(Uint32Array.of(high, low), 1, found)
  return found
}

t.test('each entry is found, up to the last for which there is room, and nothing else is', async (t) => {
  const table = createRecentTable(1000)
  const fingerprint = (i: number) => [Math.imul(i, 0x9e3779b1) >>> 0, Math.imul(i, 0x85ebca6b) >>> 0] as const
  for (let i = 1; i <= 1000; i++) table.add(...fingerprint(i), i, i % 100)
  t.equal(table.count(), 1000)
  t.equal(table.lastSequence(), 1000)
  for (let i = 1; i <= 1000; i++) {
    t.strictSame(search(table, ...fingerprint(i)), [{ of: 0, position: { sequence: i, index: i % 100 } }])
  }
  for (let i = 1001; i <= 2000; i++) t.strictSame(search(table, ...fingerprint(i)), [])
})

t.test('entries with one fingerprint are all found, and those that only share a half are not', async (t) => {
  const table = createRecentTable(10)
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

t.test('several are asked for at once, and each answer says which it is for', async (t) => {
  const table = createRecentTable(10)
  table.add(0, 0, 5, 0)
  const found: Candidate[] = []
  table.search(Uint32Array.of(9, 9, 0, 0, 9, 9, 0, 0), 3, found)
  t.strictSame(found, [{ of: 1, position: { sequence: 5, index: 0 } }])
})

t.test('entries that are undone leave the table as it was when it was kept', async (t) => {
  const table = createRecentTable(1000)
  // all in one place, so that each stands behind the one before it
  for (let i = 1; i <= 50; i++) table.add(i, 7, i, 0)
  table.checkpoint()
  for (let i = 51; i <= 100; i++) table.add(i, 7, i, 0)
  table.rollback()
  t.equal(table.count(), 50)
  t.equal(table.lastSequence(), 50)
  for (let i = 1; i <= 100; i++) t.equal(search(table, i, 7).length, i <= 50 ? 1 : 0)
  table.rollback()
  t.equal(table.count(), 50, 'nothing more is undone')
  table.add(51, 7, 51, 0)
  t.strictSame(search(table, 51, 7), [{ of: 0, position: { sequence: 51, index: 0 } }])
})
