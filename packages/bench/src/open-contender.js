import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { projectId } from './contenders.js'
import { startProgram } from './start-program.js'

/**
 * @typedef {import('./contenders.js').Contender} Contender
 * @typedef {import('./start-program.js').Program} Program
 * @typedef {Omit<import('./send-load.js').LoadOptions, 'port' | 'projectId' | 'headers' | 'watched'>} Load
 * @typedef {import('./send-load.js').LoadResult} LoadResult
 */

/**
 * What all measurements need.
 *
 * @typedef {object} Context
 * @property {string} directory where stores are made
 * @property {Contender[]} contenders those that can be measured here
 * @property {{ url: string, pid?: number } | undefined} postgres its process, when it was started for this
 * @property {(line: string) => void} log
 */

/**
 * A contender that runs and takes load.
 *
 * @typedef {object} Opened
 * @property {Program} program
 * @property {import('./processor-time.js').Watched} watched
 * @property {string} directory
 * @property {(load: Load) => Promise<LoadResult>} send
 * @property {() => Promise<void>} close
 * @property {() => Promise<void>} kill `kill -9`, and the store stays as it is then
 */

/**
 * Starts a contender on the store of this name, which is made when it is missing.
 *
 * @param {Context} context
 * @param {Contender} contender
 * @param {{ store: string, isFresh?: boolean, isKept?: boolean }} options `isFresh` empties the store before,
 *   and unless `isKept` it is removed afterwards
 * @returns {Promise<Opened>}
 */
export async function openContender(context, contender, { store, isFresh = false, isKept = false }) {
  const directory = join(context.directory, `${contender.name}-${store}`)
  if (isFresh) await rm(directory, { recursive: true, force: true })
  const { url, pid: database } = (contender.name === 'postgres' && context.postgres) || {}
  const program = await startProgram(contender.file, { projectId, directory, url, table: `events_${store}`, isFresh })
  // what was written before must not be written to disk while this is measured
  if (contender.name === 'postgres') await program.call('settle')
  await syncDisks()
  const sender = contender.isEmbedded ? undefined : await startProgram('src/load.js')
  const { port, headers } = program.started ?? {}
  const watched = { pid: program.pid, helpers: program.helpers, database }
  return {
    program,
    watched,
    directory,
    send: (load) => (sender ?? program).call('send', { ...load, projectId, port, headers, watched }),
    async close() {
      await sender?.kill()
      // an orderly end drains first, which only those need whose store is looked at again
      if (isKept) return program.stop()
      await program.kill()
      await rm(directory, { recursive: true, force: true })
    },
    async kill() {
      await program.kill()
      await sender?.kill()
    },
  }
}

export async function syncDisks() {
  // where there is no such command, the figures are a little more noisy
  await promisify(execFile)('sync').catch(() => {})
}
