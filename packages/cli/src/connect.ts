import { readFile } from 'node:fs/promises'
import {
  createIngest,
  type EmbeddedIngest,
  type Ingest,
  IngestError,
  type IngestOptions,
  type MapRules,
} from '@ingest/core'
import { type Command, Option } from 'commander'
import { refusal } from './exit-code.ts'
import type { Io, PrintOptions } from './io.ts'
import { nonEmpty, parsePositiveDuration, projectOption, wholeNumber } from './options.ts'
import { chooseTarget, type OpenStoreOptions, openStore, storeOption } from './store.ts'

/** A project on a server or in a store. */
export interface Target extends PrintOptions {
  url?: string
  /** A directory, or the URL of a database. */
  store?: string
  project: string
  keyFile?: string
  retries: number
  timeout: number
}

export interface TargetOptions {
  /** Default: `--project <id>`, required. */
  project?: Option
  /** Default of `--retries`. */
  retries?: number
}

/** Adds the options that select a project on a server or in a store. */
export function addTargetOptions(
  command: Command,
  { project = projectOption(), retries = 4 }: TargetOptions = {},
): Command {
  const url = new Option('--url <url>', 'URL of the server').env('INGEST_URL').argParser(nonEmpty)
  return (
    command
      .addOption(url)
      .addOption(storeOption())
      .addOption(project)
      .addOption(
        new Option('--key-file <file>', 'read the ingestion key from a file, not from INGEST_KEY').argParser(nonEmpty),
      )
      .addOption(new Option('--key [key]').hideHelp())
      // the value is not repeated, because this line may be logged
      .on('option:key', () => command.error(keyRefusal))
      .addOption(
        new Option('--retries <n>', 'maximum number of retries after a temporary failure')
          .default(retries)
          .argParser(wholeNumber(0, 100)),
      )
      .addOption(
        new Option('--timeout <duration>', 'time limit of one request, with all its retries')
          .default(120_000, '120s')
          .argParser(parsePositiveDuration),
      )
      .addHelpText('after', `${keyHelp}${storeHelp}`)
  )
}

const keyRefusal = 'a key on the command line is visible to other users: set INGEST_KEY, or use --key-file'

const keyHelp = `
With --url or INGEST_URL, the key of the project is read from INGEST_KEY or --key-file.`

const storeHelp = `
With --store or INGEST_STORE, no key is needed; servers may have the store open. Options override variables.`

/**
 * The parsed target options.
 *
 * @throws {CommanderError} as `chooseTarget`
 */
export function parseTarget(command: Command): Target {
  const { url: _url, store: _store, ...rest } = command.opts<Target>()
  return { ...rest, ...chooseTarget(command) }
}

/** Timeout of a single attempt. */
const tryTimeoutMsMax = 30_000

/**
 * Connects to a project while `use` runs. `use` also gets the whole store if the target is a store.
 *
 * @throws {IngestError} `unauthorized` without a key, `invalid-argument` for an invalid URL or key file, and the codes
 *   of `openStore`
 */
export async function connect<T>(
  io: Io,
  target: Target,
  use: (ingest: Ingest, embedded?: EmbeddedIngest) => Promise<T>,
): Promise<T> {
  const { url, store = '', project, keyFile, retries, timeout, quiet } = target
  if (url === undefined) return withIngest(io, { store }, (embedded) => use(embedded.project(project), embedded))
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

/**
 * Like {@link connect}, for commands that read. Refuses a project without events, maps and keys in a store, which is
 * most likely a typo. A server knows the project, because it accepted a key.
 *
 * @throws {CommandFailure} `project-not-found`
 */
export function connectToKnown<T>(io: Io, target: Target, use: (ingest: Ingest) => Promise<T>): Promise<T> {
  return connect(io, target, async (ingest, embedded) => {
    if (embedded) requireKnown(await embedded.hasProject(target.project), target.project)
    return use(ingest)
  })
}

/** @throws {CommandFailure} `project-not-found` unless the project `isKnown` */
export function requireKnown(isKnown: boolean, project: string): void {
  if (!isKnown) throw refusal('project-not-found', `The project ${project} is unknown: it has no events and no keys.`)
}

/** Rewords errors of a server with the names of command-line options. */
async function explainError(error: unknown, { url, project }: Target): Promise<never> {
  if (!(error instanceof IngestError)) throw error
  const { code } = error
  if (code === 'not-found')
    throw new IngestError(code, `${url} does not serve this request: is it an Ingest server?`, { cause: error })
  if (code !== 'unauthorized') throw error
  const message = `The key is not active for the project ${project}, or its scopes do not allow this: check --project, and INGEST_KEY or --key-file.`
  throw new IngestError(code, message, { cause: error })
}

/** Retries with shorter pauses are not reported. */
const reportedPauseMsMin = 2000
const retryReportIntervalMs = 10_000

/** Reports retries with long pauses on standard error, so that the command does not look stuck. */
function createRetryReport({ stderr }: Io): (error: Error, pauseMs: number) => void {
  let reportedAt = Number.NEGATIVE_INFINITY
  return ({ message }, pauseMs) => {
    if (pauseMs < reportedPauseMsMin || performance.now() - reportedAt < retryReportIntervalMs) return
    reportedAt = performance.now()
    // on a terminal, clear the line, which may hold a progress bar
    stderr.write(`${stderr.isTTY ? '\r\u001b[K' : ''}ingest: retrying: ${message}\n`)
  }
}

async function readKey({ env }: Io, file: string | undefined): Promise<string> {
  const text = file === undefined ? env.INGEST_KEY : await readFile(file, 'utf8').catch(unreadable)
  const key = text?.trim() ?? ''
  if (/^[\x21-\x7e]+$/.test(key)) return key
  const source = file === undefined ? 'INGEST_KEY' : file
  const problem = key === '' ? `${source} has no ingestion key` : `${source} is not an ingestion key`
  throw new IngestError('unauthorized', `${problem}: set INGEST_KEY, or name a file with --key-file.`)

  function unreadable(error: Error): never {
    throw new IngestError('invalid-argument', `The key file cannot be read: ${error.message}`, { cause: error })
  }
}

export interface OpenOptions extends OpenStoreOptions {
  store: string
  maps?: MapRules
  activity?: IngestOptions['activity']
  rejected?: IngestOptions['rejected']
  server?: string
}

/**
 * Opens a store while `use` runs.
 *
 * @throws {IngestError} the codes of `openStore`
 */
export async function withIngest<T>(
  io: Pick<Io, 'stderr'>,
  { store: name, maps, activity, rejected, server, ...options }: OpenOptions,
  use: (ingest: EmbeddedIngest) => Promise<T>,
): Promise<T> {
  const store = await openStore(io, name, options)
  const ingest = createIngest({
    store,
    ...(maps && { maps }),
    ...(activity && { activity }),
    ...(rejected && { rejected }),
    ...(server !== undefined && { server }),
  })
  try {
    return await use(ingest)
  } finally {
    await ingest.close()
  }
}
