import type { ErrorCode } from '@ingest/core'

/** The log of the server, for its operator. A pino logger is one. */
export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  /** Whether a level is logged; what is not costs nothing. Default: every level is. */
  isLevelEnabled?(level: LogLevel): boolean
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

export function isEnabled(log: Log, level: LogLevel): boolean {
  return log.isLevelEnabled?.(level) ?? true
}

/** The default log: errors of the server on standard error, and nothing else. */
export const errorsToConsole: Log = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: (fields, message) => console.error(`ingest: ${message}`, fields),
  isLevelEnabled: (level) => level === 'error',
}

/** Ignores methods of a log that are missing or throw, so that no response depends on it. */
export function guardLog(log: Log): Log {
  const guarded = (level: LogLevel) => (fields: object, message: string) => {
    try {
      log[level]?.(fields, message)
    } catch {
      // there is nowhere to report it
    }
  }
  return {
    debug: guarded('debug'),
    info: guarded('info'),
    warn: guarded('warn'),
    error: guarded('error'),
    isLevelEnabled: (level) => typeof log[level] === 'function' && isEnabled(log, level),
  }
}

/** Logs an error of the server with the code that clients get. */
export type LogError = (code: ErrorCode, fields: object, message: string) => void

/** How often errors of one code are logged: every request may fail while the store cannot be reached. */
const logEveryMs = 1000

/**
 * Logs at most one error a second for each code and message, with the number of those left out since the last as
 * `suppressed`. `now` is a monotonic clock, in milliseconds.
 */
export function createErrorLog(log: Pick<Log, 'error'>, now: () => number = () => performance.now()): LogError {
  const lastByKind = new Map<string, { at: number; suppressed: number }>()
  return (code, fields, message) => {
    const kind = `${code} ${message}`
    const last = lastByKind.get(kind)
    const at = now()
    if (last && at < last.at + logEveryMs) {
      last.suppressed++
      return
    }
    lastByKind.set(kind, { at, suppressed: 0 })
    log.error(last?.suppressed ? { ...fields, suppressed: last.suppressed } : fields, message)
  }
}
