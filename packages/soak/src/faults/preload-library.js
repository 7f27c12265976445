import { execFile, execFileSync } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Why this machine cannot preload a library that it compiles; undefined if it can. */
export function whyNotPreloaded() {
  if (process.platform !== 'linux') return 'LD_PRELOAD is for Linux'
  try {
    execFileSync('cc', ['--version'], { stdio: 'ignore' })
  } catch {
    return 'there is no C compiler (cc)'
  }
  return undefined
}

/**
 * Compiles a C file to a library for LD_PRELOAD.
 *
 * @param {string} source
 * @param {string} library
 * @param {{ signal?: AbortSignal | undefined }} [options]
 */
export async function compileLibrary(source, library, { signal } = {}) {
  await run('cc', ['-shared', '-fPIC', '-O2', '-o', library, source, '-ldl'], { signal })
}
