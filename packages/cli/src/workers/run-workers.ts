import type { EmbeddedIngest } from '@ingest/core'
import type { Served } from '@ingest/server'
import { withIngest } from '../connect.ts'
import { CommandFailure, toFailure } from '../exit-code.ts'
import type { Io, StopSignal } from '../io.ts'
import type { Announced } from '../serve/announce.ts'
import { listenForOperators } from '../serve/listen.ts'
import { type Reloaded, reloadOnSignal } from '../serve/reload.ts'
import { startRetention } from '../serve/retention.ts'
import { toOpenOptions } from '../serve/run-server.ts'
import { createLog } from '../serve/serve-log.ts'
import type { ServeSettings } from '../serve/serve-settings.ts'
import { listenForSignals } from '../serve/signals.ts'
import { type Pool, startPool } from './pool.ts'

export interface RunWorkersHooks {
  /** Reads the settings again after SIGHUP. */
  reload: () => Reloaded | Promise<Reloaded>
  /** Called once all workers accept requests. */
  onListening: (running: Announced) => Promise<void>
}

/**
 * Runs the primary of `settings.workers` processes that serve one store: opens the store for the operator's address, keeps
 * the workers running until `io` has a SIGTERM or SIGINT, and drains them. Resolves when all have ended.
 *
 * @throws {IngestError} the codes of `withIngest`; `invalid-argument` for an admin address that cannot be listened on
 * @throws {CommandFailure} the failure of a worker that cannot start, or that ends again and again
 */
export async function runWorkers(
  io: Io,
  settings: ServeSettings,
  { reload, onListening }: RunWorkersHooks,
): Promise<void> {
  const log = await createLog(io, { level: settings.logLevel, format: settings.logFormat })
  let isListening = false
  // opened first, so that only one process creates, upgrades or rebuilds a store
  await withIngest(io, toOpenOptions(io, settings, log), async (ingest) => {
    const signals = listenForSignals(io)
    const draining = new AbortController()
    const isMeasured = settings.admin !== undefined
    const pool = await startPool({
      env: io.env,
      log,
      settings: toWorkerSettings(settings),
      isMeasured,
      signalled: signals.first,
    })
    let signal: StopSignal = 'SIGTERM'
    let admin: Served | undefined
    let endRetention = async () => {}
    try {
      const adminToken = io.env.INGEST_ADMIN_TOKEN || undefined
      const context = { ingest: withReadiness(ingest, pool), settings, log, adminToken }
      admin = await listenForOperators(context, pool.metrics, draining.signal)
      reloadOnSignal(io, { served: { url: pool.url, reloadTls() {} }, log }, async () => {
        const reloaded = await reload()
        pool.reload(toWorkerSettings(reloaded.settings))
        return reloaded
      })
      await onListening({ ingest, log, served: pool, ...(admin && { admin }) })
      isListening = true
      endRetention = startRetention({ ingest, rules: settings.retention, log })
      signal = await Promise.race([signals.first, pool.failed])
      log.info({ signal }, 'signalled')
    } finally {
      draining.abort()
      await Promise.all([pool.stop(signal), endRetention()]).finally(() => admin?.close())
      signals.off()
    }
    log.info({ workers: settings.workers }, 'all workers drained')
  }).catch(async (error) => {
    throw isListening ? new CommandFailure({ ...(await toFailure(error)), isPrinted: true }) : error
  })
}

/** Without what the primary does itself. */
function toWorkerSettings({ admin: _, ...settings }: ServeSettings): ServeSettings {
  return { ...settings, migrate: false, retention: [] }
}

/** Not ready while no worker accepts requests. */
function withReadiness(ingest: EmbeddedIngest, { listeningCount }: Pool): EmbeddedIngest {
  return {
    ...ingest,
    async checkReady() {
      const { IngestError } = await import('@ingest/core')
      if (listeningCount() === 0) throw new IngestError('overloaded', 'No worker accepts requests.')
      await ingest.checkReady()
    },
  }
}
