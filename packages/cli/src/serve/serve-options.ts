import { isIP } from 'node:net'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Io } from '../io.ts'
import {
  byteCount,
  chosenOptions,
  durationMs,
  durationUpTo,
  expects,
  nonEmpty,
  type Parser,
  parsePath,
  parseProjectId,
  wholeNumber,
} from '../options.ts'
import { getConfigFile, resolveSettings } from '../settings.ts'
import { parseStore, storeOptions } from '../store.ts'
import type { Reloaded } from './reload.ts'
import { type LogFormat, logFormats } from './serve-log.ts'
import type { RetentionRule, ServeSettings } from './serve-settings.ts'

interface ServeOptions {
  migrate: boolean
  connectionsMax: number
  host: string
  port: number
  socket?: string
  tlsCert?: string
  tlsKey?: string
  trustProxy?: number | string[]
  cors?: string[]
  console: boolean
  keepRejected: boolean
  drainTimeout: number
  adminHost: string
  adminPort?: number
  metricsProjects: number
  rateLimit: RateLimit
  mapRateLimit: number
  readRateLimit: number
  publicationLimit: number
  pendingMapLimit: number
  retain?: RetentionRule[]
  logLevel: string
  logFormat: LogFormat
  json?: true
}

type RateLimit = 'off' | { requestsPerSecond: number; eventsPerSecond: number }

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'silent']

/** The options of a server, without `--json`, in groups for `--help`. */
export function serveOptions(): Option[] {
  const groups: [heading: string, options: Option[]][] = [
    ['Store:', [...storeOptions(), migrateOption(), connectionsOption(), retainOption()]],
    ['Network:', [...listenOptions(), ...tlsOptions(), ...clientOptions()]],
    ['Limits:', limitOptions()],
    ['Operation:', [...operationOptions(), ...adminOptions(), ...logOptions()]],
  ]
  return groups.flatMap(([heading, options]) => options.map((option) => option.helpGroup(heading)))
}

function migrateOption(): Option {
  return new Option('--no-migrate', 'refuse a missing store, and a database with an older schema').env('INGEST_MIGRATE')
}

function connectionsOption(): Option {
  return new Option('--connections-max <n>', 'maximum number of connections to a database')
    .env('INGEST_CONNECTIONS_MAX')
    .default(20)
    .argParser(wholeNumber(1, 10_000))
}

function retainOption(): Option {
  return new Option('--retain <rules>', 'erase older events, by default none: 90d, or by project, a=30d,b=off,*=90d')
    .env('INGEST_RETAIN')
    .default(undefined, 'off')
    .argParser(parseRetention)
}

function listenOptions(): Option[] {
  return [
    new Option('--host <address>', 'address to listen on').env('INGEST_HOST').default('127.0.0.1').argParser(nonEmpty),
    new Option('--port <n>', 'port to listen on; 0 selects a free one')
      .env('INGEST_PORT')
      .default(8787)
      .argParser(wholeNumber(0, 65535)),
    new Option('--socket <path>', 'Unix socket to listen on, in place of --host and --port')
      .env('INGEST_SOCKET')
      .argParser(parsePath),
  ]
}

function tlsOptions(): Option[] {
  return [
    new Option('--tls-cert <file>', 'serve HTTPS with this certificate and its chain, in PEM')
      .env('INGEST_TLS_CERT')
      .argParser(parsePath),
    new Option('--tls-key <file>', 'private key of the certificate, in PEM').env('INGEST_TLS_KEY').argParser(parsePath),
  ]
}

