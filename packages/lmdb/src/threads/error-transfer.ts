import { constants } from 'node:os'
import { type ErrorCode, type ErrorDetails, IngestError } from '@ingest/core'
import { asPermissionDenied, isDiskFull } from '@ingest/core/internal'

/** An {@link IngestError} in a message between threads. */
export interface SerializedError {
  code: ErrorCode
  message: string
  details: ErrorDetails
}

/**
 * Classifies an error of a write: `disk-full`, which is temporary, or else `store-failed`, after which the store, or
 * the memory of this process, cannot be trusted. An {@link IngestError} keeps its code. `lacksSpace` is called for an
 * I/O error only.
 */
export function serializeError(error: unknown, lacksSpace: () => boolean = () => false): SerializedError {
  if (error instanceof IngestError) {
    const { code, message, limit, actual, retryAfterSeconds } = error
    // the log needs the cause of a bug
    const cause = code === 'internal-error' ? textOf(error.cause) : undefined
    return { code, message, details: withoutUndefined({ limit, actual, retryAfterSeconds, cause }) }
  }
  const refusal = readersFull(error)
  if (refusal) return serializeError(refusal)
  const { message } = (error ?? {}) as { message?: string }
  const text = message ?? String(error)
  if (hasOverrun(text)) {
    const message = `A write failed: ${text}. LMDB has written past the end of a buffer while it described this, so the memory of the process cannot be trusted.`
    return { code: 'store-failed', message, details: {} }
  }
  if (isFullDiskError(error, lacksSpace)) {
    return {
      code: 'disk-full',
      message: `The disk is full: ${text}. Free some space, or raise the file size limit; writes resume without a restart.`,
      details: { retryAfterSeconds: 5 },
    }
  }
  return { code: 'store-failed', message: `The store failed: ${text}.`, details: {} }
}

/**
 * The error of a request or of an opening. Returns errors of LMDB and of the system unchanged, except that too many open
 * files become `overloaded`, and a file of another user `permission-denied`. Any other unexpected error becomes an
 * `internal-error`.
 */
export function toRequestError(error: unknown): unknown {
  const { code, syscall, message } = (error ?? {}) as Partial<NodeJS.ErrnoException>
  if (code === 'EMFILE' || code === 'ENFILE') {
    return new IngestError('overloaded', `The store cannot open a file: ${message}. Raise the limit (ulimit -n).`, {
      cause: error,
      retryAfterSeconds: 5,
    })
  }
  const refusal = readersFull(error)
  if (refusal) return refusal
  const named = asPermissionDenied(error)
  if (named instanceof IngestError || isOfLmdb(error) || syscall !== undefined) return named
  // its message may quote stored events
  return new IngestError('internal-error', 'The store failed unexpectedly, which is a bug.', { cause: error })
}

/** Errors of lmdb have a number as their code, like errors of messages that cannot be cloned. */
function isOfLmdb(error: unknown): boolean {
  return typeof (error as { code?: unknown } | undefined)?.code === 'number' && !(error instanceof DOMException)
}

/** The stack of an error; other threads send it as a text. */
function textOf(cause: unknown): string | undefined {
  if (typeof cause === 'string') return cause
  return cause instanceof Error ? cause.stack : undefined
}

export function deserializeError({ code, message, details }: SerializedError): IngestError {
  return new IngestError(code, message, details)
}

/** A `disk-full` for an error of a write of files or of LMDB that says so; any other error as it is. */
export function asDiskFull(error: unknown, lacksSpace: () => boolean): unknown {
  return isFullDiskError(error, lacksSpace) ? deserializeError(serializeError(error, lacksSpace)) : error
}

/** The `overloaded` of a read for which LMDB has no slot: the store is whole. Undefined for any other error. */
export function readersFull(error: unknown): IngestError | undefined {
  if ((error as { code?: unknown } | undefined)?.code !== MDB_READERS_FULL) return undefined
  const message = 'Too many processes have the store open, and all slots for readers are taken: end some of them.'
  return new IngestError('overloaded', message, { cause: error, retryAfterSeconds: 5 })
}

/** A `store-damaged`, which is permanent, for an error of LMDB that says so; any other error as it is. */
export function asDamage(error: unknown): unknown {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: string }
  if (!damageCodes.has(code)) return error
  const text = `The store is damaged: ${message}. Restore a backup, or save what is left with \`ingest repair\`.`
  return new IngestError('store-damaged', text, { cause: error })
}

// MDB_PAGE_NOTFOUND, MDB_CORRUPTED, MDB_INVALID: a page is not what a tree says
const damageCodes = new Set<unknown>([-30797, -30796, -30793])
const MDB_READERS_FULL = -30790
const MDB_MAP_FULL = -30792
const { EIO, ENOSPC, EDQUOT, EFBIG } = constants.errno
const diskFullCodes = new Set<unknown>([ENOSPC, EDQUOT, EFBIG, MDB_MAP_FULL])

function isFullDiskError(error: unknown, lacksSpace: () => boolean): boolean {
  if (error instanceof IngestError) return false
  const { code } = (error ?? {}) as { code?: unknown }
  // a write that reaches the end of the disk, or the file size limit, is a short one, which LMDB reports as EIO
  return isDiskFull(error) || diskFullCodes.has(code) || (code === EIO && lacksSpace())
}

/**
 * Whether a description of a failed write was too long for the 100 bytes that lmdb 3.5.6 has for it (`last_error` in
 * `mdb_page_flush`). The rest overwrites the memory behind them.
 */
function hasOverrun(text: string): boolean {
  const [description = ''] = /Attempting to write page at .*/.exec(text) ?? []
  return description.length >= 100
}

function withoutUndefined(details: { [name in keyof ErrorDetails]: ErrorDetails[name] | undefined }): ErrorDetails {
  return Object.fromEntries(Object.entries(details).filter(([, value]) => value !== undefined))
}
