import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  copyFileSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import { closeRoot, openRoot, readersOf } from '../../src/environment/root.ts'
import { container, noContainer, startStoreProcess } from '../store-process.ts'

const program = fileURLToPath(new URL('reading-program.js', import.meta.url))

t.test('a directory with a dot in its name is a directory', async (t) => {
  const directory = join(t.testdir(), 'v1.2')
  const { close } = await openEnvironment(directory)
  t.ok(statSync(directory).isDirectory())
  await close()
})

t.test(
  'only the owner may read the files',
  { skip: process.platform === 'win32' && 'Windows has no modes' },
  async (t) => {
    const directory = join(t.testdir(), 'events')
    const { close } = await openEnvironment(directory)
    t.equal(statSync(directory).mode & 0o777, 0o700)
    t.equal(statSync(join(directory, 'data.mdb')).mode & 0o777, 0o600)
    await close()
  },
)

t.test('a data file that is deleted or replaced under an open environment is detected', async (t) => {
  const directory = t.testdir()
  const path = join(directory, 'data.mdb')
  const { lossReason: lost, close } = await openEnvironment(directory)
  t.equal(lost(), undefined)
  renameSync(path, `${path}.moved`)
  t.match(lost(), /deleted or replaced/)
  writeFileSync(path, 'another')
  t.match(lost(), /deleted or replaced/)
  rmSync(path)
  renameSync(`${path}.moved`, path)
  t.equal(lost(), undefined)
  await close()
})

t.test(
  'a lock file that is replaced under an open environment is detected, also by a thread that opens it later',
  async (t) => {
    const directory = t.testdir()
    const path = join(directory, 'lock.mdb')
    const { lossReason: lost, fileIds: files, write, close } = await openEnvironment(directory)
    const later = await openEnvironment(directory, { fileIds: files })
    t.equal(later.lossReason(), undefined)
    copyFileSync(path, `${path}.copy`)
    renameSync(`${path}.copy`, path)
    t.match(lost(), /deleted or replaced/)
    t.match(later.lossReason(), /deleted or replaced/)
    t.throws(() => write(() => t.fail('nothing is written')), { code: 'store-failed' })
    await t.rejects(openEnvironment(directory, { fileIds: files }), { code: 'store-failed' })
    await later.close()
    await close()
  },
)

t.test('a write releases the snapshots of processes that were killed', async (t) => {
  const directory = t.testdir()
  const reader = await startStoreProcess(directory)
  const { root, write, close } = await openEnvironment(join(directory, 'events'))
  await reader.ask('look')
  const readers = () => root.readerList().match(new RegExp(`^ *${reader.pid} `, 'gm'))?.length ?? 0
  t.ok(readers() > 0, 'a process that reads is in the table')
  write(() => {})
  t.ok(readers() > 0, 'and stays there')
  await reader.kill()
  write(() => {})
  t.equal(readers(), 0)
  await close()
})

t.test(
  'a process releases the snapshots of one that was killed and had the same process id',
  { skip: noContainer },
  async (t) => {
    const directory = t.testdir()
    // the first process of a container has process id 1
    const reader = await startStoreProcess(directory, { inContainer: true })
    // keeps LMDB from starting over with an empty list of readers
    const { root, close } = await openEnvironment(join(directory, 'events'))
    await reader.ask('look')
    const snapshots = () => Array.from(root.readerList().matchAll(/^ *1 +[0-9a-f]+ +(\d+)$/gm), ([, id]) => Number(id))
    const [held] = snapshots()
    await reader.kill()
    // its threads may hold one each
    t.ok(snapshots().includes(held as number), 'a killed reader keeps its snapshot')
    const next = await startStoreProcess(directory, { inContainer: true })
    for (let i = 0; i < 3; i++) await next.ask('count')
    t.notOk(snapshots().includes(held as number))
    t.equal(await next.end(), 0)
    await close()
  },
)

