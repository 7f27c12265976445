import { spawnSync } from 'node:child_process'
import {
  copyFileSync,
  cpSync,
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
import { dirname, join } from 'node:path'
import { createIngest } from '@ingest/core'
import t from 'tap'
import { checkDataFile, pageSize } from '../../src/environment/data-file.ts'
import { openLmdbStore } from '../../src/open-lmdb-store.ts'
import { builtStore } from '../built-store.ts'
import { manifestOf, openMapParts } from '../map-parts.ts'
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

const whole = await filledStore(t.testdir())

/**
 * Opens stores one after another in a process of its own, because LMDB crashes on files that it cannot open. Returns their
 * error codes; `undefined` for a store that opens.
 */
function openEach(directories: readonly string[]): (string | undefined)[] {
  const program = `
    const { openLmdbStore } = await import('${builtStore}')
    const codes = []
    for (const directory of ${JSON.stringify(directories)}) {
      codes.push(await openLmdbStore(directory).then((store) => store.close(), ({ code }) => code))
    }
    console.log(JSON.stringify(codes.map((code) => code ?? null)))`
  const args = ['--input-type=module', '-e', program]
  const { stdout, stderr, status, signal } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000 })
  if (status !== 0) throw new Error(`the process ended with ${signal ?? status}: ${stderr}`)
  return JSON.parse(stdout).map((code: string | null) => code ?? undefined)
}

t.test('a missing or empty file is a new one', async (t) => {
  const directory = t.testdir({ 'data.mdb': '' })
  t.equal(checkDataFile(join(directory, 'data.mdb')), false)
  t.equal(checkDataFile(join(directory, 'other.mdb')), false)
})

t.test('a file whose creation a power loss interrupted is a new one, and nothing is lost', async (t) => {
  t.testdir()
  const store = join(t.testdirName, 'store')
  await filledStore(store)
  // the gate is never written to, so it is as LMDB creates it
  const created = readFileSync(join(store, 'events', 'gate', 'data.mdb'))
  const zeros = Buffer.alloc(pageSize)
  const [first, second] = [created.subarray(0, pageSize), created.subarray(pageSize)]
  const cuts = { none: [zeros, zeros], first: [first, zeros], second: [zeros, second], one: [first], zeros: [zeros] }
  for (const name of ['events', 'chunks']) {
    for (const [cut, pages] of Object.entries(cuts)) {
      const directory = join(t.testdirName, `${name} ${cut}`)
      const path = join(directory, name, 'data.mdb')
      if (name === 'chunks') cpSync(store, directory, { recursive: true })
      else mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, Buffer.concat(pages))
      t.equal(checkDataFile(path), false)
      const ingest = createIngest({ store: await openLmdbStore(directory) })
      const project = ingest.project('p')
      t.equal((await project.getStats()).events, name === 'chunks' ? 500 : 0, `${name}: ${cut}`)
      t.match(await project.publishMap({ placeId: '1', buildId: 'b', map: 1 }), { state: 'complete' })
      await ingest.close()
      t.equal(checkDataFile(path), true)
    }
  }
  const path = join(store, 'events', 'data.mdb')
  writeFileSync(path, Buffer.concat([zeros, zeros]))
  await t.rejects(openLmdbStore(store), { code: 'store-incompatible' }, 'of a store with other files')
  t.same(readFileSync(path), Buffer.concat([zeros, zeros]))
})

t.test('the file of a store passes, even after many transactions', async (t) => {
  t.equal(checkDataFile(whole), true)
})

