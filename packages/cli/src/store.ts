import type { IngestError, Store } from '@ingest/core'
import type { DurabilityReport } from '@ingest/postgres'
import { type Command, CommanderError, Option } from 'commander'
import { type Io, printMessage } from './io.ts'
import { isUrl, nonEmpty } from './options.ts'

export function storeOption(): Option {
  return new Option('--store <store>', 'a directory, or postgres://user@host/database')
    .env('INGEST_STORE')
    .argParser(parseStoreName)
}

/**
 * Parses a store; a URL of another scheme is refused, because it would become a directory of that name. The message
 * does not repeat a URL, which may hold a password.
 */
export function parseStoreName(text: string): string {
  if (isDatabase(text) || !isUrl(text)) return nonEmpty(text)
  throw new CommanderError(1, 'ingest.store', 'a store is a directory or postgres://user@host/database')
}

/**
 * The server or the store that a command works on. An option on the command line overrides the environment variable of
 * the other.
 *
 * @throws {CommanderError} if neither or both are given, and for a password on the command line
 */
export function chooseTarget(command: Command): { url: string } | { store: string } {
  const { url, store } = command.opts<{ url?: string; store?: string }>()
  const isChosen = (name: string) => command.getOptionValueSource(name) === 'cli'
  if (url !== undefined && store !== undefined && isChosen('url') === isChosen('store')) {
    command.error('name a server with --url or a store with --store, not both: INGEST_URL and INGEST_STORE count too')
  }
  if (url !== undefined && (store === undefined || isChosen('url'))) return { url }
  if (store === undefined)
    command.error('name a server with --url or INGEST_URL, or a store with --store or INGEST_STORE')
  checkStoreOption(command, 'store')
  return { store }
}

/**
 * The store of a command without `--url`.
 *
 * @throws {CommanderError} for a password on the command line
 */
export function parseStore(command: Command): string {
  checkStoreOption(command, 'store')
  return command.getOptionValue('store')
}

/**
 * Refuses a password in the option `name` on the command line, which other users of the machine can read.
 *
 * @throws {CommanderError} without the value
 */
export function checkStoreOption(command: Command, name: string): void {
  if (command.getOptionValueSource(name) !== 'cli' || !hasPassword(command.getOptionValue(name))) return
  const variable = `INGEST_${name.toUpperCase()}`
  command.error(
    `a password on the command line is visible to other users: set the whole URL in ${variable}, or the password in PGPASSWORD`,
  )
}

/** Whether a store is a PostgreSQL database, by its scheme. */
export function isDatabase(store: string): boolean {
  return /^postgres(ql)?:\/\//i.test(store)
}

/** Whether the URL of a database has a password. */
function hasPassword(store: string): boolean {
  if (!isDatabase(store)) return false
  const query = /\?([^#]*)/s.exec(store)?.[1] ?? ''
  return /^[^:]*:\/\/[^@]*:[^@]+@/s.test(store) || new URLSearchParams(query).has('password')
}

/** Scheme, user, hosts and database. Any other `@` is refused: it may be part of an unescaped password. */
const urlPattern =
  /^(postgres(?:ql)?:\/\/)(?:([^:@/?#]*)(?::[^@/?#]*)?@)?((?:\[[\da-fA-F:.]*\]|[^:@/?#,[\]]*)(?::\d*)?(?:,(?:\[[\da-fA-F:.]*\]|[^:@/?#,[\]]*)(?::\d*)?)*)(\/[^@?#]*)?(?:[?#][^@]*)?$/s

/** A store for output and logs: the URL of a database without its password and parameters. */
export function describeStore(store: string): string {
  if (!isDatabase(store)) return store
  const [, scheme = 'postgres://', user, hosts = '…', path = ''] = urlPattern.exec(store) ?? []
  return `${scheme}${user ? `${user}@` : ''}${hosts}${path}`
}

/** The `--store` option with a store, for printed command lines. */
export function toStoreArgument(store: string): string {
  const text = describeStore(store)
  return `--store ${/^[\w./:@,-]+$/.test(text) ? text : `'${text}'`}`
}

export interface OpenStoreOptions {
  /** Whether to create a missing store and upgrade the schema of a database. Default: false. */
  create?: boolean
  /** As in `openLmdbStore`. Default: true, because commands read sequentially. */
  readAhead?: boolean
  /** As in `openLmdbStore`; not called for a database. */
  onFatal?: (error: IngestError) => void
  /** Called at most once a second while the id index of a directory is rebuilt. Default: a line on standard error. */
  onRebuild?: (percent: number) => void
  /** Called before the schema of a database is upgraded. Default: a line on standard error. */
  onMigrate?: (versions: { from: number; to: number }) => void
  /** Called once a database is open. */
  onOpen?: (report: DurabilityReport) => void
}

const rebuildReportIntervalMs = 1000

/** The end of messages about a schema upgrade. */
export const migrateHint = 'it may take minutes, and `ingest migrate` does it before servers start'

/**
 * Opens a store: a directory, or a database by its URL. Loads only the adapter that it needs.
 *
 * @throws {IngestError} the codes of `openLmdbStore` or `openPostgresStore`
 */
export async function openStore(io: Pick<Io, 'stderr'>, store: string, options: OpenStoreOptions): Promise<Store> {
  const { create = false, readAhead = true, onFatal = () => {}, onRebuild, onOpen = () => {} } = options
  if (isDatabase(store)) {
    const { openPostgresStore } = await import('@ingest/postgres')
    const {
      onMigrate = ({ from, to }) =>
        printMessage(io, `upgrading the schema from version ${from} to ${to}: ${migrateHint}`),
    } = options
    return openPostgresStore(store, { migrate: create, onMigrate, onOpen })
  }
  const report = onRebuild ?? ((percent: number) => printMessage(io, `rebuilding the id index: ${percent} %`))
  let reportedAt = Number.NEGATIVE_INFINITY
  const { openLmdbStore } = await import('@ingest/lmdb')
  return openLmdbStore(store, {
    create,
    readAhead,
    onFatal,
    onRebuild({ done, total }) {
      if (performance.now() - reportedAt < rebuildReportIntervalMs) return
      reportedAt = performance.now()
      report(Math.floor((100 * done) / total))
    },
  })
}
