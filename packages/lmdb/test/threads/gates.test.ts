import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { exitGuardAt, openExitGuards } from '../../src/threads/exit-guard.ts'

t.test('a guard counts who is inside, and lets go of the process when its store is closed', async (t) => {
  const listeners = process.listenerCount('exit')
  const [one, other] = [openExitGuards(), openExitGuards()]
  t.equal(process.listenerCount('exit'), listeners + 1, 'one listener for all stores')
  const guard = exitGuardAt(one.guards, 0)
  guard.enterNative()
  t.strictSame([...one.guards], [1, 0, 0])
  guard.leaveNative()
  guard.leaveNative()
  t.strictSame([...one.guards], [0, 0, 0])
  one.release()
  t.equal(process.listenerCount('exit'), listeners + 1)
  other.release()
  t.equal(process.listenerCount('exit'), listeners)
})

t.test('a process that ends waits for who is inside, and lets nobody in any more', async (t) => {
  const directory = t.testdir()
  // a thread that is inside for a while, comes out, and would go in again
  const program = `
    import { writeFileSync } from 'node:fs'
    import { Worker, isMainThread, workerData } from 'node:worker_threads'
    import { exitGuardAt, openExitGuards } from ${JSON.stringify(new URL('../../src/threads/exit-guard.js', import.meta.url).href)}
    const { guards } = openExitGuards()
    const guard = exitGuardAt(guards, 0)
    guard.enterNative()
    const source = \`
      const { workerData: guards } = require('node:worker_threads')
      const { writeFileSync } = require('node:fs')
      const clock = new Int32Array(new SharedArrayBuffer(4))
      Atomics.wait(clock, 0, 0, 300)
      writeFileSync(process.env.DIRECTORY + '/out', '')
      Atomics.and(guards, 0, ~1)
      Atomics.notify(guards, 0)
      if (Atomics.compareExchange(guards, 0, 0, 1) & 2) Atomics.wait(guards, 0, 2)
      writeFileSync(process.env.DIRECTORY + '/in-again', '')
    \`
    const worker = new Worker(source, { eval: true, workerData: guards, execArgv: [] })
    worker.once('online', () => process.exit(7))`
  const { status, stderr } = spawnSync(process.execPath, [...process.execArgv, '--input-type=module', '-e', program], {
    env: { ...process.env, DIRECTORY: directory },
    timeout: 30_000,
  })
  t.equal(status, 7, `${status} ${stderr}`)
  t.ok(existsSync(join(directory, 'out')), 'it was waited for')
  t.notOk(existsSync(join(directory, 'in-again')))
})
