import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { lockDirectory } from '../../src/files/lock-directory.ts'

t.test('a directory is locked once', async (t) => {
  const directory = t.testdir()
  const unlock = lockDirectory(directory)
  t.throws(() => lockDirectory(directory), { code: 'invalid-argument', message: `process ${process.pid}` })
  t.strictSame(readdirSync(directory), ['lock'])
  unlock()
  t.notOk(existsSync(join(directory, 'lock')))
  lockDirectory(directory)()
})

t.test('a running process holds its lock, and an ended one does not', async (t) => {
  const directory = t.testdir()
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e9)'], { stdio: 'ignore' })
  const path = join(directory, 'lock')
  // without /proc, the lock has the process id only
  const stat = `/proc/${child.pid}/stat`
  const start = existsSync(stat) ? readFileSync(stat, 'utf8').split(') ').at(-1)?.split(' ')[19] : ''
  writeFileSync(path, `${child.pid} ${start}\n`)
  t.throws(() => lockDirectory(directory), { code: 'invalid-argument' })
  child.kill('SIGKILL')
  await once(child, 'exit')
  lockDirectory(directory)()
  t.strictSame(readdirSync(directory), [])
})

t.test('an invalid or stale lock is taken over', async (t) => {
  const { pid } = spawnSync(process.execPath, ['--version'])
  // that of a process id that is used again shows in the start time, which only /proc has
  const reused = existsSync('/proc/self/stat') ? [`${process.pid} 1\n`] : []
  for (const text of ['', 'none\n', '0 \n', '-1 \n', `${pid} 5\n`, ...reused]) {
    const directory = t.testdir({ lock: text })
    const unlock = lockDirectory(directory)
    t.throws(() => lockDirectory(directory), { code: 'invalid-argument' })
    unlock()
  }
})

t.test('a lock removes the files of processes that were killed while they locked', async (t) => {
  const { pid } = spawnSync(process.execPath, ['--version'])
  const kept = [`lock.${process.ppid}`, 'lock.old', 'other.1', `otherlock.${pid}`]
  const names = [`lock.${pid}`, `lock.${pid}.stale`, `lock.${process.pid}.stale`, ...kept]
  const directory = t.testdir(Object.fromEntries(names.map((name) => [name, ''])))
  lockDirectory(directory)()
  t.strictSame(readdirSync(directory).sort(), kept.sort())
})

t.test('locking a missing directory throws the error of the file system', async (t) => {
  t.throws(() => lockDirectory(join(t.testdir(), 'missing')), { code: 'ENOENT' })
})
