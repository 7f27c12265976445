import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createIngest } from '../../src/index.ts'
import { checkDataFile } from '../../src/lmdb/check-data-file.ts'
import { openLmdbStore } from '../../src/lmdb/open-lmdb-store.ts'
import { startStoreProcess } from './store-process.ts'

/** A store with a few hundred events, closed, and the path of its data file. */
async function filledStore(directory: string): Promise<string> {
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  for (let batch = 0; batch < 10; batch++) {
    const events = Array.from({ length: 50 }, (_, i) => ({
      projectId: 'p',
      eventId: `${batch}-${i}`,
      pad: 'x'.repeat(500),
    }))
    await ingest.submitBatch('p', { events })
  }
  await ingest.close()
  return join(directory, 'events', 'data.mdb')
}

t.test('a file that is missing or empty is a new one', async (t) => {
  const directory = t.testdir({ 'data.mdb': '' })
  t.equal(checkDataFile(join(directory, 'data.mdb')), false)
  t.equal(checkDataFile(join(directory, 'other.mdb')), false)
})

t.test('a file of ours is one to open, also after many transactions', async (t) => {
  t.equal(checkDataFile(await filledStore(t.testdir())), true)
})

const damages: Record<string, (path: string) => void> = {
  zeroed: (path) => writeFileSync(path, Buffer.alloc(statSync(path).size)),
  'cut in its header': (path) => truncateSync(path, 4100),
  'cut by one page': (path) => truncateSync(path, statSync(path).size - 4096),
  'cut to its half': (path) => truncateSync(path, Math.floor(statSync(path).size / 2)),
  foreign: (path) => writeFileSync(path, 'SQLite format 3\0'.repeat(1000)),
  'of another LMDB version': (path) => overwrite(path, [28, 4096 + 28], 1),
  'of another page size': (path) => overwrite(path, [48, 4096 + 48], 16_384),
  'a directory': (path) => {
    rmSync(path)
    mkdirSync(path)
  },
}

function overwrite(path: string, offsets: number[], value: number): void {
  const bytes = readFileSync(path)
  for (const offset of offsets) bytes.writeUInt32LE(value, offset)
  writeFileSync(path, bytes)
}

t.test('a damaged file is refused in words, by the process and not by a signal, and is left as it is', async (t) => {
  const whole = await filledStore(t.testdir())
  for (const [damage, harm] of Object.entries(damages)) {
    await t.test(damage, async (t) => {
      const directory = t.testdir({ events: {} })
      const path = join(directory, 'events', 'data.mdb')
      copyFileSync(whole, path)
      harm(path)
      const before = damage === 'a directory' ? '' : readFileSync(path)
      await t.rejects(startStoreProcess(directory), { code: 'store-incompatible' })
      await t.rejects(openLmdbStore(directory), { code: 'store-incompatible', message: path })
      t.same(damage === 'a directory' ? '' : readFileSync(path), before)
    })
  }
})

t.test('a store of another format is refused', async (t) => {
  const directory = t.testdir()
  const path = await filledStore(directory)
  const bytes = readFileSync(path)
  for (let at = bytes.indexOf('format'); at >= 0; at = bytes.indexOf('format', at + 1)) bytes[at + 'format'.length] = 9
  writeFileSync(path, bytes)
  await t.rejects(openLmdbStore(directory), { code: 'store-incompatible', message: 'format 9' })
})
