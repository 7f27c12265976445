import type { EmbeddedIngest, IngestError } from '@ingest/core'
import type { DurabilityReport } from '@ingest/postgres'
import { type OpenOptions, withIngest } from '../connect.ts'
import { CommandFailure, toFailure } from '../exit-code.ts'
import type { Io } from '../io.ts'
import { isDatabase, toStoreMember } from '../store.ts'
import { announce } from './announce.ts'
import { listen, type RunningServer } from './listen.ts'
import { type Reloaded, reloadOnSignal } from './reload.ts'
import { startRetention } from './retention.ts'
import { createLog, type Log } from './serve-log.ts'
import type { ServeSettings } from './serve-settings.ts'
import { listenForSignals } from './signals.ts'

export interface RunServerHooks {
  /** Reads the settings again after SIGHUP. Default: nothing is reloaded. */
  reload?: () => Reloaded | Promise<Reloaded>
  /** Called once requests are accepted. Default: prints and logs what is in force. */
  onListening?: (running: RunningServer) => Promise<void>
  /** Whether to measure without an admin server too. Default: false. */
  isMeasured?: boolean
  /** Of several processes that share one address and one store: its number, in the log, and how many there are. */
  worker?: { id: number; count: number }
}

/**
 * Runs one server process: opens the store, listens until `io` has a SIGTERM or SIGINT, and drains. Resolves when all is
 * closed. SIGHUP, which ends a process by default, is ignored where it reloads nothing.
 *
 * @throws {IngestError} the codes of `withIngest`; `invalid-argument` for an address that cannot be listened on
 * @throws {CommandFailure} `address-in-use`
 */
export async function runServer(io: Io, settings: ServeSettings, hooks: RunServerHooks = {}): Promise<void> {
  const { onListening = (running) => announce(io, settings, running), isMeasured, reload, worker } = hooks
  const serverLog = await createLog(io, { level: settings.logLevel, format: settings.logFormat })
  const log = worker ? serverLog.child({ worker: worker.id }) : serverLog
  const ignoreHangups = io.onReload(() => {})
  let isListening = false
  await withIngest(io, toOpenOptions(io, settings, log), async (opened) => {
    const ingest = worker ? shareLimits(opened, settings, worker.count) : opened
    const signals = listenForSignals(io)
    const adminToken = io.env.INGEST_ADMIN_TOKEN || undefined
    const running = await listen({ ingest, settings, log, adminToken, isMeasured })
    isListening = true
    const hasTls = settings.tls !== undefined
    const ignoreReloads = reload ? reloadOnSignal(io, { ...running, hasTls }, reload) : () => {}
    await onListening(running)
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

/** Divides the rate limits between the workers. A database counts them itself, with those of other machines. */
function shareLimits(ingest: EmbeddedIngest, { store }: ServeSettings, count: number): EmbeddedIngest {
  return isDatabase(store) ? ingest : { ...ingest, registerServer: () => () => count }
}

/** How a server opens its store. */
export function toOpenOptions(io: Io, settings: ServeSettings, log: Log): OpenOptions {
  const { store, migrate, pendingMapBytesMax, keepRejected } = settings
  return {
    store,
    create: migrate,
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

  /** After an I/O error of the disk, a graceful exit may hang. */
  function killProcess(error: IngestError): void {
    log.fatal({ code: error.code, err: error }, 'the store has failed: the process ends immediately')
    io.end('SIGKILL')
  }
}
