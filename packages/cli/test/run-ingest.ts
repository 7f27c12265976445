import { PassThrough, Readable } from 'node:stream'
import type { Test } from 'tap'
import type { Io, Output, StopSignal } from '../src/io.ts'
import { run } from '../src/run.ts'
import { type Ended, type Running, readStream, type Server, serveArgs, untilListening } from './ingest-process.ts'

export interface RunSettings {
  /** All environment variables. Default: none. */
  env?: Record<string, string>
  stdin?: string | Readable
  /** Whether standard output and standard error are a terminal of 100 columns, with colors. */
  isTerminal?: boolean
}

/** Runs a command line to its end in this process, with its own streams and environment. */
export async function ingest(args: readonly string[], settings: RunSettings = {}): Promise<Ended> {
  return startRun(args, settings).exited
}

/** Starts a command line in this process. */
export function startRun(args: readonly string[], settings: RunSettings = {}): Running & ReturnType<typeof createIo> {
  const io = createIo(settings)
  const exited = run(args, io.io).then(
    (code): Ended => ({ code, signal: null, stdout: io.stdout(), stderr: io.stderr() }),
  )
  return { ...io, exited }
}

/** The streams and environment of a command in this process, with what was written to them. */
export function createIo({ env = {}, stdin = '', isTerminal = false }: RunSettings = {}) {
  const [stdout, stderr] = [createOutput(isTerminal), createOutput(isTerminal)]
  const listeners = new Set<(signal: StopSignal) => void>()
  const reloads = new Set<() => void>()
  const ends: (number | 'SIGKILL')[] = []
  const io: Io = {
    stdin: typeof stdin === 'string' ? readable(stdin) : stdin,
    stdout: stdout.stream,
    stderr: stderr.stream,
    env,
    onSignal(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    onReload(listener) {
      reloads.add(listener)
      return () => void reloads.delete(listener)
    },
    end: (how) => void ends.push(how),
  }
  return {
    io,
    stdout: stdout.text,
    stderr: stderr.text,
    /** The next line of standard output, and of standard error. */
    nextLine: stdout.next,
    nextError: stderr.next,
    /** How the command ended its process. */
    ends,
    signal(name: NodeJS.Signals) {
      if (name === 'SIGHUP') for (const listener of reloads) listener()
      else for (const listener of listeners) listener(name as StopSignal)
    },
  }
}

function readable(text: string): Readable {
  return Readable.from(text === '' ? [] : [Buffer.from(text)], { objectMode: false })
}

function createOutput(isTerminal: boolean) {
  const stream = new PassThrough()
  const terminal = { isTTY: true, columns: 100, hasColors: () => true }
  return { stream: (isTerminal ? Object.assign(stream, terminal) : stream) as Output, ...readStream(stream) }
}

/** Runs `ingest serve` in this process on a free port, until the end of the test. */
export function serveHere(t: Test, args: readonly string[], settings: RunSettings = {}): Promise<Server> {
  return untilListening(t, startRun(serveArgs(args, settings.env), settings), 'SIGTERM')
}

/** Asserts wrong usage: one matching line on standard error, nothing on standard output, exit code 2. */
export async function isWrongUsage(t: Test, args: readonly string[], pattern: RegExp, settings?: RunSettings) {
  t.match(
    await ingest(args, settings),
    { code: 2, stdout: /^$/, stderr: new RegExp(`^ingest: .*${pattern.source}.*\\n$`) },
    `ingest ${args.join(' ')}`,
  )
}
