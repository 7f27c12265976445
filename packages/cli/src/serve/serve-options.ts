import type { RetentionRule } from '@ingest/core'
import type { Address, RateLimits } from '@ingest/server'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { schemasOption } from '../files/read-schemas.ts'
import { byteCount, durationMs, durationUpTo, nonEmpty, parsePath, parseProjectId, wholeNumber } from '../options.ts'
import { parseStore, storeOption } from '../store.ts'
import { type LogFormat, logFormats } from './serve-log.ts'

/** The options of `ingest serve`, without `--json` and INGEST_ADMIN_TOKEN. */
export interface ServeSettings {
  /** A directory, or the URL of a database, which may hold a password. */
  store: string
  /** Whether a missing store is created and an older schema upgraded. */
  migrate: boolean
  listen: Address
  /** Default: none. */
  admin?: Address
  /** PEM files; both or none. */
  tlsCert?: string
  tlsKey?: string
  cors?: string[]
  rateLimit: RateLimits | 'off'
  /** In bytes. */
  pendingMapLimit: number
  /** The file of the event schemas. */
  schemas?: string
  /** Default: all events are stored permanently. */
  retain: RetentionRule[]
  /** Whether `retain` keeps events that a consumer has not read. */
  keepUnread?: true
  /** In milliseconds. */
  keepActivity: number
  console?: true
  keepRejected?: true
  /** In milliseconds. */
  drainTimeout: number
  logLevel: string
  logFormat?: LogFormat
  json?: true
}

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'silent']

/** The options of a server, in groups for `--help`. */
export function serveOptions(): Option[] {
  const groups: Record<string, Option[]> = {
    'Store:': [
      storeOption().makeOptionMandatory(),
      new Option('--no-migrate', 'refuse a missing store, and a database with an older schema').env(
        'INGEST_NO_MIGRATE',
      ),
      new Option('--retain <rules>', 'erase older events: 90d, or by project, a=30d,b=off,*=90d')
        .env('INGEST_RETAIN')
        .default([], 'off')
        .argParser(parseRetention),
      new Option('--keep-unread', 'let --retain wait for consumers that have not read the events').env(
        'INGEST_KEEP_UNREAD',
      ),
      new Option('--keep-activity <duration>', 'how long counts by minute and rejected events by cause are stored')
        .env('INGEST_KEEP_ACTIVITY')
        .default(14 * 86_400_000, '14d')
        .argParser(parseKeepActivity),
    ],
    'Network:': [
      new Option('--listen <address>', 'host:port, or unix:/path; port 0 selects a free one')
        .env('INGEST_LISTEN')
        .default({ host: '127.0.0.1', port: 8787 }, '127.0.0.1:8787')
        .argParser(parseAddress),
      new Option('--admin <address>', 'address of metrics, health and, with INGEST_ADMIN_TOKEN, keys')
        .env('INGEST_ADMIN')
        .default(undefined, 'off')
        .argParser(parseAddress),
      new Option('--tls-cert <file>', 'serve HTTPS with this certificate and its chain, in PEM')
        .env('INGEST_TLS_CERT')
        .argParser(parsePath),
      new Option('--tls-key <file>', 'private key of the certificate, in PEM')
        .env('INGEST_TLS_KEY')
        .argParser(parsePath),
      new Option('--cors <origins...>', 'web pages that may call the API, such as https://app.example.com, or *')
        .env('INGEST_CORS')
        .argParser(parseOrigins),
    ],
    'Limits:': [
      new Option('--rate-limit <limits>', '"off", or limits of each project per second')
        .env('INGEST_RATE_LIMIT')
        .default(parseRateLimit(''), 'requests=100,events=20000,uploads=32M,reads=16M')
        .argParser(parseRateLimit),
      new Option('--pending-map-limit <bytes>', 'maximum bytes of unfinished map uploads per project')
        .env('INGEST_PENDING_MAP_LIMIT')
        .default(2 ** 34, '16G')
        .argParser(byteCount(1, 2 ** 43)),
    ],
    'Operation:': [
      schemasOption().env('INGEST_SCHEMAS'),
      new Option('--console', 'serve the web console at /console/').env('INGEST_CONSOLE'),
      new Option(
        '--keep-rejected',
        'store the text of some rejected events for --keep-activity, which may be personal data',
      ).env('INGEST_KEEP_REJECTED'),
      new Option('--drain-timeout <duration>', 'how long SIGTERM waits for requests in flight')
        .env('INGEST_DRAIN_TIMEOUT')
        .default(10_000, '10s')
        // a timer of more than 24.8 days would fire at once
        .argParser(durationUpTo('24h')),
      new Option('--log-level <level>', 'minimum level of the log on stderr')
        .env('INGEST_LOG_LEVEL')
        .choices(logLevels)
        .default('info'),
      new Option('--log-format <format>', 'text, JSON with names of levels and ISO times, or the numbers of pino')
        .env('INGEST_LOG_FORMAT')
        .choices(logFormats)
        .default(undefined, 'text on a terminal, else json'),
    ],
  }
  return Object.entries(groups).flatMap(([heading, options]) => options.map((option) => option.helpGroup(heading)))
}

