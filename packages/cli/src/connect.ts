import { readFile } from 'node:fs/promises'
import type { EmbeddedIngest, Ingest } from '@ingest/core'
import { type Command, Option } from 'commander'
import type { Io } from './io.ts'
import { parseDuration, nonEmpty, projectOption, wholeNumber, withIngest } from './options.ts'

/** `--place <id>`. */
export function placeOption(): Option {
  return new Option('--place <id>', 'the place of the map').argParser(nonEmpty)
}

/** `--build <id>`. */
export function buildOption(): Option {
  return new Option('--build <id>', 'the build of the map').argParser(nonEmpty)
}

/** Where a project is: on a server, or in a store in a directory. */
export interface Target {
  url?: string
  data?: string
  project: string
  keyFile?: string
  retries: number
  timeout: number
  quiet?: true
}

export interface TargetOptions {
  /** With a project that is not mandatory, the command has to look for itself. */
  project?: Option
  /** How often a request is sent again without the option. */
  retries?: number
}

/** Adds what a command needs to reach a project. */
export function addTargetOptions(
  command: Command,
  { project = projectOption(), retries = 4 }: TargetOptions = {},
): Command {
  return command
    .addOption(
      new Option('--url <url>', 'the server; this or --data is required').env('INGEST_URL').argParser(nonEmpty),
    )
    .addOption(
      new Option('--data <dir>', 'the directory of a store; this or --url is required')
        .env('INGEST_DATA')
        .argParser(nonEmpty),
    )
    .addOption(project)
    .addOption(
      new Option('--key-file <file>', 'a file with the ingestion key, which is in INGEST_KEY otherwise').argParser(
        nonEmpty,
      ),
    )
    .addOption(new Option('--key [key]').hideHelp())
    .on('option:key', () => {
      // whatever it was, it is not repeated: this line may be in a log
      command.error('a key does not go on a command line, which others can read: set INGEST_KEY, or use --key-file')
    })
    .addOption(
      new Option('--retries <n>', 'how often a request is sent again after a failure that may go away')
        .default(retries)
        .argParser(wholeNumber(0, 100)),
    )
    .addOption(
      new Option('--timeout <duration>', 'how long one request may take, with all its tries')
        .default(120_000, '120s')
        .argParser(parseDuration),
    )
    .addHelpText('after', targetHelp)
}

const targetHelp = `
With --url, or INGEST_URL, the key of the project is in INGEST_KEY or in a --key-file.
With --data, or INGEST_DATA, no key is needed, and servers may have the directory open. An option wins over both.`

/** Which of a server and a store is meant. */
export function parseTarget(command: Command): Target {
  const target = command.opts<Target>()
  const isNamed = (name: 'url' | 'data') => command.getOptionValueSource(name) === 'cli'
  if (target.url === undefined || target.data === undefined) return target
  if (isNamed('url') === isNamed('data')) {
    const remedy = isNamed('url')
      ? '--url or --data'
      : 'INGEST_URL and INGEST_DATA are set, and --url or --data decides'
    command.error(`name a server or a store, and not both: ${remedy}`)
  }
  const { url, data, ...rest } = target
  return isNamed('url') ? { ...rest, url } : { ...rest, data }
}

/** How long one try may take, of the time for all of them. */
const tryTimeoutMsMax = 30_000

/**
 * Reaches a project for as long as `use` takes, with the store as well where the target is one.
 *
 * @throws {IngestError} `unauthorized` without a key, `invalid-argument` for what cannot be, and what opening a store
 *   refuses with.
 */
export async function connect<T>(
  io: Io,
  target: Target,
  use: (ingest: Ingest, embedded?: EmbeddedIngest) => Promise<T>,
): Promise<T> {
  const { url, data = '', project, keyFile, retries, timeout, quiet } = target
  if (url === undefined)
    return withIngest(io, { data, project }, (embedded) => use(embedded.project(project), embedded))
  const key = await readKey(io, keyFile)
  const { createClient } = await import('@ingest/client')
  const tryTimeoutMs = Math.min(timeout, tryTimeoutMsMax)
  const onRetry = quiet ? () => {} : createRetryReport(io)
  const client = createClient({ url, projectId: project, key, retries, tryTimeoutMs, timeoutMs: timeout, onRetry })
  try {
    return await use(client).catch((error) => explainError(error, target))
  } finally {
    await client.close()
  }
}

/** In the words of a command line what a server says of a request. */
async function explainError(error: unknown, { url, project }: Target): Promise<never> {
  const { IngestError } = await import('@ingest/core')
  if (!(error instanceof IngestError)) throw error
  const { code } = error
  if (code === 'not-found')
    throw new IngestError(code, `${url} knows no such request: is Ingest there?`, { cause: error })
  if (code !== 'unauthorized') throw error
  const message = `This is no active key of the project ${project} that may do this: look at --project, and at INGEST_KEY or --key-file.`
  throw new IngestError(code, message, { cause: error })
}

/** A pause that is felt, and how often somebody who waits hears of it, in milliseconds. */
const longPauseMs = 2000
const retryReportMs = 10_000

/** Says that a server is waited for: otherwise it looks as if nothing happened. */
function createRetryReport({ stderr }: Io): (error: Error, pauseMs: number) => void {
  let toldAt = Number.NEGATIVE_INFINITY
  return ({ message }, pauseMs) => {
    if (pauseMs < longPauseMs || performance.now() - toldAt < retryReportMs) return
    toldAt = performance.now()
    // a progress bar stands on that line
    stderr.write(`${stderr.isTTY ? '\r\u001b[K' : ''}ingest: trying again: ${message}\n`)
  }
}

async function readKey({ env }: Io, file: string | undefined): Promise<string> {
  const { IngestError } = await import('@ingest/core')
  const text = file === undefined ? env.INGEST_KEY : await readFile(file, 'utf8').catch(unreadable)
  const key = text?.trim() ?? ''
  if (/^[\x21-\x7e]+$/.test(key)) return key
  const where = file === undefined ? 'INGEST_KEY' : file
  const what = key === '' ? `There is no ingestion key in ${where}` : `What is in ${where} is no ingestion key`
  throw new IngestError('unauthorized', `${what}: put one into INGEST_KEY, or name its file by --key-file.`)

  function unreadable(error: Error): never {
    throw new IngestError('invalid-argument', `The key file cannot be read: ${error.message}`, { cause: error })
  }
}
