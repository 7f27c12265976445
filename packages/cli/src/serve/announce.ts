import type { EmbeddedIngest } from '@ingest/core'
import type { ServedWithAdmin } from '@ingest/server'
import { type Io, printResult } from '../io.ts'
import { describeStore, toStoreArgument } from '../store.ts'
import { version } from '../version.ts'
import type { Log } from './serve-log.ts'
import type { ServeSettings } from './serve-options.ts'

interface Announced {
  ingest: EmbeddedIngest
  served: ServedWithAdmin
  log: Log
}

/** Prints where the server listens, logs the settings in force, and warns of plaintext and of a store without keys. */
export async function announce(io: Io, settings: ServeSettings, { ingest, served, log }: Announced): Promise<void> {
  const { url, port, admin } = served
  const isSocket = url.startsWith('unix:')
  const addresses = {
    url,
    admin: admin?.url ?? null,
    // browsers cannot connect to a Unix socket
    console: settings.console ? `${isSocket ? '' : url}/console/` : null,
  }
  const common = { ...addresses, store: describeStore(settings.store), version: version(), pid: process.pid }
  const { tlsCert, rateLimit, retain, keepUnread = false, keepRejected = false, schemas = null } = settings
  const traces = served.isTraced ? 'an OpenTelemetry SDK is registered' : 'none: no OpenTelemetry SDK is registered'
  const rules = { rateLimit, retain, keepUnread, keepRejected, schemas }
  log.info({ ...common, tls: tlsCert !== undefined, traces, ...rules }, 'listening')
  const lines = [`listening on ${url}`, ...(addresses.console === null ? [] : [`console at ${addresses.console}`])]
  await printResult(io, { json: settings.json }, { port, ...common }, lines)
  if (settings.admin && isReachable(settings.admin.host)) {
    log.warn({ admin: admin?.url }, 'the admin listener has no TLS: let only a private network reach it')
  }
  if (settings.console && tlsCert === undefined && isReachable(settings.listen.host)) {
    log.warn(
      { console: addresses.console },
      'the console has no TLS: keys typed into it cross the network in the clear',
    )
  }
  // a failed hint must not end the server
  await warnIfNoKeys(ingest, settings.store, log).catch((error) => {
    log.warn({ err: error }, 'whether the store has a key cannot be read')
  })
}

/** Whether other machines may reach a host name or address; undefined is a Unix socket. */
function isReachable(host: string | undefined): boolean {
  return host !== undefined && host !== 'localhost' && host !== '::1' && !host.startsWith('127.')
}

/** Warns if there are no keys: every request is then refused, which clients cannot distinguish from a wrong key. */
async function warnIfNoKeys({ listProjects, keys }: EmbeddedIngest, store: string, log: Log): Promise<void> {
  for (const projectId of await listProjects()) if ((await keys.list(projectId)).length > 0) return
  const command = `ingest keys create ${toStoreArgument(store)} --project <id>`
  log.warn(`the store has no key, so every request is refused; create one: ${command}`)
}