function clientOptions(): Option[] {
  return [
    new Option('--trust-proxy <proxies>', 'whose X-Forwarded-For to believe: the number of proxies, or 10.0.0.0/8,::1')
      .env('INGEST_TRUST_PROXY')
      .argParser(parseProxies),
    new Option('--cors <origins...>', 'web pages that may call the API, such as https://app.example.com, or *')
      .env('INGEST_CORS')
      .argParser(parseOrigins),
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

function operationOptions(): Option[] {
  return [
    new Option('--console', 'serve the web console at /console/').env('INGEST_CONSOLE').default(false),
    new Option('--keep-rejected', 'keep the text of the last rejected events in memory, which may be personal data')
      .env('INGEST_KEEP_REJECTED')
      .default(false),
    new Option('--drain-timeout <duration>', 'how long SIGTERM waits for requests in flight')
      .env('INGEST_DRAIN_TIMEOUT')
      .default(10_000, '10s')
      // a timer of more than 24.8 days would end at once
      .argParser(durationUpTo('24h')),
  ]
}

function adminOptions(): Option[] {
  return [
    new Option('--admin-port <n>', 'port of metrics, health and, with INGEST_ADMIN_TOKEN, keys; 0 selects a free one')
      .env('INGEST_ADMIN_PORT')
      .default(undefined, 'off')
      .argParser(wholeNumber(0, 65535)),
    new Option('--admin-host <address>', 'address of --admin-port')
      .env('INGEST_ADMIN_HOST')
      .default('127.0.0.1')
      .argParser(nonEmpty),
    new Option('--metrics-projects <n>', 'maximum number of projects with a label of their own in metrics')
      .env('INGEST_METRICS_PROJECTS')
      .default(100)
      .argParser(wholeNumber(0, 10_000)),
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

const rateLimitPattern = /^(?:off|([1-9]\d{0,8}),([1-9]\d{0,8}))$/

function parseRateLimit(text: string): RateLimit {
  const [, requests, events] = rateLimitPattern.exec(text) ?? []
  if (text === 'off') return 'off'
  if (requests === undefined || events === undefined) {
    throw new InvalidArgumentError('Expected "off", or two integers per second: requests,events.')
  }
  return { requestsPerSecond: Number(requests), eventsPerSecond: Number(events) }
}
expects({ type: 'string', pattern: rateLimitPattern.source }, parseRateLimit)

const keepSchema = { type: 'string', pattern: '^(off|\\d{1,6}[smhd])$' } as const

/** `90d` is `*=90d`. */
const parseRetention: Parser<RetentionRule[]> = expects(
  { type: ['string', 'object'], additionalProperties: keepSchema },
  (text) => {
    const rules = text.split(',').map((word): RetentionRule => {
      const [, project = '*', keep = ''] = /^(?:([^=]*)=)?(.*)$/s.exec(word) ?? []
      return [project === '*' ? project : parseProjectId(project), keep === 'off' ? keep : parseKeep(keep)]
    })
    const twice = rules.find(([project], i) => rules.findIndex(([each]) => each === project) !== i)
    if (twice) throw new InvalidArgumentError(`Expected one duration for ${twice[0]}.`)
    return rules
  },
)

function parseKeep(text: string): number {
  const ms = durationMs(text)
  if (ms > 0) return ms
  throw new InvalidArgumentError('Expected a duration such as 90d, or one for each project: a=30d,b=off,*=90d.')
}

const listSchema = { type: ['string', 'array'], items: { type: 'string' } } as const

/** Accepts several arguments, repeated options, and commas. */
function parseOrigins(text: string, earlier: readonly string[] = []): string[] {
  const origins = [...earlier, ...text.split(',')]
  if (origins.every((each) => isOrigin(each)) || (origins.length === 1 && text === '*')) return origins
  throw new InvalidArgumentError('Expected origins such as https://app.example.com, or only *.')
}
expects(listSchema, parseOrigins)

function isOrigin(text: string): boolean {
  return /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text
}

const parseProxies: Parser<number | string[]> = expects(
  { ...listSchema, type: ['integer', 'string', 'array'], minimum: 1, maximum: 16 },
  (text) => {
    if (/^([1-9]|1[0-6])$/.test(text)) return Number(text)
    const proxies = text.split(',')
    if (proxies.every(isNetwork)) return proxies
    throw new InvalidArgumentError('Expected a number of proxies from 1 to 16, or addresses such as 10.0.0.0/8,::1.')
  },
)

function isNetwork(text: string): boolean {
  const [address = '', length, ...more] = text.split('/')
  const version = isIP(address)
  const lengthMax = version === 4 ? 32 : 128
  return (
    version > 0 && more.length === 0 && (length === undefined || (/^\d{1,3}$/.test(length) && +length <= lengthMax))
  )
}

function isEveryAddress(host: string): boolean {
  return host === '0.0.0.0' || host === '::'
}

/**
 * The settings of a parsed command with {@link serveOptions}.
 *
 * @throws {CommanderError} for options that contradict each other
 */
export function toServeSettings(command: Command): ServeSettings {
  const options = command.opts<ServeOptions>()
  const { adminHost, adminPort, cors = [], retain = [], trustProxy } = options
  const tls = chooseTls(command, options)
  const config = getConfigFile(command)?.path
  const { host, port } = options
  const isSameHost = host === adminHost || isEveryAddress(host) || isEveryAddress(adminHost)
  if (port !== 0 && port === adminPort && isSameHost && options.socket === undefined) {
    command.error('--port and --admin-port must differ: the admin listener has an address of its own')
  }
  return {
    store: parseStore(command),
    migrate: options.migrate,
    connectionsMax: options.connectionsMax,
    listen: chooseAddress(command, options),
    ...(tls && { tls }),
    ...(trustProxy !== undefined && { trustProxy }),
    cors,
    console: options.console,
    keepRejected: options.keepRejected,
    drainTimeoutMs: options.drainTimeout,
    ...(adminPort !== undefined && { admin: { host: adminHost, port: adminPort } }),
    metricsProjects: options.metricsProjects,
    ...(options.rateLimit !== 'off' && { rateLimits: toRateLimits(options.rateLimit, options) }),
    publicationBytesMax: options.publicationLimit,
    pendingMapBytesMax: options.pendingMapLimit,
    retention: retain,
    logLevel: options.logLevel,
    logFormat: options.logFormat,
    ...(config !== undefined && { config }),
    json: options.json ?? false,
  }
}

/**
 * Returns what reads the settings of a parsed command again: those on the command line and in the environment stay.
 *
 * @throws {CommanderError} as it was read first
 */
export function settingsReader(command: Command, env: Io['env']): () => Reloaded {
  const before: Record<string, unknown> = { ...command.opts() }
  return () => {
    resolveSettings(command, env)
    const settings = toServeSettings(command)
    const needRestart = command.options.filter((option) => {
      const name = option.attributeName()
      return !isReloaded(name, before[name], command.getOptionValue(name))
    })
    return { settings, needRestart: needRestart.map(({ long }) => long ?? '') }
  }
}

/** Whether a running server takes over a change: see `reloadOnSignal`. */
function isReloaded(name: string, before: unknown, now: unknown): boolean {
  if (name === 'logLevel') return true
  // it cannot change between HTTP and HTTPS
  if (name === 'tlsCert' || name === 'tlsKey') return (before === undefined) === (now === undefined)
  return JSON.stringify(before) === JSON.stringify(now)
}

function chooseAddress(command: Command, { socket, host, port }: ServeOptions): ServeSettings['listen'] {
  const chosen = chosenOptions(command, ['socket', 'host', 'port'])
  if (!chosen.includes('socket') || socket === undefined) return { host, port }
  if (chosen.length > 1) command.error(`--socket replaces --host and --port: remove ${listFlags(chosen.slice(1))}`)
  return { socket }
}

/** The keys of options that others replace. */
export function listOverridden(command: Command): Set<string> {
  const [target] = chosenOptions(command, ['data', 'store'])
  const address = chosenOptions(command, ['socket', 'host', 'port'])
  return new Set([
    ...(target === undefined ? [] : target === 'data' ? ['store'] : ['data']),
    ...(address.length === 0 ? [] : address.includes('socket') ? ['host', 'port'] : ['socket']),
  ])
}

function chooseTls(command: Command, { tlsCert: cert, tlsKey: key }: ServeOptions): ServeSettings['tls'] {
  if (cert === undefined && key === undefined) return undefined
  if (cert === undefined) command.error('--tls-key needs --tls-cert: the certificate of the key')
  if (key === undefined) command.error('--tls-cert needs --tls-key: the private key of the certificate')
  return { cert, key }
}

function listFlags(names: readonly string[]): string {
  return names.map((name) => `--${name}`).join(' and ')
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
