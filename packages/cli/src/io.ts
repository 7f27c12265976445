import type { Readable } from 'node:stream'
import type { WriteStream } from 'node:tty'
import { IngestError } from '@ingest/core'
import { isDiskFull } from '@ingest/core/internal'

/** The streams, environment and signals of a command, so that it can run inside of another process. */
export interface Io {
  readonly stdin: Input
  readonly stdout: Output
  readonly stderr: Output
  readonly env: Readonly<Record<string, string | undefined>>
  /** Calls `listener` for every signal, until the returned function is called. */
  onSignal(listener: (signal: StopSignal) => void): () => void
  /** Calls `listener` for every SIGHUP, until the returned function is called. */
  onReload(listener: () => void): () => void
  /** Ends the process immediately, with an exit code or by a signal. */
  end(how: number | 'SIGKILL'): void
}

/** A readable stream, with a file descriptor if it has one. */
export type Input = Readable & { readonly fd?: number; readonly isTTY?: boolean }

/** A writable stream with its backlog, and the properties of a terminal if it is one. */
export type Output = NodeJS.WritableStream &
  Partial<Pick<WriteStream, 'isTTY' | 'columns' | 'hasColors' | 'writableLength'>>

/** Exit codes after a signal, as shells report them. */
export const signalExitCodes = { SIGINT: 130, SIGTERM: 143 } as const

export type StopSignal = keyof typeof signalExitCodes

/** The streams, environment and signals of this process. */
export function processIo(): Io {
  const { stdout, stderr, env } = process
  // each write reports its own failure; without a listener, a closed log would end the process
  for (const stream of [stdout, stderr]) stream.on('error', () => {})
  return {
    // lazy: a pipe keeps the process alive once process.stdin is accessed
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
    onReload(listener) {
      process.on('SIGHUP', listener)
      return () => void process.off('SIGHUP', listener)
    },
    end(how) {
      if (typeof how === 'number') process.exit(how)
      process.kill(process.pid, how)
      // the init process of a container does not receive its own SIGKILL
      process.abort()
    },
  }
}

/** Whether the stream is a terminal with colors, and NO_COLOR is unset. */
export function hasColors({ isTTY, hasColors }: Output, env: Io['env']): boolean {
  return isTTY === true && hasColors !== undefined && !env.NO_COLOR && hasColors(env)
}

/**
 * Writes to standard output. Resolves when the write is done: to true, or to false if the reader has closed the pipe,
 * as `| head` does.
 *
 * @throws {IngestError} `disk-full`
 */
export function writeStdout({ stdout }: Pick<Io, 'stdout'>, data: string | Uint8Array): Promise<boolean> {
  return new Promise((resolve, reject) => {
    stdout.write(data, (error?: NodeJS.ErrnoException | null) => {
      if (!error) resolve(true)
      else if (error.code === 'EPIPE' || error.code === 'ERR_STREAM_DESTROYED') resolve(false)
      else if (!isDiskFull(error)) reject(error)
      else reject(new IngestError('disk-full', 'standard output cannot be written: the disk is full', { cause: error }))
    })
  })
}

/** Writes the `--json` object to standard output. */
export function writeJson(io: Pick<Io, 'stdout'>, object: object): Promise<boolean> {
  return writeStdout(io, `${JSON.stringify(object)}\n`)
}

/** The options of commands that print a result. */
export interface PrintOptions {
  json?: true | undefined
  quiet?: true | undefined
}

/** Prints the result of a command: with `--json` an object, otherwise lines for people, or nothing with `--quiet`. */
export async function printResult(
  io: Pick<Io, 'stdout'>,
  { json, quiet }: PrintOptions,
  object: object,
  lines: string | readonly string[],
): Promise<void> {
  if (json) await writeJson(io, { ok: true, ...object })
  else if (!quiet) await writeStdout(io, `${[lines].flat().join('\n')}\n`)
}

/** Writes a message, folded into one line, to standard error. */
export function printMessage({ stderr }: Pick<Io, 'stderr'>, text: string): void {
  stderr.write(`ingest: ${text.trim().replaceAll(/\s*\n\s*/g, ' ')}\n`)
}
