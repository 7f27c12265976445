import { fork } from 'node:child_process'
import { once } from 'node:events'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { threadsOf } from './processor-time.js'

/** A child process that serves calls. @typedef {Awaited<ReturnType<typeof startProgram>>} Program */

/**
 * Starts a program that serves calls in a process of its own, and calls its `start` with `options`.
 *
 * @param {URL} url of its file
 * @param {unknown} [options]
 */
export async function startProgram(url, options) {
  const path = fileURLToPath(url)
  const file = basename(path)
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

  /** @param {string} method @param {unknown} [argument] @returns {Promise<any>} */
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
    const helpers = threadsOf(pid)
    const started = await call('start', options)
    return {
      pid,
      /** The threads that it had before `start`. */
      helpers,
      /** The result of its `start`. */
      started,
      call,
      /** Shuts down gracefully. */
      async stop() {
        await call('stop')
        await end()
      },
      /** `kill -9`. */
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
