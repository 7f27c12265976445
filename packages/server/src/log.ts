/** The log of the server, for its operator. A pino logger is one. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** The default log: errors of the server on standard error, and nothing else. */
export const errorsToConsole: Log = {
  info: () => {},
  warn: () => {},
  error: (fields, message) => console.error(`ingest: ${message}`, fields),
}
