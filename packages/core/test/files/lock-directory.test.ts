import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  watch,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { lockDirectory, pidNamespace } from '../../src/files/lock-directory.ts'

t.test('a directory is locked once', async (t) => {
  const directory = t.testdir()
  const { unlock } = lockDirectory(directory)
  const message = `${directory} is in use by process ${process.pid}: each sender or export needs its own directory.`
  t.throws(() => lockDirectory(directory), { code: 'invalid-argument', message })
  t.strictSame(readdirSync(directory), ['lock'])
  unlock()
  t.notOk(existsSync(join(directory, 'lock')))
  lockDirectory(directory).unlock()
})

t.test('a running process holds its lock, and an ended one does not', async (t) => {
  const directory = t.testdir()
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e9)'], { stdio: 'ignore' })
  const path = join(directory, 'lock')
  // without /proc, the lock has the process id only
  const stat = `/proc/${child.pid}/stat`
  const start = existsSync(stat) ? readFileSync(stat, 'utf8').split(') ').at(-1)?.split(' ')[19] : ''
  writeFileSync(path, `${child.pid} ${start} ${pidNamespace()}\n`)
  t.throws(() => lockDirectory(directory), { code: 'invalid-argument' })
  child.kill('SIGKILL')
  await once(child, 'exit')
  lockDirectory(directory).unlock()
  t.strictSame(readdirSync(directory), [])
})

t.test('an invalid or stale lock is taken over', async (t) => {
  const { pid } = spawnSync(process.execPath, ['--version'])
  // a reused process id is recognized by its start time, which only /proc has
  const reused = existsSync('/proc/self/stat') ? [`${process.pid} 1 ${pidNamespace()}\n`] : []
  const here = ['none 0', '0 0', '-1 0', `${pid} 5`].map((text) => `${text} ${pidNamespace()}\n`)
  for (const text of ['', ...here, ...reused]) {
    const directory = t.testdir({ lock: text })
    if (text === '') makeOld(join(directory, 'lock'))
    const { unlock } = lockDirectory(directory)
    t.throws(() => lockDirectory(directory), { code: 'invalid-argument' })
    unlock()
  }
})

/** Sets the times of a file back, as if it had not been written for a while. */
function makeOld(path: string): void {
  const time = statSync(path).mtimeMs / 1000 - 11
  utimesSync(path, time, time)
}

const unshare = ['--pid', '--fork', '--kill-child', '--mount-proc']
const hasUnshare = spawnSync('unshare', [...unshare, 'true']).status === 0

t.test(
  'the lock of another PID namespace, as of a container, is held while its process writes it',
  { skip: !hasUnshare && 'PID namespaces need Linux, and root' },
  async (t) => {
    const directory = t.testdir()
    const path = join(directory, 'lock')
    const module = new URL('../../src/files/lock-directory.js', import.meta.url).href
    const program = `const { lockDirectory } = await import('${module}')
      lockDirectory(process.argv[1])
      console.log(process.pid)
      setInterval(() => {}, 1e9)`
    const node = [process.execPath, '--input-type=module', '-e', program, directory]
    const child = spawn('unshare', [...unshare, ...node], { stdio: ['ignore', 'pipe', 'inherit'] })
    t.teardown(() => child.kill('SIGKILL'))
    t.equal(String((await once(child.stdout, 'data'))[0]), '1\n')
    t.throws(() => lockDirectory(directory), { code: 'invalid-argument', message: /process 1 of another container/ })
    makeOld(path)
    const old = statSync(path).mtimeMs
    const watcher = watch(directory)
    while (statSync(path).mtimeMs === old) await once(watcher, 'change')
    watcher.close()
    t.throws(() => lockDirectory(directory), { code: 'invalid-argument' }, 'it was written again')
    child.kill('SIGKILL')
    await once(child, 'exit')
    t.throws(() => lockDirectory(directory), { code: 'invalid-argument' }, 'its end cannot be seen')
    makeOld(path)
    lockDirectory(directory).unlock()
    t.strictSame(readdirSync(directory), [])
  },
)

t.test('a lock that was taken over is neither held nor removed by its former process', async (t) => {
  const directory = t.testdir()
  const lock = lockDirectory(directory)
  t.equal(lock.isHeld(), true)
  rmSync(join(directory, 'lock'))
  t.equal(lock.isHeld(), false)
  const other = lockDirectory(directory)
  t.strictSame([lock.isHeld(), other.isHeld()], [false, true])
  lock.unlock()
  t.strictSame(readdirSync(directory), ['lock'])
  other.unlock()
  t.equal(other.isHeld(), false)
  t.strictSame(readdirSync(directory), [])
})

t.test('a lock whose directory was moved is not held, and does not remove the next lock at that path', async (t) => {
  const directory = join(t.testdir({ directory: {} }), 'directory')
  const lock = lockDirectory(directory)
  renameSync(directory, `${directory}-moved`)
  t.equal(lock.isHeld(), false)
  mkdirSync(directory)
  const other = lockDirectory(directory)
  t.strictSame([lock.isHeld(), other.isHeld()], [false, true])
  lock.unlock()
  t.strictSame(readdirSync(directory), ['lock'])
  other.unlock()
})

t.test(
  'a lock that cannot be removed is left',
  { skip: process.platform === 'win32' && 'no modes there' },
  async (t) => {
    const directory = t.testdir()
    const lock = lockDirectory(directory)
    chmodSync(directory, 0o555)
    // root can remove it
    const isRoot = process.geteuid?.() === 0
    if (isRoot) process.seteuid?.(65534)
    try {
      t.doesNotThrow(() => lock.unlock())
    } finally {
      if (isRoot) process.seteuid?.(0)
      chmodSync(directory, 0o755)
    }
    t.strictSame([lock.isHeld(), readdirSync(directory)], [false, ['lock']])
  },
)

t.test('a lock removes the files of processes that were killed while they locked', async (t) => {
  const kept = ['lock.old', 'lock.1.old', 'other.1', 'otherlock.1']
  const names = ['lock.1', `lock.1${pidNamespace()}`, `lock.1${pidNamespace()}.stale`]
  const directory = t.testdir(Object.fromEntries([...names, ...kept, 'lock.2'].map((name) => [name, ''])))
  for (const name of [...names, ...kept]) makeOld(join(directory, name))
  lockDirectory(directory).unlock()
  t.strictSame(readdirSync(directory).sort(), [...kept, 'lock.2'].sort(), 'a young one may be in use')
})

t.test('locking a missing directory throws the error of the file system', async (t) => {
  t.throws(() => lockDirectory(join(t.testdir(), 'missing')), { code: 'ENOENT' })
})
