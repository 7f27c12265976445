import type { ErrorCode } from '@ingest/core'

/** The log of the server, for its operator; a pino logger fits. */
export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  /** Whether a level is logged; messages of other levels are not built. Default: every level is logged. */
  isLevelEnabled?(level: LogLevel): boolean
}

/** Levels of the log, least severe first. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

export function isEnabled(log: Log, level: LogLevel): boolean {
  return log.isLevelEnabled?.(level) ?? true
}

/** The default log: only errors of the server, on standard error. */
export const errorsToConsole: Log = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: (fields, message) => console.error(`ingest: ${message}`, fields),
  isLevelEnabled: (level) => level === 'error',
}

/** Ignores methods of a log that are missing or throw, so that no response depends on the log. */
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

/** Minimum interval between log lines of one error code: every request may fail while the store is unreachable. */
const logEveryMs = 1000

/**
 * Logs at most one error a second for each code and message, with the number of errors skipped since the last one as
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
