import type { EmbeddedIngest, IngestError } from '@ingest/core'
import type { DurabilityReport } from '@ingest/postgres'
import type { Metrics, Served } from '@ingest/server'
import { type OpenOptions, withIngest } from '../connect.ts'
import { CommandFailure, toFailure } from '../exit-code.ts'
import { type Io, writeJson, writeStdout } from '../io.ts'
import { toStoreArgument, toStoreMember } from '../store.ts'
import { toListenError } from './listen-error.ts'
import { createLog, type Log, logsText } from './serve-log.ts'
import type { ServeSettings } from './serve-settings.ts'
import { listenForSignals } from './signals.ts'

/** A server of this process that accepts requests. */
export interface RunningServer {
  ingest: EmbeddedIngest
  served: Served
  log: Log
  metrics?: Metrics
}

/** What differs for a process that is one of several. */
export interface RunServerHooks {
  /** Called once requests are accepted. Default: prints and logs where it listens. */
  onListening?: (running: RunningServer) => Promise<void>
}

/**
 * Runs one server process: opens the store, listens until `io` has a SIGTERM or SIGINT, and drains. Resolves when all is
 * closed.
 *
 * @throws {IngestError} the codes of `withIngest`; `invalid-argument` for an address that cannot be listened on
 * @throws {CommandFailure} `address-in-use`
 */
export async function runServer(io: Io, settings: ServeSettings, hooks: RunServerHooks = {}): Promise<void> {
  const { onListening = (running) => announce(io, settings, running) } = hooks
  const log = await createLog(io, { level: settings.logLevel, format: settings.logFormat })
  let isListening = false
  await withIngest(io, toOpenOptions(io, settings, log), async (ingest) => {
    const signals = listenForSignals(io)
    const served = await listen(ingest, settings, log)
    isListening = true
    await onListening({ ingest, served, log })
    log.info({ signal: await signals.first }, 'signalled')
    await served.close()
    signals.off()
    log.info(ingest.tally(), 'drained')
  }).catch(async (error) => {
    throw isListening ? new CommandFailure({ ...(await toFailure(error)), isPrinted: true }) : error
  })
}

function toOpenOptions(io: Io, { store, migrate, pendingMapBytesMax }: ServeSettings, log: Log): OpenOptions {
  return {
    store,
    create: migrate,
    maps: { pendingBytesMax: pendingMapBytesMax },
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

async function listen(ingest: EmbeddedIngest, settings: ServeSettings, log: Log): Promise<Served> {
  const { listen, rateLimits, publicationBytesMax, drainTimeoutMs } = settings
  const { serve } = await import('@ingest/server')
  return await serve({
    ingest,
    ...listen,
    log,
    publicationBytesMax,
    closeTimeoutMs: drainTimeoutMs,
    ...(rateLimits && { rateLimits }),
  }).catch(async (error) => {
    throw await toListenError(error, listen)
  })
}

/** Prints and logs where the server listens, and warns of a store without keys. */
async function announce(io: Io, settings: ServeSettings, { served, ingest, log }: RunningServer): Promise<void> {
  const { url, port } = served
  const named = toStoreMember(settings.store)
  // on a terminal, the line of standard output is enough
  if (!(io.stdout.isTTY && logsText(io, settings.logFormat))) log.info({ url, ...named, pid: process.pid }, 'listening')
  if (settings.json) await writeJson(io, { ok: true, url, port, ...named, pid: process.pid })
  else await writeStdout(io, `listening on ${url}\n`)
  await warnIfNoKeys(ingest, settings.store, log)
}

/** Without a key, every request is refused, which clients cannot tell from a wrong key. */
async function warnIfNoKeys({ listProjects, keys }: EmbeddedIngest, store: string, log: Log): Promise<void> {
  for (const projectId of await listProjects()) if ((await keys.list(projectId)).length > 0) return
  const command = `ingest keys create ${toStoreArgument(store)} --project <id>`
  log.warn(`the store has no key, so every request is refused; create one: ${command}`)
}
