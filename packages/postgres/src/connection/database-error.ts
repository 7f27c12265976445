import { type ErrorCode, IngestError } from '@ingest/core'

/**
 * The meaning of a statement's error: `lost` if the outcome is unknown because the connection is gone, `retry` if it
 * was rolled back and may be repeated.
 */
export type FailureKind = 'lost' | 'retry' | 'final'

type Meaning =
  | Exclude<FailureKind, 'final'>
  | 'busy'
  | 'full'
  | 'refused'
  | 'untrusted'
  | 'missing'
  | 'unfit'
  | 'failed'

/** By SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const states: Record<string, Meaning> = {
  '08000': 'lost', // connection_exception
  '08001': 'lost', // sqlclient_unable_to_establish_sqlconnection
  '08003': 'lost', // connection_does_not_exist
  '08004': 'lost', // sqlserver_rejected_establishment_of_sqlconnection
  '08006': 'lost', // connection_failure
  '08P01': 'lost', // protocol_violation: by PgBouncer, for a lost server
  '25006': 'lost', // read_only_sql_transaction: a standby, or a primary that was demoted
  '25P03': 'lost', // idle_in_transaction_session_timeout
  '40003': 'lost', // statement_completion_unknown
  '57P01': 'lost', // admin_shutdown
  '57P02': 'lost', // crash_shutdown
  '57P03': 'lost', // cannot_connect_now
  '57P04': 'lost', // database_dropped
  '57P05': 'lost', // idle_session_timeout
  '40001': 'retry', // serialization_failure
  '40P01': 'retry', // deadlock_detected
  '53000': 'busy', // insufficient_resources
  '53200': 'busy', // out_of_memory
  '53300': 'busy', // too_many_connections
  '53400': 'busy', // configuration_limit_exceeded
  '25P04': 'busy', // transaction_timeout
  '55P03': 'busy', // lock_not_available
  '57014': 'busy', // query_canceled, by statement_timeout
  '53100': 'full', // disk_full
  // a refusal must not become a 400: senders drop a batch after a 400
  '28000': 'refused', // invalid_authorization_specification
  '28P01': 'refused', // invalid_password
  '3D000': 'refused', // invalid_catalog_name
  '42501': 'refused', // insufficient_privilege
  '3F000': 'missing', // invalid_schema_name
  '42883': 'missing', // undefined_function
  '42P01': 'missing', // undefined_table
  IG002: 'unfit', // raised by require_durability_1: transaction isolation
  '58030': 'failed', // io_error
  XX001: 'failed', // data_corrupted
  XX002: 'failed', // index_corrupted
}

/** Messages of `pg`'s own errors, which have no code: about connections, credentials and TLS. */
const lostMessages =
  /^(Connection terminated|Client has encountered a connection error|Query read timeout|timeout expired|timeout exceeded)|not queryable/
/** Codes of TLS errors, by Node and OpenSSL: about a certificate, or a file named in the URL. */
const untrustedCodes =
  /^(CERT_|DEPTH_ZERO_|ERR_OSSL_|ERR_SSL_|ERR_TLS_|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_|SELF_SIGNED_|UNABLE_TO_)/
const refusedMessages = /client password must be a string|does not support SSL/

const shown: Record<Meaning, { code: ErrorCode; text: string }> = {
  lost: { code: 'store-unavailable', text: 'The database cannot be reached' },
  retry: { code: 'store-unavailable', text: 'The database is too busy' },
  busy: { code: 'store-unavailable', text: 'The database is too busy' },
  full: { code: 'disk-full', text: 'The database has no space left' },
  refused: { code: 'store-failed', text: 'The database refuses the role' },
  // temporary: once the certificate is renewed, the next connection trusts it
  untrusted: { code: 'store-unavailable', text: 'The connection to the database is not secure' },
  missing: { code: 'store-failed', text: 'The schema "ingest" was changed or dropped' },
  unfit: { code: 'store-failed', text: 'A setting of the role or the database does not fit' },
  failed: { code: 'store-failed', text: 'The database has failed' },
}

function meaningOf(error: unknown): Meaning | undefined {
  const { code = '', message = '', syscall } = error as { code?: string; message?: string; syscall?: string }
  if (syscall !== undefined || lostMessages.test(message)) return 'lost'
  if (untrustedCodes.test(code)) return 'untrusted'
  return states[code] ?? (refusedMessages.test(message) ? 'refused' : undefined)
}

export function kindOf(error: unknown): FailureKind {
  const meaning = meaningOf(error)
  return meaning === 'lost' || meaning === 'retry' ? meaning : 'final'
}

/** The error for a caller of the store. PostgreSQL's messages contain no values, but hosts and users. */
export function toStoreError(error: unknown): unknown {
  if (error instanceof IngestError) return error
  const { message } = error as Error
  if (/pool after calling end/.test(message)) return new IngestError('store-closed', 'The store is closed.')
  const meaning = meaningOf(error)
  if (meaning === undefined) return error
  const { code, text } = shown[meaning]
  const retryAfter = code === 'store-unavailable' && { retryAfterSeconds: 1 }
  return new IngestError(code, `${text}: ${message}.`, { ...retryAfter, cause: error })
}

/** The error for opening or migrating a store. */
export function toOpeningError(error: unknown): unknown {
  const { code = '', message, hint } = error as { code?: string; message: string; hint?: string }
  if (code === notOwner) return new IngestError('invalid-argument', `${message}: ${hint}.`, { cause: error })
  if (foreignCodes.test(code)) return foreignSchema(message, error)
  const remedy = remedies.find(({ pattern }) => pattern.test(`${code} ${message}`))?.remedy
  if (error instanceof IngestError || remedy === undefined) return toStoreError(error)
  const text = `The database cannot be connected to: ${message}: ${remedy}.`
  return new IngestError('invalid-argument', text, { cause: error })
}

/** Raised by a migration. */
const notOwner = 'IG003'
/** About tables, columns and functions that are missing, of another type, or in the way of a migration. */
const foreignCodes = /^(3F000|42703|42710|42723|42804|42883|42P01|42P07)$/

/** The error of a schema "ingest" that this package has not created. */
export function foreignSchema(reason: string, cause?: unknown): IngestError {
  return new IngestError('store-incompatible', `The schema "ingest" of the database is not of Ingest: ${reason}.`, {
    cause,
  })
}

const remedies = [
  { pattern: /client password must be a string/, remedy: 'put the password into the URL, or set PGPASSWORD' },
  { pattern: /does not support SSL/, remedy: 'enable TLS on the server, or leave out sslmode' },
  { pattern: untrustedCodes, remedy: 'check the certificate of the server, and sslmode and sslrootcert of the URL' },
  { pattern: /^28/, remedy: 'check the user, its password and pg_hba.conf' },
  { pattern: /^3D000/, remedy: 'create it first, with the encoding UTF8' },
  {
    pattern: /^42501/,
    remedy: 'run `ingest migrate --grant-to <role>` as a role that owns the schema or may create it',
  },
  { pattern: /^42704/, remedy: 'create it first' },
]