const damages: Record<string, (path: string) => void> = {
  zeroed: (path) => writeFileSync(path, Buffer.alloc(statSync(path).size)),
  'cut in its header': (path) => truncateSync(path, 4100),
  'cut to its half': (path) => truncateSync(path, Math.floor(statSync(path).size / 2)),
  foreign: (path) => writeFileSync(path, 'SQLite format 3\0'.repeat(1000)),
  'short, with text after zeros': (path) =>
    writeFileSync(path, Buffer.concat([Buffer.alloc(200), Buffer.from('text')])),
  'short, with text after the header of a new file': (path) => {
    const created = readFileSync(join(dirname(whole), 'gate', 'data.mdb'))
    writeFileSync(path, Buffer.concat([created.subarray(0, 200), Buffer.from('text')]))
  },
  'cut to its first page': (path) => truncateSync(path, pageSize),
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

t.test('a damaged data file is refused without a crash, and is not changed', async (t) => {
  t.testdir()
  const stores = Object.entries(damages).map(([damage, apply]) => {
    const directory = join(t.testdirName, damage)
    const path = join(directory, 'events', 'data.mdb')
    mkdirSync(join(directory, 'events'), { recursive: true })
    copyFileSync(whole, path)
    apply(path)
    return { damage, directory, path, before: contentOf(path) }
  })
  const codes = openEach(stores.map(({ directory }) => directory))
  for (const [i, { damage, path, before }] of stores.entries()) {
    t.equal(codes[i], 'store-incompatible', damage)
    t.throws(() => checkDataFile(path), { code: 'store-incompatible', message: path }, damage)
    t.same(contentOf(path), before, damage)
  }
})

function contentOf(path: string): Buffer | undefined {
  return statSync(path).isFile() ? readFileSync(path) : undefined
}

const replacements: Record<string, (environment: string) => unknown> = {
  'data.mdb is a FIFO': (environment) =>
    replaceBy(join(environment, 'data.mdb'), (path) => spawnSync('mkfifo', [path])),
  'data.mdb is a loop of links': (environment) =>
    replaceBy(join(environment, 'data.mdb'), (path) => symlinkSync(path, path)),
  'lock.mdb is a FIFO': (environment) =>
    replaceBy(join(environment, 'lock.mdb'), (path) => spawnSync('mkfifo', [path])),
  'lock.mdb is a directory': (environment) => replaceBy(join(environment, 'lock.mdb'), (path) => mkdirSync(path)),
  'lock.mdb is a loop of links': (environment) =>
    replaceBy(join(environment, 'lock.mdb'), (path) => symlinkSync(path, path)),
}

function replaceBy(path: string, make: (path: string) => unknown): void {
  rmSync(path)
  make(path)
}

t.test(
  'a store is refused without a crash when a file is a FIFO, a link or a directory',
  { skip: notPosix },
  async (t) => {
    t.testdir()
    const stores = Object.entries(replacements).flatMap(([what, replace]) =>
      ['events', 'ids', 'chunks'].map((name) => {
        const directory = join(t.testdirName, `${what}, ${name}`)
        cpSync(dirname(dirname(whole)), directory, { recursive: true })
        replace(join(directory, name))
        return { what, directory, name, before: readdirSync(join(directory, name)) }
      }),
    )
    const codes = openEach(stores.map(({ directory }) => directory))
    for (const [i, { what, directory, name, before }] of stores.entries()) {
      // ids/ is derived from the log, and rebuilt
      t.equal(codes[i], name === 'ids' ? undefined : 'store-incompatible', `${name}/${what}`)
      if (name !== 'ids') t.strictSame(readdirSync(join(directory, name)), before)
    }
  },
)

t.test('a process that may open too few files is refused with `overloaded`', { skip: notPosix }, async (t) => {
  const directory = join(t.testdir(), 'data')
  cpSync(dirname(dirname(whole)), directory, { recursive: true })
  const program = `
    import { closeSync, openSync } from 'node:fs'
    const { openLmdbStore } = await import('${builtStore}')
    const open = []
    try { for (;;) open.push(openSync('/dev/null')) } catch {}
    // from no free descriptor to more than enough
    const codes = []
    for (let opened = 0; opened < 5 && open.length > 0; ) {
      await openLmdbStore('${directory}').then(
        async (store) => {
          opened++
          await store.close()
        },
        ({ code }) => codes.push(code),
      )
      closeSync(open.pop())
    }
    console.log([...new Set(codes)].join(), open.length > 0)`
  const command = 'ulimit -n 200; exec "$0" --input-type=module -e "$1"'
  const { status, signal, stdout } = spawnSync('sh', ['-c', command, process.execPath, program], {
    encoding: 'utf8',
    env: { ...process.env, NODE_OPTIONS: '' },
  })
  t.strictSame({ status, signal }, { status: 0, signal: null })
  t.equal(stdout, 'overloaded true\n')
})

const noLimit = spawnSync('prlimit', ['--version']).status !== 0 && 'prlimit(1) is not installed'

t.test('a file size limit is a full disk, until it is raised', { skip: noLimit }, async (t) => {
  const directory = join(t.testdir(), 'data')
  const program = `
    import { execFileSync } from 'node:child_process'
    import { statSync } from 'node:fs'
    import { createIngest } from '@ingest/core'
    const { openLmdbStore } = await import('${builtStore}')
    const limit = (bytes) => execFileSync('prlimit', ['--fsize=' + bytes + ':', '--pid', process.pid])
    const codeOf = (promise) => promise.then(() => 'ok', ({ code }) => code)
    const said = [await codeOf(openLmdbStore('${directory}'))]
    limit('unlimited')
    const store = await openLmdbStore('${directory}', { onFatal: ({ code }) => said.push('fatal ' + code) })
    const project = createIngest({ store }).project('p')
    let sent = 0
    const submit = () => codeOf(project.submitBatch({ events: [{ projectId: 'p', eventId: 'e-' + sent++, x: 'x'.repeat(9000) }] }))
    said.push(await submit())
    limit(statSync('${directory}/events/data.mdb').size + 65_536)
    let code = 'ok'
    while (code === 'ok') code = await submit()
    said.push(code, await submit(), await codeOf(store.check()))
    limit('unlimited')
    said.push(await codeOf(store.check()), await submit())
    const { events } = await project.getStats()
    said.push(sent - events)
    await store.close()
    console.log(said.join())`
  // blocks of 512 or 1024 bytes
  const command = 'ulimit -S -f 8; exec "$0" --input-type=module -e "$1"'
  const { status, signal, stdout, stderr } = spawnSync('sh', ['-c', command, process.execPath, program], {
    encoding: 'utf8',
    env: { ...process.env, NODE_OPTIONS: '' },
    cwd: import.meta.dirname,
  })
  t.strictSame({ status, signal, stderr }, { status: 0, signal: null, stderr: '' })
  t.equal(stdout, 'disk-full,ok,disk-full,disk-full,disk-full,ok,ok,2\n')
})

t.test('on a full disk, a store opens only if it has its lock files', { skip: noMount }, async (t) => {
  const directory = t.testdir({ disk: {} })
  const disk = join(directory, 'disk')
  spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', disk])
  try {
    const data = join(disk, 'data')
    await filledStore(data)
    const fill = (name: string) => spawnSync('dd', ['if=/dev/zero', `of=${join(disk, name)}`, 'bs=4096'])
    fill('filler')
    const child = await startStoreProcess(data)
    // the first batches may take free pages of the file
    const submitMany = async () => {
      for (let i = 0; i < 1_000; i++) await child.submit([`new-${i}`])
    }
    await t.rejects(submitMany(), { code: 'disk-full' })
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

t.test('a store on a read-only file system says so', { skip: noMount }, async (t) => {
  const disk = t.testdir()
  spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', disk])
  try {
    await filledStore(join(disk, 'data'))
    spawnSync('mount', ['-o', 'remount,ro', disk])
    const message = /: its file system is read-only\. Remount it for writing/
    await t.rejects(openLmdbStore(join(disk, 'data')), { code: 'permission-denied', message })
    await t.rejects(openLmdbStore(join(disk, 'new')), { code: 'permission-denied', message })
  } finally {
    spawnSync('umount', [disk])
  }
})

t.test('a file that lacks free pages at its end is whole', async (t) => {
  for (let round = 0; round < 12; round++) {
    const directory = t.testdir()
    const path = join(directory, 'events', 'data.mdb')
    const { maps, environment, close } = await openMapParts(directory)
    const id = { placeId: '1', buildId: 'b' }
    const record = (...texts: string[]) =>
      environment.write(() => {
        maps.put(1, id, maps.find(1, id), { pending: { manifest: manifestOf(texts), touchedAt: 1 } })
      })
    record(...Array.from({ length: 1_100 + round * 37 }, (_, i) => `${round} ${i}`))
    record('new')
    // some of these transactions take pages at the end of the file and give them back, which LMDB does not write
    while (environment.write(() => maps.releaseChunks()) && !isShort(path));
    const found = isShort(path)
    await close()
    if (!found) continue
    t.equal(checkDataFile(path), true)
    const parts = await openMapParts(directory)
    t.match(parts.maps.find(1, id).contents.pending?.manifest, manifestOf(['new']))
    await parts.close()
    return
  }
  t.fail('no file was short')
})

function isShort(path: string): boolean {
  const bytes = readFileSync(path)
  const lastPages = [0, 1].map((meta) => Number(bytes.readBigUInt64LE(meta * pageSize + 144)))
  return bytes.length < (Math.max(...lastPages) + 1) * pageSize
}
