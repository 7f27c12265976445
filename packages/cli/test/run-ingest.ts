import { Readable, Writable } from 'node:stream'
import type { Test } from 'tap'
import type { Io, StopSignal } from '../src/io.ts'
import { run } from '../src/run.ts'
import type { Ended } from './ingest-process.ts'

export interface RunSettings {
  /** All environment variables: none by default. */
  env?: Record<string, string>
  stdin?: string
}

/** Runs a command line to its end in this process, with streams and an environment of its own. */
export async function ingest(args: readonly string[], settings: RunSettings = {}): Promise<Ended> {
  const { io, stdout, stderr } = createIo(settings)
  const code = await run(args, io)
  return { code, signal: null, stdout: stdout(), stderr: stderr() }
}

/** Streams and an environment of their own, and what was written to them. */
export function createIo({ env = {}, stdin = '' }: RunSettings = {}) {
  const [stdout, stderr] = [collector(), collector()]
  const listeners = new Set<(signal: StopSignal) => void>()
  const io: Io = {
    stdin: Readable.from(stdin === '' ? [] : [Buffer.from(stdin)], { objectMode: false }),
    stdout: stdout.stream,
    stderr: stderr.stream,
    env,
    onSignal(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    end(how) {
      throw new Error(`ended by ${how}`)
    },
  }
  return {
    io,
    stdout: stdout.text,
    stderr: stderr.text,
    /** Resolves as soon as something is written to standard output. */
    wrote: stdout.wrote,
    signal(name: StopSignal) {
      for (const listener of listeners) listener(name)
    },
  }
}

function collector() {
  const chunks: Buffer[] = []
  const { promise: wrote, resolve } = withResolvers()
  const stream = new Writable({
    write(chunk, _, callback) {
      chunks.push(chunk)
      resolve()
      callback()
    },
  })
  return { stream, wrote, text: () => Buffer.concat(chunks).toString() }
}

function withResolvers() {
  let resolve = () => {}
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}

/** Asserts that a command line is refused as wrong use: one line on stderr that matches, nothing on stdout, exit 2. */
export async function isWrongUse(t: Test, args: readonly string[], pattern: RegExp, settings?: RunSettings) {
  t.match(
    await ingest(args, settings),
    { code: 2, stdout: /^$/, stderr: new RegExp(`^ingest: .*${pattern.source}.*\\n$`) },
    `ingest ${args.join(' ')}`,
  )
}
