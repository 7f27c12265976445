import { IngestError } from '@ingest/core'

/**
 * What an error of a statement means: `lost` if its outcome is unknown because the connection is gone, `retry` if it was
 * rolled back and may be repeated.
 *
 * SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
export type FailureKind = 'lost' | 'retry' | 'final'

const lostStates = new Set([
  '08000', // connection_exception
  '08001', // sqlclient_unable_to_establish_sqlconnection
  '08003', // connection_does_not_exist
  '08004', // sqlserver_rejected_establishment_of_sqlconnection
  '08006', // connection_failure
  '08P01', // protocol_violation: by PgBouncer, for a lost server
  '25006', // read_only_sql_transaction: a standby, or a primary that was demoted
  '40003', // statement_completion_unknown
  '57P01', // admin_shutdown
  '57P02', // crash_shutdown
  '57P03', // cannot_connect_now
  '57P04', // database_dropped
  '57P05', // idle_session_timeout
])
const retryStates = new Set([
  '40001', // serialization_failure
  '40P01', // deadlock_detected
])
const busyStates = new Set([
  '53000', // insufficient_resources
  '53200', // out_of_memory
  '53300', // too_many_connections
  '53400', // configuration_limit_exceeded
  '55P03', // lock_not_available
  '57014', // query_canceled, by statement_timeout
])
const refusedStates = new Set([
  '28000', // invalid_authorization_specification
  '28P01', // invalid_password
  '3D000', // invalid_catalog_name
  '42501', // insufficient_privilege
])
const failedStates = new Set([
  '58030', // io_error
  'XX001', // data_corrupted
  'XX002', // index_corrupted
])
const missingStates = new Set([
  '3F000', // invalid_schema_name
  '42883', // undefined_function
  '42P01', // undefined_table
])
const fullStates = new Set([
  '53100', // disk_full
])

/** Errors of `pg` itself, which have no code. */
const lostMessages =
  /^(Connection terminated|Client has encountered a connection error|Query read timeout|timeout expired|timeout exceeded)|not queryable/

/** Errors of `pg` about credentials and TLS. */
const refusedMessages = /client password must be a string|does not support SSL/

export function kindOf(error: unknown): FailureKind {
  const { code, message, syscall } = error as { code?: string; message?: string; syscall?: string }
  if (syscall !== undefined || (code !== undefined && lostStates.has(code)) || lostMessages.test(message ?? '')) {
    return 'lost'
  }
  return code !== undefined && retryStates.has(code) ? 'retry' : 'final'
}

/** The error that a caller of the store gets. Messages of PostgreSQL name no values, but hosts and users. */
export function toIngestError(error: unknown): unknown {
  if (error instanceof IngestError) return error
  const { code = '', message } = error as { code?: string; message: string }
  if (/pool after calling end/.test(message)) return new IngestError('store-closed', 'The store is closed.')
  if (fullStates.has(code)) {
    return new IngestError('disk-full', `The database has no space left: ${message}.`, { cause: error })
  }
  if (busyStates.has(code) || kindOf(error) === 'retry') {
    return unavailable(`The database is too busy: ${message}.`, error)
  }
  if (kindOf(error) === 'lost') return unavailable(`The database cannot be reached: ${message}.`, error)
  // not a fault of the request: senders drop a batch that is refused with a 400
  if (refusedStates.has(code) || refusedMessages.test(message)) {
    return new IngestError('store-failed', `The database refuses the role: ${message}.`, { cause: error })
  }
  if (missingStates.has(code)) {
    return new IngestError('store-failed', `The schema "ingest" was changed or dropped: ${message}.`, { cause: error })
  }
  if (failedStates.has(code)) {
    return new IngestError('store-failed', `The database has failed: ${message}.`, { cause: error })
  }
  return error
}

/** The error of opening a store, or of migrating it. */
export function toOpeningError(error: unknown): unknown {
  const { code = '', message } = error as { code?: string; message: string }
  const remedy = remedies.find(({ pattern }) => pattern.test(`${code} ${message}`))?.remedy
  if (error instanceof IngestError || remedy === undefined) return toIngestError(error)
  return new IngestError('invalid-argument', `The database refuses the connection: ${message}: ${remedy}.`, {
    cause: error,
  })
}

const remedies = [
  { pattern: /client password must be a string/, remedy: 'put the password into the URL, or set PGPASSWORD' },
  { pattern: /does not support SSL/, remedy: 'enable TLS on the server, or leave out sslmode' },
  { pattern: /^28/, remedy: 'check the user, its password and pg_hba.conf' },
  { pattern: /^3D000/, remedy: 'create it first, with the encoding UTF8' },
  {
    pattern: /^42501/,
    remedy: 'run `ingest migrate --grant-to <role>` as a role that owns the schema or may create it',
  },
  { pattern: /^42704/, remedy: 'create it first' },
]

function unavailable(message: string, cause: unknown): IngestError {
  return new IngestError('store-unavailable', message, { retryAfterSeconds: 1, cause })
}
