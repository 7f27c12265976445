import { type ChildProcessByStdio, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'

const binary = fileURLToPath(new URL('../bin/ingest.js', import.meta.url))

export interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

export interface Settings {
  /** Further environment variables. */
  env?: Record<string, string>
  /** How many bytes of stdout are read before the reader closes the pipe. Default: all. */
  readBytes?: number
}

/** Runs the built command to its end, in a process of its own. */
export async function spawnIngest(args: readonly string[], settings: Settings = {}): Promise<Ended> {
  return ended(startIngest(args, settings), settings.readBytes)
}

/** Resolves with the output and the exit of a process whose streams are pipes. */
export async function ended(child: ChildProcessByStdio<null, Readable, Readable>, readBytes?: number): Promise<Ended> {
  const stdout = collect(child.stdout)
  const stderr = collect(child.stderr)
  if (readBytes !== undefined) {
    child.stdout.on('data', () => {
      if (stdout().length >= readBytes) child.stdout.destroy()
    })
    if (readBytes === 0) child.stdout.destroy()
  }
  const [code, signal] = await once(child, 'close')
  return { code, signal, stdout: stdout(), stderr: stderr() }
}

function collect(stream: NodeJS.ReadableStream): () => string {
  const chunks: Buffer[] = []
  stream.on('data', (chunk) => chunks.push(chunk))
  return () => Buffer.concat(chunks).toString()
}

/** Reads the output of a stream, as a whole and line by line. `next` rejects if the stream ends before another line. */
export function readStream(stream: Readable) {
  const text = collect(stream)
  let at = 0
  let isOver = false
  let wake = () => {}
  stream.on('data', () => wake())
  stream.on('close', () => {
    isOver = true
    wake()
  })
  return {
    text,
    async next(): Promise<string> {
      for (;;) {
        const end = text().indexOf('\n', at)
        if (end !== -1) {
          const line = text().slice(at, end)
          at = end + 1
          return line
        }
        if (isOver) throw new Error(`There are no more lines: ${JSON.stringify(text().slice(at))}`)
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    },
  }
}

/** A running command, in this process or in one of its own. */
export interface Running {
  stdout(): string
  stderr(): string
  /** The next line of standard output, and of standard error. */
  nextLine(): Promise<string>
  nextError(): Promise<string>
  signal(name: NodeJS.Signals): void
  exited: Promise<Ended>
}

export interface LogRecord {
  level: string
  time: string
  msg: string
  [name: string]: unknown
}

/** A running `ingest serve`. */
export interface Server extends Running {
  url: string
  port: number
  /** The first line, without "listening on". */
  line: string
  /** The lines of the log, parsed. */
  log(): LogRecord[]
  /** The next unread record of the log for which `isWanted` is true. */
  nextRecord(isWanted?: (record: LogRecord) => boolean): Promise<LogRecord>
}

/** Resolves when the server listens; `signal` ends it with the test. */
export async function untilListening(t: Test, running: Running, signal: NodeJS.Signals): Promise<Server> {
  t.teardown(async () => {
    running.signal(signal)
    await running.exited
  })
  const first = await Promise.race([running.nextLine().catch(() => undefined), running.exited.then(() => undefined)])
  if (first === undefined) throw new Error(`ingest serve ended: ${(await running.exited).stderr}`)
  const line = first.replace('listening on ', '')
  const url: string = line.startsWith('{') ? JSON.parse(line).url : line
  return {
    ...running,
    url,
    port: Number(new URL(url).port),
    line,
    async nextRecord(isWanted = () => true) {
      for (;;) {
        const record = parseRecord(await running.nextError())
        if (isWanted(record)) return record
      }
    },
    log: () => running.stderr().trimEnd().split('\n').filter(Boolean).map(parseRecord),
  }
}

function parseRecord(line: string): LogRecord {
  return JSON.parse(line)
}

/** The arguments of `ingest serve` on a free port, unless they or the environment say otherwise. */
export function serveArgs(args: readonly string[], env: Record<string, string> = {}): string[] {
  const hasAddress = args.includes('--listen') || env.INGEST_LISTEN
  return ['serve', ...(hasAddress ? [] : ['--listen', '127.0.0.1:0']), ...args]
}

/** Starts `ingest serve` in a process of its own, which ends with the test. */
export async function startServe(t: Test, args: readonly string[], { env = {} }: Settings = {}) {
  const child = startIngest(serveArgs(args, env), { env })
  const [stdout, stderr] = [readStream(child.stdout), readStream(child.stderr)]
  const exited = once(child, 'close').then(
    ([code, signal]): Ended => ({ code, signal, stdout: stdout.text(), stderr: stderr.text() }),
  )
  const running: Running = {
    stdout: stdout.text,
    stderr: stderr.text,
    nextLine: stdout.next,
    nextError: stderr.next,
    signal: (name) => void child.kill(name),
    exited,
  }
  return { ...(await untilListening(t, running, 'SIGKILL')), child }
}

/** Starts the built command, with no standard input. */
export function startIngest(args: readonly string[], { env = {} }: Settings = {}) {
  return startCommand(ingestCommand(args), { ...ownEnvironment(), ...env })
}

/** Starts a command line, with no standard input. */
export function startCommand([command = '', ...args]: readonly string[], env: NodeJS.ProcessEnv) {
  return spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env })
}

/**
 * The command line that runs the built command. A shell starts Node.js, because the test runner adds loaders to every
 * Node.js process that it sees, whatever its environment, and these take longer than the command itself.
 */
export function ingestCommand(args: readonly string[]): string[] {
  const node = [process.execPath, binary, ...args]
  return process.platform === 'win32' ? node : ['sh', '-c', 'unset NODE_OPTIONS; exec "$0" "$@"', ...node]
}

/** The environment without the settings of the user who runs the tests. */
export function ownEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(INGEST_|NODE_)/.test(name)))
}

/** Runs the command below strace, which injects a fault into one kind of system call. */
export function spawnWithFault(args: readonly string[], fault: string, env: Record<string, string> = {}) {
  const [name = ''] = fault.split(':')
  const strace = ['strace', '-f', '-qq', '-o', '/dev/null', '-e', `trace=${name}`, '-e', `inject=${fault}`]
  return ended(startCommand([...strace, ...ingestCommand(args)], { ...ownEnvironment(), ...env }))
}

/** For the option `skip` of a test. */
export const noStrace =
  process.platform !== 'linux' || spawnSync('strace', ['-o', '/dev/null', 'true']).status !== 0
    ? 'strace is not installed'
    : false

/** For the option `skip` of a test. */
export const noTerminal = spawnSync('script', ['--version']).error
  ? 'script(1), which makes terminals, is not installed'
  : false

/** Variables that decide whether Node.js uses colors. */
const colorSettings = ['NO_COLOR', 'FORCE_COLOR', 'CI', 'COLORTERM', 'NODE_DISABLE_COLORS', 'TMUX', 'TEAMCITY_VERSION']

/** Starts the built command on a terminal, after a command of the shell. */
export function startOnTerminal(args: readonly string[], { env = {} }: Settings = {}, before = 'true') {
  const others = Object.entries(ownEnvironment()).filter(([name]) => !colorSettings.includes(name))
  const quoted = ingestCommand(args).map((word) => `'${word}'`)
  return spawn('script', ['-qec', `${before}; ${quoted.join(' ')}`, '/dev/null'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { ...Object.fromEntries(others), TERM: 'xterm-256color', ...env },
  })
}
