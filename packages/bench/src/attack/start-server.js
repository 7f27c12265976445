import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const probe = new URL('turn-probe.js', import.meta.url).href
const command = fileURLToPath(new URL('../../../cli/bin/ingest.js', import.meta.url))

/**
 * The built `ingest serve` with its default limits, in a process of its own.
 *
 * @typedef {object} Server
 * @property {number} port
 * @property {() => Promise<number>} longestTurn of its event loop in milliseconds, since the last call
 * @property {() => Promise<number>} drain sends SIGTERM; resolves with the milliseconds until the process has ended
 * @property {() => void} kill
 */

/** @param {string} directory @returns {Promise<Server>} */
export async function startServer(directory) {
  const args = [command, 'serve', '--store', directory, '--listen', '127.0.0.1:0', '--log-level', 'error']
  const child = spawn(process.execPath, ['--import', probe, ...args], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  const exited = once(child, 'exit')
  const ended = exited.then(([code, signal]) => {
    throw new Error(`ingest serve ended with ${signal ?? code}`)
  })
  ended.catch(() => {})
  const [line] = await Promise.race([
    once(createInterface(/** @type {import('node:stream').Readable} */ (child.stdout)), 'line'),
    ended,
  ])
  return {
    port: Number(new URL(line.replace('listening on ', '')).port),
    async longestTurn() {
      child.send('longestTurn')
      const [milliseconds] = await once(child, 'message')
      return milliseconds
    },
    async drain() {
      const start = performance.now()
      child.kill('SIGTERM')
      const [code, signal] = await exited
      if (code !== 0) throw new Error(`ingest serve ended with ${signal ?? code}`)
      return performance.now() - start
    },
    kill: () => void child.kill('SIGKILL'),
  }
}

/**
 * @param {string} directory @param {string} projectId @returns {Promise<Record<string, string>>} the headers of a
 *   request
 */
export async function createCredentials(directory, projectId) {
  const args = [command, 'keys', 'create', '--store', directory, '--project', projectId]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  return { 'X-Project-Id': projectId, 'X-Ingestion-Key': stdout.trim() }
}
