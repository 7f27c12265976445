import { constants } from 'node:os'
import { type ErrorCode, type ErrorDetails, IngestError } from '@ingest/core'

/** An {@link IngestError} that can be sent from one thread to another. */
export interface SerializedError {
  code: ErrorCode
  message: string
  details: ErrorDetails
}

/**
 * What an error that came up while something was written means: the disk is full, which may pass, or the store cannot
 * be trusted any more.
 */
export function serializeError(error: unknown, isFull: () => boolean = () => false): SerializedError {
  if (error instanceof IngestError) {
    const { code, message, limit, actual, retryAfterSeconds } = error
    return { code, message, details: withoutUndefined({ limit, actual, retryAfterSeconds }) }
  }
  const { code, message } = (error ?? {}) as { code?: number; message?: string }
  const text = message ?? String(error)
  // a disk that fills up in the middle of a write makes that write a short one, which LMDB reports as EIO
  if ((code !== undefined && fullCodes.has(code)) || (code === EIO && isFull())) {
    return {
      code: 'disk-full',
      message: `There is no space left to write to: ${text}. Make room; nothing else needs to be done.`,
      details: { retryAfterSeconds: 5 },
    }
  }
  return { code: 'store-failed', message: `The store failed: ${text}.`, details: {} }
}

export function deserializeError({ code, message, details }: SerializedError): IngestError {
  return new IngestError(code, message, details)
}

const mapFull = -30792
const { EIO, ENOSPC, EDQUOT, EFBIG } = constants.errno
const fullCodes = new Set([ENOSPC, EDQUOT, EFBIG, mapFull])

function withoutUndefined(details: { [name in keyof ErrorDetails]: ErrorDetails[name] | undefined }): ErrorDetails {
  return Object.fromEntries(Object.entries(details).filter(([, value]) => value !== undefined))
}
