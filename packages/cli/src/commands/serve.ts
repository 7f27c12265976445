import type { EmbeddedIngest, IngestError } from '@ingest/core'
import type { DurabilityReport } from '@ingest/postgres'
import { Command, InvalidArgumentError, Option } from 'commander'
import { withIngest } from '../connect.ts'
import { CommandFailure, exitCode, toFailure } from '../exit-code.ts'
import { type Io, type StopSignal, signalExitCodes, writeJson, writeStdout } from '../io.ts'
import { byteCount, jsonOption, nonEmpty, wholeNumber } from '../options.ts'
import { parseStore, storeOptions, toStoreArgument, toStoreMember } from '../store.ts'
import { createLog, type Log, type LogFormat, logFormats, logsText } from './serve-log.ts'

interface ServeOptions {
  migrate: boolean
  host: string
  port: number
  rateLimit: RateLimit
  mapRateLimit: number
  readRateLimit: number
  publicationLimit: number
  pendingMapLimit: number
  logLevel: string
  logFormat: LogFormat
  json?: true
}

type RateLimit = 'off' | { requestsPerSecond: number; eventsPerSecond: number }

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'silent']

/** `ingest serve`. */
export function serveCommand(io: Io): Command {
  const command = new Command('serve').description('serve the HTTP API on a store, creating a missing one')
  for (const option of [
    ...storeOptions(),
    noMigrateOption(),
    ...listenOptions(),
    ...limitOptions(),
    ...logOptions(),
    jsonOption(),
  ])
    command.addOption(option)
  return command
    .addHelpText('after', serveHelp)
    .action((options: ServeOptions) => serveStore(io, parseStore(command), options))
}

function noMigrateOption(): Option {
  return new Option('--no-migrate', 'refuse a database whose schema is missing or older, in place of upgrading it')
}

function listenOptions(): Option[] {
  return [
    new Option('--host <address>', 'address to listen on').env('INGEST_HOST').default('127.0.0.1').argParser(nonEmpty),
    new Option('--port <n>', 'port to listen on; 0 selects a free one')
      .env('INGEST_PORT')
      .default(8787)
      .argParser(wholeNumber(0, 65535)),
  ]
}

function limitOptions(): Option[] {
  return [
    new Option('--rate-limit <limits>', '"off", or requests and events per second and project, such as 100,20000')
      .env('INGEST_RATE_LIMIT')
      .default({ requestsPerSecond: 100, eventsPerSecond: 20_000 }, '100,20000')
      .argParser(parseRateLimit),
    new Option('--map-rate-limit <bytes>', 'uploaded bytes of maps per second and project, unless --rate-limit is off')
      .env('INGEST_MAP_RATE_LIMIT')
      .default(32 * 2 ** 20, '32M')
      .argParser(byteCount(1, 2 ** 38)),
    new Option('--read-rate-limit <bytes>', 'bytes read per second and project, unless --rate-limit is off')
      .env('INGEST_READ_RATE_LIMIT')
      .default(16 * 2 ** 20, '16M')
      .argParser(byteCount(4096, 2 ** 38)),
    new Option('--publication-limit <bytes>', 'maximum body of a publication, which is a map or a manifest')
      .env('INGEST_PUBLICATION_LIMIT')
      .default(2 ** 20, '1M')
      .argParser(byteCount(1, 2 ** 28)),
    new Option('--pending-map-limit <bytes>', 'maximum bytes of unfinished map uploads per project')
      .env('INGEST_PENDING_MAP_LIMIT')
      .default(2 ** 34, '16G')
      .argParser(byteCount(1, 2 ** 43)),
  ]
}

function logOptions(): Option[] {
  return [
    new Option('--log-level <level>', 'minimum level of the log on stderr')
      .env('INGEST_LOG_LEVEL')
      .choices(logLevels)
      .default('info'),
    new Option('--log-format <format>', 'JSON lines, or text for people; auto selects text on a terminal')
      .env('INGEST_LOG_FORMAT')
      .choices(logFormats)
      .default('auto'),
  ]
}

const serveHelp = `
Prints "listening on http://…" to stdout when it accepts requests, an object with --json, and logs to stderr.
SIGTERM and SIGINT start a graceful shutdown: requests in flight are completed, new ones get 503, the exit code is 0.
Bursts may reach 2 times the requests, 5 times the events, 16 times the bytes of maps and 4 times the bytes read per
second. Bodies of batches are limited to 512 bytes per event of the limit. Sizes may be written as 512K, 32M or 1G.
Any number of servers may have a store open: a directory on one machine, a database on several.

Examples:
  ingest serve --data data/games
  ingest serve --data data/games --host 0.0.0.0 --port 8787 --rate-limit 200,40000
  ingest serve --store postgres://ingest@localhost/games
`

