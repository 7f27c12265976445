import type { IngestError } from '@ingest/core'
import type { DurabilityReport } from '@ingest/postgres'
import { type OpenOptions, withIngest } from '../connect.ts'
import { CommandFailure, toFailure } from '../exit-code.ts'
import { type Io, type StopSignal, signalExitCodes } from '../io.ts'
import { toStoreMember } from '../store.ts'
import { announce } from './announce.ts'
import { listen } from './listen.ts'
import { type Reloaded, reloadOnSignal } from './reload.ts'
import { startRetention } from './retention.ts'
import { createLog, type Log } from './serve-log.ts'
import type { ServeSettings } from './serve-settings.ts'

export interface RunServerOptions {
  /** Reads the settings again after SIGHUP. */
  reload: () => Reloaded
  /** Logged once requests are accepted. */
  warning?: string | undefined
}

/**
 * Opens the store, listens until `io` has a SIGTERM or SIGINT, and drains. Resolves when all is closed. SIGHUP reloads
 * settings while it listens; before and after it is ignored, as it ends a process by default.
 *
 * @throws {IngestError} the codes of `withIngest`; `invalid-argument` for an address that cannot be listened on
 * @throws {CommandFailure} `address-in-use`
 */
export async function runServer(io: Io, settings: ServeSettings, options: RunServerOptions): Promise<void> {
  const { reload, warning } = options
  const log = await createLog(io, { level: settings.logLevel, format: settings.logFormat })
  const ignoreHangups = io.onReload(() => {})
  let isListening = false
  await withIngest(io, toOpenOptions(io, settings, log), async (ingest) => {
    const signals = listenForSignals(io)
    const adminToken = io.env.INGEST_ADMIN_TOKEN || undefined
    const running = await listen({ ingest, settings, log, adminToken })
    isListening = true
    const hasTls = settings.tls !== undefined
    const ignoreReloads = reloadOnSignal(io, { ...running, hasTls }, reload)
    await announce(io, settings, running)
    if (warning !== undefined) log.warn(warning)
    ingest.observe({ onError: (err) => log.warn({ err }, 'a sweep of maps failed, and is tried again in an hour') })
    const endRetention = startRetention({ ingest, rules: settings.retention, log })
    log.info({ signal: await signals.first }, 'signalled')
    await Promise.all([running.close(), endRetention()])
    ignoreReloads()
    signals.off()
    log.info(ingest.tally(), 'drained')
  })
    .catch(async (error) => {
      throw isListening ? new CommandFailure({ ...(await toFailure(error)), isPrinted: true }) : error
    })
    .finally(ignoreHangups)
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
  const { store, migrate, connectionsMax, pendingMapBytesMax, keepRejected } = settings
  return {
    store,
    create: migrate,
    connectionsMax,
    readAhead: false,
    maps: { pendingBytesMax: pendingMapBytesMax },
    rejected: { keepEvents: keepRejected },
    onRebuild: (percent) => log.info({ percent }, 'rebuilding the id index'),
    onOpen: logDurability,
    onFatal: killProcess,
  }

  function logDurability({ survivesPrimaryLoss, version, ...report }: DurabilityReport): void {
    const durability = `survives loss of the primary: ${survivesPrimaryLoss ? 'yes' : 'no'}`
    log.info({ ...toStoreMember(store), postgres: version, ...report }, `the database is open, ${durability}`)
  }

  /** A graceful exit would wait for the disk. */
  function killProcess(error: IngestError): void {
    const reason = error.code === 'store-locked' ? 'the store cannot be closed' : 'the store has failed'
    log.fatal({ code: error.code, err: error }, `${reason}: the process ends immediately`)
    io.end('SIGKILL')
  }
}
