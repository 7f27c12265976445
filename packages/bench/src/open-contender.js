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
 * @property {Program | undefined} [postgres] for contenders that have a database
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
  const postgres = contender.hasDatabase ? context.postgres : undefined
  const database = databaseOf(contender, store)
  const url = await postgres?.call('database', { name: database, isFresh })
  const options = { projectId, directory, url, isFresh, ...contender.options }
  const program = await startProgram(contender.file, options)
  // what was written before must not be written to disk while this is measured
  await postgres?.call('settle')
  await syncDisks()
  const sender = contender.isEmbedded ? undefined : await startProgram('src/load.js')
  const { port, headers } = program.started ?? {}
  const watched = { pid: program.pid, helpers: program.helpers, database: postgres?.started.pid }
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
      await postgres?.call('drop', { name: database })
      await rm(directory, { recursive: true, force: true })
    },
    async kill() {
      await program.kill()
      await sender?.kill()
    },
  }
}

/** The name of its database. @param {Contender} contender @param {string} store */
export function databaseOf({ name }, store) {
  return `bench_${name}_${store}`.replaceAll('-', '_')
}

export async function syncDisks() {
  // where there is no such command, the figures are a little more noisy
  await promisify(execFile)('sync').catch(() => {})
}