async function serveStore(io: Io, store: string, options: ServeOptions): Promise<void> {
  const { host, port, rateLimit, mapRateLimit, readRateLimit, publicationLimit, logLevel, json } = options
  const maps = { pendingBytesMax: options.pendingMapLimit }
  const { serve } = await import('@ingest/server')
  const log = await createLog(io, { level: logLevel, format: options.logFormat })
  const onRebuild = (percent: number) => log.info({ percent }, 'rebuilding the id index')
  const named = toStoreMember(store)
  let isListening = false
  const opening = { store, create: options.migrate, maps, onFatal: killProcess, onRebuild, onOpen: logDurability }
  await withIngest(io, opening, async (ingest) => {
    const signals = listenForSignals(io)
    const server = await serve({
      ingest,
      host,
      port,
      log,
      publicationBytesMax: publicationLimit,
      ...(rateLimit !== 'off' && { rateLimits: toRateLimits(rateLimit, mapRateLimit, readRateLimit) }),
    }).catch(async (error) => {
      throw await toListenError(error, host, port)
    })
    isListening = true
    // on a terminal, the line of standard output is enough
    if (!(io.stdout.isTTY && logsText(io, options.logFormat)))
      log.info({ url: server.url, ...named, pid: process.pid }, 'listening')
    if (json) await writeJson(io, { ok: true, url: server.url, port: server.port, ...named, pid: process.pid })
    else await writeStdout(io, `listening on ${server.url}\n`)
    await warnIfNoKeys(ingest, store, log)
    log.info({ signal: await signals.first }, 'signalled')
    await server.close()
    signals.off()
    log.info(ingest.tally(), 'drained')
  }).catch(async (error) => {
    throw isListening ? new CommandFailure({ ...(await toFailure(error)), isPrinted: true }) : error
  })

  function logDurability({ survivesPrimaryLoss, version, ...report }: DurabilityReport): void {
    const durability = `survives loss of the primary: ${survivesPrimaryLoss ? 'yes' : 'no'}`
    log.info({ ...named, postgres: version, ...report }, `the database is open, ${durability}`)
  }

  /** After an I/O error of the disk, a graceful exit may hang. */
  function killProcess(error: IngestError): void {
    log.fatal({ code: error.code, err: error }, 'the store has failed: the process ends immediately')
    io.end('SIGKILL')
  }
}

function toRateLimits(
  { requestsPerSecond, eventsPerSecond }: Exclude<RateLimit, 'off'>,
  mapBytesPerSecond: number,
  readBytesPerSecond: number,
) {
  return {
    requests: { perSecond: requestsPerSecond, burst: requestsPerSecond * 2 },
    events: { perSecond: eventsPerSecond, burst: Math.max(100, eventsPerSecond * 5) },
    mapBytes: { perSecond: mapBytesPerSecond, burst: mapBytesPerSecond * 16 },
    readBytes: { perSecond: readBytesPerSecond, burst: readBytesPerSecond * 4 },
  }
}

function parseRateLimit(text: string): RateLimit {
  if (text === 'off') return 'off'
  const [, requests, events] = /^([1-9]\d{0,8}),([1-9]\d{0,8})$/.exec(text) ?? []
  if (requests === undefined || events === undefined) {
    throw new InvalidArgumentError('Expected "off", or two integers per second: requests,events.')
  }
  return { requestsPerSecond: Number(requests), eventsPerSecond: Number(events) }
}

/** Resolves `first` with the first SIGTERM or SIGINT. Later SIGTERMs are ignored; a second SIGINT ends the process. */
function listenForSignals(io: Io): { first: Promise<StopSignal>; off: () => void } {
  let off = () => {}
  let interrupts = 0
  const first = new Promise<StopSignal>((resolve) => {
    off = io.onSignal((signal) => {
      resolve(signal)
      if (signal === 'SIGINT' && ++interrupts > 1) io.end(signalExitCodes.SIGINT)
    })
  })
  return { first, off }
}

/** Without a key, every request is refused, which clients cannot tell from a wrong key. */
async function warnIfNoKeys({ listProjects, keys }: EmbeddedIngest, store: string, log: Log): Promise<void> {
  for (const projectId of await listProjects()) if ((await keys.list(projectId)).length > 0) return
  const command = `ingest keys create ${toStoreArgument(store)} --project <id>`
  log.warn(`the store has no key, so every request is refused; create one: ${command}`)
}

async function toListenError(error: NodeJS.ErrnoException, host: string, port: number): Promise<Error> {
  // only errors of system calls have a syscall
  if (error.syscall === undefined) return error
  if (error.code === 'EADDRINUSE') {
    // during a restart, the old process may still be shutting down; a supervisor retries
    const message = `port ${port} on ${host} is in use: stop the other process, or use another --port`
    return new CommandFailure({ exitCode: exitCode.temporary, code: 'address-in-use', message, retryable: true })
  }
  const reasons: Record<string, string> = {
    EACCES: `no permission to listen on port ${port} of ${host}: use another --port`,
    EADDRNOTAVAIL: `${host} is not an address of this machine: use another --host`,
    ENOTFOUND: `${host} is an unknown host: use another --host`,
  }
  const reason = reasons[error.code ?? ''] ?? `cannot listen on ${host} (${error.message}): use another --host`
  const { IngestError } = await import('@ingest/core')
  return new IngestError('invalid-argument', reason, { cause: error })
}
