import type { EmbeddedIngest } from '@ingest/core'
import { type Io, writeJson, writeStdout } from '../io.ts'
import { toStoreArgument, toStoreMember } from '../store.ts'
import { version } from '../version.ts'
import type { RunningServer } from './listen.ts'
import type { Log } from './serve-log.ts'
import type { ServeSettings } from './serve-settings.ts'

/** Prints where the server listens, logs in one line what is in force, and warns of a store without keys. */
export async function announce(io: Io, settings: ServeSettings, running: RunningServer): Promise<void> {
  const { served, admin, ingest, log } = running
  const { url, port } = served
  const named = toStoreMember(settings.store)
  const consoleUrl = settings.console ? consoleUrlOf(url) : undefined
  const inForce = {
    url,
    ...named,
    version: version(),
    admin: admin?.url ?? 'off',
    console: consoleUrl ?? 'off',
    ...describeSettings(settings),
    config: settings.config ?? 'none',
    pid: process.pid,
  }
  log.info(inForce, 'listening')
  if (settings.json) {
    const addresses = { admin: admin?.url ?? null, console: consoleUrl ?? null }
    const members = { version: inForce.version, ...addresses, config: settings.config ?? null }
    await writeJson(io, { ok: true, url, port, ...named, pid: process.pid, ...members })
  } else {
    await writeStdout(io, `listening on ${url}\n`)
    if (consoleUrl !== undefined) await writeStdout(io, `console at ${consoleUrl}\n`)
  }
  if (settings.admin && !isLoopback(settings.admin.host)) {
    log.warn({ admin: admin?.url }, 'the admin listener has no TLS: let only a private network reach it')
  }
  if (consoleUrl !== undefined && isPlaintext(settings)) {
    log.warn({ console: consoleUrl }, 'the console has no TLS: keys typed into it cross the network in the clear')
  }
  // a hint must not end a server that listens
  await warnIfNoKeys(ingest, settings.store, log).catch((error) => {
    log.warn({ err: error }, 'whether the store has a key cannot be read')
  })
}

/** Of a Unix socket, which no browser reaches by itself, the path alone. */
function consoleUrlOf(url: string): string {
  return url.startsWith('unix:') ? '/console/' : `${url}/console/`
}

/** Whether requests cross a network without TLS. */
function isPlaintext({ listen, tls }: ServeSettings): boolean {
  return !tls && 'host' in listen && !isLoopback(listen.host)
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host.startsWith('127.')
}

function describeSettings({ tls, rateLimits, retention, keepRejected }: ServeSettings) {
  return {
    tls: tls ? 'on' : 'off',
    rateLimit: rateLimits ? `${rateLimits.requests?.perSecond},${rateLimits.events?.perSecond}` : 'off',
    retain: formatRetention(retention),
    keepRejected: keepRejected ? 'on' : 'off',
  }
}

/** `90d`, or `demo=30d,*=90d`; `off` for no rules. */
function formatRetention(rules: ServeSettings['retention']): string {
  if (rules.length === 0) return 'off'
  return rules.map(([project, keep]) => `${project}=${keep === 'off' ? keep : formatDuration(keep)}`).join(',')
}

const units = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
  [1000, 's'],
] as const

function formatDuration(ms: number): string {
  const [unitMs, unit] = units.find(([unitMs]) => ms % unitMs === 0) ?? [1, 'ms']
  return `${ms / unitMs}${unit}`
}

/** Without a key, every request is refused, which clients cannot tell from a wrong key. */
async function warnIfNoKeys({ listProjects, keys }: EmbeddedIngest, store: string, log: Log): Promise<void> {
  for (const projectId of await listProjects()) if ((await keys.list(projectId)).length > 0) return
  const command = `ingest keys create ${toStoreArgument(store)} --project <id>`
  log.warn(`the store has no key, so every request is refused; create one: ${command}`)
}
