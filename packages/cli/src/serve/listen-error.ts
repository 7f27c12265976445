import { CommandFailure, exitCode } from '../exit-code.ts'

/** Rewords an error of `listen` in terms of the options. */
export async function toListenError(
  error: NodeJS.ErrnoException,
  { host, port }: { host: string; port: number },
): Promise<Error> {
  // only errors of system calls have a syscall
  if (error.syscall === undefined) return error
  if (error.code === 'EADDRINUSE') {
    // during a restart, the old process may still be shutting down; a supervisor retries
    const message = `port ${port} on ${host} is in use: stop the other process, or use another --port`
    return new CommandFailure({ exitCode: exitCode.temporary, code: 'address-in-use', message, retryable: true })
  }
  const reasons: Record<string, string> = {
    EACCES: `no permission to listen on port ${port} of ${host}: use another --port`,
    EADDRNOTAVAIL: `${host} is not an address of this machine: use another --host`,
    ENOTFOUND: `${host} is an unknown host: use another --host`,
  }
  const reason = reasons[error.code ?? ''] ?? `cannot listen on ${host} (${error.message}): use another --host`
  const { IngestError } = await import('@ingest/core')
  return new IngestError('invalid-argument', reason, { cause: error })
}
