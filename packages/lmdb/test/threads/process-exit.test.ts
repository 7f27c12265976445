import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openExitGuards } from '../../src/threads/exit-guard.ts'

const urlOf = (module: string) => JSON.stringify(new URL(`../../src/threads/${module}`, import.meta.url).href)

t.test('the stores of a process share one exit listener, removed with the last store', async (t) => {
  const listeners = process.listenerCount('exit')
  const [one, other] = [openExitGuards(), openExitGuards()]
  t.equal(process.listenerCount('exit'), listeners + 1)
  one.release()
  t.equal(process.listenerCount('exit'), listeners + 1)
  other.release()
  t.equal(process.listenerCount('exit'), listeners)
})

t.test('an exiting process waits for threads in native code, and lets none enter', async (t) => {
  const directory = t.testdir()
  // a thread that spends some time in native code, leaves it, and tries to enter it again
  const program = `
    import { Worker } from 'node:worker_threads'
    import { exitGuardAt, openExitGuards } from ${urlOf('exit-guard.js')}
    const { guards } = openExitGuards()
    exitGuardAt(guards, 0).enterNative()
    const source = \`
      const { parentPort, workerData: guards } = require('node:worker_threads')
      const { writeFileSync } = require('node:fs')
      import(${urlOf('exit-guard.js')}).then(({ exitGuardAt }) => {
        const guard = exitGuardAt(guards, 0)
        parentPort.postMessage('in native code')
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300)
        writeFileSync(process.env.DIRECTORY + '/left', '')
        guard.leaveNative()
        guard.enterNative()
        writeFileSync(process.env.DIRECTORY + '/entered', '')
      })
    \`
    const worker = new Worker(source, { eval: true, workerData: guards, execArgv: [] })
    worker.once('message', () => process.exit(7))`
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    env: { ...process.env, DIRECTORY: directory },
    timeout: 30_000,
  })
  t.equal(status, 7, `${status} ${stderr}`)
  t.ok(existsSync(join(directory, 'left')), 'the exit waited')
  t.notOk(existsSync(join(directory, 'entered')))
})
