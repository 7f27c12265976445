import { type Command, InvalidArgumentError, Option } from 'commander'
import { byteCount, nonEmpty, parseDuration, wholeNumber } from '../options.ts'
import { parseStore, storeOptions } from '../store.ts'
import { type LogFormat, logFormats } from './serve-log.ts'
import type { ServeSettings } from './serve-settings.ts'

interface ServeOptions {
  migrate: boolean
  host: string
  port: number
  rateLimit: RateLimit
  mapRateLimit: number
  readRateLimit: number
  publicationLimit: number
  pendingMapLimit: number
  drainTimeout: number
  logLevel: string
  logFormat: LogFormat
  json?: true
}

type RateLimit = 'off' | { requestsPerSecond: number; eventsPerSecond: number }

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'silent']

/** The options of a server, without `--json`. */
export function serveOptions(): Option[] {
  return [...storeOptions(), noMigrateOption(), ...listenOptions(), ...limitOptions(), ...logOptions()]
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
    new Option('--drain-timeout <duration>', 'time limit of a graceful shutdown')
      .env('INGEST_DRAIN_TIMEOUT')
      .default(10_000, '10s')
      .argParser(parseDuration),
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

function parseRateLimit(text: string): RateLimit {
  if (text === 'off') return 'off'
  const [, requests, events] = /^([1-9]\d{0,8}),([1-9]\d{0,8})$/.exec(text) ?? []
  if (requests === undefined || events === undefined) {
    throw new InvalidArgumentError('Expected "off", or two integers per second: requests,events.')
  }
  return { requestsPerSecond: Number(requests), eventsPerSecond: Number(events) }
}

/**
 * The settings of a parsed command with {@link serveOptions}.
 *
 * @throws {CommanderError} for options that contradict each other
 */
export function toServeSettings(command: Command): ServeSettings {
  const options = command.opts<ServeOptions>()
  const { host, port } = options
  return {
    store: parseStore(command),
    migrate: options.migrate,
    listen: { host, port },
    ...(options.rateLimit !== 'off' && { rateLimits: toRateLimits(options.rateLimit, options) }),
    publicationBytesMax: options.publicationLimit,
    pendingMapBytesMax: options.pendingMapLimit,
    drainTimeoutMs: options.drainTimeout,
    logLevel: options.logLevel,
    logFormat: options.logFormat,
    json: options.json ?? false,
  }
}

/** With the bursts that each limit allows. */
function toRateLimits(
  { requestsPerSecond, eventsPerSecond }: Exclude<RateLimit, 'off'>,
  { mapRateLimit, readRateLimit }: ServeOptions,
) {
  return {
    requests: { perSecond: requestsPerSecond, burst: requestsPerSecond * 2 },
    events: { perSecond: eventsPerSecond, burst: Math.max(100, eventsPerSecond * 5) },
    mapBytes: { perSecond: mapRateLimit, burst: mapRateLimit * 16 },
    readBytes: { perSecond: readRateLimit, burst: readRateLimit * 4 },
  }
}
