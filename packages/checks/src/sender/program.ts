import { spawn, spawnSync } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { IngestError } from '@ingest/core'
import type { JsonObject } from '@ingest/core/internal'

/** A running program that sends the events of its standard input. */
export interface Program {
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /** Resolves when it has ended and its output is complete. */
  readonly ended: Promise<{ code: number | null; signal: string | null }>
  /** Kills it and the processes that it has started. */
  kill(): void
  /** Stops and continues it, as SIGSTOP and SIGCONT do; undefined where there are no signals. */
  readonly freezer?: Freezer | undefined
  /** Whether it cannot see other processes. Default false. */
  readonly isIsolated?: boolean
}

export interface Freezer {
  freeze(): void
  thaw(): void
}

/** Starts a program with these environment variables. */
export type StartProgram = (variables: Readonly<Record<string, string>>, options?: StartOptions) => Promise<Program>

export interface StartOptions {
  /** Whether to hide other processes from it, as a container does, if the system can. Default false. */
  isIsolated?: boolean
}

/**
 * Starts a command in a process group of its own, without other variables named `INGEST_…`.
 *
 * @throws {IngestError} `invalid-argument` if the command cannot be started
 */
export function startCommand(command: string, args: readonly string[] = []): StartProgram {
  return async (variables, options) => {
    const isolation = options?.isIsolated ? findIsolation() : []
    const [file = command, ...rest] = [...isolation, command, ...args]
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('INGEST_'))
    const env = { ...Object.fromEntries(inherited), ...variables }
    const hasGroups = process.platform !== 'win32'
    const child = spawn(file, rest, { env, stdio: 'pipe', detached: hasGroups })
    const ended = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
      child.on('close', (code, signal) => resolve({ code, signal }))
    })
    await new Promise<void>((resolve, reject) => {
      child.on('spawn', resolve)
      child.on('error', (cause) => {
        reject(new IngestError('invalid-argument', `${command} cannot be started: ${cause.message}.`, { cause }))
      })
    })
    // a program may end before it has read all input
    child.stdin.on('error', () => {})
    const signal = (name: NodeJS.Signals) => {
      try {
        if (hasGroups) process.kill(-(child.pid as number), name)
        else child.kill(name)
      } catch {
        // all processes of the group have ended
      }
    }
    return {
      stdin: child.stdin,
      stdout: child.stdout,
      stderr: child.stderr,
      ended,
      kill() {
        signal('SIGKILL')
        // a process that has left the group may keep them open
        child.stdout.destroy()
        child.stderr.destroy()
      },
      freezer: hasGroups ? { freeze: () => signal('SIGSTOP'), thaw: () => signal('SIGCONT') } : undefined,
      isIsolated: isolation.length > 0,
    }
  }
}

/** The command that hides other processes from the command after it; empty if it is not permitted. */
function findIsolation(): string[] {
  const unshare = ['unshare', '--user', '--map-root-user', '--pid', '--fork', '--mount-proc']
  const [file = '', ...options] = unshare
  return spawnSync(file, [...options, 'true']).status === 0 ? unshare : []
}

/** A program with its input and output. */
export interface WatchedProgram extends Program {
  /** Writes a line for each event. */
  give(events: readonly JsonObject[]): void
  /** How many events it was given. */
  given(): number
  /** The last line of its standard output. */
  output(): string
  /** The last lines of its standard error, for messages. */
  errors(): string
  /** Resolves when it has printed that its sender took that many events. */
  taken(count: number): Promise<void>
  /** Whether either of its outputs contained the secret. */
  hasPrinted(secret: string): boolean
}

const outputCharsMax = 64 * 1024

/** Counts the events that a program is given, and reads its output. */
export function watchProgram(program: Program): WatchedProgram {
  const texts = { stdout: '', stderr: '' }
  let given = 0
  let taken = 0
  const waiting: (() => void)[] = []
  for (const name of ['stdout', 'stderr'] as const) {
    program[name].setEncoding('utf8').on('data', (chunk) => {
      texts[name] = `${texts[name]}${chunk}`.slice(-outputCharsMax)
      for (const [, count] of texts.stdout.matchAll(/^taken (\d+)$/gm)) taken = Number(count)
      for (const resolve of waiting.splice(0)) resolve()
    })
  }
  return {
    ...program,
    give(events) {
      given += events.length
      program.stdin.write(events.map((event) => `${JSON.stringify(event)}\n`).join(''))
    },
    given: () => given,
    output: () => texts.stdout.trimEnd().split('\n').at(-1) ?? '',
    errors: () => (texts.stderr === '' ? '' : `; standard error: ${JSON.stringify(texts.stderr.trim().slice(-500))}`),
    async taken(count) {
      while (taken < count) await new Promise<void>((resolve) => waiting.push(resolve))
    },
    hasPrinted: (secret) => Object.values(texts).some((text) => text.includes(secret)),
  }
}
