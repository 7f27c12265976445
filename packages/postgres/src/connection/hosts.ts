import { readFileSync } from 'node:fs'
import { IngestError } from '@ingest/core'
import type { PoolConfig } from 'pg'
import { parse, toClientConfig } from 'pg-connection-string'

export interface Host {
  host: string
  port: number
}

/** A parsed connection URL. */
export interface Target {
  /** Without host and port. */
  config: PoolConfig
  /** Tried in this order; empty for the defaults of `pg`. */
  hosts: readonly Host[]
}

const portDefault = 5432
const portMax = 65_535
/** Scheme, credentials, the list of hosts, and the rest. */
const urlPattern = /^(postgres(?:ql)?:\/\/)((?:[^@/?#]*@)?)([^/?#]*)(.*)$/is

/**
 * Parses a connection URL of libpq's form, which may name several hosts: `postgres://user@a:5432,b:5432/db`. Its
 * parameter `target_session_attrs` is `any` or `read-write`; the store always needs `read-write`.
 *
 * @throws {IngestError} `invalid-argument`, without the URL, as it may hold a password
 */
export function parseUrl(url: string): Target {
  const [, scheme, credentials, list = '', rest] = urlPattern.exec(url) ?? []
  if (scheme === undefined) throw invalidUrl('it must begin with postgres://')
  const names = list === '' ? [] : list.split(',')
  checkTls(new URLSearchParams(rest?.split('?', 2)[1]))
  let parsed: ReturnType<typeof parse>
  try {
    // one host at a time: `pg` does not support lists of hosts
    parsed = parse(`${scheme}${credentials}${names[0] ?? ''}${withoutWarning(rest)}`)
  } catch {
    throw invalidUrl(
      'expected postgres://user:password@host:port/database, with special characters of the password percent-encoded',
    )
  }
  const { target_session_attrs: attributes, ...options } = parsed as typeof parsed & { target_session_attrs?: string }
  if (attributes !== undefined && attributes !== 'any' && attributes !== 'read-write') {
    throw invalidUrl('target_session_attrs must be read-write')
  }
  const { host, port, ...config } = toClientConfig(options)
  if (names.length < 2) return { config, hosts: host ? [{ host, port: Number(port ?? portDefault) }] : [] }
  return { config, hosts: names.map(parseHost) }
}

const sslModes = ['verify-full', 'verify-ca', 'require', 'no-verify', 'disable']

/** Checks parameters that `pg-connection-string` accepts silently, and the files that it reads. */
function checkTls(query: URLSearchParams): void {
  const mode = query.getAll('sslmode').at(-1)
  if (mode === 'prefer' || mode === 'allow') {
    throw invalidUrl(`sslmode=${mode} may connect without TLS: use verify-full, or disable`)
  }
  if (mode !== undefined && !sslModes.includes(mode)) throw invalidUrl(`sslmode must be one of ${sslModes.join(', ')}`)
  for (const name of ['sslrootcert', 'sslcert', 'sslkey']) {
    const path = query.getAll(name).at(-1)
    if (!path) continue
    try {
      readFileSync(path)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      const message = `The file of ${name} of the database URL cannot be read (${code}): ${path}.`
      throw new IngestError('invalid-argument', message)
    }
  }
}

/** `pg` treats these modes as verify-full, and prints a long warning about that. */
function withoutWarning(rest = ''): string {
  if (/[?&]uselibpqcompat=/.test(rest)) return rest
  return rest.replaceAll(/([?&]sslmode=)(?:require|verify-ca)(?=[&#]|$)/g, '$1verify-full')
}

function parseHost(text: string): Host {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/.exec(text) ?? []
  const host = bracketed ?? plain
  const number = Number(port ?? portDefault)
  if (host === undefined || number < 1 || number > portMax) throw invalidUrl('each of its hosts is host or host:port')
  return { host, port: number }
}

function invalidUrl(reason: string): IngestError {
  return new IngestError('invalid-argument', `The URL of the PostgreSQL database is invalid: ${reason}.`)
}
