import type { Readable } from 'node:stream'
import type { WriteStream } from 'node:tty'

/** What a command line reads, writes and listens to, in place of the process that it runs in. */
export interface Io {
  readonly stdin: Input
  readonly stdout: Output
  readonly stderr: Output
  /** The environment variables. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Calls `listener` at every signal until the function that it returns is called. */
  onSignal(listener: (signal: StopSignal) => void): () => void
  /** Ends the process at once, by its exit code or by a signal. */
  end(how: number | 'SIGKILL'): void
}

/** A stream; with the descriptor of a file where it stands for one. */
export type Input = Readable & { readonly fd?: number }

/** A stream that may be a terminal. */
export type Output = NodeJS.WritableStream & Partial<Pick<WriteStream, 'isTTY' | 'columns' | 'hasColors'>>

/** The exit code of a command that a signal has ended, as shells report it. */
export const signalExitCodes = { SIGINT: 130, SIGTERM: 143 } as const

export type StopSignal = keyof typeof signalExitCodes

/** The streams, the environment and the signals of this process. */
export function processIo(): Io {
  const { stdout, stderr, env } = process
  // a failed write is reported to its caller; a closed log does not end the process
  for (const stream of [stdout, stderr]) stream.on('error', () => {})
  return {
    // on demand, because a pipe keeps the process alive once process.stdin is accessed
    get stdin() {
      return process.stdin
    },
    stdout,
    stderr,
    env,
    onSignal(listener) {
      const names = Object.keys(signalExitCodes) as StopSignal[]
      const onSignal = (name: NodeJS.Signals) => listener(name as StopSignal)
      for (const name of names) process.on(name, onSignal)
      return () => {
        for (const name of names) process.off(name, onSignal)
      }
    },
    end: (how) => (typeof how === 'number' ? process.exit(how) : void process.kill(process.pid, how)),
  }
}

/** Whether text may have colours here: a terminal that has some, unless NO_COLOR is set. */
export function hasColors({ isTTY, hasColors }: Output, env: Io['env']): boolean {
  return isTTY === true && hasColors !== undefined && !env.NO_COLOR && hasColors(env)
}

/**
 * Writes to standard output. Resolves once the next write may follow: to true, or to false once nobody reads it any
 * more, as behind `| head`.
 *
 * @throws {IngestError} `disk-full`
 */
export function writeStdout({ stdout }: Pick<Io, 'stdout'>, data: string | Uint8Array): Promise<boolean> {
  return new Promise((resolve, reject) => {
    stdout.write(data, (error?: NodeJS.ErrnoException | null) => {
      if (!error) resolve(true)
      else if (error.code === 'EPIPE' || error.code === 'ERR_STREAM_DESTROYED') resolve(false)
      else toWriteError(error).then(reject, reject)
    })
  })
}

/** Writes the object of `--json` to standard output. */
export function writeJson(io: Pick<Io, 'stdout'>, object: object): Promise<boolean> {
  return writeStdout(io, `${JSON.stringify(object)}\n`)
}

/** Writes one line for people to standard error. */
export function printMessage({ stderr }: Pick<Io, 'stderr'>, text: string): void {
  stderr.write(`ingest: ${text.trim().replaceAll(/\s*\n\s*/g, ' ')}\n`)
}

async function toWriteError(error: NodeJS.ErrnoException): Promise<Error> {
  if (error.code !== 'ENOSPC') return error
  const { IngestError } = await import('@ingest/core')
  return new IngestError('disk-full', 'what standard output goes to is full', { cause: error })
}
