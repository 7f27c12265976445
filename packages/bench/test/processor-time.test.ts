import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import { processorTimePerEvent, readProcessorTime, threadsOf, totalOf } from '../src/processor-time.js'

/** Some tens of milliseconds at least. */
const work = `
const { pbkdf2Sync } = require('node:crypto')
pbkdf2Sync('password', 'salt', 100_000, 64, 'sha512')`

const skip = !existsSync('/proc/self/task')

t.test('threads are distinguished by their start and their priority', { skip }, async (t) => {
  const watched = { pid: process.pid, helpers: threadsOf(process.pid).filter((thread) => thread !== process.pid) }
  t.strictSame(Object.keys(readProcessorTime(watched) ?? {}), ['main', 'helpers'])
  for (const [nice, role] of [
    [0, 'writer'],
    [4, 'index'],
    [5, 'chunks'],
    [0, 'others'],
  ] as const) {
    await startWorker(t, nice)
    const time = readProcessorTime(watched) ?? {}
    t.ok((time[role] ?? 0) > 0, role)
  }
})

t.test('the time of PostgreSQL includes that of processes that have ended', { skip }, async (t) => {
  const child = `${work}; const { user, system } = process.cpuUsage(); console.log((user + system) / 1000)`
  const run = `require('node:child_process').spawnSync(process.execPath, ['-e', ${JSON.stringify(child)}])`
  const program = `console.log(${run}.stdout.toString()); process.stdin.resume()`
  const server = spawn(process.execPath, ['-e', program], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => server.kill())
  const [childMs] = await once(server.stdout, 'data')
  const pid = server.pid ?? 0
  const own = totalOf(readProcessorTime({ pid, helpers: [] })) ?? 0
  const { database = 0 } = readProcessorTime({ pid: process.pid, helpers: [], database: pid }) ?? {}
  const both = own + Number(childMs)
  // the clock ticks every 10 ms
  t.ok(database >= both - 20, `${database} of ${both} ms`)
})

t.test('a process that does not exist has no time', async (t) => {
  t.equal(readProcessorTime({ pid: 2 ** 30, helpers: [] }), undefined)
  t.equal(processorTimePerEvent(undefined, { main: 1 }, 1), undefined)
  t.equal(totalOf(undefined), undefined)
})

t.test('the time between two readings is divided by the number of events', async (t) => {
  const time = processorTimePerEvent({ main: 100, writer: 20 }, { main: 300, writer: 20, index: 50 }, 1000)
  t.strictSame(time, { main: 200, writer: 0, index: 50 })
  t.equal(totalOf(time), 250)
})

async function startWorker(t: Test, nice: number): Promise<void> {
  const source = `
    require('node:os').setPriority(${nice})
    ${work}
    const { parentPort } = require('node:worker_threads')
    parentPort.on('message', () => {})
    parentPort.postMessage('done')`
  const worker = new Worker(source, { eval: true })
  t.teardown(() => worker.terminate())
  await once(worker, 'message')
}
