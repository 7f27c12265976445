import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { readLines } from './read-lines.ts'

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
  /** How many bytes of stdout are read before its reader goes away; all of them without. */
  readBytes?: number
}

/** Runs the built command to its end, in a process of its own. */
export async function spawnIngest(args: readonly string[], settings: Settings = {}): Promise<Ended> {
  return ended(startIngest(args, settings), settings.readBytes)
}

/** What a process of which all streams are pipes says until its end. */
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

export interface LogRecord {
  level: number
  time: number
  msg: string
  [name: string]: unknown
}

/** `ingest serve` in a process of its own. */
export interface ServeProcess {
  url: string
  port: number
  stdout(): string
  /** The lines of the log, parsed. */
  log(): LogRecord[]
  /** The first record of the log that is wanted, of those that were not read before. */
  nextRecord(isWanted: (record: LogRecord) => boolean): Promise<LogRecord>
  signal(signal: NodeJS.Signals): void
  exited: Promise<Ended>
  /** Closes the reading end of the log. */
  closeLog(): void
}

/** Starts `ingest serve` on a free port, unless `args` say otherwise, and ends it with the test. */
export async function startServe(t: Test, args: readonly string[], { env }: Settings = {}): Promise<ServeProcess> {
  const port = args.includes('--listen') || env?.INGEST_LISTEN ? [] : ['--listen', '127.0.0.1:0']
  const child = startIngest(['serve', ...port, ...args], { ...(env && { env }) })
  const stdout = collect(child.stdout)
  const stderr = collect(child.stderr)
  const lines = readLines(child.stderr)
  const exited = once(child, 'close').then(([code, signal]) => ({ code, signal, stdout: stdout(), stderr: stderr() }))
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  while (!stdout().includes('\n')) {
    const ended = await Promise.race([once(child.stdout, 'data').then(() => undefined), exited])
    if (ended) throw new Error(`ingest serve ended with ${ended.signal ?? ended.code}: ${ended.stderr}`)
  }
  const url = stdout().trim().replace('listening on ', '')
  return {
    url,
    port: Number(new URL(url).port),
    stdout,
    async nextRecord(isWanted) {
      for (;;) {
        const record = parseLine(await lines.next())
        if (isWanted(record)) return record
      }
    },
    log: () => stderr().trimEnd().split('\n').filter(Boolean).map(parseLine),
    signal: (signal) => void child.kill(signal),
    exited,
    closeLog: () => child.stderr.destroy(),
  }
}

function parseLine(line: string) {
  return JSON.parse(line)
}

/** Starts the built command, with no standard input. */
export function startIngest(args: readonly string[], { env = {} }: Settings = {}) {
  const [command = '', ...rest] = ingestCommand(args)
  return spawn(command, rest, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...ownEnvironment(), ...env } })
}

/**
 * The command line that runs the built command. The shell becomes node: the test runner adds loaders to every process
 * that it sees, whatever its environment says, and these take longer than the command itself.
 */
export function ingestCommand(args: readonly string[]): string[] {
  const node = [process.execPath, binary, ...args]
  return process.platform === 'win32' ? node : ['sh', '-c', 'unset NODE_OPTIONS; exec "$0" "$@"', ...node]
}

/** Without the settings of the user who runs the tests. */
export function ownEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(INGEST_|NODE_)/.test(name)))
}

function collect(stream: NodeJS.ReadableStream): () => string {
  const chunks: Buffer[] = []
  stream.on('data', (chunk) => chunks.push(chunk))
  return () => Buffer.concat(chunks).toString()
}

/** Node asks each of these whether there are colours. */
const colorSettings = ['NO_COLOR', 'FORCE_COLOR', 'CI', 'COLORTERM', 'NODE_DISABLE_COLORS', 'TMUX', 'TEAMCITY_VERSION']

/** The environment of a terminal that has colours. */
export function ownTerminal(): NodeJS.ProcessEnv {
  const others = Object.entries(ownEnvironment()).filter(([name]) => !colorSettings.includes(name))
  return { ...Object.fromEntries(others), TERM: 'xterm-256color' }
}
