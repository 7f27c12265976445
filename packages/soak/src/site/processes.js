import { spawn } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * @typedef {object} StartOptions
 * @property {number} [slowMicroseconds] delays each mmap, so that an opening of a store takes longer
 * @property {Record<string, string>} [env]
 * @property {(line: string) => void} [onLine] receives each whole line of stdout; without it, stdout is collected
 *
 * @typedef {ReturnType<typeof createProcesses>} Processes
 * @typedef {ReturnType<Processes['start']>} Started
 */

/** @typedef {{ code: number | null, signal: NodeJS.Signals | null, stdout: string, stderr: string }} Ended */

const command = fileURLToPath(new URL('../../../cli/bin/ingest.js', import.meta.url))
const outputBytesMax = 1_000_000
const stderrBytesMax = 16_000

/**
 * Starts the built command, each time in a process group of its own.
 *
 * @param {import('./run.js').Run} run
 * @param {string} store of all commands, unless their arguments name another
 */
export function createProcesses(run, store) {
  /** @type {Set<{ pid: number, signals: NodeJS.Signals[] }>} */
  const live = new Set()
  let lastNumber = 0

  /** @param {readonly string[]} args @param {StartOptions} [options] */
  function start(args, { slowMicroseconds, env, onLine } = {}) {
    const name = args[0] === 'keys' || args[0] === 'maps' ? `${args[0]} ${args[1]}` : `${args[0]}`
    const slow = slowMicroseconds === undefined ? [] : slowOpening(slowMicroseconds)
    const [file = '', ...rest] = [...slow, process.execPath, command, ...args]
    const child = spawn(file, rest, {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...ownEnvironment(), INGEST_STORE: store, ...env },
    })
    const logPath = join(run.directory, 'logs', `${++lastNumber}-${name.replace(' ', '-')}.log`)
    const log = createWriteStream(logPath)
    log.write(`${new Date().toISOString()} ${file} ${rest.join(' ')}\n`)
    const output = readOutput(child, log, onLine)
    const started = {
      name,
      pid: child.pid ?? -1,
      /** Signals that were sent to it. @type {NodeJS.Signals[]} */
      signals: [],
      /** @param {NodeJS.Signals} signal */
      signal(signal) {
        if (!live.has(started)) return
        started.signals.push(signal)
        run.count('signals', `${signal} ${name}`)
        signalGroup(started.pid, signal)
      },
      exited: new Promise((/** @type {(ended: Ended) => void} */ resolve) => {
        child.once('error', (error) => {
          live.delete(started)
          resolve({ code: 127, signal: null, ...output, stderr: error.message })
        })
        child.once('close', (code, signal) => {
          live.delete(started)
          log.end(`${new Date().toISOString()} ended with ${signal ?? code}\n`)
          resolve({ code, signal, ...output })
        })
      }),
      /** The file that collects its stderr. */
      logPath,
    }
    live.add(started)
    return started
  }

  return {
    start,
    /** Kills all processes, stopped ones too. */
    killAll() {
      for (const { pid, signals } of live) {
        signals.push('SIGKILL')
        signalGroup(pid, 'SIGKILL')
      }
    },
  }
}

/**
 * Collects stderr, and stdout unless each of its lines goes to `onLine`.
 *
 * @param {import('node:child_process').ChildProcessByStdio<null, import('node:stream').Readable, import('node:stream').Readable>} child
 * @param {import('node:stream').Writable} log receives stderr
 * @param {StartOptions['onLine']} onLine
 */
function readOutput(child, log, onLine) {
  const output = { stdout: '', stderr: '' }
  if (onLine) readLines(child.stdout, onLine)
  else {
    child.stdout.on('data', (text) => {
      if (output.stdout.length < outputBytesMax) output.stdout += text
    })
  }
  child.stderr.on('data', (text) => {
    log.write(text)
    output.stderr = (output.stderr + text).slice(-stderrBytesMax)
  })
  return output
}

/**
 * Leaves out an incomplete last line, in which a killed command may end.
 *
 * @param {import('node:stream').Readable} stream @param {(line: string) => void} onLine
 */
function readLines(stream, onLine) {
  let rest = ''
  stream.setEncoding('utf8').on('data', (text) => {
    const lines = `${rest}${text}`.split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line)
  })
}

/** @param {number} pid @param {NodeJS.Signals} signal */
function signalGroup(pid, signal) {
  try {
    process.kill(-pid, signal)
  } catch (error) {
    // the process has ended
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') throw error
  }
}

/**
 * Whether a process ended by itself after a write of LMDB failed, as on a full disk: lmdb 3.5.6 overruns a buffer when it
 * describes some of these failures; the process aborts, or ends itself once it notices.
 *
 * @param {Pick<Ended, 'signal' | 'stderr'>} ended
 */
export function isEndedByWrite({ signal, stderr }) {
  return stderr.includes('Write error: ') && (signal === 'SIGABRT' || signal === 'SIGSEGV' || signal === 'SIGKILL')
}

/** Delays mmap, which LMDB calls in the middle of opening a store. @param {number} microseconds */
function slowOpening(microseconds) {
  const inject = `inject=mmap:delay_exit=${microseconds}`
  return ['strace', '-f', '-o', '/dev/null', '-e', 'trace=mmap', '-e', inject]
}

/** The environment without settings for Ingest and Node.js, which a user or a test runner may have added. */
function ownEnvironment() {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(INGEST_|NODE_)/.test(name)))
}
