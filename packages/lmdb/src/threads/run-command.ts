/** Commands by type, each with its result: every subject declares those that the writer runs for it. */
export type Commands<Of> = { [Type in keyof Of]: { command: { type: Type }; result: unknown } }

/** The writer as a subject sees it. */
export interface CommandRunner<Of extends Commands<Of>> {
  /** Runs a command in a transaction; resolves once it is durable. */
  run<Type extends keyof Of>(command: Of[Type]['command'] & { type: Type }): Promise<Of[Type]['result']>
}

/** The same bytes; a Buffer that another thread sent arrives as a Uint8Array. */
export function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}