t.test(
  'a process releases the only snapshot of one that was killed and had the same process id',
  { skip: noContainer },
  async (t) => {
    const directory = join(t.testdir(), 'events')
    // keeps LMDB from starting over with an empty list of readers
    const { root, close } = await openEnvironment(directory)
    const read = async () => {
      const [command = '', ...args] = ['env', '-u', 'NODE_OPTIONS', ...container, process.execPath, program, directory]
      const reader = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
      await once(reader.stdout, 'data')
      return reader
    }
    const kill = async (reader: ChildProcess) => {
      reader.kill('SIGKILL')
      await once(reader, 'close')
    }
    const snapshots = () => readersOf(root).filter(({ pid }) => pid === 1).length
    const first = await read()
    t.equal(snapshots(), 1)
    await kill(first)
    t.equal(snapshots(), 1, 'a killed reader keeps its snapshot')
    const next = await read()
    t.equal(snapshots(), 1, 'the next one has its own only')
    await kill(next)
    await close()
  },
)

t.test(
  'a process that had the id of this one and was killed while it waited is not waited for',
  { skip: noContainer },
  async (t) => {
    const directory = t.testdir()
    const [holder, waiting] = await Promise.all([
      startStoreProcess(directory),
      startStoreProcess(directory, { inContainer: true }),
    ])
    for (const each of [holder, waiting]) t.teardown(each.kill)
    const gate = openRoot(join(directory, 'events', 'gate'), 2 ** 20)
    // the first process of a container has process id 1
    const isWaiting = () => readersOf(gate).some(({ pid, transaction }) => pid === 1 && transaction >= 0)
    await holder.ask('hold')
    const ended = waiting.end().catch(() => 'killed')
    while (!isWaiting()) await nextTurn()
    await waiting.kill()
    t.equal(await ended, 'killed')
    t.ok(isWaiting(), 'it still looks like one that waits')
    await holder.kill()
    const next = await startStoreProcess(directory, { inContainer: true })
    t.teardown(next.kill)
    t.notOk(isWaiting())
    t.equal(await next.ask('count'), 1)
    t.equal(await next.end(), 0)
    closeRoot(gate)
  },
)

t.test(
  'a process with the same id in another container cannot open the store until the first has ended',
  { skip: noContainer },
  async (t) => {
    const directory = t.testdir()
    const first = await startStoreProcess(directory, { inContainer: true })
    t.teardown(first.kill)
    await first.submit(['first'])
    await t.rejects(startStoreProcess(directory, { inContainer: true }), { code: 'store-locked' })
    const other = await startStoreProcess(directory)
    await other.submit(['other'])
    t.equal(await other.end(), 0)
    await first.submit(['later'])
    await first.kill()
    const next = await startStoreProcess(directory, { inContainer: true })
    t.strictSame(await next.known(['first', 'other', 'later']), [true, true, true])
    t.equal(await next.end(), 0)
  },
)

t.test('a transaction that would replace the last commit writes nothing', async (t) => {
  const directory = t.testdir()
  const { write, table, close } = await openEnvironment(directory)
  const rows = table('log')
  const key = Buffer.from('key')
  write(() => void rows.put(key, Buffer.from('before')))
  commitElsewhere(join(directory, 'data.mdb'))
  t.throws(() => write(() => void rows.put(key, Buffer.from('after'))), {
    code: 'store-failed',
    message: /would replace the last commit/,
  })
  t.equal(rows.getBinary(key)?.toString(), 'before')
  await close()
})

/** Gives the older header the next number, like an opening that undoes the last commit. */
function commitElsewhere(path: string): void {
  const file = openSync(path, 'r+')
  const [pageBytes, numberAt] = [4096, 152]
  const numbers = [0, 1].map((page) => {
    const number = Buffer.alloc(8)
    readSync(file, number, 0, 8, page * pageBytes + numberAt)
    return number.readBigUInt64LE()
  }) as [bigint, bigint]
  const older = numbers[0] < numbers[1] ? 0 : 1
  const next = Buffer.alloc(8)
  next.writeBigUInt64LE((numbers[1 - older] as bigint) + 1n)
  writeSync(file, next, 0, 8, older * pageBytes + numberAt)
  closeSync(file)
}
