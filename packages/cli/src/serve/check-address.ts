import { once } from 'node:events'
import { connect, createServer, type Server } from 'node:net'
import { IngestError } from '@ingest/core'
import { CommandFailure, exitCode } from '../exit-code.ts'
import type { ServeSettings } from './serve-options.ts'

/**
 * Checks that the server can listen on its addresses, before a store is created.
 *
 * @throws {IngestError} `invalid-argument`
 * @throws {CommandFailure} `address-in-use`
 */
export async function checkAddresses({ listen, admin }: ServeSettings): Promise<void> {
  const servers: Server[] = []
  try {
    for (const { host, port, socket } of admin ? [listen, admin] : [listen]) {
      if (socket !== undefined) {
        await checkSocket(socket)
        continue
      }
      const server = createServer().listen(port, host)
      servers.push(server)
      await once(server, 'listening')
    }
  } catch (error) {
    throw toListenError(error as NodeJS.ErrnoException)
  } finally {
    await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  }
}

/** The next server replaces the socket file of one that has ended: only a socket that responds is in use. */
async function checkSocket(path: string): Promise<void> {
  const connection = connect(path)
  const isInUse = await once(connection, 'connect').then(
    () => true,
    () => false,
  )
  connection.destroy()
  if (isInUse) throw Object.assign(new Error('in use'), { code: 'EADDRINUSE', syscall: 'listen', address: path })
}

type SystemError = NodeJS.ErrnoException & { address?: string; port?: number; hostname?: string }

/** Rewords an error of listening with the names of command-line options. */
export function toListenError(error: SystemError): Error {
  // only errors of system calls have a `syscall`
  if (error.syscall === undefined) return error
  const { code = '', address = error.hostname, port } = error
  const where = port === undefined || port < 0 ? `${address}` : `port ${port} on ${address}`
  if (code === 'EADDRINUSE') {
    // during a restart, the old process may still be shutting down; a supervisor retries
    const message = `${where} is in use: stop the other process, or choose another address with --listen or --admin`
    return new CommandFailure({ exitCode: exitCode.temporary, code: 'address-in-use', message, retryable: true })
  }
  const reasons: Record<string, string> = {
    // Node reports this for a missing directory of a socket too
    EACCES: `no permission to listen on ${where}, or its directory is missing`,
    EADDRNOTAVAIL: `${address} is not an address of this machine`,
    ENOTFOUND: `${address} is an unknown host`,
  }
  const reason = reasons[code] ?? `cannot listen on ${where} (${error.message})`
  return new IngestError('invalid-argument', `${reason}: choose another address with --listen or --admin`, {
    cause: error,
  })
}
