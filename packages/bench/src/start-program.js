import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { processorTimePerEvent, readProcessorTime, threadsOf } from './processor-time.js'

/** @typedef {import('./processor-time.js').ProcessorTime} ProcessorTime */

/**
 * A child process that answers calls.
 *
 * @typedef {object} Program
 * @property {number} pid
 * @property {number[]} helpers its threads before `start`
 * @property {any} started what its `start` answered
 * @property {(events: number) => ProcessorTime | undefined} startTime of the processor, in microseconds an event
 * @property {(method: string, argument?: unknown) => Promise<any>} call
 * @property {() => Promise<void>} stop an orderly end
 * @property {() => Promise<void>} kill `kill -9`
 */

/**
 * Starts a program of this package in a process of its own and calls its `start` with `options`.
 *
 * @param {string} file from the root of this package
 * @param {unknown} [options]
 * @param {(pid: number) => void} [prepare] called with the process before it starts anything
 * @returns {Promise<Program>}
 */
export async function startProgram(file, options, prepare = () => {}) {
  const path = fileURLToPath(new URL(`../${file}`, import.meta.url))
  const child = fork(path, { execArgv: ['--expose-gc'], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  /** @type {Map<number, { resolve: (result: any) => void, reject: (error: Error) => void }>} */
  const pending = new Map()
  let lastId = 0
  const ended = once(child, 'exit')
  child.on('message', (/** @type {{ id: number, result?: unknown, error?: string }} */ { id, result, error }) => {
    const call = pending.get(id)
    pending.delete(id)
    if (error === undefined) call?.resolve(result)
    else call?.reject(new Error(`${file}: ${error}`))
  })
  child.on('exit', (code, signal) => {
    for (const { reject } of pending.values()) reject(new Error(`${file} ended with ${signal ?? code}`))
    pending.clear()
  })

  /** @type {Program['call']} */
  function call(method, argument) {
    return new Promise((resolve, reject) => {
      const id = ++lastId
      pending.set(id, { resolve, reject })
      child.send({ id, method, argument }, (error) => {
        if (error) reject(error)
      })
    })
  }

  async function end() {
    if (child.connected) child.disconnect()
    await ended
  }

  try {
    await call('ready')
    const pid = /** @type {number} */ (child.pid)
    prepare(pid)
    const helpers = threadsOf(pid)
    const timeBefore = readProcessorTime({ pid, helpers })
    const started = await call('start', options)
    const timeAfter = readProcessorTime({ pid, helpers })
    return {
      pid,
      helpers,
      started,
      startTime: (events) => processorTimePerEvent(timeBefore, timeAfter, events),
      call,
      async stop() {
        await call('stop')
        await end()
      },
      async kill() {
        child.kill('SIGKILL')
        await ended
      },
    }
  } catch (error) {
    await end()
    throw error
  }
}
