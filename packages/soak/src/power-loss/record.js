import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { compileLibrary } from '../faults/preload-library.js'
import { readLog } from './read-log.js'

const run = promisify(execFile)
const fileOf = (/** @type {string} */ name) => fileURLToPath(new URL(name, import.meta.url))

/**
 * Compiles the recorder, runs the workload in a new directory below `directory`, and resolves with the log of its changes
 * there.
 *
 * @param {string} directory
 * @param {{ signal?: AbortSignal }} [options]
 */
export async function recordWorkload(directory, { signal } = {}) {
  const root = join(realpathSync(directory), 'recorded')
  const library = join(directory, 'recorder.so')
  const log = join(directory, 'log')
  mkdirSync(root)
  await compileLibrary(fileOf('recorder.c'), library, { signal })
  await run(process.execPath, ['--no-warnings', fileOf('workload.js'), root, log], {
    signal,
    // io_uring writes without the calls that are recorded
    env: { PATH: process.env.PATH, LD_PRELOAD: library, RECORD_ROOT: root, RECORD_LOG: log, UV_USE_IO_URING: '0' },
  })
  return readRecording(directory)
}

/** Reads a recording of `recordWorkload` from a directory that has not moved since. @param {string} directory */
export function readRecording(directory) {
  return { root: join(realpathSync(directory), 'recorded'), operations: readLog(readFileSync(join(directory, 'log'))) }
}
