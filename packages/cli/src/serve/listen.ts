import { readFile } from 'node:fs/promises'
import type { EmbeddedIngest } from '@ingest/core'
import type { ConsoleHandler, Metrics, Served, TlsMaterial } from '@ingest/server'
import { CommandFailure, exitCode } from '../exit-code.ts'
import type { Log } from './serve-log.ts'
import type { ServeSettings } from './serve-settings.ts'

/** A server of this process that accepts requests. */
export interface RunningServer {
  ingest: EmbeddedIngest
  log: Log
  served: Served
  /** The server of {@link ServeSettings.admin}. */
  admin?: Served
  /** Drains the server; the admin server responds until the end. Resolves when both are closed. */
  close(): Promise<void>
}

export interface ListenContext {
  ingest: EmbeddedIngest
  settings: ServeSettings
  log: Log
  /** Of the API of keys. Default: no such API. */
  adminToken?: string | undefined
}

/**
 * Listens on the addresses of the settings.
 *
 * @throws {IngestError} `invalid-argument` for an address, certificate or token that cannot be used
 * @throws {CommandFailure} `address-in-use`
 */
export async function listen(context: ListenContext): Promise<RunningServer> {
  const { ingest, settings, log } = context
  const { createMetrics } = await import('@ingest/server')
  const metrics = settings.admin ? createMetrics(ingest, { projectsMax: settings.metricsProjects }) : undefined
  const draining = new AbortController()
  const admin = await listenForOperators(context, metrics, draining.signal)
  const served = await listenForClients(context, metrics).catch(async (error) => {
    await admin?.close()
    throw error
  })
  return {
    ingest,
    log,
    served,
    ...(admin && { admin }),
    async close() {
      draining.abort()
      await served.close()
      await admin?.close()
    },
  }
}

async function listenForClients({ ingest, settings, log }: ListenContext, metrics?: Metrics): Promise<Served> {
  const { listen, tls, cors, trustProxy, rateLimits, publicationBytesMax, drainTimeoutMs } = settings
  const { serve } = await import('@ingest/server')
  const options = {
    ingest,
    ...listen,
    log,
    cors,
    publicationBytesMax,
    closeTimeoutMs: drainTimeoutMs,
    ...(tls && { tls: await readTls(tls) }),
    ...(trustProxy !== undefined && { trustProxy }),
    ...(rateLimits && { rateLimits }),
    ...(metrics && { metrics }),
    ...(settings.console && { console: await loadConsole() }),
  }
  return await serve(options).catch(async (error) => {
    throw await toListenError(error, listen)
  })
}

async function loadConsole(): Promise<ConsoleHandler> {
  const { createConsole } = await import('@ingest/console')
  return createConsole()
}

/** Listens on the operator's address, if there is one. */
async function listenForOperators(
  { ingest, settings: { admin }, log, adminToken }: ListenContext,
  metrics: Metrics | undefined,
  draining: AbortSignal,
): Promise<Served | undefined> {
  if (!admin) return undefined
  const { serveAdmin } = await import('@ingest/server')
  const options = { ingest, ...admin, log, draining, ...(metrics && { metrics }) }
  return await serveAdmin({ ...options, ...(adminToken !== undefined && { token: adminToken }) }).catch(
    async (error) => {
      throw await toListenError(error, admin, 'admin-')
    },
  )
}

/**
 * The certificate and the key in the files of the settings.
 *
 * @throws {IngestError} `invalid-argument` for a file that cannot be read
 */
export async function readTls({ cert, key }: NonNullable<ServeSettings['tls']>): Promise<TlsMaterial> {
  const [certText, keyText] = await Promise.all([read('--tls-cert', cert), read('--tls-key', key)])
  return { cert: certText, key: keyText }

  async function read(flag: string, path: string): Promise<string> {
    const { IngestError } = await import('@ingest/core')
    return readFile(path, 'utf8').catch((error: Error) => {
      throw new IngestError('invalid-argument', `${flag} cannot be read: ${error.message}`, { cause: error })
    })
  }
}

/** Rewords an error of a listening server in terms of the options. */
async function toListenError(
  error: NodeJS.ErrnoException,
  address: ServeSettings['listen'],
  prefix = '',
): Promise<Error> {
  // only errors of system calls have a syscall
  if (error.syscall === undefined) return error
  const isSocket = 'socket' in address
  const where = isSocket ? address.socket : `port ${address.port} on ${address.host}`
  const [hostFlag, portFlag] = isSocket ? ['--socket', '--socket'] : [`--${prefix}host`, `--${prefix}port`]
  if (error.code === 'EADDRINUSE') {
    // during a restart, the old process may still be shutting down; a supervisor retries
    const message = `${where} is in use: stop the other process, or use another ${portFlag}`
    return new CommandFailure({ exitCode: exitCode.temporary, code: 'address-in-use', message, retryable: true })
  }
  const host = isSocket ? address.socket : address.host
  const reasons: Record<string, string> = {
    // Node reports a missing directory of a socket as this too
    EACCES: isSocket
      ? `cannot create ${where}: its directory is missing or not writable, use another ${portFlag}`
      : `no permission to listen on ${where}: use another ${portFlag}`,
    EADDRNOTAVAIL: `${host} is not an address of this machine: use another ${hostFlag}`,
    ENOTFOUND: `${host} is an unknown host: use another ${hostFlag}`,
  }
  const reason = reasons[error.code ?? ''] ?? `cannot listen on ${host} (${error.message}): use another ${hostFlag}`
  const { IngestError } = await import('@ingest/core')
  return new IngestError('invalid-argument', reason, { cause: error })
}
