import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { lockDirectory } from '../../src/sender/lock-directory.ts'

t.test('a directory is held by one at a time', async (t) => {
  const directory = t.testdir()
  const unlock = lockDirectory(directory)
  t.throws(() => lockDirectory(directory), { code: 'invalid-argument', message: `process ${process.pid}` })
  t.strictSame(readdirSync(directory), ['lock'])
  unlock()
  t.notOk(existsSync(join(directory, 'lock')))
  lockDirectory(directory)()
})

t.test('another process that lives holds it, and one that has ended does not', async (t) => {
  const directory = t.testdir()
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e9)'], { stdio: 'ignore' })
  const path = join(directory, 'lock')
  // where the system does not tell when it began, its id has to do
  const stat = `/proc/${child.pid}/stat`
  const start = existsSync(stat) ? readFileSync(stat, 'utf8').split(') ').at(-1)?.split(' ')[19] : ''
  writeFileSync(path, `${child.pid} ${start}\n`)
  t.throws(() => lockDirectory(directory), { code: 'invalid-argument' })
  child.kill('SIGKILL')
  await once(child, 'exit')
  lockDirectory(directory)()
  t.strictSame(readdirSync(directory), [])
})

t.test(
  'a process id that came again is not the process that had it',
  {
    skip: existsSync('/proc/self/stat') ? false : 'the system does not say when a process began',
  },
  async (t) => {
    const directory = t.testdir()
    writeFileSync(join(directory, 'lock'), `${process.pid} 1\n`)
    lockDirectory(directory)()
  },
)

t.test('a lock that says nothing holds nothing', async (t) => {
  const { pid } = spawnSync(process.execPath, ['--version'])
  for (const text of ['', 'nobody\n', '0 \n', '-1 \n', `${pid} 5\n`]) {
    const directory = t.testdir({ lock: text })
    const unlock = lockDirectory(directory)
    t.throws(() => lockDirectory(directory), { code: 'invalid-argument' })
    unlock()
  }
})

t.test('a directory that is not there is what the file system says', async (t) => {
  t.throws(() => lockDirectory(join(t.testdir(), 'missing')), { code: 'ENOENT' })
})
