import { setFlagsFromString } from 'node:v8'
import type { EmbeddedIngest, IngestError } from '@ingest/core'
import { Command, InvalidArgumentError, Option } from 'commander'
import { CommandFailure, exitCode, toFailure } from '../exit-code.ts'
import { type Io, type StopSignal, signalExitCodes, writeJson, writeStdout } from '../io.ts'
import { byteCount, dataOption, jsonOption, nonEmpty, wholeNumber, withIngest } from '../options.ts'
import { createLog, logsText, type Log, type LogFormat, logFormats } from './serve-log.ts'

interface ServeOptions {
  data: string
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
  return new Command('serve')
    .description('serve the HTTP API on the store in a directory, which is made when it is missing')
    .addOption(dataOption())
    .addOption(
      new Option('--host <address>', 'the address to listen on')
        .env('INGEST_HOST')
        .default('127.0.0.1')
        .argParser(nonEmpty),
    )
    .addOption(
      new Option('--port <n>', 'the port to listen on; 0 picks one')
        .env('INGEST_PORT')
        .default(8787)
        .argParser(wholeNumber(0, 65535)),
    )
    .addOption(
      new Option('--rate-limit <limits>', '"off", or requests and events a second for each project, such as 100,20000')
        .env('INGEST_RATE_LIMIT')
        .default({ requestsPerSecond: 100, eventsPerSecond: 20_000 }, '100,20000')
        .argParser(parseRateLimit),
    )
    .addOption(
      new Option('--map-rate-limit <bytes>', 'bytes of maps a second for each project, unless --rate-limit is off')
        .env('INGEST_MAP_RATE_LIMIT')
        .default(32 * 2 ** 20, '32M')
        .argParser(byteCount(1, 2 ** 38)),
    )
    .addOption(
      new Option('--read-rate-limit <bytes>', 'bytes of reads a second for each project, unless --rate-limit is off')
        .env('INGEST_READ_RATE_LIMIT')
        .default(16 * 2 ** 20, '16M')
        .argParser(byteCount(4096, 2 ** 38)),
    )
    .addOption(
      new Option('--publication-limit <bytes>', 'the largest body of a publication, which is a map or a manifest')
        .env('INGEST_PUBLICATION_LIMIT')
        .default(2 ** 20, '1M')
        .argParser(byteCount(1, 2 ** 28)),
    )
    .addOption(
      new Option('--pending-map-limit <bytes>', 'bytes that unfinished uploads of maps may hold for each project')
        .env('INGEST_PENDING_MAP_LIMIT')
        .default(2 ** 34, '16G')
        .argParser(byteCount(1, 2 ** 43)),
    )
    .addOption(
      new Option('--log-level <level>', 'what to log on stderr')
        .env('INGEST_LOG_LEVEL')
        .choices(logLevels)
        .default('info'),
    )
    .addOption(
      new Option('--log-format <format>', 'lines of JSON, or text for people; auto is text on a terminal')
        .env('INGEST_LOG_FORMAT')
        .choices(logFormats)
        .default('auto'),
    )
    .addOption(jsonOption())
    .addHelpText('after', serveHelp)
    .action((options: ServeOptions) => serveStore(io, options))
}

const serveHelp = `
Prints "listening on http://…" on stdout when it takes requests, and logs on stderr. With --json, the line on stdout is
an object.
SIGTERM and SIGINT drain: what was acknowledged is stored, what comes later gets 503, then it exits with 0.
Bursts of twice the requests, five times the events, 16 times the bytes of maps and four times the bytes of reads a
second are let through. The bodies of batches are limited too, to 512 bytes for each event of the limit. Limits are kept
in memory, by process. Bytes may be written as 512K, 32M or 1G.

Examples:
  ingest serve --data data/games
  ingest serve --data data/games --host 0.0.0.0 --port 8787 --rate-limit 200,40000
`

/**
 * How much of V8's heap may be garbage, in percent of what is not, before all of it is looked through. V8 counts the
 * bodies of requests in, and what is in use is little here: by itself it would do so every few megabytes of bodies.
 */
const garbagePercent = 400

async function serveStore(io: Io, options: ServeOptions): Promise<void> {
  setFlagsFromString(`--heap-growing-percent=${garbagePercent}`)
  const { data, host, port, rateLimit, mapRateLimit, readRateLimit, publicationLimit, logLevel, json } = options
  const maps = { pendingBytesMax: options.pendingMapLimit }
  const { serve } = await import('@ingest/server')
  const log = await createLog(io, { level: logLevel, format: options.logFormat })
  const onRebuild = (percent: number) => log.info({ percent }, 'rebuilding the id index')
  let isListening = false
  await withIngest(io, { data, create: true, maps, onFatal: endAtOnce, onRebuild }, async (ingest) => {
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
    // a terminal has the line of standard output
    if (!(io.stdout.isTTY && logsText(io, options.logFormat)))
      log.info({ url: server.url, data, pid: process.pid }, 'listening')
    if (json) await writeJson(io, { ok: true, url: server.url, port: server.port, data, pid: process.pid })
    else await writeStdout(io, `listening on ${server.url}\n`)
    await warnIfNoKeys(ingest, data, log)
    log.info({ signal: await signals.first }, 'signalled')
    await server.close()
    signals.off()
    log.info(ingest.tally(), 'drained')
  }).catch(async (error) => {
    throw isListening ? new CommandFailure({ ...(await toFailure(error)), isPrinted: true }) : error
  })

  /** After a failed disk, even an orderly exit may never end. */
  function endAtOnce(error: IngestError): void {
    log.fatal({ code: error.code, err: error }, 'the store has failed: ending at once')
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
    throw new InvalidArgumentError('Expected "off", or two whole numbers a second: requests,events.')
  }
  return { requestsPerSecond: Number(requests), eventsPerSecond: Number(events) }
}

/** The first SIGTERM or SIGINT. Another SIGTERM changes nothing; another SIGINT ends the process at once. */
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

/** A server without a key refuses every request, which is hard to see from outside. */
async function warnIfNoKeys({ listProjects, keys }: EmbeddedIngest, data: string, log: Log): Promise<void> {
  for (const projectId of await listProjects()) if ((await keys.list(projectId)).length > 0) return
  const command = `ingest keys create --data ${/^[\w./-]+$/.test(data) ? data : `'${data}'`} --project <id>`
  log.warn(`the store has no key yet, and every request is refused; make one: ${command}`)
}

async function toListenError(error: NodeJS.ErrnoException, host: string, port: number): Promise<Error> {
  // only what the system says about the address has this
  if (error.syscall === undefined) return error
  if (error.code === 'EADDRINUSE') {
    // the process that has it may be about to end, as at a restart: a supervisor tries again
    const message = `port ${port} on ${host} is taken: stop what listens there, or name another with --port`
    return new CommandFailure({ exitCode: exitCode.temporary, code: 'address-in-use', message, retryable: true })
  }
  const reasons: Record<string, string> = {
    EACCES: `port ${port} on ${host} is not allowed to you: name another with --port`,
    EADDRNOTAVAIL: `${host} is not an address of this machine: name another with --host`,
    ENOTFOUND: `${host} is not known: name another address with --host`,
  }
  const reason =
    reasons[error.code ?? ''] ?? `${host} cannot be listened on (${error.message}): name another with --host`
  const { IngestError } = await import('@ingest/core')
  return new IngestError('invalid-argument', reason, { cause: error })
}
