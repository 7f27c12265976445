/** Where the server tells its operator what happens; a pino logger is one. */
export interface Log {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** What an embedder gets who names no log: what went wrong on this side, on standard error, and nothing else. */
export const errorsToConsole: Log = {
  info: () => {},
  warn: () => {},
  error: (fields, message) => console.error(`ingest: ${message}`, fields),
}
