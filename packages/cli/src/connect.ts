import { readFile } from 'node:fs/promises'
import type { EmbeddedIngest, Ingest, IngestError, MapRules } from '@ingest/core'
import { type Command, Option } from 'commander'
import type { Io } from './io.ts'
import { printMessage } from './io.ts'
import { nonEmpty, parseDuration, projectOption, wholeNumber } from './options.ts'

/** A project on a server, or in the store of a directory. */
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
  return command
    .addOption(
      new Option('--url <url>', 'URL of the server; this or --data is required').env('INGEST_URL').argParser(nonEmpty),
    )
    .addOption(
      new Option('--data <dir>', 'directory of a store; this or --url is required')
        .env('INGEST_DATA')
        .argParser(nonEmpty),
    )
    .addOption(project)
    .addOption(
      new Option('--key-file <file>', 'read the ingestion key from a file, not from INGEST_KEY').argParser(nonEmpty),
    )
    .addOption(new Option('--key [key]').hideHelp())
    .on('option:key', () => {
      // the value is not repeated: this line may be logged
      command.error('a key on the command line is visible to other users: set INGEST_KEY, or use --key-file')
    })
    .addOption(
      new Option('--retries <n>', 'maximum number of retries after a temporary failure')
        .default(retries)
        .argParser(wholeNumber(0, 100)),
    )
    .addOption(
      new Option('--timeout <duration>', 'time limit of one request, with all its retries')
        .default(120_000, '120s')
        .argParser(parseDuration),
    )
    .addHelpText('after', targetHelp)
}

const targetHelp = `
With --url or INGEST_URL, the key of the project is read from INGEST_KEY or --key-file.
With --data or INGEST_DATA, no key is needed; servers may have the directory open. Options override the environment.`

/** The parsed target options; an option overrides the environment variable of the other one. */
export function parseTarget(command: Command): Target {
  const target = command.opts<Target>()
  const isOption = (name: 'url' | 'data') => command.getOptionValueSource(name) === 'cli'
  if (target.url === undefined || target.data === undefined) return target
  if (isOption('url') === isOption('data')) {
    const remedy = isOption('url') ? '--url or --data' : 'INGEST_URL and INGEST_DATA are both set, use --url or --data'
    command.error(`name a server or a store, and not both: ${remedy}`)
  }
  const { url, data, ...rest } = target
  return isOption('url') ? { ...rest, url } : { ...rest, data }
}

/** Time limit of a single attempt. */
const tryTimeoutMsMax = 30_000

/**
 * Connects to a project while `use` runs. `use` also gets the whole store where the target is a directory.
 *
 * @throws {IngestError} `unauthorized` without a key, `invalid-argument` for an invalid URL or key file, and the codes of
 *   `openLmdbStore`.
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

/** Rewords errors of a server in terms of the command line. */
async function explainError(error: unknown, { url, project }: Target): Promise<never> {
  const { IngestError } = await import('@ingest/core')
  if (!(error instanceof IngestError)) throw error
  const { code } = error
  if (code === 'not-found')
    throw new IngestError(code, `${url} does not serve this request: is it an Ingest server?`, { cause: error })
  if (code !== 'unauthorized') throw error
  const message = `The key is not active for the project ${project}, or its scopes do not allow this: check --project, and INGEST_KEY or --key-file.`
  throw new IngestError(code, message, { cause: error })
}

/** Shorter pauses are not reported. */
const reportedPauseMsMin = 2000
const retryReportIntervalMs = 10_000

/** Reports retries with long pauses on standard error, so that the command does not look stuck. */
function createRetryReport({ stderr }: Io): (error: Error, pauseMs: number) => void {
  let reportedAt = Number.NEGATIVE_INFINITY
  return ({ message }, pauseMs) => {
    if (pauseMs < reportedPauseMsMin || performance.now() - reportedAt < retryReportIntervalMs) return
    reportedAt = performance.now()
    // on a terminal, the line may hold a progress bar
    stderr.write(`${stderr.isTTY ? '\r\u001b[K' : ''}ingest: retrying: ${message}\n`)
  }
}

async function readKey({ env }: Io, file: string | undefined): Promise<string> {
  const { IngestError } = await import('@ingest/core')
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

export interface OpenOptions {
  data: string
  /** The project that the command is about; validated before the store is opened. */
  project?: string
  /** Default: false. Creates a missing store. */
  create?: boolean
  maps?: MapRules
  onFatal?: (error: IngestError) => void
  /** Called at most once a second while the id index is rebuilt. Default: a line on standard error. */
  onRebuild?: (percent: number) => void
}

const rebuildReportIntervalMs = 1000

/**
 * Opens the store of a directory while `use` runs.
 *
 * @throws {IngestError} `invalid-argument` for an invalid project id or directory, and the codes of `openLmdbStore`.
 */
export async function withIngest<T>(
  io: Pick<Io, 'stderr'>,
  options: OpenOptions,
  use: (ingest: EmbeddedIngest) => Promise<T>,
): Promise<T> {
  // loaded on demand: --help and wrong usage need not wait for it
  const [{ createIngest, IngestError }, { isProjectId }, { openLmdbStore }] = await Promise.all([
    import('@ingest/core'),
    import('@ingest/core/internal'),
    import('@ingest/lmdb'),
  ])
  const { data, project, create = false, maps = {}, onFatal = () => {} } = options
  const report = options.onRebuild ?? ((percent: number) => printMessage(io, `rebuilding the id index: ${percent} %`))
  if (project !== undefined && !isProjectId(project)) {
    throw new IngestError('invalid-argument', `Expected a project id: 1 to 64 of A-Z a-z 0-9 . _ -, not "${project}".`)
  }
  let reportedAt = Number.NEGATIVE_INFINITY
  const store = await openLmdbStore(data, {
    create,
    onFatal,
    onRebuild({ done, total }) {
      if (performance.now() - reportedAt < rebuildReportIntervalMs) return
      reportedAt = performance.now()
      report(Math.floor((100 * done) / total))
    },
  })
  const ingest = createIngest({ store, maps })
  try {
    return await use(ingest)
  } finally {
    await ingest.close()
  }
}