/**
 * The settings of a parsed command with {@link serveOptions}.
 *
 * @throws {CommanderError} for a certificate without a key, and a password on the command line
 */
export function parseServeSettings(command: Command): ServeSettings {
  const settings = command.opts<ServeSettings>()
  const { tlsCert, tlsKey } = settings
  if (tlsKey !== undefined && tlsCert === undefined) command.error('--tls-key needs --tls-cert: its certificate')
  if (tlsCert !== undefined && tlsKey === undefined) command.error('--tls-cert needs --tls-key: its private key')
  return { ...settings, store: parseStore(command) }
}

const addressPattern = /^(\[[\da-f:.]+\]|[^:[\]/]+):(\d{1,5})$/i

/** Parses an address. It has no default host: with `:8787`, some programs listen on every address, others on one. */
function parseAddress(text: string): Address {
  if (text.startsWith('unix:')) return { socket: nonEmpty(text.slice('unix:'.length)) }
  const [, host = '', digits] = addressPattern.exec(text) ?? []
  const port = Number(digits)
  if (port <= 65_535) return { host: host.replace(/^\[(.*)\]$/, '$1'), port }
  throw new InvalidArgumentError('Expected an address such as 127.0.0.1:8787, 0.0.0.0:8787, [::1]:8787 or unix:/path.')
}

/** Parses retention rules; `90d` means `*=90d`. */
function parseRetention(text: string): RetentionRule[] {
  if (text === 'off') return []
  const rules = text.split(',').map((word): RetentionRule => {
    const [, project = '*', maxAge = ''] = /^(?:([^=]*)=)?(.*)$/s.exec(word) ?? []
    return [project === '*' ? project : parseProjectId(project), maxAge === 'off' ? maxAge : parseMaxAge(maxAge)]
  })
  const twice = rules.find(([project], i) => rules.findIndex(([each]) => each === project) !== i)
  if (twice) throw new InvalidArgumentError(`Expected one duration for ${twice[0]}.`)
  return rules
}

function parseMaxAge(text: string): number {
  const ms = durationMs(text)
  if (ms > 0) return ms
  throw new InvalidArgumentError('Expected a duration such as 90d, or one for each project: a=30d,b=off,*=90d.')
}

function parseKeepActivity(text: string): number {
  const ms = durationMs(text)
  if (ms >= 3_600_000) return ms
  throw new InvalidArgumentError('Expected a duration from 1h, such as 14d.')
}

/** Parses origins given as several arguments, repeated options, or separated by commas. */
function parseOrigins(text: string, earlier: readonly string[] = []): string[] {
  const origins = [...earlier, ...text.split(',')]
  if (origins.every((each) => isOrigin(each)) || (origins.length === 1 && text === '*')) return origins
  throw new InvalidArgumentError('Expected origins such as https://app.example.com, or only *.')
}

function isOrigin(text: string): boolean {
  return /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text
}

/** The parser of each limit, its default per second, and its burst as a multiple of the limit. */
const rateLimits = {
  requests: { parse: wholeNumber(1, 999_999_999), perSecond: 100, bursts: 2 },
  events: { parse: wholeNumber(1, 999_999_999), perSecond: 20_000, bursts: 5 },
  uploads: { parse: byteCount(1, 2 ** 38), perSecond: 32 * 2 ** 20, bursts: 16 },
  reads: { parse: byteCount(4096, 2 ** 38), perSecond: 16 * 2 ** 20, bursts: 4 },
} as const
type RateLimitName = keyof typeof rateLimits

function parseRateLimit(text: string): ServeSettings['rateLimit'] {
  if (text === 'off') return 'off'
  const given = new Map<string, number>()
  for (const word of text === '' ? [] : text.split(',')) {
    const [, name = '', value = ''] = /^(\w+)=(.+)$/.exec(word) ?? []
    if (!Object.hasOwn(rateLimits, name) || given.has(name)) throw new InvalidArgumentError(rateLimitForm)
    given.set(name, rateLimits[name as RateLimitName].parse(value))
  }
  const limit = (name: RateLimitName, burstMin = 1) => {
    const { perSecond: initial, bursts } = rateLimits[name]
    const perSecond = given.get(name) ?? initial
    return { perSecond, burst: Math.max(burstMin, perSecond * bursts) }
  }
  // a full batch has 100 events
  return {
    requests: limit('requests'),
    events: limit('events', 100),
    mapBytes: limit('uploads'),
    readBytes: limit('reads'),
  }
}

const rateLimitForm = 'Expected "off", or some of requests=100,events=20000,uploads=32M,reads=16M, each once.'
