import { randomFillSync } from 'node:crypto'
import t from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import { putEntry } from '../../src/ids/entry.ts'
import { blockBits, blockOf, DamagedRun, getPart, mergeWidth, partKey, putPart, toBlocks } from '../../src/ids/run.ts'

t.test('a block of a level is cut into as many of the next level as runs are merged', async (t) => {
  for (let level = 0; level < 5; level++) {
    t.equal(1 << (blockBits(level + 1) - blockBits(level)), mergeWidth)
    for (const high of [0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x12345678]) {
      t.equal(Math.floor(blockOf(high, level + 1) / mergeWidth), blockOf(high, level))
      t.ok(blockOf(high, level) < 2 ** blockBits(level))
    }
  }
})

t.test('a part is read as it was written; a flipped bit, a cut one and a missing one are damage', async (t) => {
  const environment = openEnvironment(t.testdir())
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
  await environment.root.close()
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
