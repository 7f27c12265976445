import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import t from 'tap'
import { checkDataFile } from '../../src/environment/data-file.ts'
import { openLmdbStore } from '../../src/open-lmdb-store.ts'
import { builtStore } from '../built-store.ts'
import { startStoreProcess } from '../store-process.ts'

const notPosix = process.platform === 'win32' && 'Windows has no FIFOs and other limits'
const noMount = (process.platform !== 'linux' || process.getuid?.() !== 0) && 'only root of Linux mounts a disk'

/** A store with a few hundred events, closed, and the path of its data file. */
async function filledStore(directory: string): Promise<string> {
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  for (let batch = 0; batch < 10; batch++) {
    const events = Array.from({ length: 50 }, (_, i) => ({
      projectId: 'p',
      eventId: `${batch}-${i}`,
      pad: 'x'.repeat(500),
    }))
    await ingest.project('p').submitBatch({ events })
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

const harms: Record<string, (events: string) => unknown> = {
  'data.mdb is a FIFO': (events) => replaceBy(join(events, 'data.mdb'), (path) => spawnSync('mkfifo', [path])),
  'data.mdb is a loop of links': (events) => replaceBy(join(events, 'data.mdb'), (path) => symlinkSync(path, path)),
  'lock.mdb is a FIFO': (events) => replaceBy(join(events, 'lock.mdb'), (path) => spawnSync('mkfifo', [path])),
  'lock.mdb is a directory': (events) => replaceBy(join(events, 'lock.mdb'), (path) => mkdirSync(path)),
  'lock.mdb is a loop of links': (events) => replaceBy(join(events, 'lock.mdb'), (path) => symlinkSync(path, path)),
}

function replaceBy(path: string, make: (path: string) => unknown): void {
  rmSync(path)
  make(path)
}

for (const [harm, make] of Object.entries(harms)) {
  t.test(`a store is refused by its process, and not by a signal, when ${harm}`, { skip: notPosix }, async (t) => {
    for (const environment of ['events', 'ids', 'chunks']) {
      const directory = t.testdir()
      await filledStore(directory)
      make(join(directory, environment))
      const before = readdirSync(join(directory, environment))
      if (environment === 'ids') {
        // derived from the log
        await (await startStoreProcess(directory)).kill()
        continue
      }
      await t.rejects(startStoreProcess(directory), { code: 'store-incompatible' })
      t.strictSame(readdirSync(join(directory, environment)), before)
    }
  })
}

t.test('a process that may open too few files is refused the store', { skip: notPosix }, async (t) => {
  const directory = t.testdir()
  await filledStore(directory)
  const program = `
    import { closeSync, openSync } from 'node:fs'
    const { openLmdbStore } = await import('${builtStore}')
    const open = []
    try { for (;;) open.push(openSync('/dev/null')) } catch {}
    // from none that is free to more than enough
    const codes = []
    for (let free = 0; free < 100; free++) {
      await openLmdbStore('${directory}').then((store) => store.close(), ({ code }) => codes.push(code))
      closeSync(open.pop())
    }
    console.log([...new Set(codes)].join())`
  const command = 'ulimit -n 200; exec "$0" --input-type=module -e "$1"'
  const { status, signal, stdout } = spawnSync('sh', ['-c', command, process.execPath, program], {
    encoding: 'utf8',
    env: { ...process.env, NODE_OPTIONS: '' },
  })
  t.strictSame({ status, signal }, { status: 0, signal: null })
  t.equal(stdout, 'overloaded\n')
})

t.test('a full disk refuses a store without its lock file, and not a whole one', { skip: noMount }, async (t) => {
  const directory = t.testdir({ disk: {} })
  const disk = join(directory, 'disk')
  spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', disk])
  try {
    const data = join(disk, 'data')
    await filledStore(data)
    const fill = (name: string) => spawnSync('dd', ['if=/dev/zero', `of=${join(disk, name)}`, 'bs=4096'])
    fill('filler')
    const child = await startStoreProcess(data)
    await t.rejects(child.submit(['new']), { code: 'disk-full' })
    await child.kill()
    for (const environment of ['events', 'ids', 'chunks']) {
      const lock = join(data, environment, 'lock.mdb')
      renameSync(lock, `${lock}.moved`)
      fill('more')
      await t.rejects(startStoreProcess(data), { code: 'disk-full' })
      renameSync(`${lock}.moved`, lock)
    }
    await (await startStoreProcess(data)).kill()
  } finally {
    spawnSync('umount', [disk])
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
