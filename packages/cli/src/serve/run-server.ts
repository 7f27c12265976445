import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { type EmbeddedIngest, IngestError, startRetention } from '@ingest/core'
import type { DurabilityReport } from '@ingest/postgres'
import type { ServedWithAdmin, TlsMaterial } from '@ingest/server'
import { type OpenOptions, withIngest } from '../connect.ts'
import { CommandFailure, toFailure } from '../exit-code.ts'
import { readSchemas } from '../files/read-schemas.ts'
import { type Io, type StopSignal, signalExitCodes } from '../io.ts'
import { describeStore, migrateHint } from '../store.ts'
import { announce } from './announce.ts'
import { checkAddresses, toListenError } from './check-address.ts'
import { createLog, type Log } from './serve-log.ts'
import type { ServeSettings } from './serve-options.ts'

/**
 * Opens the store, serves until `io` receives SIGTERM or SIGINT, and drains. Resolves when everything is closed. While
 * it serves, SIGHUP reloads the files of the settings; before and after, SIGHUP is ignored, because it would end the
 * process.
 *
 * @throws {IngestError} the codes of `withIngest`; `invalid-argument` for an address or a file that cannot be used
 * @throws {CommandFailure} `address-in-use`
 */
export async function runServer(io: Io, settings: ServeSettings): Promise<void> {
  const log = await createLog(io, { level: settings.logLevel, format: settings.logFormat })
  // check these first, so that an invalid file or an address in use creates no store
  const files = await readFiles(settings)
  await checkAddresses(settings)
  const ignoreHangups = io.onReload(() => {})
  let isListening = false
  await withIngest(io, toOpenOptions(io, settings, log), async (ingest) => {
    ingest.setSchemas(files.schemas)
    const signals = listenForSignals(io)
    const served = await startServer(io, settings, { ingest, log, tls: files.tls })
    isListening = true
    const ignoreReloads = reloadOnSignal(io, settings, { ingest, served, log })
    await announce(io, settings, { ingest, served, log })
    ingest.observe({ onError: (err) => log.warn({ err }, 'work in the background failed, and is tried again') })
    const doubt = await ingest.findClockDoubt().catch((err) => log.warn({ err }, 'the clock could not be checked'))
    if (doubt) log.warn(doubt.message)
    const { retain, keepUnread = false } = settings
    const endRetention = startRetention(ingest, retain, {
      keepUnread,
      onUnread: (unread) =>
        log.warn(unread, keepUnread ? 'retention keeps unread events' : 'retention erases unread events'),
      onDoubt: ({ message, mayBeAhead }) => log.warn(mayBeAhead ? `Nothing is erased by age. ${message}` : message),
      onErased: (erased) => log.info(erased, 'old events were erased'),
      onError: (err) => log.warn({ err }, 'retention failed, and is tried again in an hour'),
    })
    log.info({ signal: await signals.first }, 'signalled')
    await Promise.all([served.close(), endRetention()])
    ignoreReloads()
    signals.off()
    log.info(ingest.tally(), 'drained')
  })
    .catch((error) => {
      throw isListening ? new CommandFailure({ ...toFailure(error), isPrinted: true }) : error
    })
    .finally(ignoreHangups)
}

interface Running {
  ingest: EmbeddedIngest
  log: Log
}

async function startServer(
  io: Io,
  settings: ServeSettings,
  { ingest, log, tls }: Running & { tls: TlsMaterial | undefined },
): Promise<ServedWithAdmin> {
  const { listen, admin, cors, rateLimit, console, drainTimeout } = settings
  const { serve } = await import('@ingest/server')
  const token = io.env.INGEST_ADMIN_TOKEN || undefined
  const options = {
    ingest,
    log,
    ...listen,
    ...(admin && { admin: { ...admin, ...(token !== undefined && { token }) } }),
    ...(tls && { tls }),
    ...(cors && { cors }),
    ...(rateLimit !== 'off' && { rateLimits: rateLimit }),
    ...(console && { console: (await import('@ingest/console')).createConsole() }),
    closeTimeoutMs: drainTimeout,
  }
  return serve(options).catch((error) => {
    throw toListenError(error)
  })
}

/**
 * The files that SIGHUP reloads.
 *
 * @throws {IngestError} `invalid-argument` for a file that cannot be read, and for event schemas with a mistake
 */
async function readFiles({ schemas, tlsCert, tlsKey }: ServeSettings) {
  return {
    schemas: schemas === undefined ? {} : await readSchemas(schemas),
    tls:
      tlsCert === undefined || tlsKey === undefined
        ? undefined
        : { cert: await readPem('--tls-cert', tlsCert), key: await readPem('--tls-key', tlsKey) },
  }
}

function readPem(flag: string, path: string): Promise<string> {
  return readFile(path, 'utf8').catch((error: Error) => {
    throw new IngestError('invalid-argument', `${flag} cannot be read: ${error.message}`)
  })
}

/**
 * After each SIGHUP, applies the event schemas and the TLS certificate from their files, until the returned function is
 * called. An invalid file is logged and changes nothing.
 */
function reloadOnSignal(
  io: Io,
  settings: ServeSettings,
  { ingest, served, log }: Running & { served: ServedWithAdmin },
): () => void {
  let last = Promise.resolve()
  return io.onReload(() => {
    last = last.then(reload)
  })

  async function reload(): Promise<void> {
    try {
      const { schemas, tls } = await readFiles(settings)
      ingest.setSchemas(schemas)
      if (tls) served.reloadTls(tls)
      log.info({ schemas: settings.schemas ?? 'none', tls: tls ? 'on' : 'off' }, 'reloaded')
    } catch (err) {
      log.error({ err }, 'the files of the settings were not reloaded')
    }
  }
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

/** How a server opens its store. */
function toOpenOptions(io: Io, settings: ServeSettings, log: Log): OpenOptions {
  const { store, migrate, listen, pendingMapLimit, keepActivity, keepRejected = false } = settings
  return {
    store,
    create: migrate,
    readAhead: false,
    maps: { pendingBytesMax: pendingMapLimit },
    activity: { keepMs: keepActivity },
    rejected: { keepEvents: keepRejected },
    server: listen.port ? `${hostname()}:${listen.port}` : hostname(),
    onRebuild: (percent) => log.info({ percent }, 'rebuilding the id index'),
    onMigrate: (versions) => log.info(versions, `upgrading the schema: ${migrateHint}`),
    onOpen: logDurability,
    onFatal: killProcess,
  }

  function logDurability({ survivesPrimaryLoss, version, ...report }: DurabilityReport): void {
    const durability = `survives loss of the primary: ${survivesPrimaryLoss ? 'yes' : 'no'}`
    log.info({ store: describeStore(store), postgres: version, ...report }, `the database is open, ${durability}`)
  }

  /** Kills the process: a graceful exit would wait for the disk. */
  function killProcess(error: IngestError): void {
    const reason = error.code === 'store-locked' ? 'the store cannot be closed' : 'the store has failed'
    log.fatal({ code: error.code, err: error }, `${reason}: the process ends immediately`)
    io.end('SIGKILL')
  }
}
